"""Verdicts that are kept for good: a folder per judge's fingerprint, a line per judged content.

    with Verdicts(Path("results/.store/judged"), fingerprint) as verdicts:
        verdicts.known[judged_hash]
        verdicts.keep(judged_hash, verdict)

`verdicts.jsonl` is only ever appended to, a line at a time: whatever ends the run, what was said
(and paid) is there. A lock keeps a second run of the same judge waiting.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import IO

from adaptermill.errors import UserError
from adaptermill.judges.judge import Verdict

# Seconds between two times that the file is pressed onto the disk.
_SYNC_EVERY = 1.0


class Verdicts:
    """The verdicts of one judge; a context manager that holds the folder's lock."""

    def __init__(self, store: Path, fingerprint: str) -> None:
        self.folder = store / fingerprint
        self.path = self.folder / "verdicts.jsonl"
        self.known: dict[str, Verdict] = {}
        self._synced = 0.0
        self._lock: IO[str] | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Verdicts:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another run writes to {self.folder}; waiting for it to end", flush=True)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._file = open(self.path, "a+b")
        self._read()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None and self._lock is not None
        self._sync()
        self._file.close()
        self._lock.close()

    def _read(self) -> None:
        assert self._file is not None
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            try:
                said = json.loads(line)
                judged = said.pop("judged")
                self.known[judged] = Verdict(**said)
            except (ValueError, KeyError, TypeError):
                raise UserError(
                    f"{self.path}, line {number}, is no verdict; remove that line (what it held is "
                    "judged again)"
                ) from None
        # A line that a power cut left unfinished.
        self._file.truncate(whole)

    def keep(self, judged: str, verdict: Verdict) -> None:
        """Appends one verdict; it is in the file when this returns."""
        assert self._file is not None
        line = json.dumps({"judged": judged, **asdict(verdict)}, ensure_ascii=False)
        self._file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        self._file.flush()
        if time.monotonic() > self._synced + _SYNC_EVERY:
            self._sync()
        self.known[judged] = verdict

    def _sync(self) -> None:
        assert self._file is not None
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()
