"""What an arm of consensus training is called in tables and cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def arm(recipe: Mapping[str, Any]) -> str:
    """The arm in a few words."""
    if recipe["pooled"]:
        return "pooled (all examples on one node)"
    if recipe["local_only"]:
        return "local only (no coupling)"
    named = recipe["consensus"]
    if named == "gossip":
        named = f"gossip on a {recipe['topology']}, {recipe['gossip_steps']} step(s)"
    return named if recipe["dual"] else f"{named}, no dual"
