"""Judges examples: those that were judged before are looked up, the others are shown to the judge.

judged = judge_all(judge, fingerprint, examples, verdicts)
judged.table()                       # JUDGED_SCHEMA, in the examples' order
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from adaptermill.judges.identity import judged_hash
from adaptermill.judges.judge import Example, Judge, Verdict
from adaptermill.judges.store import Verdicts
from adaptermill.judges.table import JUDGED_SCHEMA


@dataclass
class Judged:
    """The verdicts on some examples. `new` counts contents that were shown to the judge now."""

    fingerprint: str
    verdicts: Verdicts
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    new: int = 0

    def verdict(self, judged: str) -> Verdict:
        return self.verdicts.known[judged]

    def counts(self) -> dict[str, int]:
        """Verdict -> examples, the most frequent first."""
        found = Counter(self.verdict(judged).verdict for _, _, judged in self.lines)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def table(self) -> pa.Table:
        made = []
        for row_id, content_hash, judged in self.lines:
            verdict = self.verdict(judged)
            made.append(
                {
                    "row_id": row_id,
                    "content_hash": content_hash,
                    "reward": verdict.reward,
                    "verdict": verdict.verdict,
                    "detail": verdict.detail,
                    "judge": self.fingerprint,
                }
            )
        return pa.Table.from_pylist(made, schema=JUDGED_SCHEMA)


def judge_all(
    judge: Judge, fingerprint: str, examples: Iterable[Example], verdicts: Verdicts
) -> Judged:
    """Judges all examples; each content once, and not at all when its verdict is known."""
    found = Judged(fingerprint, verdicts)

    def unknown() -> Iterator[Example]:
        shown = set()
        for example in examples:
            judged = judged_hash(example, judge.reads)
            found.lines.append((example.row_id, example.content_hash, judged))
            if judged not in verdicts.known and judged not in shown:
                shown.add(judged)
                yield example

    def keep(example: Example, verdict: Verdict) -> None:
        verdicts.keep(judged_hash(example, judge.reads), verdict)
        found.new += 1

    judge.judge(unknown(), keep)
    return found
