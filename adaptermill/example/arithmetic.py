"""Rollouts of four agents on questions of arithmetic: seeded, any number, some right, some wrong.

    line = draw_rollout(seed=0, query=7, rollout=2)     # one line of a trajectories file

A planner, a critic, a refiner and a judger speak one after the other; each sees the question and
what was said before. Queries differ in how often they are got right, good plans make right answers
likelier, a few refiners are cut while they think, and the judger now and then copies a wrong
number. The reward is whether the judger's number is the right one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

ROLES = ("planner", "critic", "refiner", "judger")
COLLECTED_WITH = "example"
_TASKS = {
    "planner": "Say in one sentence how to find the answer.",
    "critic": "Say in one sentence what is wrong with the plan, or that it is right.",
    "refiner": "Carry out the plan.",
    "judger": "Give the final answer.",
}
_GOOD_PLANS = {
    "+": ["Add the tens, then the units.", "Take the tens together, then add the units."],
    "-": ["Take away the tens, then the units.", "Subtract the tens first, then the units."],
    "*": ["Multiply tens and units apart, then add.", "Split the first number, multiply, add up."],
}
_POOR_PLANS = ["Guess a number that is near.", "Read the question again.", "Look at the digits."]
_AGREED = ["The plan is right.", "Yes, that works."]
_DOUBTED = ["That is no plan; work it out.", "I am not sure about this."]
_GIVEN = "<think>"
# First numbers and second numbers are 10 to 99; a step prime to 8100 mixes them.
_COUNT, _STEP = 90, 4567
# How often the rollouts of a query come out right, with a good plan.
_EASE = (0.15, 0.5, 0.7, 0.95)


def question(seed: int, query: int) -> tuple[str, str, int]:
    """(id, text, answer) of query number `query`; no two of one seed are the same."""
    number = (query * _STEP + seed) % _COUNT**2
    first, second = 10 + number % _COUNT, 10 + number // _COUNT
    sign = "+-*"[number % 3]
    answer = {"+": first + second, "-": first - second, "*": first * second}[sign]
    text, name = f"{first} {sign} {second}", {"+": "add", "-": "sub", "*": "mul"}[sign]
    # Beyond all pairs of numbers, a third one is added.
    third = query // _COUNT**2
    if third:
        return f"{name}-{first}-{second}-{third}", f"What is {text} + {third}?", answer + third
    return f"{name}-{first}-{second}", f"What is {text}?", answer


def draw_rollout(seed: int, query: int, rollout: int) -> dict[str, Any]:
    """One rollout, in the form that docs/trajectories.md describes."""
    query_id, text, answer = question(seed, query)
    ease = random.Random(f"{seed}/{query}").choice(_EASE)
    own = random.Random(f"{seed}/{query}/{rollout}")
    outputs, prefill = _speak(own, text, answer, ease)
    messages, said = [], []
    for agent, role in enumerate(ROLES):
        prompt = [
            {"role": "system", "content": f"You are the {role}. {_TASKS[role]}"},
            {"role": "user", "content": "\n".join([*said, text])},
        ]
        message = {"agent": agent, "role": role, "prompt": prompt, "output": outputs[agent]}
        if role == "refiner" and prefill:
            message["prefill"] = prefill
        messages.append(message)
        said.append(f"{role.capitalize()}: {outputs[agent]}")
    return {
        "query_id": query_id,
        "query": text,
        "gold": str(answer),
        "answer_type": "math",
        "rollout": rollout,
        "seed": own.getrandbits(31),
        "system": "sequential",
        "messages_by_agent": messages,
        "final_text": outputs[-1],
        "reward": float(outputs[-1] == _final(answer)),
        "collected_with": COLLECTED_WITH,
    }


def draw_rollouts(seed: int, queries: int, rollouts: int) -> Iterator[dict[str, Any]]:
    """All rollouts of the first `queries` queries, by query."""
    for query in range(queries):
        for rollout in range(rollouts):
            yield draw_rollout(seed, query, rollout)


def _speak(own: random.Random, text: str, answer: int, ease: float) -> tuple[list[str], str]:
    """What the four say, and what the refiner's output was begun with."""
    term = text.removeprefix("What is ").removesuffix("?")
    good = own.random() < 0.7
    plan = own.choice(_GOOD_PLANS[next(sign for sign in term if sign in "+-*")])
    plan = plan if good else own.choice(_POOR_PLANS)
    agreed = good == (own.random() < 0.85)
    critic = own.choice(_AGREED if agreed else _DOUBTED)
    right = own.random() < (ease if good else ease / 3)
    found = answer if right else answer + own.choice((-10, -2, -1, 1, 2, 10))
    work = f"I work out {term}: that makes {found}."
    manner = own.random()
    refiner, prefill = f"{term} = {found}", ""
    if manner < 0.5:
        refiner, prefill = f"{_GIVEN}{work}</think> {refiner}", _GIVEN if manner < 0.3 else ""
    elif manner < 0.6:  # cut while it thinks
        refiner = f"{_GIVEN}{work[: len(work) // 2]}"
        found = answer if own.random() < 0.2 else found + 1
    elif own.random() < 0.1:
        found += 3
    return [plan, critic, refiner, _final(found)], prefill


def _final(number: int) -> str:
    return f"The answer is {number}."
