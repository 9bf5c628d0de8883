"""Markdown tables that read well as they stand, in a terminal too."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """A table with padded columns: the first aligned left, the others right."""
    cells = [[_cell(value) for value in line] for line in [header, *lines]]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    shown = [
        "| "
        + " | ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in cells
    ]
    rule = "|" + "|".join(
        "-" * (width + 2) if place == 0 else "-" * (width + 1) + ":"
        for place, width in enumerate(widths)
    )
    return "\n".join([shown[0], rule + "|", *shown[1:]]) + "\n"


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return " ".join(text.split()).replace("|", "\\|")


def number(value: float | None) -> str:
    """A figure with four digits that matter: 0.0042, 1.234, 12.34, 56789."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    for limit, decimals in ((100, 1), (10, 2), (0.1, 3)):
        if abs(value) >= limit:
            return f"{value:.{decimals}f}"
    return f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.2g}"


def with_interval(
    value: float | None, low: float | None, high: float | None, weak: bool, sign: bool = False
) -> str:
    """`value [low, high]`, marked with `*` where it rests on few episodes."""
    if value is None:
        return "–"
    plus = "+" if sign and value > 0 else ""
    mark = "*" if weak else ""
    if low is None or high is None:
        return f"{plus}{number(value)}{mark}"
    return f"{plus}{number(value)} [{number(low)}, {number(high)}]{mark}"


def count(number_of: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number_of} {thing}{'' if number_of == 1 else 's'}"
