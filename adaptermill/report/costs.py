"""Time and memory of the jobs, rule by rule, from Snakemake's benchmark files.

A file is a table of one line per run of the job (`s` seconds, `max_rss` MB, `cpu_time` seconds);
what could not be measured is NA, as memory is of jobs that end within a moment.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """What the jobs of one rule took, as the report shows it."""

    rule: str
    jobs: int
    total: str
    longest: str
    cpu: str
    peak: str


def by_rule(folder: Path) -> list[Cost]:
    """The costs of every rule with a job in `folder`, the longest in all first."""
    found = []
    for rule in sorted(path for path in folder.glob("*") if path.is_dir()):
        jobs = [line for path in sorted(rule.rglob("*.tsv")) for line in _read(path)]
        if jobs:
            found.append((sum(_values(jobs, "s")), _cost(rule.name, jobs)))
    return [cost for _, cost in sorted(found, key=lambda each: -each[0])]


def _cost(rule: str, jobs: list[dict[str, str]]) -> Cost:
    seconds, cpu, memory = (_values(jobs, name) for name in ("s", "cpu_time", "max_rss"))
    return Cost(
        rule=rule,
        jobs=len(jobs),
        total=duration(sum(seconds)),
        longest=duration(max(seconds, default=0)),
        cpu=duration(sum(cpu)) if cpu else "–",
        peak=f"{max(memory) / 1000:.1f} GB" if memory else "–",
    )


def duration(seconds: float) -> str:
    """`8.1 s`, `12 min`, `3.5 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def _values(jobs: list[dict[str, str]], name: str) -> list[float]:
    values = []
    for job in jobs:
        try:
            values.append(float(job.get(name) or ""))
        except ValueError:  # NA
            continue
    return values
