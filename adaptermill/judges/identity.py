"""Identities by which verdicts are kept: of the judge (its fingerprint) and of what it judged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from adaptermill.judges.judge import Example
from adaptermill.provenance import canonical, key


def judged_hash(example: Example, reads: Iterable[str]) -> str:
    """What is judged: the content, and the other fields that the judge reads; 32 hex digits."""
    parts = [example.content or example.content_hash, *(getattr(example, name) for name in reads)]
    return hashlib.sha256(canonical(parts).encode("utf-8")).hexdigest()[:32]


def fingerprint(configured: str, model: str | None) -> str:
    """The judge's fingerprint: what the configuration and the code say, and the model's files.

    `configured` is the hash of kind, settings, template and code; `model` the identity of a model
    that runs here, which is known only when its files were read.
    """
    return key(configured=configured, model=model)
