"""A run of roll-outs: units of rollouts go through the chain, each message is kept as it is said.

    with Journal(path, identity) as journal:
        trajectories = roll_out(chain, engine, queries, rollouts, seed, journal)

Units are cut by the order of the queries and the engine's `unit` alone, and the agents of a unit
speak one after the other. What an engine says of one agent to a unit is kept together or not at all
where its rows are computed side by side (`together`), so that a resumed run puts the
same rows side by side and gets the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from adaptermill.judges.judge import Example
from adaptermill.judges.outcome import Outcome
from adaptermill.rollouts.chain import Agent, Chain
from adaptermill.rollouts.engine import Engine, Request, Said
from adaptermill.rollouts.journal import Journal, Place
from adaptermill.rollouts.queries import Query
from adaptermill.rollouts.seeds import agent_seed, rollout_seed


@dataclass(frozen=True)
class Ticket:
    """One rollout that is to be made."""

    query: Query
    rollout: int
    seed: int


def tickets(queries: Sequence[Query], rollouts: int, seed: int) -> list[Ticket]:
    """All rollouts, by query and number."""
    return [
        Ticket(query, number, rollout_seed(seed, query.query_id, number))
        for query in queries
        for number in range(rollouts)
    ]


def roll_out(
    chain: Chain,
    engine: Engine,
    queries: Sequence[Query],
    rollouts: int,
    seed: int,
    journal: Journal,
) -> Iterator[dict[str, Any]]:
    """Trajectories, by query and rollout; `engine` is prepared. See docs/trajectories.md.

    A rollout of which a message has a fault is given with `fault` and no messages.
    """
    every = tickets(queries, rollouts, seed)
    for start in range(0, len(every), engine.unit):
        unit = every[start : start + engine.unit]
        outputs = _speak(chain, engine, unit, journal)
        for ticket, said in zip(unit, outputs, strict=True):
            yield trajectory(chain, engine, ticket, said)


def _speak(
    chain: Chain, engine: Engine, unit: Sequence[Ticket], journal: Journal
) -> list[list[Said]]:
    """What all agents say in each rollout of the unit."""
    said: list[list[Said]] = [[] for _ in unit]
    for number, agent in enumerate(chain.agents):
        places = [(ticket.query.query_id, ticket.rollout, number) for ticket in unit]
        missing = [
            k
            for k, place in enumerate(places)
            if place not in journal.known and not any(one.fault for one in said[k])
        ]
        requests = [
            Request(
                chain.prompt(number, unit[k].query.query, [one.text for one in said[k]]),
                agent_seed(unit[k].seed, number),
            )
            for k in missing
        ]
        if requests:
            _ask(engine, agent, requests, [places[k] for k in missing], journal)
        for k, place in enumerate(places):
            if place in journal.known:
                said[k].append(journal.known[place])
    return said


def _ask(
    engine: Engine,
    agent: Agent,
    requests: Sequence[Request],
    places: Sequence[Place],
    journal: Journal,
) -> None:
    together: dict[Place, Said] = {}

    def keep(number: int, one: Said) -> None:
        if engine.together:
            together[places[number]] = one
        else:
            journal.add({places[number]: one})

    try:
        engine.speak(agent, requests, keep)
        if together:
            journal.add(together)
    finally:
        journal.flush()


def trajectory(
    chain: Chain, engine: Engine, ticket: Ticket, said: Sequence[Said]
) -> dict[str, Any]:
    """One line of a trajectories file, with the outcome judge's reward where it can say."""
    query = ticket.query
    head = {
        **query.as_dict(),
        "rollout": ticket.rollout,
        "seed": ticket.seed,
        "system": chain.system,
    }
    faults = [one.fault for one in said if one.fault]
    if faults:
        return {**head, "fault": faults[0]}
    outputs = [one.text for one in said]
    messages = []
    for number, (agent, one) in enumerate(zip(chain.agents, said, strict=True)):
        message = {
            "agent": number,
            "role": agent.role,
            "prompt": chain.prompt(number, query.query, outputs),
            "output": one.text,
            "seed": agent_seed(ticket.seed, number),
            "collected_with": engine.collected_with(agent),
        }
        if one.prefill:
            message["prefill"] = one.prefill
        if agent.decoding.thinking:
            message["thinking"] = True
        messages.append(message)
    with_ = list(dict.fromkeys(message["collected_with"] for message in messages))
    return {
        **head,
        "messages_by_agent": messages,
        "final_text": outputs[-1],
        "reward": reward(query, outputs[-1]),
        "collected_with": ",".join(with_),
    }


def reward(query: Query, final_text: str) -> float | None:
    """The outcome judge's; None where there is no gold answer or nothing to compare by."""
    example = Example(
        query.query_id, "", [], final_text, gold=query.gold, answer_type=query.answer_type
    )
    return Outcome(None).verdict(example).reward
