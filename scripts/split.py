"""Decides which episodes are held out, indexes all rows, and reports leaks across the split.

    split.py --spec spec.json --data results/ingest/main --episodes episodes.parquet \\
        --rows rows.parquet --leaks leaks.json --report-copy leaks-copy.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill import moves
from adaptermill.atomic import replacing, write_if_changed, write_json
from adaptermill.digests import table_hash
from adaptermill.errors import UserError, run_command
from adaptermill.leaks import FATAL, leak_report, near_report, readable
from adaptermill.near_groups import near_groups
from adaptermill.rows.dataset import shard_paths
from adaptermill.rows.schema import digest
from adaptermill.signatures import Signed, sign_shards
from adaptermill.splits import rename, split_episodes

# Everything of a row but its text: what splits and selection look at.
COLUMNS = [
    *("row_id", "source", "task_id", "step", "family", "op", "variant", "sources", "macro", "site"),
    *("success", "trainable", "untrainable", "text_hash", "prompt_hash", "target_hash"),
    *("content_hash", "images"),
]
EPISODE_COLUMNS = [
    *("task_id", "source", "variant", "sources", "families", "rows", "side", "group"),
    "fraction_key",
]
_OF_EPISODE = ("task_id", "source", "variant", "sources")
# Values of `group_by` that name no key of the records.
_OWN_COLUMNS = ("source", "near_duplicates", "macro", "site")
VALUE = "group_value"
_SHOWN_KEYS = 30


def read_rows(paths: list[Path], group_by: str) -> pd.DataFrame:
    """The index of all rows of all shards, in a fixed order.

    Beside COLUMNS it has `screenshots`, the hash of a row's images, and under VALUE what a row has
    under the key that `group_by` names, where that is no column.
    """
    tables = [pq.read_table(path, columns=COLUMNS) for path in paths]
    rows = pa.concat_tables(tables).to_pandas()
    rows["sources"] = [tuple(sources) for sources in rows["sources"]]
    rows["screenshots"] = [digest(*images) for images in rows["images"]]
    rows["images"] = [len(images) for images in rows["images"]]
    if group_by not in _OWN_COLUMNS:
        rows[VALUE] = [value for path in paths for value in key_values(path, group_by)]
        if rows[VALUE].isna().all():
            there = Counter(name for path in paths for name in text_keys(path))
            shown = ", ".join(name for name, _ in there.most_common(_SHOWN_KEYS))
            raise UserError(
                f"split.group_by: no row or episode.json has a text or number under {group_by!r}. "
                f"There are {shown}; or write source, or near_duplicates"
            )
    return rows.sort_values(["source", "task_id", "step"], ignore_index=True)


def _records(path: Path) -> Iterable[list[Mapping[str, Any]]]:
    """Where each row's keys are: its record, its line (of chat formats), its episode."""
    table = pq.read_table(path, columns=["fields", "episode"]).to_pydict()
    for fields, episode in zip(table["fields"], table["episode"], strict=True):
        record = json.loads(fields)
        line = record.get("line")
        described = json.loads(episode) if episode is not None else {}
        yield [record, line if isinstance(line, dict) else {}, described]


def key_values(path: Path, name: str) -> list[str | None]:
    """What each row of a shard has under a key: text or a number, as text; else None."""
    return [
        next((str(place[name]) for place in places if _is_value(place.get(name))), None)
        for places in _records(path)
    ]


def text_keys(path: Path) -> Iterable[str]:
    for places in _records(path):
        yield from (name for place in places for name in place if _is_value(place[name]))


