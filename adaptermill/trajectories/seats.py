"""Which seats of a system are adapted. A seat is an agent's number; the last one is the sink."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def adapted_seats(
    seats: Collection[int], adapt_roles: str, only: Sequence[int] | None = None
) -> list[int]:
    """The seats of a system that are adapted, in order.

    `seats` are all that speak in its rollouts. `all`; `nonsink`: all but the last; `middle`:
    neither the first nor the last. With `only`, of these the ones that it lists.
    """
    ordered = sorted(set(seats))
    if adapt_roles == "nonsink":
        ordered = ordered[:-1]
    elif adapt_roles == "middle":
        ordered = ordered[1:-1]
    return [seat for seat in ordered if only is None or seat in only]
