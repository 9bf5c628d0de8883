"""What the cheap stages were made from, by content, so that file times alone decide nothing.

A stage's rule writes a *record* beside its outputs: the SHA-256 of its spec and of the records of
the stages above it, as `sha256sum` prints them. A stage is current when its record is what would be
written now; since every record covers those above it (or what they made), a chain of current
records means that all of it is. Touched files, copied folders and `snakemake --touch` cannot make
one look current.

Snakemake is made to run a stage again through one more input of its rule, the *request*: a new
time and a new content, which no trigger and nothing remembered in `.snakemake` can overlook. The
record of such a stage is put aside meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from adaptermill.atomic import write_text


@dataclass(frozen=True)
class Stage:
    """A stage of one subject (a source, an adapter, or all) and what decides its outputs.

    `above` are small files that stand for the stages above: their records, or digests of what they
    made. `keeps` are files that the stages below read without naming them as inputs.
    """

    stage: str
    subject: str
    record: Path
    spec: str
    spec_text: str
    above: tuple[str, ...]
    keeps: tuple[str, ...] = ()

    def expected(self) -> str | None:
        """The record of a stage that is current; None while one above it has none."""
        lines = [_line(self.spec, self.spec_text.encode("utf-8"))]
        try:
            lines += [_line(path, Path(path).read_bytes()) for path in self.above]
        except OSError:
            return None
        return "".join(lines)

    def recorded(self) -> str | None:
        """The last record, also one put aside; None when the stage never ended well."""
        return self._read(self.record) or self._read(self._aside)

    @property
    def _aside(self) -> Path:
        return self.record.with_name(f"{self.record.name}.before")

    @staticmethod
    def _read(path: Path) -> str | None:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def is_current(self) -> bool:
        if not all(Path(path).is_file() for path in self.keeps):
            return False
        return self._read(self.record) == self.expected() is not None

    def withdraw(self) -> None:
        """Puts the record aside, so that the stage is seen to be unfinished from the start.

        A record is the first output of its rule. Snakemake looks for that one before it knows what
        a job behind a checkpoint reads, and else would take the outputs that lie there as final.
        """
        if self.record.is_file():
            os.replace(self.record, self._aside)


def _line(path: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {path}\n"


def request(path: str | Path, *, again: bool) -> None:
    """Writes the request at `path` anew if the job must run `again`, else only if there is none."""
    if again or not Path(path).is_file():
        write_text(path, secrets.token_hex(8) + "\n")
