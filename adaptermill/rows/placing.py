"""A place between 0 and 1 that a name has for good: what shares, sides and nodes are decided by."""

from __future__ import annotations

import hashlib


def u(text: str) -> float:
    """A number in [0, 1] that is fixed by the text: the first 32 bits of its MD5, scaled."""
    return int(hashlib.md5(text.encode("utf-8")).hexdigest()[:8], 16) / 0xFFFFFFFF
