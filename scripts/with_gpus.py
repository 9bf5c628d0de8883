"""Runs a command with GPUs that no other job of this machine uses, and its share of the cores.

    with_gpus.py --gpus 2 --threads 4 -- torchrun --standalone --nproc-per-node 2 train.py …

On a machine without a GPU, and with --gpus 0 (a cluster has given them out), it runs as it is.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys

from adaptermill.errors import UserError, run_command
from adaptermill.gpus import take
from adaptermill.parents import end_with_parent


def run(command: list[str], gpus: str | None, threads: int) -> int:
    """Runs the command to its end; hands SIGTERM on. Returns its exit status."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpus
    if given := environment.get("CUDA_VISIBLE_DEVICES"):
        print(f"on GPU {given}", flush=True)
    try:
        child = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent)
    except OSError as error:
        raise UserError(f"{command[0]} cannot be run: {error.strerror}") from None
    signal.signal(signal.SIGTERM, lambda number, frame: child.send_signal(number))
    # A terminal's Ctrl-C reaches the command too, which decides what becomes of it.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    status = child.wait()
    return status if status >= 0 else 128 - status


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=1, help="how many (default: 1)")
    parser.add_argument("--threads", type=int, default=1, help="of each process (default: 1)")
    parser.add_argument("command", nargs="+", help="what to run, after --")
    arguments = parser.parse_args(argv)
    with take(arguments.gpus) as gpus:
        sys.exit(run(arguments.command, gpus, arguments.threads))


if __name__ == "__main__":
    sys.exit(run_command(main))
