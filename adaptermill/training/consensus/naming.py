"""What an arm of consensus training is called in tables and cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adaptermill.evaluation.markdown import count


def arm(recipe: Mapping[str, Any]) -> str:
    """The arm in a few words."""
    if recipe["pooled"]:
        return "pooled (all examples on one node)"
    if recipe["local_only"]:
        return "local only (no coupling)"
    named = recipe["consensus"]
    if named == "gossip":
        article = "an" if recipe["topology"] == "expander" else "a"
        named = f"gossip on {article} {recipe['topology']}, {count(recipe['gossip_steps'], 'step')}"
    return named if recipe["dual"] else f"{named}, no dual"
