"""The processes of one training job, and the device of each."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

import torch
import torch.distributed as dist

from adaptermill.parents import end_with_parent


class Interrupted(Exception):
    """SIGTERM or SIGINT: time is up, or somebody pressed Ctrl-C."""


class Processes:
    """This process among those that torchrun started (or alone).

    `patience` is how long one waits for the others; None is what torch.distributed has.
    """

    def __init__(self, device: str = "auto", patience: timedelta | None = None) -> None:
        self.rank = int(os.environ.get("RANK", 0))
        self.count = int(os.environ.get("WORLD_SIZE", 1))
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
            device = f"cuda:{torch.cuda.current_device()}"
        self.device = torch.device(device)
        if self.count > 1:
            kind = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(kind, timeout=patience)
        if "TORCHELASTIC_RUN_ID" in os.environ:
            end_with_parent()  # lest a trainer outlive torchrun unseen

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> None:
        """Sums a tensor over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)

    def agree(self, value: object) -> object:
        """The first process's value, on all processes."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def close(self) -> None:
        if self.count > 1 and dist.is_initialized():
            dist.destroy_process_group()


class Signals:
    """Turns SIGTERM and SIGINT into `Interrupted`, but never in the middle of an update.

    One process is interrupted at once. Several must end together, or one would wait for the others
    in a sum that never comes: there a signal is only noted (`pending`), and the trainer raises when
    all have heard of it.
    """

    def __init__(self, processes: int = 1) -> None:
        self.pending = False
        self._alone = processes == 1
        self._critical = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._arrived)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.pending:
            return  # one is enough; the state is being written
        self.pending = True
        if self._alone and not self._critical:
            raise Interrupted(signal.Signals(number).name)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """What runs inside is finished first; a process alone is interrupted after it."""
        self._critical = True
        try:
            yield
        finally:
            self._critical = False
        if self.pending and self._alone:
            raise Interrupted("a signal")

    @staticmethod
    def ignore() -> None:
        """From now on signals are not heard: what is left takes a moment and must be finished."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
