"""Readers: one file per input format, each finding episodes and reading their lines.

A reader is a class like `reader.Reader`. Adding a format means adding one file here and naming it
in `READERS`.
"""

from __future__ import annotations

from adaptermill.rows.readers.reader import Reader
from adaptermill.rows.readers.replay import ReplayReader

READERS: dict[str, type[Reader]] = {"replay": ReplayReader}
