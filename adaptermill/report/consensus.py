"""The figure of consensus training: residuals, objective and communication by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from adaptermill.report.figures import WIDTH, nothing
from adaptermill.report.svg import INK, PALETTE, new, plain, styled, svg

Rounds = Sequence[Mapping[str, Any]]
# Panels: their title, and whether they are drawn by powers of ten.
_PANELS = (
    ("primal_residual", "primal residual (normalised)", True),
    ("dual_residual", "dual residual", True),
    ("disagreement", "disagreement", True),
    ("objective", "objective, mean of nodes", False),
    ("bytes_sent", "MB that a node has sent", False),
)


def consensus(rounds: Mapping[str, Rounds]) -> str:
    """A panel per figure, a line per adapter, over the rounds."""
    shown = {name: told for name, told in rounds.items() if told}
    if not shown:
        return nothing("No adapter was trained by consensus.")
    with styled():
        figure = new(WIDTH, 2.1 + 0.16 * -(-len(shown) // 5))
        panels = figure.subplots(1, len(_PANELS))
        handles = {}
        for axes, (what, title, powers) in zip(panels, _PANELS, strict=True):
            for place, (name, told) in enumerate(shown.items()):
                values = series(told, what)
                # A logarithm has no place for nothing.
                known = [(r, v) for r, v in values if v > 0 or not powers]
                if known:
                    colour = PALETTE[place % len(PALETTE)]
                    style = {"color": colour, "ls": "-" if place < len(PALETTE) else "--"}
                    handles[name] = axes.plot(*zip(*known, strict=True), lw=1.2, **style)[0]
            if powers and axes.lines:
                axes.set_yscale("log")
            axes.set_title(title, loc="left")
            axes.set_xlabel("round")
            axes.grid(axis="y", color=INK, alpha=0.12, lw=0.5)
        names = [plain(name, 24) for name in handles]
        figure.legend(
            list(handles.values()), names, loc="outside lower left", ncols=5, frameon=False
        )
        return svg(figure, "residuals, objective and communication of consensus training by round")


def series(rounds: Rounds, what: str) -> list[tuple[int, float]]:
    """(round, figure) of a run; bytes add up, of figures per node the mean is taken."""
    known = [told for told in rounds if told.get(what) is not None]
    numbers = [told["round"] for told in known]
    if what == "bytes_sent":
        sent = accumulate(max(told[what]) / 1e6 for told in known)
        return list(zip(numbers, sent, strict=True))
    values = [told[what] for told in known]
    means = [sum(v) / len(v) if isinstance(v, list) else v for v in values]
    return list(zip(numbers, means, strict=True))
