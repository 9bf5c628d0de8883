"""What was said already, kept as it is said: a killed run goes on and pays only what is missing.

A journal belongs to an identity (chain, engine, seed): one of another is refused, never mixed. A
line holds messages, each under (query, rollout, agent), that were kept together. The
last line may be cut short by a kill; it is dropped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from adaptermill.errors import UserError
from adaptermill.provenance import key
from adaptermill.rollouts.engine import Said

Place = tuple[str, int, int]


class Journal:
    """Use as a context; `known` maps (query_id, rollout, agent) to what was said."""

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity = key(rollouts=identity)
        self.known: dict[Place, Said] = {}

    def __enter__(self) -> Journal:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(f"{self.path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"another run is writing {self.path}; wait for it, or end it") from None
        try:
            whole = self._read()
        except BaseException:
            self._lock.release()
            raise
        self._file = open(self.path, "ab")
        self._file.truncate(whole)
        if whole == 0:
            self._append({"identity": self.identity})
            self.flush()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()
        self._file.close()
        self._lock.release()

    def add(self, said: dict[Place, Said]) -> None:
        """Keeps all of these messages or, when killed meanwhile, none."""
        self.known |= said
        self._append({"said": [[place, vars(one)] for place, one in said.items()]})

    def flush(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _append(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")
        self._file.flush()

    def _read(self) -> int:
        """Takes in the lines that are whole; how many bytes they are."""
        data = self.path.read_bytes() if self.path.is_file() else b""
        whole = data[: data.rfind(b"\n") + 1]
        lines = [json.loads(line) for line in whole.split(b"\n")[:-1]]
        if lines and lines[0]["identity"] != self.identity:
            raise UserError(
                f"{self.path} holds messages of other settings (prompts, decoding, model, adapters "
                "or seed changed). Give another output, or delete that file to begin anew"
            )
        for line in lines[1:]:
            for (query_id, rollout, agent), one in line["said"]:
                self.known[(query_id, rollout, agent)] = Said(**one)
        return len(whole)
