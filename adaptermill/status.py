"""`python -m adaptermill status`: which adapters a build would train, and why.

Reads what lies on disk, runs nothing and writes nothing. An adapter is

- *fresh* when the adapter that the configuration asks for is finished: no build trains it;
- *stale* when it is not: the next build that asks for it trains it;
- *undecided* when a stage above must run first: what it finds decides.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adaptermill.made import Stage
from adaptermill.pipeline import Pipeline
from adaptermill.specs import DRAWN_BY, RESULTS, STORE

FRESH, STALE, UNDECIDED = "fresh", "stale", "undecided"


@dataclass
class AdapterStatus:
    """What is known of one adapter. `key` is None while it cannot be known."""

    name: str
    state: str
    key: str | None = None
    causes: list[str] = field(default_factory=list)

    def line(self, width: int) -> str:
        return f"{self.name:<{width}}  {self.state:<9}  {'; '.join(self.causes)}".rstrip()


def statuses(pipeline: Pipeline) -> list[AdapterStatus]:
    """The status of every adapter, in the order of the configuration."""
    outdated = {
        (stage.stage, stage.subject): explain_stage(stage)
        for stage in pipeline.stages()
        if not stage.is_current()
    }
    if pipeline.base_is_missing():
        outdated.setdefault(("base", "base"), "the example base must be built first")
    shared = _shared_causes(pipeline, outdated)
    return [_status(pipeline, name, shared, outdated) for name in pipeline.config.trained]


def _status(
    pipeline: Pipeline, name: str, shared: list[str], outdated: dict[tuple[str, str], str]
) -> AdapterStatus:
    causes = list(shared)
    if not causes:
        for above in pipeline.config.lineage(name):
            judge = pipeline.config.recipes[above].judge
            for stage, subject in (("judge", judge), ("view", above), ("fitset", above)):
                if (stage, subject) in outdated:
                    text = outdated[stage, subject]
                    causes.append(text if above == name else f"{above}: {text}")
                    break
    found = None if causes else pipeline.key_on_disk(name)
    published = _read(RESULTS / "adapters" / name / "training.json")
    if found is None:
        known = [] if published is None else list(_settings_causes(pipeline, name, published))
        return AdapterStatus(name, UNDECIDED, None, list(dict.fromkeys(causes + known)))
    stored = STORE / "adapters" / found
    if stored.is_dir():
        notes = [] if published and published["key"] == found else ["will be published again"]
        return AdapterStatus(name, FRESH, found, notes)
    if published is None:
        return AdapterStatus(name, STALE, found, ["not trained yet"])
    return AdapterStatus(name, STALE, found, list(_causes(pipeline, name, published)))


# ---- stages ----------------------------------------------------------------------------------


def _shared_causes(pipeline: Pipeline, outdated: dict[tuple[str, str], str]) -> list[str]:
    """Why no adapter can be decided: stages that all of them stand on."""
    scans = [outdated[key] for key in outdated if key[0] in (*DRAWN_BY.values(), "scan")]
    others = [key for key in outdated if key[0] in ("summarize_ingest", "base", "split")]
    if scans:
        # Those below only follow, unless their own settings changed too.
        others = [key for key in others if not outdated[key].startswith("what is above")]
    causes = scans + [outdated[key] for key in others]
    merged = outdated.get(("merge_measures", "all"))
    return causes or ([merged] if merged else [])


def explain_stage(stage: Stage) -> str:
    """Why the stage must run before anything below it is known, in a few words."""
    subject = "" if stage.subject in ("all", "base") else f" of {stage.subject}"
    label = f"{stage.stage.replace('_', ' ')}{subject}"
    recorded = dict(reversed(line.split("  ", 1)) for line in (stage.recorded() or "").splitlines())
    if stage.spec not in recorded:
        return f"{label} was not run yet"
    if recorded[stage.spec] == hashlib.sha256(stage.spec_text.encode()).hexdigest():
        return f"what is above {label} changed"
    before = _read(Path(stage.spec))
    text = Path(stage.spec).read_bytes() if before is not None else b""
    if hashlib.sha256(text).hexdigest() != recorded[stage.spec]:
        return f"settings of {label} changed"  # an earlier build wrote the spec and did not end
    return explain_spec(stage, before or {}, json.loads(stage.spec_text))


# Settings that are hashes or long; what their change means is said by other words.
_SAID_OTHERWISE = {
    *("files", "ingest_code", "measure_code", "own_families", "anchor_families"),
    *("template_text", "kind_code", "configured", "judge_configured", "adapters"),
}


def explain_spec(stage: Stage, before: dict[str, Any], now: dict[str, Any]) -> str:
    old, new = before.get("settings", {}), now["settings"]
    said = []
    if old.get("files") != new.get("files"):
        said.append(
            "the base's files changed"
            if stage.stage == "base"
            else f"the model's files of judge {stage.subject} changed"
            if stage.stage == "judge"
            else f"files of source {stage.subject} changed"
        )
    if old.get("template_text") != new.get("template_text"):
        said.append(f"template of judge {stage.subject} changed")
    said += differences(old, new, _SAID_OTHERWISE)
    codes = ["ingest_code", "measure_code", "kind_code"]
    if before.get("code") != now["code"] or any(old.get(c) != new.get(c) for c in codes):
        said.append(f"{stage.stage.replace('_', ' ')} code changed")
    return ", ".join(said) or f"settings of {stage.stage} changed"


def differences(
    old: dict[str, Any], new: dict[str, Any], ignored: set[str] | frozenset[str] = frozenset()
) -> list[str]:
    """`name before -> after` of every value that differs, nested mappings by dotted names."""
    found = []
    for name in sorted({*old, *new} - set(ignored)):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            inner = differences(before, after)
            found += (
                inner if name in ("recipe", "settings") else [f"{name}.{text}" for text in inner]
            )
        elif before != after:
            found.append(f"{name} {shown(before)} -> {shown(after)}")
    return found


def shown(value: Any) -> str:
    """A value of the configuration as people write it: 1e-4, true, [a, b]."""
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:.12e}".partition("e")
        if value and abs(int(exponent)) > 3:
            return f"{float(mantissa):g}e{int(exponent)}"
        return f"{value:.12g}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return {None: "null", True: "true", False: "false"}.get(value, str(value))


# ---- adapters --------------------------------------------------------------------------------


def _causes(pipeline: Pipeline, name: str, published: dict[str, Any]) -> Iterator[str]:
    """What differs between the adapter as it is published and as it is asked for."""
    found = [
        *_row_causes(name, published),
        *_settings_causes(pipeline, name, published),
        *_parent_causes(pipeline, name, published),
    ]
    base = _read(RESULTS / "base" / "base.json") or {}
    if published["hashes"]["base"] != base.get("identity"):
        found.append("base changed")
    yield from found or ["a finished adapter was removed from the store"]


def _row_causes(name: str, published: dict[str, Any]) -> Iterator[str]:
    hashes = (_read(RESULTS / "fitsets" / name / "composition.json") or {}).get("hashes", {})
    if hashes.get("fitset") != published["hashes"]["fitset"]:
        yield from row_changes(
            RESULTS / "adapters" / name / "rows.parquet",
            RESULTS / "fitsets" / name / "fitset.parquet",
        )
    elif hashes.get("plan") != published["hashes"]["plan"]:
        yield "the order of rows changed"


def row_changes(before: Path, now: Path) -> list[str]:
    """`12 rows added in Drag & gesture`, by family and kind, from two tables of rows."""
    import pyarrow.parquet as pq

    counts = []
    for path in (before, now):
        if not path.is_file():
            return ["rows changed"]
        columns = pq.read_table(path, columns=["kind", "family", "content_hash"]).to_pydict()
        counts.append(Counter(zip(*columns.values(), strict=True)))
    texts = []
    for word, difference in (
        ("added", counts[1] - counts[0]),
        ("removed", counts[0] - counts[1]),
    ):
        groups: Counter[tuple[str, str]] = Counter()
        for (kind, family, _), count in difference.items():
            groups[kind, family] += count
        for (kind, family), count in sorted(groups.items()):
            rows = f"{count} {'anchor ' if kind == 'anchor' else ''}row{'s' * (count != 1)}"
            texts.append(f"{rows} {word} in {family}")
    return texts


def _settings_causes(pipeline: Pipeline, name: str, published: dict[str, Any]) -> Iterator[str]:
    yield from differences(published["recipe"], pipeline.specs.train_settings(name))
    noted, wanted = published.get("noted", {}), pipeline.specs.noted(name)
    trained = pipeline.specs.train_settings(name)
    selection = wanted["selection"].items()
    wanted_selection = {key: value for key, value in selection if key not in trained}
    before = {key: noted.get("selection", {}).get(key) for key in wanted_selection}
    if noted.get("selection"):
        yield from differences(before, wanted_selection)
    yield from differences(noted.get("versions", {}), wanted["versions"])
    if published["hashes"]["code"] != pipeline.specs.training_code(name):
        parts = noted.get("code", {})
        changed = [
            path
            for path in sorted({*parts, *wanted["code"]})
            if parts.get(path) != wanted["code"].get(path)
        ]
        # Code that was or is trusted cannot be told file by file.
        listed = f": {', '.join(changed)}" if parts and wanted["code"] else ""
        yield f"training code changed{listed}"


def _parent_causes(pipeline: Pipeline, name: str, published: dict[str, Any]) -> Iterator[str]:
    parent = pipeline.config.parent(name)
    if parent is not None and published["recipe"].get("init_from") == parent:
        if published.get("noted", {}).get("init_from") != pipeline.key_on_disk(parent):
            yield f"{parent} changed"
    elif pipeline.config.recipes[name].init_from is not None and parent is None:
        yield f"files of {pipeline.config.recipes[name].init_from} may have changed"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def report(found: list[AdapterStatus]) -> str:
    """A line per adapter."""
    width = max(len(each.name) for each in found)
    return "\n".join(each.line(width) for each in found)
