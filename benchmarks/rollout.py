"""Tokens a second of roll-outs beside a plain `generate` loop, one rollout at a time.

    python benchmarks/rollout.py --base bases/smollm2
    python benchmarks/rollout.py --base bases/smollm2 --queries 4 --rollouts 8 --tokens 48

Both roll out the same chain on the same questions with the same settings of sampling: ours by
LocalEngine, the plain one by one `model.generate` call a message. End tokens are off for both, so
that both generate the same number of tokens; prompts count in the time, not in the tokens. The two
run by turns, and the ratio is that of their fastest turns.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig

from adaptermill.example.arithmetic import question
from adaptermill.models.base import resolve
from adaptermill.models.encode import Encoder
from adaptermill.rollouts.chain import ROLES, Chain, Decoding, build_chain
from adaptermill.rollouts.journal import Journal
from adaptermill.rollouts.local import LocalEngine
from adaptermill.rollouts.queries import Query
from adaptermill.rollouts.run import roll_out, tickets


def plain(model: Any, encoder: Encoder, chain: Chain, queries: Sequence[Query], k: int) -> int:
    """Generates every message by itself; how many tokens."""
    total = 0
    for ticket in tickets(queries, k, 0):
        outputs: list[str] = []
        for number, agent in enumerate(chain.agents):
            prompt = chain.prompt(number, ticket.query.query, outputs)
            ids = encoder.encode(prompt, None, []).input_ids[None].to(model.device)
            settings = GenerationConfig(
                do_sample=True,
                temperature=agent.decoding.temperature,
                top_p=agent.decoding.top_p,
                top_k=0,
                max_new_tokens=agent.decoding.max_new_tokens,
                pad_token_id=encoder.end_of_turn_id,
            )
            own, model.generation_config = model.generation_config, settings
            with torch.inference_mode():
                made = model.generate(
                    input_ids=ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=settings,
                )
            model.generation_config = own
            said = made[0, ids.shape[1] :]
            total += len(said)
            outputs.append(encoder.tokenizer.decode(said, skip_special_tokens=True))
    return total


def ours(engine: LocalEngine, chain: Chain, queries: Sequence[Query], k: int) -> int:
    """Generates the same rollouts through the package; how many tokens."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(Path(folder) / "journal", {"benchmark": True}) as journal,
    ):
        for _ in roll_out(chain, engine, queries, k, 0, journal):
            pass
        return sum(one.tokens or 0 for one in journal.known.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", required=True, help="folder of a model, or hub id")
    parser.add_argument("--queries", type=int, default=2, help="default: 2")
    parser.add_argument("--rollouts", type=int, default=8, help="of each query (default: 8)")
    parser.add_argument("--tokens", type=int, default=24, help="of each message (default: 24)")
    parser.add_argument("--unit", type=int, default=32, help="rollouts side by side")
    parser.add_argument("--repeat", type=int, default=2, help="turns of each (default: 2)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the figures here, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    queries = []
    for number in range(arguments.queries):
        name, text, answer = question(0, number)
        queries.append(Query(name, text, str(answer), "math"))
    decodings = [Decoding(0.8, 0.95, arguments.tokens)] * len(ROLES)
    chain = build_chain("sequential", ROLES, {}, decodings, {}, None)
    with tempfile.TemporaryDirectory() as folder:
        engine = LocalEngine(
            resolve(arguments.base, None, None, Path(folder) / "hashes.parquet"), arguments.unit
        )
        engine.prepare(chain.agents)
    engine.run_to_the_limit()
    encoder = next(iter(engine.encoders.values()))
    ways = {
        "plain": lambda some: plain(engine.model, encoder, chain, some, arguments.rollouts),
        "ours": lambda some: ours(engine, chain, some, arguments.rollouts),
    }
    fastest: dict[str, float] = {}
    for _ in range(arguments.repeat):
        for name, way in ways.items():
            started = time.perf_counter()
            tokens = way(queries)
            rate = tokens / (time.perf_counter() - started)
            fastest[name] = max(rate, fastest.get(name, 0.0))
            print(f"{name:>6}: {tokens} tokens, {rate:.1f} a second", flush=True)
    ratio = fastest["ours"] / fastest["plain"]
    print(f"ratio: {ratio:.2f} (load {os.getloadavg()[0]:.1f}, {arguments.threads} threads)")
    if arguments.output:
        figures = {**{f"{n}_tokens_per_second": r for n, r in fastest.items()}, "ratio": ratio}
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
