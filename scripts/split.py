"""Decides which episodes are held out, indexes all rows, and reports leaks across the split.

    split.py --spec spec.json --data results/ingest/main --episodes episodes.parquet \\
        --rows rows.parquet --leaks leaks.json --report-copy leaks-copy.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_if_changed, write_json
from adaptermill.digests import table_hash
from adaptermill.errors import UserError, run_command
from adaptermill.leaks import FATAL, leak_report, readable
from adaptermill.rows.dataset import shard_paths
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


def read_rows(folders: list[Path]) -> pd.DataFrame:
    """The index of all rows of all sources, in a fixed order."""
    paths = [path for folder in folders for path in shard_paths(folder, "shards")]
    tables = [pq.read_table(path, columns=COLUMNS) for path in paths]
    if not any(table.num_rows for table in tables):
        given = ", ".join(map(str, folders))
        raise UserError(
            f"no row came in from {given}; quarantine.parquet there says why lines were refused"
        )
    rows = pa.concat_tables(tables).to_pandas()
    rows["sources"] = [tuple(sources) for sources in rows["sources"]]
    rows["images"] = [len(images) for images in rows["images"]]
    return rows.sort_values(["source", "task_id", "step"], ignore_index=True)


def episodes_of(rows: pd.DataFrame) -> pd.DataFrame:
    """A line per episode of each source; `macro`, `site` and `families` list what its rows say."""
    episodes: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows.itertuples(index=False):
        episode = episodes.get((row.source, row.task_id))
        if episode is None:
            episode = {name: getattr(row, name) for name in _OF_EPISODE}
            episode |= {"rows": 0, "families": set(), "macro": set(), "site": set()}
            episodes[row.source, row.task_id] = episode
        episode["rows"] += 1
        for name, value in (("families", row.family), ("macro", row.macro), ("site", row.site)):
            if isinstance(value, str):
                episode[name].add(value)
    lines = [episodes[name] for name in sorted(episodes)]
    for line in lines:
        line |= {name: sorted(line[name]) for name in ("families", "macro", "site")}
    return pd.DataFrame(lines)


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
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]

    rows = read_rows(arguments.data)
    rows["family"] = rename(rows["family"], settings["families"])
    episodes, without_group = split_episodes(episodes_of(rows), settings)
    sided = episodes[["source", "task_id", "side", "group", "fraction_key"]]
    rows = rows.merge(sided, on=["source", "task_id"], how="left", validate="many_to_one")

    report = leak_report(rows)
    counts = episodes["side"].value_counts()
    print(", ".join(f"{counts.get(side, 0)} {side}" for side in sorted(counts.index)), "episodes")
    if without_group:
        print(f"{without_group} sources have no {settings['group_by']}; each is its own group")
    print(readable(report))
    if arguments.report_copy:
        write_json(arguments.report_copy, report)
    twins = report["duplicates"][FATAL]
    if twins["heldout_rows"] and not settings["allow_leaks"]:
        pairs = "\n".join(f"  {e['heldout']} = {e['train']}" for e in twins["examples"])
        where = f" (all in {arguments.report_copy})" if arguments.report_copy else ""
        raise UserError(
            f"{twins['heldout_rows']} held-out rows stand word for word, with the same screenshot "
            f"and answer, among the training rows{where}:\n{pairs}\nNumbers on such rows say "
            "nothing. Group what belongs together (split.group_by: macro or site), remove the "
            "copies, or accept them with split.allow_leaks: true."
        )
    with replacing(arguments.episodes) as temporary:
        episodes[EPISODE_COLUMNS].to_parquet(temporary, index=False)
    with replacing(arguments.rows) as temporary:
        rows.drop(columns=["sources"]).assign(sources=rows["sources"].map(list)).to_parquet(
            temporary, index=False
        )
    write_json(arguments.leaks, report)
    if arguments.digest:
        write_if_changed(arguments.digest, table_hash(pq.read_table(arguments.rows)) + "\n")


if __name__ == "__main__":
    sys.exit(run_command(main))
