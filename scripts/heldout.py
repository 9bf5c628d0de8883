"""Lists the held-out rows that every adapter and the base are evaluated on.

    heldout.py --spec spec.json --rows rows.parquet --measures measures.parquet \\
        --output heldout.parquet --summary heldout.json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from adaptermill.atomic import replacing, write_json
from adaptermill.errors import run_command
from adaptermill.fitsets.composition import lines_hash
from adaptermill.fitsets.lengths import COUNTS, with_lengths

COLUMNS = [
    *("row_id", "task_id", "family", "step", "op", "variant", "side"),
    *("prompt_tokens", "target_tokens", "image_tokens", "content_hash"),
]
# What an evaluation is made of or repeats.
DIGESTED = ["row_id", "content_hash", "family", "op", "variant"]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="which sides, longest row (JSON)")
    parser.add_argument("--rows", type=Path, required=True, help="index of all rows (Parquet)")
    parser.add_argument("--measures", type=Path, required=True, help="token counts (Parquet)")
    parser.add_argument("--output", type=Path, required=True, help="the held-out rows (Parquet)")
    parser.add_argument("--summary", type=Path, required=True, help="counts and digest (JSON)")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]

    rows = pd.read_parquet(arguments.rows)
    rows = rows[rows["side"].isin(settings["sides"]) & rows["trainable"]]
    rows = rows.assign(episode=rows["source"] + "/" + rows["task_id"])
    rows = with_lengths(rows, pd.read_parquet(arguments.measures), settings["max_tokens"])
    heldout = rows[rows["unfit"].isna()].sort_values("row_id", ignore_index=True)
    heldout = heldout.astype(dict.fromkeys(COUNTS, "int32"))
    families = heldout.groupby("family", sort=True).agg(
        rows=("row_id", "size"), episodes=("episode", "nunique")
    )
    # With one side there is nothing to mix up.
    digested = DIGESTED if len(settings["sides"]) == 1 else [*DIGESTED, "side"]
    summary = {
        "sides": heldout["side"].value_counts().sort_index().to_dict(),
        "digest": lines_hash(heldout[digested].itertuples(index=False)),
        "rows": len(heldout),
        "episodes": int(heldout["episode"].nunique()),
        "families": {
            str(family): {"rows": int(size), "episodes": int(episodes)}
            for family, size, episodes in families.itertuples()
        },
        "left_out": {
            str(reason): int(count)
            for reason, count in rows["unfit"].value_counts().sort_index().items()
        },
    }
    with replacing(arguments.output) as temporary:
        heldout[COLUMNS].to_parquet(temporary, index=False)
    write_json(arguments.summary, summary)
    print(f"{summary['rows']} held-out rows of {summary['episodes']} episodes")
    for family, counts in summary["families"].items():
        print(f"  {counts['rows']:>8} rows, {counts['episodes']:>5} episodes  {family}")
    if not summary["rows"]:
        print("nothing is held out: the tables will be empty (split.validation_fraction)")


if __name__ == "__main__":
    sys.exit(run_command(main))
