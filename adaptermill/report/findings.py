"""What came out, in words: which adapter beats the base and `pooled` on its own families, and what
it lost on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adaptermill.evaluation.markdown import count, with_interval
from adaptermill.evaluation.metrics import METRICS
from adaptermill.evaluation.own import OTHERS, OWN, SEPARATOR
from adaptermill.evaluation.tables import ALL, BASE, POOLED

Lines = Sequence[Mapping[str, Any]]
BETTER, WORSE, UNCLEAR, WEAK, UNKNOWN = "better", "worse", "unclear", "weak", "unknown"
WORDS = {
    BETTER: "better",
    WORSE: "worse",
    UNCLEAR: "cannot be told apart",
    WEAK: "too few episodes",
    UNKNOWN: "nothing held out",
}


@dataclass(frozen=True)
class Finding:
    """A difference, judged: only an interval without 0 over enough episodes says something."""

    verdict: str
    shown: str
    rows: int
    episodes: int

    @property
    def word(self) -> str:
        return WORDS[self.verdict]


@dataclass(frozen=True)
class About:
    """What is known of one adapter. Findings are None where there is nothing to compare."""

    adapter: str
    own: list[str]
    has_others: bool
    base: Finding | None
    steps: Finding | None
    pooled: Finding | None
    others: Finding | None
    lost: list[tuple[str, Finding]]
    won: list[tuple[str, Finding]]
    drift: str

    @property
    def is_specialist(self) -> bool:
        """Whether there are families that it was not trained for."""
        return self.has_others and self.adapter != POOLED


def judged(line: Mapping[str, Any] | None) -> Finding | None:
    """The finding of a line of `comparison` or `summary`."""
    if line is None:
        return None
    shown = with_interval(line["difference"], line["low"], line["high"], False, sign=True)
    return Finding(_verdict(line), minus(shown), line["rows"], line["episodes"])


def minus(shown: str) -> str:
    """Figures with the sign for minus, as print has it."""
    return shown.replace("-", "−")


def _verdict(line: Mapping[str, Any]) -> str:
    if line["difference"] is None:
        return UNKNOWN
    if line["weak"] or line["low"] is None:
        return WEAK
    lower = METRICS[line["metric"]].better == "lower"
    if line["high"] < 0:
        return BETTER if lower else WORSE
    if line["low"] > 0:
        return WORSE if lower else BETTER
    return UNCLEAR


def about_adapters(summary: Lines, comparison: Lines, metric: str = "nll") -> list[About]:
    """A finding per adapter of the tables, in their order."""
    parts = {
        (line["adapter"], line["against"], line["part"]): line
        for line in summary
        if line["metric"] == metric
    }
    steps = {
        line["adapter"]: line
        for line in summary
        if (line["against"], line["part"], line["metric"]) == (BASE, OWN, "step_success")
    }
    drifts = {
        line["adapter"]: line
        for line in summary
        if (line["against"], line["part"], line["metric"]) == (BASE, OTHERS, "anchor")
    }
    found = []
    for name in dict.fromkeys(line["adapter"] for line in summary):
        own_line = parts.get((name, BASE, OWN)) or parts.get((name, POOLED, OWN))
        own = own_line["families"].split(SEPARATOR) if own_line else []
        elsewhere = [
            (line["family"], judged(line))
            for line in comparison
            if (line["adapter"], line["against"], line["metric"]) == (name, BASE, metric)
            and line["family"] not in (*own, ALL)
        ]
        drift = drifts.get(name)
        found.append(
            About(
                adapter=name,
                own=own,
                has_others=(name, BASE, OTHERS) in parts,
                base=judged(parts.get((name, BASE, OWN))),
                steps=judged(steps.get(name)),
                pooled=judged(parts.get((name, POOLED, OWN))),
                others=judged(parts.get((name, BASE, OTHERS))),
                lost=[(f, x) for f, x in elsewhere if x and x.verdict == WORSE],
                won=[(f, x) for f, x in elsewhere if x and x.verdict == BETTER],
                drift=""
                if drift is None
                else with_interval(drift["difference"], drift["low"], drift["high"], drift["weak"]),
            )
        )
    return found


def headline(found: Sequence[About]) -> list[str]:
    """The result in one to three sentences."""
    specialists = [about for about in found if about.is_specialist]
    said = []
    if specialists:
        said.append(_of_specialists(specialists, "base", "the base"))
        if any(about.pooled for about in specialists):
            said.append(
                _of_specialists(
                    [a for a in specialists if a.pooled], "pooled", "the pooled adapter"
                )
            )
        losing = [about for about in specialists if about.lost]
        if losing:
            lost = "; ".join(
                f"{about.adapter} on {', '.join(family for family, _ in about.lost)}"
                for about in losing
            )
            said.append(f"Against the base, something was lost elsewhere: {lost}.")
        elif any(about.others and about.others.verdict != UNKNOWN for about in specialists):
            said.append("No specialist was shown to lose against the base on another family.")
    for about in found:
        if not about.is_specialist and about.base is not None:
            said.append(f"{_sentence(about.adapter, about.base)} over all its families.")
    return said or ["There is no adapter to say anything about: only the base was evaluated."]


def _of_specialists(specialists: Sequence[About], side: str, called: str) -> str:
    findings = [(about, getattr(about, side)) for about in specialists]
    winners = [about.adapter for about, finding in findings if finding.verdict == BETTER]
    losers = [about.adapter for about, finding in findings if finding.verdict == WORSE]
    own = "their own families"
    if len(specialists) == 1:
        names = specialists[0].own
        own = names[0] if len(names) == 1 else f"its own {len(names)} families"
    if len(winners) == len(specialists):
        who = winners[0] if len(winners) == 1 else f"All {len(winners)} specialists"
        said = f"{who} {'beats' if len(winners) == 1 else 'beat'} {called} on {own}"
    else:
        named = f" ({', '.join(winners)})" if winners else ""
        verb = "beats" if len(winners) == 1 else "beat"
        said = f"{len(winners) or 'None'} of {count(len(specialists), 'specialist')}{named}"
        said += f" {verb} {called} on {own}"
    if losers:
        said += f"; {', '.join(losers)} {'is' if len(losers) == 1 else 'are'} worse there"
    return f"{said}."


def _sentence(name: str, finding: Finding) -> str:
    if finding.verdict == BETTER:
        return f"{name} beats the base"
    if finding.verdict == WORSE:
        return f"{name} is worse than the base"
    if finding.verdict == UNKNOWN:
        return f"Nothing is held out to compare {name} with the base"
    return f"{name} cannot be told from the base"
