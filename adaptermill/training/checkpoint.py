"""The state of one training run on disk: checkpoints, finished epochs, the log, a refusal.

    state/
      lock             held (by the kernel) while a trainer runs; it dies with its holder
      step_<n>.pt      adapter, optimizer and position after optimizer step n; the newest two
      train_log.jsonl  a line per optimizer step
      epochs/<n>/      the adapter at the end of epoch n; rows_<n>/ along the curve
      refused.txt      why this run must not be tried again

All is written under temporary names, flushed and renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, TextIO

import torch

from adaptermill.atomic import replacing, write_text
from adaptermill.errors import UserError

KEPT = 2
LOCK_WAIT_SECONDS = 30.0


class Refusal(UserError):
    """A run that would end the same way again: its reason is kept, and no retry trains."""


class StateFolder:
    """The state of one run. Only one process at a time may hold its lock and write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: TextIO | None = None

    def lock(self, wait_seconds: float = LOCK_WAIT_SECONDS) -> None:
        """Takes the kernel lock; `UserError` when another trainer keeps it."""
        until = time.monotonic() + wait_seconds
        while (handle := self._try_lock()) is None:
            if time.monotonic() > until:
                holder = (self.folder / "lock").read_text(encoding="utf-8").strip() or "unknown"
                raise UserError(
                    f"another process ({holder}) is training into {self.folder}; wait for it, "
                    "or end it, and start again"
                )
            time.sleep(0.2)
        for left_over in self.folder.glob(".*.tmp"):  # of a trainer that was killed
            left_over.unlink()
        handle.seek(0)
        handle.truncate()
        handle.write(f"pid {os.getpid()} on {os.uname().nodename}\n")
        handle.flush()
        self._lock = handle

    def _try_lock(self) -> TextIO | None:
        """The locked file, or None while another process holds it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "lock"
        # Kept open on purpose: the lock lives as long as the handle.
        handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One who has just finished removes the folder, and with it the file that was locked.
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(path)):
                return handle
        except (BlockingIOError, FileNotFoundError):
            pass
        handle.close()
        return None

    # ---- refusals ------------------------------------------------------------------------------

    @property
    def refusal_path(self) -> Path:
        return self.folder / "refused.txt"

    def check_not_refused(self) -> None:
        if self.refusal_path.is_file():
            reason = self.refusal_path.read_text(encoding="utf-8").strip()
            raise Refusal(
                f"{reason}\n(an earlier try of the same run ended so; delete {self.refusal_path} "
                "to try it again)"
            )

    def refuse(self, reason: str) -> None:
        write_text(self.refusal_path, reason + "\n")

    # ---- checkpoints ---------------------------------------------------------------------------

    def _checkpoints(self) -> list[tuple[int, Path]]:
        files = self.folder.glob("step_*.pt")
        return sorted((int(path.stem.removeprefix("step_")), path) for path in files)

    def save(self, step: int, content: dict[str, Any]) -> None:
        """Writes the checkpoint after `step` and removes all but the newest two.

        `UserError` when it cannot be written; those before it stay.
        """
        path = self.folder / f"step_{step}.pt"
        try:
            with replacing(path) as temporary:
                torch.save({"step": step, **content}, temporary)
        except (OSError, RuntimeError) as error:  # torch's writer has an error of its own
            raise UserError(
                f"the checkpoint {path} cannot be written ({error}); is the disk full, or the "
                "folder not writable? Mend that and start again: the checkpoint before it is kept"
            ) from None
        for _, path in self._checkpoints()[:-KEPT]:
            path.unlink()

    def load(self, key: str) -> dict[str, Any] | None:
        """The newest checkpoint that can be read, or None. One of another run is an error."""
        for _, path in reversed(self._checkpoints()):
            try:
                content = torch.load(path, map_location="cpu", weights_only=True)
            except Exception as error:  # a damaged file shows itself in many ways
                print(f"{path} cannot be read ({error}); trying the one before", flush=True)
                continue
            if content["key"] != key:
                raise UserError(
                    f"{path} belongs to the run {content['key']}, not to {key}; delete "
                    f"{self.folder} and start again"
                )
            return content
        return None

    # ---- the log -------------------------------------------------------------------------------

    @property
    def log_path(self) -> Path:
        return self.folder / "train_log.jsonl"

    def cut_log(self, step: int) -> None:
        """Drops log lines of steps after `step` (and a last line cut short)."""
        if not self.log_path.is_file():
            return
        kept = []
        for line in self.log_path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (json.JSONDecodeError, KeyError):
                break
        write_text(self.log_path, "".join(kept))

    def log(self, figures: dict[str, Any]) -> None:
        with open(self.log_path, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(figures) + "\n")

    def remove(self) -> None:
        """Deletes the state of a finished run (the lock goes with it)."""
        # First: a checkpoint must not outlive the log and the kept adapters that belong to it.
        for _, path in self._checkpoints():
            path.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
