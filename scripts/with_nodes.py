"""Runs one torchrun job over all nodes of a SLURM allocation: srun starts a torchrun on each.

    with_nodes.py --nodes 2 --cores 16 --gres gpu:4 --threads 4 -- --nproc-per-node 4 train.py …

The torchruns meet at the node that this runs on. SIGTERM is handed on to all of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys

from adaptermill.errors import UserError, run_command
from adaptermill.parents import end_with_parent

# Of SLURM's variables the step needs only which job it is in: others would be taken for options.
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def step(
    nodes: int, cores: int, gres: str | None, job: str, port: int, arguments: list[str]
) -> list[str]:
    """The command of the job step, which has everything that the job has."""
    srun = ["srun", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    # A torchrun that ends badly ends the others.
    srun += ["--kill-on-bad-exit=1", "--mem=0", "--cpu-bind=none", "--overlap"]
    srun += [f"--cpus-per-task={cores}"] + ([f"--gres={gres}"] if gres else [])
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}"]
    torchrun += [
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={socket.gethostname()}:{port}",
        f"--rdzv-id={job}",
    ]
    return [*srun, *torchrun, *arguments]


def run(nodes: int, cores: int, gres: str | None, threads: int, arguments: list[str]) -> int:
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        raise UserError("there is no SLURM allocation here; run this in a job of several nodes")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    kept |= {name: os.environ[name] for name in KEPT if name in os.environ}
    command = step(nodes, cores, gres, job, free_port(), arguments)
    print(" ".join(command), flush=True)
    environment = {**kept, "OMP_NUM_THREADS": str(threads)}
    child = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent)
    # srun would take SIGTERM for an order to kill: the signal goes to the tasks themselves.
    told = ["scancel", "--signal=TERM", job]
    signal.signal(signal.SIGTERM, lambda number, frame: subprocess.run(told, check=False))
    signal.signal(signal.SIGINT, lambda number, frame: None)
    status = child.wait()
    return status if status >= 0 else 128 - status


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, required=True, help="how many the job has")
    parser.add_argument("--cores", type=int, default=1, help="of each node (default: 1)")
    parser.add_argument("--gres", help="of each node, for instance gpu:4")
    parser.add_argument("--threads", type=int, default=1, help="of each process (default: 1)")
    parser.add_argument("arguments", nargs="+", help="torchrun's further ones and the script's")
    arguments = parser.parse_args(argv)
    asked = arguments.nodes, arguments.cores, arguments.gres, arguments.threads
    sys.exit(run(*asked, arguments.arguments))


if __name__ == "__main__":
    sys.exit(run_command(main))
