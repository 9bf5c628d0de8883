"""Drawings as SVG text that fit into a page: the same bytes every time, light and dark.

    figure = new(width=9, height=3)
    figure.subplots().plot([1, 2])
    text = svg(figure, "what is to be seen")

Text stays text (in the page's font), and whatever is drawn in INK takes the colour of the text
around it. Lengths are inches of 72 points, of which the page makes about 100 pixels.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from xml.sax.saxutils import quoteattr

import matplotlib
from matplotlib.figure import Figure

# Stands for the page's text colour; no drawing uses it for anything else.
INK = "#010203"
BETTER, WORSE, NEUTRAL = "#2f7fc8", "#d9691e", "#8a8f98"
# Middle tones that can be told apart on white and on black.
PALETTE = (
    *("#4c8fd0", "#f0862d", "#4fa95a", "#b279c2", "#e0565b", "#3fb0aa"),
    *("#a5805f", "#d6b02e", "#8f97a3", "#7f6fd0"),
)
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "adaptermill",
    # A family may be called "$x$": names are text, never formulas.
    "text.parse_math": False,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.unicode_minus": True,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@contextmanager
def styled() -> Iterator[None]:
    """Drawing and saving happen inside of it."""
    with matplotlib.rc_context(_STYLE):
        yield


def new(width: float, height: float) -> Figure:
    """An empty figure; its parts keep clear of each other."""
    return Figure(figsize=(width, height), layout="constrained")


def svg(figure: Figure, description: str) -> str:
    """The figure as one `<svg>` element that scales with the page."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    # Names of groups repeat from drawing to drawing and serve nobody.
    text = re.sub(r'<g id="[\w.]+"', "<g", text)
    box = re.search(r'viewBox="[^"]+"', text)
    assert box is not None
    head = (
        f'<svg class="figure" role="img" aria-label={quoteattr(plain(description))} {box[0]} '
        'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg"'
    )
    text = re.sub(r"^<svg[^>]*", lambda _: head, text, count=1)
    return "\n".join(line.rstrip() for line in text.replace(INK, "currentColor").splitlines())


def standalone(text: str) -> str:
    """The same drawing as a file of its own: black on white."""
    begin = text.replace('class="figure"', 'style="color:#202124;background:#fff"', 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{begin}\n'


def plain(text: str, limit: int = 60) -> str:
    """A name as it can stand in XML: no control characters, one line, not endless."""
    one_line = " ".join(_CONTROL.sub("\ufffd", text).split())
    return one_line if len(one_line) <= limit else one_line[: limit - 1] + "…"


def wrapped(text: str, width: int = 13) -> str:
    """A name over a few short lines."""
    return "\n".join(textwrap.wrap(plain(text, 40), width)) or "–"
