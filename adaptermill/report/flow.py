"""The pipeline at a glance: its rules from left to right, with what each made here.

Only the rules that people meet are shown, and of two ways from one to another only the longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1100, 196
_PITCH, _BOX, _TALL = 138, 118, 48
_ROWS = (8, 74, 140)


@dataclass(frozen=True)
class Node:
    """A rule's box: the rule's name in the Snakefile, what it is called, column and row."""

    rule: str
    title: str
    column: int
    row: int


NODES = (
    Node("scan", "sources", 0, 0),
    Node("base", "base", 0, 2),
    Node("ingest", "ingest", 1, 0),
    Node("split", "split", 2, 0),
    Node("measure", "measure", 2, 2),
    Node("heldout", "held-out rows", 3, 0),
    Node("fitset", "fit sets", 3, 2),
    Node("train", "training", 4, 2),
    Node("evaluate", "evaluation", 5, 1),
    Node("tables", "tables", 6, 0),
    Node("report", "this report", 7, 0),
    Node("card", "model cards", 6, 2),
)
EDGES = (
    ("scan", "ingest"),
    ("ingest", "split"),
    ("ingest", "measure"),
    ("base", "measure"),
    ("split", "heldout"),
    ("measure", "heldout"),
    ("split", "fitset"),
    ("measure", "fitset"),
    ("fitset", "train"),
    ("train", "evaluate"),
    ("heldout", "evaluate"),
    ("evaluate", "tables"),
    ("tables", "report"),
    ("evaluate", "card"),
)


def flow(counts: Mapping[str, str]) -> str:
    """The drawing as SVG text; `counts` says in a few words what a rule made."""
    places = {node.rule: (node.column * _PITCH + 4, _ROWS[node.row]) for node in NODES}
    parts = [
        f'<svg class="figure flow" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="the rules of the pipeline and what each made" '
        'xmlns="http://www.w3.org/2000/svg">'
    ]
    for above, below in EDGES:
        (left, top), (right, under) = places[above], places[below]
        x, y = left + _BOX, top + _TALL / 2
        to_x, to_y = right - 3, under + _TALL / 2
        middle = to_x - (_PITCH - _BOX) / 2 if to_y != y else (x + to_x) / 2
        parts.append(
            f'<path d="M{x} {y:g}H{middle - 6:g}Q{middle:g} {y:g} {middle:g} '
            f"{y + _towards(y, to_y):g}V{to_y - _towards(y, to_y):g}"
            f'Q{middle:g} {to_y:g} {middle + 6:g} {to_y:g}H{to_x}" fill="none" '
            'stroke="currentColor" stroke-opacity=".45" stroke-width="1.2"/>'
            if to_y != y
            else f'<path d="M{x} {y:g}H{to_x}" fill="none" stroke="currentColor" '
            'stroke-opacity=".45" stroke-width="1.2"/>'
        )
        parts.append(
            f'<path d="M{to_x - 5} {to_y - 3.5:g}L{to_x + 1} {to_y:g}L{to_x - 5} {to_y + 3.5:g}Z" '
            'fill="currentColor" fill-opacity=".55"/>'
        )
    for node in NODES:
        left, top = places[node.rule]
        parts.append(
            f'<rect x="{left}" y="{top}" width="{_BOX}" height="{_TALL}" rx="8" '
            'fill="currentColor" fill-opacity=".05" stroke="currentColor" stroke-opacity=".3"/>'
            f'<text x="{left + _BOX / 2:g}" y="{top + 20}" text-anchor="middle" font-size="13" '
            f'font-weight="600" fill="currentColor">{escape(node.title)}</text>'
            f'<text x="{left + _BOX / 2:g}" y="{top + 37}" text-anchor="middle" font-size="11" '
            f'fill="currentColor" fill-opacity=".7">{escape(counts.get(node.rule, ""))}</text>'
        )
    return "".join([*parts, "</svg>"])


def _towards(y: float, to_y: float) -> float:
    return 6 if to_y > y else -6
