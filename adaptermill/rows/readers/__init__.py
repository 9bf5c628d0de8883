"""Readers: one file per input format, each finding units and reading their lines.

A reader is a class like `reader.Reader`. Adding a format means adding one file here and naming it
in `READERS`; formats of one conversation a line share `jsonl.JsonlReader`.
"""

from __future__ import annotations

from adaptermill.rows.readers.browser_use import BrowserUseReader
from adaptermill.rows.readers.openai import OpenaiReader
from adaptermill.rows.readers.reader import Reader
from adaptermill.rows.readers.replay import ReplayReader
from adaptermill.rows.readers.sharegpt import SharegptReader
from adaptermill.rows.readers.trajectories import TrajectoriesReader
from adaptermill.rows.readers.trl import TrlReader

READERS: dict[str, type[Reader]] = {
    "replay": ReplayReader,
    "openai": OpenaiReader,
    "sharegpt": SharegptReader,
    "trl": TrlReader,
    "browser_use": BrowserUseReader,
    "trajectories": TrajectoriesReader,
}
