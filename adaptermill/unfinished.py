"""Snakemake's marks of jobs that did not end, of which a killed Snakemake leaves some behind."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from adaptermill.specs import STORE

MARKS = Path(".snakemake", "incomplete")


def forgive_whole(marks: Path = MARKS) -> list[str]:
    """Deletes the marks of finished work in the store; returns its paths.

    What lies in the store was renamed into place, so it is whole: also where its job outlived a
    Snakemake that was killed. Snakemake would make it again.
    """
    found = []
    for mark in sorted(marks.rglob("*")):
        output = _output(mark.relative_to(marks))
        if output is not None and STORE in output.parents and output.exists():
            mark.unlink(missing_ok=True)
            found.append(str(output))
    return found


def _output(mark: Path) -> Path | None:
    """The output a mark is about: its path in base64, in folders of `@…` where that is long."""
    parts = [*(part.removeprefix("@") for part in mark.parts[:-1]), mark.name]
    try:
        return Path(base64.b64decode("".join(parts), altchars=b"-_", validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        return None
