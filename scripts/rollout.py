"""Rolls out a chain of agents on queries and writes trajectories, as a run's folder.

    python scripts/rollout.py --queries queries.jsonl --base bases/smollm2 \\
        --output data/rollouts/run1
    python scripts/rollout.py --queries queries.parquet --base-url http://localhost:8000/v1 \\
        --model Qwen/Qwen3.5-4B --adapter all=math-lora --output data/rollouts/run2

Writes rollouts.jsonl (which a source of `format: trajectories` reads), summary.json (counts) and
rollouts.journal (what was said already): killed and started again, the same command goes on and
pays only for what is missing. Role prompts are text files (docs/rollouts.md); `--write-prompts DIR`
writes the shipped ones there, to be edited.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from adaptermill.atomic import replacing, write_json, write_text
from adaptermill.errors import UserError, run_command
from adaptermill.rollouts.chain import ROLES, SYSTEMS, Chain, Decoding, build_chain
from adaptermill.rollouts.engine import Engine
from adaptermill.rollouts.journal import Journal
from adaptermill.rollouts.queries import Query, inside_window, read_queries
from adaptermill.rollouts.roles import shipped
from adaptermill.rollouts.run import roll_out
from adaptermill.rollouts.screen import in_band, prescreened
from adaptermill.rollouts.seeds import screening_seed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="folder of the run")
    parser.add_argument("--write-prompts", type=Path, metavar="DIR", help="only this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rollouts", type=int, default=4, help="of each query (default: 4)")

    asked = parser.add_argument_group("queries")
    asked.add_argument("--queries", type=Path, help=".jsonl, .parquet or a `datasets` folder")
    asked.add_argument("--split", help="of a folder with several")
    asked.add_argument("--windows", metavar="JSON", help='{"train": [0, 0.7], "n": 100, …}')
    asked.add_argument(
        "--window", choices=("train", "heldout", "evaluation"), default="train", help="which one"
    )
    asked.add_argument("--prescreen", type=int, nargs=2, metavar=("POOL", "N"))
    asked.add_argument("--pass-band", type=float, nargs=2, metavar=("LOW", "HIGH"))
    asked.add_argument("--band-rollouts", type=int, default=4, help="to find the pass rate by")
    asked.add_argument("--screen-tokens", type=int, default=64, help="of each screening message")

    chain = parser.add_argument_group("chain")
    chain.add_argument("--system", default="sequential", choices=SYSTEMS)
    chain.add_argument("--roles", default=",".join(ROLES), help=f"default: {','.join(ROLES)}")
    chain.add_argument("--prompt", action="append", default=[], metavar="ROLE=FILE")
    chain.add_argument("--adapter", action="append", default=[], metavar="ROLE|all=ADAPTER")
    chain.add_argument("--handed-on", type=int, help="characters of a message that others see")

    drawn = parser.add_argument_group("decoding")
    drawn.add_argument("--temperature", type=float, default=0.8)
    drawn.add_argument("--top-p", type=float, default=0.95)
    drawn.add_argument("--max-new-tokens", type=int, default=256)
    drawn.add_argument("--last-max-new-tokens", type=int, help="the last agent's own budget")
    drawn.add_argument("--thinking", action="store_true", help="ask the chat template for it")

    engine = parser.add_argument_group("engine: --base (here), or --base-url and --model")
    engine.add_argument("--base", help="folder of a model, hub id, or a resolved base (base.json)")
    engine.add_argument("--unit", type=int, default=32, help="rollouts side by side (default: 32)")
    engine.add_argument("--hash-cache", type=Path, help="where hashes of the base's files are kept")
    engine.add_argument("--base-url", help="for instance http://localhost:8000/v1")
    engine.add_argument("--model", help="the base's name at the endpoint")
    engine.add_argument("--key-variable", default="OPENAI_API_KEY", help="environment variable")
    engine.add_argument("--in-flight", type=int, default=8)
    engine.add_argument("--timeout", type=float, default=300.0, help="seconds")
    engine.add_argument("--attempts", type=int, default=6)
    return parser


def main(argv: list[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    if arguments.write_prompts is not None:
        _write_prompts(arguments.write_prompts)
        return
    if arguments.queries is None or arguments.output is None:
        raise UserError("give --queries and --output (see --help)")
    for name in ("rollouts", "unit", "band_rollouts", "in_flight", "attempts"):
        if getattr(arguments, name) < 1:
            raise UserError(f"--{name.replace('_', '-')} is 1 or more")
    # All that can be wrong is looked at before anything is generated.
    chain = _chain(arguments, arguments.max_new_tokens, arguments.last_max_new_tokens)
    few = _chain(arguments, arguments.screen_tokens, None)
    queries = read_queries(arguments.queries, arguments.split)
    counts: dict[str, Any] = {"queries": len(queries)}
    out: dict[str, str] = {}
    if arguments.windows:
        queries, out = _windowed(queries, arguments)
        counts["in_window"] = len(queries)
    engine = _engine(arguments)
    engine.prepare(chain.agents)
    for note in engine.notes:
        print(f"note: {note}", flush=True)

    started = time.monotonic()
    queries = _screened(arguments, few, engine, queries, counts, out)
    if not queries:
        raise UserError(f"no query is left to roll out: {json.dumps(counts)}")
    wanted = len(queries) * arguments.rollouts
    print(f"{wanted} rollouts of {len(queries)} queries, {len(chain.agents)} agents", flush=True)
    with _journal(arguments, "rollouts", chain, engine, arguments.seed) as journal:
        known = len(journal.known)
        found = roll_out(chain, engine, queries, arguments.rollouts, arguments.seed, journal)
        made = _write(arguments.output / "rollouts.jsonl", found)
        new = len(journal.known) - known
    counts |= {"taken": len(queries), **made}
    reasons: dict[str, int] = {}
    for reason in out.values():
        kind = "pass_band" if reason.startswith("pass rate") else reason
        reasons[kind] = reasons.get(kind, 0) + 1
    summary = {
        "counts": counts,
        "left_out": dict(sorted(reasons.items())),
        "left_out_queries": dict(sorted(out.items())),
        "query_ids": sorted(query.query_id for query in queries),
        "chain": chain.described(),
        "adapters": [engine.collected_with(agent) for agent in chain.agents],
        "engine": engine.identity(),
        "seed": arguments.seed,
        "notes": engine.notes,
    }
    write_json(arguments.output / "summary.json", summary)
    seconds = time.monotonic() - started
    print(f"{made['rollouts']} rollouts, {made['right']} right, {made['faults']} without an answer")
    print(f"{new} messages in {seconds:.1f} s, {known} were there already")


def _write_prompts(folder: Path) -> None:
    for name, text in shipped().items():
        if (folder / name).exists():
            raise UserError(f"{folder / name} is there already; name another folder")
        write_text(folder / name, text)
        print(folder / name)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if any(not sign or not value for _, sign, value in pairs):
        raise UserError(f"{option} is ROLE=…, for instance {option} judger=…")
    return {name: value for name, _, value in pairs}


def _chain(arguments: argparse.Namespace, tokens: int, last: int | None) -> Chain:
    roles = [role.strip() for role in arguments.roles.split(",") if role.strip()]
    decodings = [
        Decoding(
            arguments.temperature,
            arguments.top_p,
            last if last is not None and number == len(roles) - 1 else tokens,
            arguments.thinking,
        )
        for number in range(len(roles))
    ]
    prompts = {role: Path(path) for role, path in _pairs(arguments.prompt, "--prompt").items()}
    adapters = _pairs(arguments.adapter, "--adapter")
    return build_chain(arguments.system, roles, prompts, decodings, adapters, arguments.handed_on)


def _windowed(
    queries: list[Query], arguments: argparse.Namespace
) -> tuple[list[Query], dict[str, str]]:
    from pydantic import ValidationError

    from adaptermill.trajectories.settings import Windows

    try:
        windows = Windows.model_validate_json(arguments.windows)
    except ValidationError as error:
        raise UserError(f"--windows: {error.errors()[0]['msg']}") from None
    return inside_window(queries, windows.model_dump(), arguments.window)


def _engine(arguments: argparse.Namespace) -> Engine:
    if (arguments.base is None) == (arguments.base_url is None):
        raise UserError("give either --base (a model here) or --base-url (an endpoint)")
    if arguments.base_url is not None:
        if not arguments.model:
            raise UserError("--base-url needs --model, the base's name at the endpoint")
        from adaptermill.judges.endpoint import Access
        from adaptermill.rollouts.endpoint import EndpointEngine

        access = Access(arguments.base_url, os.environ.get(arguments.key_variable, "").strip())
        return EndpointEngine(
            access,
            arguments.model,
            arguments.in_flight,
            arguments.timeout,
            arguments.attempts,
            arguments.unit,
        )
    from adaptermill.models.base import BaseRef, resolve
    from adaptermill.rollouts.local import LocalEngine

    if arguments.base.endswith(".json"):
        return LocalEngine(BaseRef.read(arguments.base), arguments.unit)
    cache = arguments.hash_cache or arguments.output / "hashes.parquet"
    return LocalEngine(resolve(arguments.base, None, None, cache), arguments.unit)


def _journal(
    arguments: argparse.Namespace, name: str, chain: Chain, engine: Engine, seed: int
) -> Journal:
    identity = {
        "chain": chain.described(),
        "engine": engine.identity(),
        "adapters": [engine.collected_with(agent) for agent in chain.agents],
        "seed": seed,
    }
    return Journal(arguments.output / f"{name}.journal", identity)


def _screened(
    arguments: argparse.Namespace,
    chain: Chain,
    engine: Engine,
    queries: list[Query],
    counts: dict[str, Any],
    out: dict[str, str],
) -> list[Query]:
    """The queries that prescreen and pass band leave; adds to `counts` and `out`."""
    if not arguments.prescreen and not arguments.pass_band:
        return queries
    seed = screening_seed(arguments.seed)
    with _journal(arguments, "screening", chain, engine, seed) as journal:

        def roll(some: Sequence[Query], rollouts: int) -> Iterator[dict[str, Any]]:
            return roll_out(chain, engine, some, rollouts, seed, journal)

        if arguments.prescreen:
            pool, n = arguments.prescreen
            queries, counts["prescreen"], left = prescreened(queries, pool, n, arguments.seed, roll)
            out |= left
            print(f"prescreen: {json.dumps(counts['prescreen'])}", flush=True)
            if filled := counts["prescreen"]["filled"]:
                print(f"  {filled} queries that were right both times fill up", flush=True)
        if arguments.pass_band:
            queries, counts["pass_band"], left = in_band(
                queries, arguments.pass_band, arguments.band_rollouts, roll
            )
            out |= left
            print(f"pass band: {json.dumps(counts['pass_band'])}", flush=True)
    return queries


def _write(path: Path, found: Iterator[dict[str, Any]]) -> dict[str, int]:
    """Writes the trajectories; counts of rollouts, right ones, and those with a fault."""
    counts = {"rollouts": 0, "right": 0, "rewarded": 0, "faults": 0}
    with (
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        for line in found:
            if "fault" in line:
                counts["faults"] += 1
                print(f"  {line['query_id']}/{line['rollout']}: {line['fault']}", flush=True)
                continue
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            counts["rollouts"] += 1
            counts["rewarded"] += line["reward"] is not None
            counts["right"] += line["reward"] == 1.0
    return counts


if __name__ == "__main__":
    sys.exit(run_command(main))