def _is_value(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""


def episodes_of(rows: pd.DataFrame) -> pd.DataFrame:
    """A line per episode of each source; `families`, `macro`, … list what its rows say."""
    columns = {"families": "family", "macro": "macro", "site": "site", VALUE: VALUE}
    listed = {name: column for name, column in columns.items() if column in rows}
    episodes: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.itertuples(index=False):
        episode = episodes.get((row.source, row.task_id))
        if episode is None:
            episode = {name: getattr(row, name) for name in _OF_EPISODE}
            episode |= {"rows": 0, **{name: set() for name in listed}}
            episodes[row.source, row.task_id] = episode
        episode["rows"] += 1
        for name, column in listed.items():
            if isinstance(value := getattr(row, column), str):
                episode[name].add(value)
    lines = [episodes[name] for name in sorted(episodes)]
    for line in lines:
        line |= {name: sorted(line[name]) for name in listed}
    return pd.DataFrame(lines)


def group_near(
    episodes: pd.DataFrame, rows: pd.DataFrame, signed: Signed, threshold: float
) -> list[list[str]]:
    """The groups of near-duplicate episodes; an episode says what its trainable rows say."""
    counted = rows["trainable"] | ~rows.groupby(["source", "task_id"])["trainable"].transform("any")
    chosen = rows[counted]
    signatures = signed.of(list(chosen["row_id"])).whole
    # The rows of an episode lie together, and episodes have the order of the rows.
    starts = np.flatnonzero(~chosen.duplicated(["source", "task_id"]).to_numpy())
    of_episode = np.minimum.reduceat(signatures, starts)
    contents = chosen.groupby(["source", "task_id"], sort=False)["content_hash"].agg(list)
    return near_groups(list(episodes["sources"]), of_episode, list(contents), threshold)


def deciding(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide an episode's side."""
    names = ["validation_fraction", "test_fraction", "group_by", "mixed_chains"]
    if settings["group_by"] == "near_duplicates":
        names.append("near_duplicates")
    return {name: settings[name] for name in names}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the split (JSON)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--episodes", type=Path, required=True, help="a line per episode (Parquet)")
    parser.add_argument("--rows", type=Path, required=True, help="index of all rows (Parquet)")
    parser.add_argument("--leaks", type=Path, required=True, help="leak report (JSON)")
    parser.add_argument("--report-copy", type=Path, help="a copy of it that a failure leaves")
    parser.add_argument("--digest", type=Path, help="file that keeps the hash of the row index")
    parser.add_argument("--signatures", type=Path, help="folder of rows' signatures, by shard")
    parser.add_argument("--sides", type=Path, help="the sides of the last build, to list moves")
    parser.add_argument("--moves", type=Path, help="old episodes that changed sides (JSON)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that sign rows")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    near, group_by = settings["near_duplicates"], settings["group_by"]

    paths = [path for folder in arguments.data for path in shard_paths(folder, "shards")]
    if not any(pq.read_metadata(path).num_rows for path in paths):
        given = ", ".join(map(str, arguments.data))
        raise UserError(
            f"no row came in from {given}; quarantine.parquet there says why lines were refused"
        )
    rows = read_rows(paths, group_by)
    rows["family"] = rename(rows["family"], settings["families"])
    episodes = episodes_of(rows)
    signed = None
    if near["report"] or group_by == "near_duplicates":
        signed = sign_shards(
            paths,
            ngram=near["ngram"],
            permutations=near["permutations"],
            cache=arguments.signatures,
            processes=arguments.jobs,
        )
    groups = None
    if group_by == "near_duplicates":
        groups = group_near(episodes, rows, signed, near["threshold"])
    column = group_by if group_by in _OWN_COLUMNS else VALUE
    episodes, without_group = split_episodes(episodes, {**settings, "group_by": column}, groups)
    sided = episodes[["source", "task_id", "side", "group", "fraction_key"]]
    rows = rows.merge(sided, on=["source", "task_id"], how="left", validate="many_to_one")

    report = leak_report(rows)
    if near["report"]:
        said = {name: near[name] for name in ("threshold", "ngram", "permutations")}
        compared = near_report(rows, signed, near["threshold"])
        report["near_duplicates"] = {**said, "compared": compared}
    counts = episodes["side"].value_counts()
    print(", ".join(f"{counts.get(side, 0)} {side}" for side in sorted(counts.index)), "episodes")
    if without_group:
        print(f"{without_group} sources have no {group_by}; each is its own group")
    if groups is not None:
        print(f"{len({name for own in groups for name in own})} groups of near-duplicate episodes")
    print(readable(report))
    decided = json.dumps(deciding(settings), sort_keys=True)
    moved = moves.moves(arguments.sides, episodes, decided) if arguments.sides else []
    if moved:
        print(moves.readable(moved))
    if arguments.moves:
        write_json(arguments.moves, moved)
    if arguments.report_copy:
        write_json(arguments.report_copy, report)
    twins = report["duplicates"][FATAL]
    if twins["heldout_rows"] and not settings["allow_leaks"]:
        pairs = "\n".join(f"  {e['heldout']} = {e['train']}" for e in twins["examples"])
        where = f" (all in {arguments.report_copy})" if arguments.report_copy else ""
        raise UserError(
            f"{twins['heldout_rows']} held-out rows stand word for word, with the same screenshot "
            f"and answer, among the training rows{where}:\n{pairs}\nNumbers on such rows say "
            "nothing. Group what belongs together (split.group_by: near_duplicates, macro or site)"
            ", remove the copies, or accept them with split.allow_leaks: true."
        )
    with replacing(arguments.episodes) as temporary:
        episodes[EPISODE_COLUMNS].to_parquet(temporary, index=False)
    written = rows.drop(columns=[VALUE, "sources"], errors="ignore")
    with replacing(arguments.rows) as temporary:
        written.assign(sources=rows["sources"].map(list)).to_parquet(temporary, index=False)
    write_json(arguments.leaks, report)
    if arguments.digest:
        write_if_changed(arguments.digest, table_hash(pq.read_table(arguments.rows)) + "\n")
    if arguments.sides:
        moves.remember(arguments.sides, episodes, decided)


if __name__ == "__main__":
    sys.exit(run_command(main))
