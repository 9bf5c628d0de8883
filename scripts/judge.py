"""Judges the examples that fit sets with this judge ask for; each content is judged once.

    judge.py --spec spec.json --rows results/splits/rows.parquet \\
        --measures results/base/measures.parquet --base results/base/base.json \\
        --data results/ingest/main --store results/.store/judged \\
        --hash-cache results/.work/judges/helpful --output results/judged/helpful.parquet \\
        --summary results/judged/helpful.json

Verdicts are kept in the store as they are made: start it again after an interruption and it goes
on. The key of an endpoint is read from the environment and never written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from adaptermill.atomic import replacing, write_if_changed, write_json
from adaptermill.digests import table_hash
from adaptermill.errors import run_command
from adaptermill.fitsets.lengths import with_lengths
from adaptermill.fitsets.select import candidates
from adaptermill.judges.build import Surroundings, build
from adaptermill.judges.identity import fingerprint
from adaptermill.judges.judge import Judge
from adaptermill.judges.replay import known_actions, row_examples
from adaptermill.judges.run import Judged, judge_all
from adaptermill.judges.store import Verdicts
from adaptermill.rows.dataset import open_sources, source_name
from adaptermill.rows.images import decode
from adaptermill.trajectories.judging import rollout_examples, wanted_messages
from adaptermill.trajectories.messages import read_messages


def wanted_rows(index: pd.DataFrame, measures: pd.DataFrame, adapters: dict[str, Any]) -> pd.Series:
    """True for the rows that reach the judge in the selection of one of the adapters."""
    wanted = pd.Series(False, index.index)
    # All of one base, so of one limit.
    limits = {settings["max_tokens"] for settings in adapters.values()}
    measured = {limit: with_lengths(index, measures, limit) for limit in limits}
    for settings in adapters.values():
        kept = candidates(measured[settings["max_tokens"]], settings).kept
        wanted |= index["row_id"].isin(kept["row_id"])
    return wanted


def wanted_of_rollouts(
    index: pd.DataFrame, data: list[Path], adapters: dict[str, Any]
) -> pd.DataFrame:
    """The messages that reach the judge in the selection of one of the adapters."""
    sources = {name for settings in adapters.values() for name in settings["recipe"]["sources"]}
    messages = read_messages([folder for folder in data if source_name(folder) in sources])
    found = [wanted_messages(index, messages, settings) for settings in adapters.values()]
    empty = pd.DataFrame(columns=["row_id", "rollout_id"])
    return pd.concat([empty, *found]).drop_duplicates("row_id")


def summary(settings: dict[str, Any], judged: Judged) -> dict[str, Any]:
    """What the verdicts are, without anything that only this run knows."""
    lines = judged.table().to_pylist()
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    return {
        "judge": settings["judge"],
        "kind": settings["kind"],
        "configured": settings["configured"],
        "fingerprint": judged.fingerprint,
        "examples": len(lines),
        "verdicts": judged.counts(),
        "without_reward": len(lines) - len(rewards),
        "mean_reward": round(sum(rewards) / len(rewards), 6) if rewards else None,
    }


def cost_line(judge: Judge, price: dict[str, float] | None, asked: int, seconds: float) -> str:
    """Time and, of an endpoint, tokens and money of this run."""
    text = f"{asked} judged in {seconds:.1f} s"
    usage = getattr(getattr(judge, "model", None), "usage", None)
    if usage is None:
        return text
    text += (
        f" ({asked / max(seconds, 1e-9):.1f} a second, {usage.repeated} requests sent again), "
        f"{usage.prompt_tokens} prompt and {usage.answer_tokens} answer tokens"
    )
    if price is None:
        return text
    cost = usage.prompt_tokens * price["input"] + usage.answer_tokens * price["output"]
    return f"{text}, about {cost / 1e6:.4f} in the currency of endpoint.price"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the judge (JSON)")
    parser.add_argument("--rows", type=Path, required=True, help="index of all rows (Parquet)")
    parser.add_argument("--measures", type=Path, required=True, help="token counts (Parquet)")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--endpoint", default="null", help="how requests travel (JSON)")
    parser.add_argument("--store", type=Path, required=True, help="verdicts, by fingerprint")
    parser.add_argument("--hash-cache", type=Path, required=True, help="a local model's hashes")
    parser.add_argument("--output", type=Path, required=True, help="the verdicts (Parquet)")
    parser.add_argument("--summary", type=Path, required=True, help="counts of verdicts (JSON)")
    parser.add_argument("--digest", type=Path, help="file that keeps the hash of the verdicts")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    endpoint = json.loads(arguments.endpoint) or {}

    index = pd.read_parquet(arguments.rows)
    adapters: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    for name, own in settings["adapters"].items():
        adapters[own["recipe"].get("trajectories") is not None][name] = own
    wanted = wanted_rows(index, pd.read_parquet(arguments.measures), adapters[False])
    messages = wanted_of_rollouts(index, arguments.data, adapters[True])
    rows, images = open_sources(arguments.data)
    around = Surroundings(
        base=arguments.base,
        image=lambda name: decode(images.bytes(name)),
        hash_cache=arguments.hash_cache,
        endpoint=endpoint,
    )
    judge, model = build(settings, around)
    identity = fingerprint(settings["configured"], model)
    actions = known_actions(index, settings["actions"])
    started = time.monotonic()
    print(
        f"{settings['judge']} ({settings['kind']}): {wanted.sum() + len(messages)} examples",
        flush=True,
    )
    with Verdicts(arguments.store, identity) as verdicts:
        before = len(verdicts.known)
        examples = chain(
            row_examples(index[wanted], rows, images, actions),
            rollout_examples(messages, rows, settings["kind"]),
        )
        try:
            judged = judge_all(judge, identity, examples, verdicts)
        finally:
            new = len(verdicts.known) - before
            seconds = time.monotonic() - started
            print(cost_line(judge, endpoint.get("price"), new, seconds), flush=True)
        table = judged.table().replace_schema_metadata(
            {"judge": settings["judge"], "configured": settings["configured"]}
        )
        with replacing(arguments.output) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        write_json(arguments.summary, summary(settings, judged))
        if arguments.digest:
            write_if_changed(arguments.digest, table_hash(table) + "\n")
        for verdict, count in judged.counts().items():
            print(f"  {count:>8}  {verdict}")


if __name__ == "__main__":
    sys.exit(run_command(main))
