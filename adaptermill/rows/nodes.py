"""Which node of consensus training an example belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adaptermill.rows.placing import u

# Fewer examples than this on a part of the queries are an error.
FEWEST_OF_PART = 16
POOLED = "pooled"
# What the folder of a run says that ends in an adapter for each node.
PER_NODE = "per-node"
# What decides where an example belongs, of a recipe's settings.
SETTINGS = ("partition", "n_partitions", "pooled", "heldout_fraction")


def node_of(seat: int, query_id: str, settings: Mapping[str, Any]) -> str:
    """The node's name: `pooled`, `seat_<number>`, or `part_<number>` by a hash of the query."""
    if settings["pooled"]:
        return POOLED
    if settings["partition"] == "seat":
        return f"seat_{seat}"
    parts = settings["n_partitions"]
    return f"part_{min(int(u(f'partition:{query_id}') * parts), parts - 1)}"


def order(name: str) -> tuple[str, int]:
    """By which nodes are sorted: seat_2 before seat_10."""
    kind, _, number = name.rpartition("_")
    return (kind, int(number)) if kind else (name, 0)


def is_held_out(query_id: str, settings: Mapping[str, Any]) -> bool:
    """Whether examples of the query are kept out of the fit, to find the best round by."""
    return u(f"consensus:{query_id}") < settings["heldout_fraction"]


def expected(settings: Mapping[str, Any], seats: Iterable[int]) -> list[str]:
    """All nodes that there are to be, in order; `seats` are those that are adapted."""
    if settings["pooled"]:
        return [POOLED]
    if settings["partition"] == "seat":
        return [f"seat_{seat}" for seat in sorted(set(seats))]
    return [f"part_{number}" for number in range(settings["n_partitions"])]


def why_thin(
    fitted: Mapping[str, int], nodes: Iterable[str], settings: Mapping[str, Any]
) -> str | None:
    """Why these nodes cannot be trained on so many examples each; None where they can."""
    least = 1 if settings["pooled"] or settings["partition"] == "seat" else FEWEST_OF_PART
    thin = [f"{name} has {fitted.get(name, 0)}" for name in nodes if fitted.get(name, 0) < least]
    if not thin:
        return None
    if least == 1:
        what = "there is nothing to train on for a node"
        mend = "Widen its trajectories settings, adapt fewer seats, or lower heldout_fraction."
    else:
        what = f"a node of partition: anchor needs {least} examples"
        mend = "Lower n_partitions, or bring in more queries."
    return f"{what}: {', '.join(thin)}. {mend}"
