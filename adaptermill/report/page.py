"""The report as one HTML file: figures, tables and the gallery put into the page's template.

Everything that comes from rows reaches the page through Jinja with automatic escaping, or as text
of an SVG drawing. The page's policy lets it load nothing and run nothing but its own script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from adaptermill.evaluation.markdown import count, number
from adaptermill.evaluation.metrics import METRICS
from adaptermill.evaluation.tables import ALL, BASE, POOLED
from adaptermill.report.assets import FOLDER
from adaptermill.report.findings import minus
from adaptermill.report.gallery import Gallery

Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A cell of a heat map. `shade` is 0 to 1, `tone` good, bad, plain or none."""

    shown: str
    interval: str
    title: str
    tone: str
    shade: float
    own: bool
    weak: bool


@dataclass(frozen=True)
class Heat:
    """One heat map: adapters down, families across."""

    caption: str
    families: list[tuple[str, str]]
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class MetricHeats:
    """All heat maps of one metric."""

    name: str
    meaning: str
    better: str
    heats: list[Heat]


def heats(
    evaluation: Lines, comparison: Lines, own: Mapping[str, Sequence[str]]
) -> list[MetricHeats]:
    """For every metric: the differences to the base and to `pooled`, and the figures themselves."""
    found = []
    for metric in dict.fromkeys(line["metric"] for line in evaluation):
        made = []
        for against, caption in (
            (BASE, "Difference to the base: what was won and what was forgotten"),
            (POOLED, "Difference to the pooled adapter"),
        ):
            lines = [x for x in comparison if (x["metric"], x["against"]) == (metric, against)]
            if lines:
                made.append(_heat(caption, lines, own, "difference"))
        lines = [line for line in evaluation if line["metric"] == metric]
        made.append(_heat("The figures themselves", lines, own, "value"))
        described = METRICS[metric]
        found.append(MetricHeats(metric, described.meaning, described.better, made))
    return found


def _heat(caption: str, lines: Lines, own: Mapping[str, Sequence[str]], column: str) -> Heat:
    cells = {(line["adapter"], line["family"]): line for line in lines}
    adapters = list(dict.fromkeys(line["adapter"] for line in lines))
    families = list(dict.fromkeys(line["family"] for line in lines))
    known = [line[column] for line in lines if line[column] is not None]
    ends = (min(known, default=0.0), max(known, default=0.0))
    header = []
    for family in families:
        most = max((cells[name, family] for name in adapters), key=lambda line: line["rows"])
        held = f"{most['rows']:,} rows · {most['episodes']:,} ep."
        header.append(("all families" if family == ALL else family, held))
    return Heat(
        caption,
        header,
        [
            (
                name,
                [
                    _cell(cells[name, family], column, ends, family in own.get(name, ()))
                    for family in families
                ],
            )
            for name in adapters
        ],
    )


def _cell(line: Mapping[str, Any], column: str, ends: tuple[float, float], is_own: bool) -> Cell:
    value, low, high = line[column], line["low"], line["high"]
    if value is None:
        return Cell("–", "", "nothing held out", "none", 0.0, is_own, False)
    sign = "+" if column == "difference" and value > 0 else ""
    interval = "" if low is None else minus(f"{number(low)} … {number(high)}")
    shown = minus(f"{sign}{number(value)}")
    title = shown + (f", 95 % interval {interval}" if interval else "")
    title += f"; {count(line['rows'], 'row')} of {count(line['episodes'], 'episode')}"
    if line["weak"]:
        title += "; few episodes, a weak figure"
    lower = METRICS[line["metric"]].better == "lower"
    if column == "difference":
        most = max(abs(ends[0]), abs(ends[1]))
        tone = "plain" if value == 0 else "good" if (value < 0) == lower else "bad"
        shade = abs(value) / most if most else 0.0
    else:
        span = ends[1] - ends[0]
        shade = (value - ends[0]) / span if span else 0.5
        tone, shade = "good", 1 - shade if lower else shade
    return Cell(shown, interval, title, tone, round(shade, 3), is_own, line["weak"])


def render(context: Mapping[str, Any], figures: Mapping[str, str], gallery: Gallery) -> str:
    """The whole page. `figures` are trusted SVG texts, everything else is text to be escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "points": _points}
    script = (FOLDER / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return environment.get_template("report.html.j2").render(
        **context,
        gallery=gallery,
        figures={name: Markup(text) for name, text in figures.items()},
        style=Markup((FOLDER / "report.css").read_text(encoding="utf-8")),
        script=Markup(script),
        policy=(
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        ),
    )


def _points(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
