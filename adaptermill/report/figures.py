"""The figures of the report. Each takes tables as lists of lines and returns SVG text.

The columns of these tables are described in docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from adaptermill.evaluation.markdown import number
from adaptermill.evaluation.own import OTHERS, OWN
from adaptermill.evaluation.tables import ALL, BASE, POOLED
from adaptermill.report.svg import (
    BETTER,
    INK,
    NEUTRAL,
    PALETTE,
    WORSE,
    new,
    plain,
    styled,
    svg,
    wrapped,
)

Lines = Sequence[Mapping[str, Any]]
WIDTH = 11.0
COLOURS = {BASE: BETTER, POOLED: WORSE}
_PARTS = {OWN: BETTER, OTHERS: WORSE}
# Points of one curve; longer logs are drawn by the means of as many stretches.
_POINTS = 300


def nothing(said: str) -> str:
    """A drawing that says why there is none."""
    with styled():
        figure = new(WIDTH, 0.6)
        figure.text(0.0, 0.5, said, va="center", color=INK)
        return svg(figure, said)


def heatmap(comparison: Lines, own: Mapping[str, Sequence[str]], metric: str = "nll") -> str:
    """Adapter x family: the difference to the base, blue where it is lower and orange above 0."""
    lines = [x for x in comparison if x["against"] == BASE and x["metric"] == metric]
    if not lines:
        return nothing("There is no adapter beside the base.")
    adapters, families = _names(lines, "adapter"), _names(lines, "family")
    cells = {(line["adapter"], line["family"]): line for line in lines}
    most = max((abs(x["difference"]) for x in lines if x["difference"] is not None), default=0)
    with styled():
        figure = new(WIDTH, 0.7 + 0.32 * len(adapters))
        axes = figure.subplots()
        for row, adapter in enumerate(adapters):
            for column, family in enumerate(families):
                line = cells[adapter, family]
                value = line["difference"]
                if value is not None:
                    shade = 0.75 * abs(value) / most if most else 0.0
                    colour = BETTER if value < 0 else WORSE
                    axes.add_patch(Rectangle((column, row), 1, 1, color=colour, alpha=shade, lw=0))
                if family in own.get(adapter, ()):
                    axes.add_patch(
                        Rectangle(
                            (column + 0.03, row + 0.06), 0.94, 0.88, fill=False, ec=INK, lw=1.1
                        )
                    )
                sign = "+" if value is not None and value > 0 else ""
                mark = "*" if line["weak"] and value is not None else ""
                shown = f"{sign}{number(value)}{mark}"
                axes.text(column + 0.5, row + 0.5, shown, ha="center", va="center", color=INK)
        axes.set(xlim=(0, len(families)), ylim=(len(adapters), 0))
        axes.set_xticks([at + 0.5 for at in range(len(families))], map(wrapped, families))
        axes.set_yticks([at + 0.5 for at in range(len(adapters))], adapters)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        return svg(figure, f"{metric}, difference to the base: adapter by family")


def differences(comparison: Lines, own: Mapping[str, Sequence[str]], metric: str = "nll") -> str:
    """Paired differences with their 95 % intervals: a panel per family, a line per adapter."""
    lines = [x for x in comparison if x["metric"] == metric]
    if not any(line["difference"] is not None for line in lines):
        return nothing("There is nothing to compare.")
    adapters, families = _names(lines, "adapter"), _names(lines, "family")
    sides = [side for side in (BASE, POOLED) if any(x["against"] == side for x in lines)]
    with styled():
        figure = new(WIDTH, 1.1 + 0.3 * len(adapters))
        panels = figure.subplots(1, len(families), sharey=True, sharex=True, squeeze=False)[0]
        for axes, family in zip(panels, families, strict=True):
            axes.axvline(0, color=INK, lw=0.7, alpha=0.6)
            for row, adapter in enumerate(adapters):
                if family in own.get(adapter, ()):
                    axes.axhspan(row - 0.5, row + 0.5, color=INK, alpha=0.07, lw=0)
            for place, side in enumerate(sides):
                shift = 0.3 * (place - (len(sides) - 1) / 2)
                for line in lines:
                    if (line["family"], line["against"]) == (family, side):
                        _interval(axes, line, adapters.index(line["adapter"]) + shift, side)
            axes.set_title(wrapped(family), loc="left")
            axes.tick_params(axis="y", length=0)
            axes.spines["left"].set_visible(False)
            axes.locator_params(axis="x", nbins=3)
            axes.grid(axis="x", color=INK, alpha=0.12, lw=0.5)
            axes.set_axisbelow(True)
        panels[0].set_ylim(len(adapters) - 0.5, -0.5)
        panels[0].set_yticks(range(len(adapters)), adapters)
        handles = [
            panels[0].plot([], [], "o-", color=COLOURS[side], ms=4, lw=1.2)[0] for side in sides
        ]
        figure.legend(
            handles,
            [f"against {side}" for side in sides],
            loc="outside lower left",
            ncols=2,
            frameon=False,
        )
        return svg(figure, f"{metric}: differences to the base and to pooled with intervals")


def _interval(axes: Axes, line: Mapping[str, Any], at: float, side: str) -> None:
    if line["difference"] is None:
        return
    faint = 0.4 if line["weak"] else 1.0
    if line["low"] is not None:
        axes.plot([line["low"], line["high"]], [at, at], color=COLOURS[side], lw=1.4, alpha=faint)
    filled = "none" if line["weak"] else COLOURS[side]
    axes.plot(
        [line["difference"]], [at], "o", ms=3.6, mec=COLOURS[side], mfc=filled, alpha=faint, mew=0.9
    )


def training(logs: Mapping[str, Lines]) -> str:
    """Cross-entropy and anchor penalty over the rows of each adapter's training."""
    shown = {name: log for name, log in logs.items() if log}
    if not shown:
        return nothing("No adapter has a training log.")
    columns = min(4, max(3, len(shown)))
    rows = -(-len(shown) // columns)
    with styled():
        figure = new(WIDTH, 0.3 + 1.55 * rows)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes, (name, log) in zip(panels, shown.items(), strict=False):
            for line, following in pairwise(log):
                if following.get("epoch") != line.get("epoch"):
                    axes.axvline(line["rows"], color=INK, lw=0.5, alpha=0.25)
            _curve(axes, log, "ce", PALETTE[0])
            axes.set_title(name, loc="left", fontweight="bold")
            axes.locator_params(nbins=4)
            axes.tick_params(axis="y", labelcolor=PALETTE[0])
            if any(line.get("anchor") is not None for line in log):
                other = axes.twinx()
                other.spines["right"].set_visible(True)
                other.tick_params(axis="y", labelcolor=PALETTE[1], labelsize=7)
                _curve(other, log, "anchor", PALETTE[1])
                other.set_ylim(bottom=0)
                other.locator_params(axis="y", nbins=4)
        first = figure.axes[0]
        handles = [first.plot([], [], color=PALETTE[at], lw=1.4)[0] for at in (0, 1)]
        figure.legend(
            handles,
            ["cross-entropy (left)", "anchor penalty (right)"],
            loc="outside lower left",
            ncols=2,
            frameon=False,
        )
        return svg(figure, "cross-entropy and anchor penalty over the rows of training")


def curve(epochs: Lines) -> str:
    """Held-out NLL after each epoch, on the adapter's own families and on all others."""
    adapters = list(dict.fromkeys(line["adapter"] for line in epochs))
    if not adapters:
        return nothing("No adapter was evaluated after an earlier epoch.")
    columns = min(4, max(3, len(adapters)))
    rows = -(-len(adapters) // columns)
    with styled():
        figure = new(WIDTH, 0.3 + 1.4 * rows)
        panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
        for axes in panels[len(adapters) :]:
            axes.set_visible(False)
        for axes, adapter in zip(panels, adapters, strict=False):
            for part, colour in _PARTS.items():
                line = [x for x in epochs if (x["adapter"], x["part"]) == (adapter, part)]
                known = [x for x in line if x["nll"] is not None]
                places = [x["epoch"] for x in known]
                if known and known[0]["low"] is not None:
                    low, high = [x["low"] for x in known], [x["high"] for x in known]
                    axes.fill_between(places, low, high, color=colour, alpha=0.18, lw=0)
                axes.plot(places, [x["nll"] for x in known], "o-", color=colour, ms=3, lw=1.3)
            axes.set_title(adapter, loc="left", fontweight="bold")
            axes.set_xticks(sorted({x["epoch"] for x in epochs if x["adapter"] == adapter}))
        handles = [
            figure.axes[0].plot([], [], "o-", color=colour, ms=3, lw=1.3)[0]
            for colour in _PARTS.values()
        ]
        figure.legend(
            handles,
            ["its own families", "all others"],
            loc="outside lower left",
            ncols=2,
            frameon=False,
        )
        return svg(figure, "held-out NLL after each epoch")


def _curve(axes: Axes, log: Lines, name: str, colour: str) -> None:
    """Every step faintly, and the mean of a twentieth of the run around each."""
    points = [(line["rows"], line[name]) for line in log if line.get(name) is not None]
    if not points:
        return
    points = _thinned(points, _POINTS)
    places, values = zip(*points, strict=True)
    reach = max(1, len(points) // 40)
    smooth = [
        sum(values[max(0, at - reach) : at + reach + 1])
        / len(values[max(0, at - reach) : at + reach + 1])
        for at in range(len(values))
    ]
    axes.plot(places, values, color=colour, lw=0.6, alpha=0.3)
    axes.plot(places, smooth, color=colour, lw=1.3)


def _thinned(points: Sequence[tuple[float, float]], limit: int) -> list[tuple[float, float]]:
    """At most `limit` points: the means of stretches of the same length."""
    size = -(-len(points) // limit)
    found = []
    for start in range(0, len(points), size):
        places, values = zip(*points[start : start + size], strict=True)
        found.append((places[-1], sum(values) / len(values)))
    return found


def fitsets(table: Lines) -> str:
    """What each adapter learns from: rows by family, those of cross-entropy full."""
    lines = [line for line in table if line["part"] == "family" and line["rows"]]
    if not lines:
        return nothing("There is no fit set.")
    adapters = list(dict.fromkeys(line["adapter"] for line in table))
    families = sorted({line["name"] for line in lines})
    colours = dict(zip(families, _cycle(len(families)), strict=True))
    kinds = sorted({line["kind"] for line in lines}, key=lambda kind: (kind != "ce", kind))
    with styled():
        figure = new(WIDTH, 0.9 + 0.27 * len(adapters))
        axes = figure.subplots()
        for row, adapter in enumerate(adapters):
            left = 0
            for kind in kinds:
                for family in families:
                    size = sum(
                        line["rows"]
                        for line in lines
                        if (line["adapter"], line["kind"], line["name"]) == (adapter, kind, family)
                    )
                    style = {"color": colours[family], "alpha": 1.0 if kind == "ce" else 0.38}
                    axes.barh(row, size, left=left, height=0.62, lw=0, **style)
                    left += size
            axes.text(left, row, f" {left:,}", va="center", fontsize=7, alpha=0.8)
        axes.set_ylim(len(adapters) - 0.5, -0.5)
        axes.set_yticks(range(len(adapters)), adapters)
        axes.margins(x=0.06)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("rows (full: by cross-entropy; pale: anchor and other kinds)", loc="left")
        handles = [Rectangle((0, 0), 1, 1, color=colours[family], lw=0) for family in families]
        figure.legend(
            handles,
            [plain(family, 30) for family in families],
            loc="outside upper left",
            ncols=min(4, len(families)),
            frameon=False,
        )
        return svg(figure, "rows of each fit set by family")


def splits(table: Lines) -> str:
    """Episodes of each family on each side of the split."""
    lines = [x for x in table if x["part"] == "episodes" and x["by"] == "family"]
    if not lines:
        return nothing("There are no episodes.")
    families, sides = sorted({x["name"] for x in lines}), _sides(lines)
    colours = {"train": NEUTRAL, "validation": BETTER, "test": WORSE, "mixed": PALETTE[7]}
    with styled():
        figure = new(5.4, 0.8 + 0.25 * len(families))
        axes = figure.subplots()
        for row, family in enumerate(families):
            left = 0
            for side in sides:
                size = sum(x["episodes"] for x in lines if (x["name"], x["side"]) == (family, side))
                axes.barh(row, size, left=left, height=0.62, lw=0, color=colours.get(side, NEUTRAL))
                left += size
            axes.text(left, row, f" {left:,}", va="center", fontsize=7, alpha=0.8)
        axes.set_ylim(len(families) - 0.5, -0.5)
        axes.set_yticks(range(len(families)), [plain(family, 28) for family in families])
        axes.margins(x=0.1)
        axes.tick_params(axis="y", length=0)
        handles = [Rectangle((0, 0), 1, 1, color=colours.get(s, NEUTRAL), lw=0) for s in sides]
        figure.legend(handles, sides, loc="outside upper left", ncols=4, frameon=False)
        return svg(figure, "episodes of each family by side")


def _sides(lines: Lines) -> list[str]:
    order = ("train", "validation", "test", "mixed")
    found = {line["side"] for line in lines}
    return [*(side for side in order if side in found), *sorted(found - set(order))]


def _names(lines: Lines, column: str) -> list[str]:
    """In the order of the table, all families together last."""
    found = list(dict.fromkeys(line[column] for line in lines))
    return sorted(found, key=lambda name: name == ALL)


def _cycle(count: int) -> list[str]:
    return [PALETTE[at % len(PALETTE)] for at in range(count)]
