"""SIGTERM for the trainer when a cluster sends it to Snakemake alone.

Before a time limit, and on preemption, SLURM sends SIGTERM to the tasks of a job. With cgroups that
is the Snakemake that runs the rule, which waits for its rule's end and tells it nothing. This hands
the signal on to the rule's launcher, which hands it on to the trainer, which writes its state.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import psutil

LAUNCHER = "with_gpus.py"
# Put before every shell command of a cluster job: where all processes of a job get the signal, the
# shell and `tee` must outlive the trainer.
SHELL_PREFIX = "set -euo pipefail; trap '' TERM; "


def relay_sigterm() -> None:
    """From now on, a SIGTERM to this process reaches the launchers below it. Main thread only."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Python writes the numbers of signals there, whatever handlers are installed later.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(reading,), daemon=True).start()


def _listen(reading: int) -> None:
    while numbers := os.read(reading, 16):
        if signal.SIGTERM in numbers:
            for launcher in _launchers():
                with contextlib.suppress(psutil.NoSuchProcess):
                    launcher.send_signal(signal.SIGTERM)


def _launchers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(os.path.basename(part) == LAUNCHER for part in process.cmdline()[:3]):
                found.append(process)
    return found
