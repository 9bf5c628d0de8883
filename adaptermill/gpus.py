"""Which GPUs a job of this machine may use: jobs that run side by side take different ones.

    with take(2) as gpus:               # waits until two are free
        environment["CUDA_VISIBLE_DEVICES"] = gpus

A GPU is taken by a file lock that the kernel drops when the process dies, however it dies. An
existing CUDA_VISIBLE_DEVICES is the pool to take from.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from adaptermill.errors import UserError

POLL_SECONDS = 0.5


def pool(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The GPUs that jobs may take: id as in CUDA_VISIBLE_DEVICES -> what it is on this machine."""
    unique = _uuids()
    if "CUDA_VISIBLE_DEVICES" in environment:
        given = [part.strip() for part in environment["CUDA_VISIBLE_DEVICES"].split(",")]
        # CUDA sees no GPU from the first number that is none on.
        ids = given[: given.index("-1")] if "-1" in given else given
        return {gpu: unique.get(gpu, gpu) for gpu in ids if gpu}
    return unique


def _uuids() -> dict[str, str]:
    """Index -> UUID of the GPUs that the driver knows; empty without one."""
    if shutil.which("nvidia-smi") is None:
        return {}
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"],
        **{"capture_output": True, "text": True, "check": False},
    )
    if done.returncode:
        return {}
    lines = [line.split(",") for line in done.stdout.splitlines() if line.count(",") == 1]
    return {index.strip(): uuid.strip() for index, uuid in lines}


@contextlib.contextmanager
def take(count: int, locks: Path | None = None) -> Iterator[str | None]:
    """Holds `count` GPUs; gives their ids joined by commas, or None where there is nothing to take.

    `locks` is the folder of the locks (default: one for the machine). Raises UserError when the
    pool can never hold so many.
    """
    found = pool() if count else {}
    if not found:
        yield None
        return
    if count > len(found):
        raise UserError(
            f"{count} GPUs are asked for and {len(found)} can be used here ({', '.join(found)}); "
            "lower training.processes, or give CUDA_VISIBLE_DEVICES more of them"
        )
    folder = locks or Path(tempfile.gettempdir(), "adaptermill-gpus")
    folder.mkdir(mode=0o777, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        # Whoever waits keeps what it gets; only one may, or two could wait for each other.
        with _lock(folder, "waiting"):
            taken = _collect(count, found, folder, held)
        yield ",".join(taken)


def _collect(
    count: int, found: Mapping[str, str], folder: Path, held: contextlib.ExitStack
) -> list[str]:
    taken: list[str] = []
    said = False
    while True:
        for gpu, name in found.items():
            if gpu not in taken and len(taken) < count:
                with contextlib.suppress(Timeout):
                    held.enter_context(_lock(folder, name, timeout=0))
                    taken.append(gpu)
        if len(taken) == count:
            return sorted(taken, key=list(found).index)
        if not said:
            print(
                f"waiting for {count} of the GPUs {', '.join(found)}: other jobs use them",
                flush=True,
            )
            said = True
        time.sleep(POLL_SECONDS)


def _lock(folder: Path, name: str, timeout: float = -1) -> FileLock:
    """A lock of the machine's users; entering it waits for `timeout` seconds (-1: for ever)."""
    return FileLock(folder / f"{name.replace('/', '_')}.lock", timeout=timeout, mode=0o666)
