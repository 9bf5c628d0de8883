"""The page's template, style and script: where they lie, and their identity.

No code fingerprint covers files that are not Python; the report's spec holds this digest instead.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "templates"


def digest() -> str:
    """16 hex digits over the names and contents of all files."""
    found = hashlib.sha256()
    for path in sorted(FOLDER.iterdir()):
        if path.is_file():
            found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]
