"""Puts the measured shards together and says how long the prompts are.

merge_measures.py --inputs shard.parquet … --output measures.parquet --summary measures.json
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_json
from adaptermill.errors import run_command
from adaptermill.measurements import common_prefix, prefix_of


def summarize(shards: Sequence[pa.Table]) -> dict[str, Any]:
    """Prompt lengths per source in tokens (median, 95th percentile, maximum), and refusals.

    `common_prefix` is how many tokens all prompts of the source begin with;
    `without_action_key` counts the answers whose action mask is all true.
    """
    lengths: dict[str, list[int]] = {}
    prefixes: dict[str, list[list[int]]] = {}
    refused: Counter[str] = Counter()
    without_key = 0
    for shard in shards:
        columns = shard.select(["row_id", "prompt_tokens", "reason", "has_action_key"]).to_pydict()
        for row_id, tokens, reason, has_key in zip(*columns.values(), strict=True):
            if reason is None:
                lengths.setdefault(row_id.split("/", 1)[0], []).append(tokens)
                without_key += not has_key
            else:
                refused[reason] += 1
        prefix = prefix_of(shard)
        if prefix is not None:
            prefixes.setdefault(columns["row_id"][0].split("/", 1)[0], []).append(prefix)
    sources = {
        source: {
            "rows": len(found),
            "median": int(statistics.median(found)),
            "p95": sorted(found)[int(0.95 * (len(found) - 1))],
            "max": max(found),
            "common_prefix": len(common_prefix(prefixes[source])),
        }
        for source, found in sorted(lengths.items())
    }
    return {
        "prompt_tokens": sources,
        "without_action_key": without_key,
        "reasons": dict(sorted(refused.items())),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=Path, nargs="+", required=True, help="measured shards")
    parser.add_argument("--output", type=Path, required=True, help="all of them (Parquet)")
    parser.add_argument("--summary", type=Path, required=True, help="lengths and reasons (JSON)")
    arguments = parser.parse_args(argv)
    shards = [pq.read_table(path) for path in arguments.inputs]
    merged = pa.concat_tables([shard.replace_schema_metadata(None) for shard in shards])
    with replacing(arguments.output) as temporary:
        pq.write_table(merged.sort_by("row_id"), temporary, compression="zstd")
    summary = summarize(shards)
    write_json(arguments.summary, summary)
    for source, found in summary["prompt_tokens"].items():
        print(
            f"{source}: {found['rows']} prompts, median {found['median']} tokens, "
            f"95 % up to {found['p95']}, longest {found['max']}; all begin with the same "
            f"{found['common_prefix']}"
        )
    if summary["without_action_key"]:
        print(f'{summary["without_action_key"]} answers have no "action" key')
    for reason, count in summary["reasons"].items():
        print(f"{count} rows cannot be trained on: {reason}")


if __name__ == "__main__":
    sys.exit(run_command(main))
