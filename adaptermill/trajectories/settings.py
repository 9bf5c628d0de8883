"""How examples are made of a multi-agent system's messages: the section `trajectories` of a recipe.

These models are only read by the configuration; the code that makes examples gets plain JSON.
"""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from adaptermill.sources import Count, Float, Int, Section

Share = Annotated[Float, Field(ge=0, le=1)]
Interval = tuple[Share, Share]


class Message(Section):
    """One chat message of a deployment prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


Prompt = Annotated[list[Message], Field(min_length=1)]


class Cap(Section):
    """At most `cap` examples of a seat share one key."""

    key: Literal["target", "prompt+target", "prompt+target+images"] = "target"
    cap: Count = 3


class Prescreen(Section):
    """Which queries are worth training on, by two rollouts of each."""

    pool: Count = Field(description="candidate queries that are looked at")
    n: Count = Field(description="queries that are taken")


class Windows(Section):
    """Intervals of a seeded hash of the query's id, from 0 to 1."""

    train: Interval
    heldout: Interval | None = None
    evaluation: Interval | None = None
    n: Count | None = Field(None, description="at most so many training queries: lowest hashes")
    seed: Annotated[Int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _disjoint(self) -> Windows:
        given = {
            name: interval
            for name in ("train", "heldout", "evaluation")
            if (interval := getattr(self, name)) is not None
        }
        for name, (low, high) in given.items():
            if low >= high:
                raise ValueError(f"{name} is [{low:g}, {high:g}]; its first number is the smaller")
        for (one, (low, high)), (other, (begin, end)) in itertools.combinations(given.items(), 2):
            if low < end and begin < high:
                raise ValueError(
                    f"{one} [{low:g}, {high:g}] and {other} [{begin:g}, {end:g}] overlap: the same "
                    "queries would be on both sides"
                )
        return self


class Trajectories(Section):
    """Which messages of which queries become examples, and how."""

    examples: Literal["sft", "rsft", "dpo"] = Field(
        "sft", description="every message, those of rollouts with reward >= tau, or pairs"
    )
    tau: Share = Field(1.0, description="the reward from which on a rollout counts as right")
    credit: Literal["shared"] = Field(
        "shared", description="every message of a rollout gets the rollout's reward"
    )
    adapt_roles: Literal["all", "nonsink", "middle"] = Field(
        "all", description="nonsink: all seats but the last; middle: neither first nor last"
    )
    seats: Annotated[list[Annotated[Int, Field(ge=0)]], Field(min_length=1)] | None = Field(
        None, description="of the adapted seats, only these (numbers of agents)"
    )
    max_pairs: Count = Field(4, description="dpo: at most so many pairs per query and seat")
    pair_prompt: Literal["chosen", "same_only"] = Field(
        "chosen",
        description="dpo: both answers under the chosen one's prompt, or only pairs of one prompt",
    )
    pass_band: Interval | None = Field(
        None, description="keep queries whose pass rate lies strictly inside"
    )
    prescreen: Prescreen | None = None
    windows: Windows | None = None
    fit_prompt: Prompt | dict[str, Prompt] | None = Field(
        None, description="a prompt to fit the outputs under, or one for each role"
    )
    drop_unclosed_think: bool = True
    target_span: Literal["full", "visible"] = Field(
        "full", description="visible: only the text after </think> is supervised"
    )
    max_prompt_tokens: Count = 8192
    max_target_tokens: Count = 4096
    dedup: Cap = Cap()

    @field_validator("seats")
    @classmethod
    def _sorted_seats(cls, value: list[int] | None) -> list[int] | None:
        return None if value is None else sorted(set(value))

    @field_validator("pass_band")
    @classmethod
    def _band(cls, value: Interval | None) -> Interval | None:
        if value is not None and value[0] >= value[1]:
            raise ValueError("nothing lies strictly inside; the first number is the smaller")
        return value

    @field_validator("fit_prompt")
    @classmethod
    def _roles(cls, value: object) -> object:
        if isinstance(value, dict) and not value:
            raise ValueError("name a role, or leave it null")
        return value
