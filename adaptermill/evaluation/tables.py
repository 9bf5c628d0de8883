"""The tables of the held-out evaluation.

`evaluation`, a line per (adapter, family, metric):

    adapter      the adapter's name; the base itself is `base` and comes first
    family       a family, or `all`: every held-out row together
    metric       see `metrics.METRICS` for the names and what they mean
    value        the figure; empty where no row counts
    low, high    its 95 % percentile bootstrap interval over episodes; empty below two episodes
    rows         held-out rows that count for it
    episodes     episodes that these rows are of
    weak         whether there are fewer than `weak_below` (5) of these episodes
    split_hash   which held-out rows: figures of different ones must not be compared
    base_hash    which base, likewise
    adapter_key  the adapter's key; empty for the base

`comparison`, a line per (adapter, against, family, metric), where `against` is `base` or `pooled`:
`difference` is the adapter's figure minus the other's over the same rows, and `low`, `high` its
interval on the same resamples of episodes (paired). `against_key` is the other's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from adaptermill.errors import UserError
from adaptermill.evaluation.answers import DEFAULT_TOLERANCE
from adaptermill.evaluation.bootstrap import Bootstrap, interval
from adaptermill.evaluation.markdown import count, table, with_interval
from adaptermill.evaluation.metrics import METRICS, RowFigures, episode_sums, row_figures, scale
from adaptermill.evaluation.predictions import VALIDATION, Predictions

BASE, POOLED, ALL = "base", "pooled", "all"
_INTERVAL = [("low", pa.float64()), ("high", pa.float64())]
_COUNTS = [("rows", pa.int64()), ("episodes", pa.int64()), ("weak", pa.bool_())]
_HASHES = [("split_hash", pa.string()), ("base_hash", pa.string()), ("adapter_key", pa.string())]
EVALUATION_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("adapter", "family", "metric")],
        *[("value", pa.float64()), *_INTERVAL, *_COUNTS, *_HASHES],
    ]
)
COMPARISON_SCHEMA = pa.schema(
    [
        *[(name, pa.string()) for name in ("adapter", "against", "family", "metric")],
        *[("difference", pa.float64()), *_INTERVAL, *_COUNTS, *_HASHES],
        ("against_key", pa.string()),
    ]
)


@dataclass(frozen=True)
class TableSettings:
    """How the tables are made. `families` are shown also where nothing of them is held out;
    `replicates` are groups of adapters that differ in the training seed alone, `sides` those that
    there are tables of.
    """

    families: Sequence[str] = ()
    bootstrap: int = 2000
    seed: int = 0
    weak_below: int = 5
    tolerance: float = DEFAULT_TOLERANCE
    adapters: Sequence[str] = field(default=())
    replicates: Sequence[Sequence[str]] = field(default=())
    sides: Sequence[str] = (VALIDATION,)


@dataclass(frozen=True)
class Figure:
    """A figure with its interval, and what it rests on. Absent values are None."""

    value: float | None
    low: float | None
    high: float | None
    rows: int
    episodes: int
    weak: bool


class HeldOut:
    """Several adapters over the same held-out rows, ready to be asked for figures."""

    def __init__(self, files: Sequence[Predictions], settings: TableSettings) -> None:
        refuse_mixed(files)
        self.settings = settings
        self.bootstrap = Bootstrap(settings.bootstrap, settings.seed)
        base = next((file for file in files if file.name == BASE), None)
        order = {name: place for place, name in enumerate([BASE, *settings.adapters])}
        ranked = sorted(files, key=lambda file: order.get(file.name, len(order)))
        self.adapters = {file.name: row_figures(file, base, settings.tolerance) for file in ranked}
        found = {family for adapter in self.adapters.values() for family in adapter.families}
        others = sorted(found - set(settings.families))
        self.families = [*settings.families, *others]
        self.metrics = [
            name
            for name in METRICS
            if any(name in adapter.summands for adapter in self.adapters.values())
        ]

    @property
    def origin(self) -> Any:
        return next(iter(self.adapters.values())).origin

    def chosen(self, adapter: RowFigures, families: Sequence[str] | None) -> np.ndarray:
        """bool [rows]: the rows of these families; of all where None."""
        if families is None:
            return np.ones(len(adapter.row_ids), dtype=bool)
        return np.isin(adapter.families, np.array(list(families), dtype=object))

    def figure(self, name: str, metric: str, families: Sequence[str] | None = None) -> Figure:
        """One metric of one adapter over the rows of `families` (None: all rows)."""
        return self.figure_of(self.adapters[name], metric, families)

    def figure_of(
        self, adapter: RowFigures, metric: str, families: Sequence[str] | None = None
    ) -> Figure:
        """The same of any figures of these held-out rows."""
        sums = episode_sums(adapter, metric, self.chosen(adapter, families))
        if not sums.episodes:
            return self._figure(None, None, sums.rows, 0)
        value = scale(metric, sums.numerators.sum() / sums.denominators.sum())
        samples = None
        if sums.episodes > 1:
            samples = scale(metric, self.bootstrap.ratios(sums.numerators, sums.denominators))
        return self._figure(float(value), samples, sums.rows, sums.episodes)

    def difference(
        self, name: str, against: str, metric: str, families: Sequence[str] | None = None
    ) -> Figure:
        """The adapter's metric minus the other's, paired by row, on the same resamples."""
        mine, other = (
            episode_sums(adapter, metric, self.chosen(adapter, families))
            for adapter in (self.adapters[name], self.adapters[against])
        )
        if not mine.episodes or mine.episodes != other.episodes:
            return self._figure(None, None, 0, 0)
        values = [scale(metric, s.numerators.sum() / s.denominators.sum()) for s in (mine, other)]
        samples = None
        if mine.episodes > 1:
            # The same number of episodes gives the same resamples, in the same order of episodes.
            drawn = [
                scale(metric, self.bootstrap.ratios(s.numerators, s.denominators))
                for s in (mine, other)
            ]
            samples = drawn[0] - drawn[1]
        return self._figure(float(values[0] - values[1]), samples, mine.rows, mine.episodes)

    def _figure(
        self, value: float | None, samples: np.ndarray | None, rows: int, episodes: int
    ) -> Figure:
        low, high = (None, None) if samples is None else interval(samples)
        return Figure(value, low, high, rows, episodes, episodes < self.settings.weak_below)


def refuse_mixed(files: Sequence[Predictions]) -> None:
    """`UserError` unless all predictions are of the same held-out rows and the same base."""
    if not files:
        raise UserError("no evaluation was given; name results/evaluation/<adapter>.parquet files")
    names = [file.name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two evaluations are named {name}; give each adapter once")
    first = files[0]
    for file in files[1:]:
        for what, column in (("held-out rows", "split_hash"), ("base", "base_hash")):
            one, other = getattr(first.origin, column), getattr(file.origin, column)
            if one != other:
                raise UserError(
                    f"{first.name} and {file.name} were evaluated on different {what} ({column} "
                    f"{one} and {other}), so their figures cannot stand in one table; evaluate "
                    "both again on the same, with snakemake results/tables/evaluation.csv"
                )
        if file.rows["row_id"] != first.rows["row_id"]:
            raise UserError(
                f"{first.name} and {file.name} hold different rows though their split_hash is the "
                "same; one of the files is damaged, delete it and evaluate again"
            )


def evaluation_table(held_out: HeldOut) -> pa.Table:
    """Every metric of every adapter in every family; the base first, `all` families last."""
    lines = [
        {
            **{"adapter": name, "family": family, "metric": metric},
            **vars(held_out.figure(name, metric, families)),
            **_hashes(adapter),
        }
        for name, adapter in held_out.adapters.items()
        for family, families in _families(held_out)
        for metric in held_out.metrics
    ]
    return pa.Table.from_pylist(lines, schema=EVALUATION_SCHEMA)


def comparison_table(held_out: HeldOut) -> pa.Table:
    """Every adapter against the base and against `pooled`, where these are there."""
    lines = []
    for name, adapter in held_out.adapters.items():
        for against in (BASE, POOLED):
            if name in (BASE, against) or against not in held_out.adapters:
                continue
            for family, families in _families(held_out):
                for metric in held_out.metrics:
                    figure = vars(held_out.difference(name, against, metric, families))
                    lines.append(
                        {
                            **{"adapter": name, "against": against},
                            **{"family": family, "metric": metric},
                            "difference": figure.pop("value"),
                            **figure,
                            **_hashes(adapter),
                            "against_key": held_out.adapters[against].origin.adapter_key,
                        }
                    )
    return pa.Table.from_pylist(lines, schema=COMPARISON_SCHEMA)


def _families(held_out: HeldOut) -> Iterator[tuple[str, list[str] | None]]:
    yield from ((family, [family]) for family in held_out.families)
    yield ALL, None


def _hashes(adapter: RowFigures) -> dict[str, str | None]:
    origin = adapter.origin
    return {
        "split_hash": origin.split_hash,
        "base_hash": origin.base_hash,
        "adapter_key": origin.adapter_key,
    }


# ---- as Markdown -----------------------------------------------------------------------------


def evaluation_markdown(evaluation: pa.Table) -> str:
    """A table per metric: adapters down, families across."""
    lines = evaluation.to_pylist()
    return "\n".join(
        [
            "# Held-out evaluation\n",
            "Every adapter and the base on the held-out rows of every family: `value [low, high]`, "
            "the 95 % bootstrap interval over episodes.",
            *_marked(lines),
            *_made_of(lines),
            *_by_metric(lines, "value", signed=False),
        ]
    )


def comparison_markdown(comparison: pa.Table) -> str:
    """A table per other side and metric: adapters down, families across."""
    lines = comparison.to_pylist()
    if not lines:
        return "# Comparison\n\nThere is nothing to compare: no adapter beside the base.\n"
    parts = [
        "# Comparison\n",
        "Paired differences, adapter minus the other: `difference [low, high]`, the 95 % bootstrap "
        "interval over episodes. **Bold**: not weak, and the interval does not hold 0.",
        *_marked(lines),
        *_made_of(lines),
    ]
    for against in dict.fromkeys(line["against"] for line in lines):
        chosen = [line for line in lines if line["against"] == against]
        parts.append(f"\n# Against `{against}`")
        parts += _by_metric(chosen, "difference", signed=True)
    return "\n".join(parts)


def _marked(lines: Sequence[dict[str, Any]]) -> list[str]:
    if not any(line["weak"] for line in lines):
        return []
    return ["`*`: few held-out episodes (fewer than 5 unless set otherwise), a weak figure."]


def _made_of(lines: Sequence[dict[str, Any]]) -> list[str]:
    if not lines:
        return ["\nThere are no figures.\n"]
    return [f"\nHeld-out rows `{lines[0]['split_hash']}`, base `{lines[0]['base_hash']}`.\n"]


def _by_metric(lines: Sequence[dict[str, Any]], value: str, signed: bool) -> list[str]:
    parts = []
    found = {line["metric"] for line in lines}
    for group, metrics in groupby(METRICS.values(), key=lambda metric: metric.group):
        shown = [metric for metric in metrics if metric.name in found]
        if shown:
            parts.append(f"\n## {group}\n")
        for metric in shown:
            parts.append(f"### {metric.name}\n\n{metric.meaning} ({metric.better} is better)\n")
            parts.append(
                _one_metric([x for x in lines if x["metric"] == metric.name], value, signed)
            )
    return parts


def _one_metric(lines: Sequence[dict[str, Any]], value: str, signed: bool) -> str:
    cells = {(line["adapter"], line["family"]): line for line in lines}
    adapters = list(dict.fromkeys(line["adapter"] for line in lines))
    families = list(dict.fromkeys(line["family"] for line in lines))
    header = ["adapter"]
    for family in families:
        # Rows that count are the same for every adapter that has the metric.
        most = max((cells[name, family] for name in adapters), key=lambda line: line["rows"])
        n = f"{count(most['rows'], 'row')}, {count(most['episodes'], 'episode')}"
        header.append(f"{family} ({n})")
    return table(
        header,
        [
            [name, *(_shown(cells[name, family], value, signed) for family in families)]
            for name in adapters
        ],
    )


def _shown(line: dict[str, Any], value: str, signed: bool) -> str:
    text = with_interval(line[value], line["low"], line["high"], line["weak"], sign=signed)
    known = signed and not line["weak"] and line["low"] is not None
    clear = known and (line["low"] > 0 or line["high"] < 0)
    return f"**{text}**" if clear else text
