"""Puts the measured shards together and says how long the prompts are.

    merge_measures.py --spec spec.json --inputs shard.parquet … --output measures.parquet \\
        --summary measures.json --quarantine measures_quarantine.parquet
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_if_changed, write_json
from adaptermill.digests import table_hash
from adaptermill.errors import run_command
from adaptermill.measurements import common_prefix, prefix_of, refused


def summarize(shards: Sequence[pa.Table], reasons: Sequence[str]) -> dict[str, Any]:
    """Prompt lengths per source in tokens (median, 95th percentile, maximum), and refusals.

    `common_prefix` is how many tokens all prompts of the source begin with, and
    `common_prefix_share` their share of all prompt tokens; `without_action_key` counts the answers
    whose action mask is all true, `reasons` those of the refused rows.
    """
    lengths: dict[str, list[int]] = {}
    prefixes: dict[str, list[list[int]]] = {}
    without_key = 0
    for shard in shards:
        columns = shard.select(["row_id", "prompt_tokens", "reason", "has_action_key"]).to_pydict()
        for row_id, tokens, reason, has_key in zip(*columns.values(), strict=True):
            if reason is None:
                lengths.setdefault(row_id.split("/", 1)[0], []).append(tokens)
                without_key += not has_key
        prefix = prefix_of(shard)
        if prefix is not None:
            prefixes.setdefault(columns["row_id"][0].split("/", 1)[0], []).append(prefix)
    sources = {}
    for source, found in sorted(lengths.items()):
        prefix = len(common_prefix(prefixes[source]))
        sources[source] = {
            "rows": len(found),
            "median": int(statistics.median(found)),
            "p95": sorted(found)[int(0.95 * (len(found) - 1))],
            "max": max(found),
            "common_prefix": prefix,
            "common_prefix_share": round(prefix * len(found) / sum(found), 4),
        }
    return {
        "prompt_tokens": sources,
        "without_action_key": without_key,
        "reasons": dict(sorted(Counter(reasons).items())),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings: max_tokens (JSON)")
    parser.add_argument("--inputs", type=Path, nargs="+", required=True, help="measured shards")
    parser.add_argument("--output", type=Path, required=True, help="all of them (Parquet)")
    parser.add_argument("--summary", type=Path, required=True, help="lengths and reasons (JSON)")
    parser.add_argument(
        "--quarantine", type=Path, required=True, help="rows that cannot be trained on (Parquet)"
    )
    parser.add_argument("--digest", type=Path, help="file that keeps the hash of the counts")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    shards = [pq.read_table(path) for path in arguments.inputs]
    merged = pa.concat_tables([shard.replace_schema_metadata(None) for shard in shards])
    merged = merged.sort_by("row_id")
    unfit = refused(merged, settings["max_tokens"])
    for path, table in ((arguments.output, merged), (arguments.quarantine, unfit)):
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    summary = summarize(shards, unfit["reason"].to_pylist())
    write_json(arguments.summary, summary)
    if arguments.digest:
        write_if_changed(arguments.digest, table_hash(merged) + "\n")
    for source, found in summary["prompt_tokens"].items():
        print(
            f"{source}: {found['rows']} prompts, median {found['median']} tokens, "
            f"95 % up to {found['p95']}, longest {found['max']}; all begin with the same "
            f"{found['common_prefix']}, which are {found['common_prefix_share']:.0%} of all tokens"
        )
    if summary["without_action_key"]:
        print(f'{summary["without_action_key"]} answers have no "action" key')
    for reason, count in summary["reasons"].items():
        print(f"{count} rows cannot be trained on: {reason} (see {arguments.quarantine})")


if __name__ == "__main__":
    sys.exit(run_command(main))
