"""What an episode's name says: its variant, and the source episodes it was made from."""

from __future__ import annotations

from collections.abc import Sequence

VARIANTS = ("plain", "recovery", "chain")


def variant_of(task_id: str, has_parts: bool = False) -> str:
    """`recovery` for `…~rec` (a chain's too), `chain` for `chain-…` or parts, else `plain`."""
    if task_id.endswith("~rec"):
        return "recovery"
    if has_parts or task_id.startswith("chain-"):
        return "chain"
    return "plain"


def sources_of(task_id: str, parts: Sequence[str] | None = None) -> list[str]:
    """The source episodes: the parts where given, else the name up to its first `~`."""
    return list(parts) if parts else [task_id.split("~", 1)[0]]
