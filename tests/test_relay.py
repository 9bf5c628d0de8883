"""SIGTERM to the Snakemake of a cluster job reaches the trainer's launcher, and nobody else."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from adaptermill.relay import SHELL_PREFIX

REPOSITORY = Path(__file__).resolve().parents[1]
# As Snakemake does: a handler of its own, set later, and a wait for the rule's shell.
WAITS = f"""
import signal, subprocess, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from adaptermill.relay import relay_sigterm
relay_sigterm()
signal.signal(signal.SIGTERM, lambda number, frame: None)
sys.exit(subprocess.run(["bash", "-c", sys.argv[1]]).returncode)
"""
TRAINER = """
import pathlib, signal, sys, time
def ended(number, frame):
    time.sleep(0.5); print("state written", flush=True); sys.exit(75)
signal.signal(signal.SIGTERM, ended)
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def test_the_trainer_ends_by_itself_and_is_heard_to_the_end(tmp_path):
    trainer = f"{sys.executable} -c '{TRAINER}' {tmp_path}/ready"
    launcher = f"{sys.executable} {REPOSITORY}/scripts/with_gpus.py --gpus 0 -- {trainer}"
    command = f"{SHELL_PREFIX} {launcher} 2>&1 | tee {tmp_path}/log"
    environment = {"PYTHONPATH": str(REPOSITORY)}
    waits = subprocess.Popen([sys.executable, "-c", WAITS, command], env=environment)
    while not (tmp_path / "ready").exists():
        assert waits.poll() is None
        time.sleep(0.05)
    waits.send_signal(signal.SIGTERM)
    assert waits.wait(30) == 75
    assert "state written" in (tmp_path / "log").read_text()
