"""Tables of messages made for a test, and whole projects of rollouts on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from hypothesis import strategies as st

from adaptermill.config import load
from adaptermill.measurements import MEASURE_SCHEMA
from adaptermill.message_stages import MessageStages
from adaptermill.rows.dataset import open_sources
from adaptermill.specs import NOT_FOR_SELECTION
from scripts import convert_fitset, message_fitset, split
from tests.rows.building import Ingested, json_lines
from tests.trajectories.reference import Message

REWARDS = [0.0, 0.25, 1.0]
TARGETS = ["yes", " yes\n", "no", "e\u0301", "\u00e9", "<think>a</think> yes", "<think>b</think>no"]


@st.composite
def some_messages(draw: st.DrawFn, unrewarded: bool = False) -> list[Message]:
    """Messages of a few queries and seats; rewards, texts and prompts often coincide."""
    count = draw(st.integers(1, 14))
    rewards = st.sampled_from([*REWARDS, None] if unrewarded else REWARDS)
    return [
        {
            "row_id": f"r{number}",
            "query_id": draw(st.sampled_from(["a", "b"])),
            "seat": draw(st.integers(0, 1)),
            "reward": draw(rewards),
            "target": (target := draw(st.sampled_from(TARGETS))),
            "prompt": (prompt := draw(st.sampled_from(["p", "q"]))),
            "content": f"{prompt} {target}",
        }
        for number in range(count)
    ]


def as_table(messages: Sequence[Message]) -> pd.DataFrame:
    """The messages as the code takes them."""
    frame = pd.DataFrame(
        {
            **{name: [m[name] for m in messages] for name in ("row_id", "query_id", "target")},
            "seat": [message["seat"] for message in messages],
            "reward": pd.Series([message["reward"] for message in messages], dtype="float64"),
            "query": "?",
            "system": "",
            "prompt_hash": [message["prompt"] for message in messages],
            "text_hash": [message["prompt"] for message in messages],
            "content_hash": [message["content"] for message in messages],
        }
    )
    advantage = [message.get("advantage") for message in messages]
    return frame.assign(advantage=pd.Series(advantage, dtype="float64"))


class Project:
    """Rollouts that are ingested, split and made into fit sets by the real scripts.

    Token counts are made up: one for each word of prompt and target, unless `tokens` says other.
    """

    def __init__(self, folder: Path, *rollouts: dict[str, Any], validation: float = 0.0) -> None:
        self.folder = folder
        run = folder / "raw" / "run"
        run.mkdir(parents=True)
        (run / "rollouts.jsonl").write_bytes(json_lines(*rollouts))
        self.take(folder / "raw", validation)

    def take(self, raw: Path, validation: float) -> None:
        """Ingests and splits what lies under `raw`."""
        self.ingested = Ingested(self.folder / "out", raw, reader={"format": "trajectories"})
        self.data = self.ingested.folder
        settings = {
            **{"validation_fraction": validation, "test_fraction": 0.0, "group_by": "source"},
            **{"mixed_chains": "exclude", "allow_leaks": True, "families": {}},
            "near_duplicates": {"threshold": 1, "ngram": 5, "permutations": 16, "report": False},
        }
        outputs = {name: self.folder / f"{name}.parquet" for name in ("episodes", "rows")}
        self.script(
            split,
            *("--spec", self.spec(settings), "--data", self.data),
            *("--episodes", outputs["episodes"], "--rows", outputs["rows"]),
            *("--leaks", self.folder / "leaks.json"),
        )
        self.measure()

    def measure(self, **tokens: tuple[int, int]) -> None:
        """Writes token counts; `tokens` maps words of targets to (prompt, target) counts."""
        rows, _ = open_sources([self.data])
        index = pd.read_parquet(self.folder / "rows.parquet")
        lines = []
        for row_id in index["row_id"]:
            row = rows.get(row_id)
            counts = (len(row.messages_json.split()), 1 + len(row.target.split()))
            for word, given in tokens.items():
                if word in row.target:
                    counts = given
            names = ("prompt_tokens", "target_tokens", "image_tokens")
            lines.append({"row_id": row_id, **dict(zip(names, (*counts, 0), strict=True))})
        empty = dict.fromkeys(("has_action_key", "reason", "detail"))
        table = pd.DataFrame(lines).assign(**empty)
        table[MEASURE_SCHEMA.names].to_parquet(self.folder / "measures.parquet")

    def fitset(self, *, view: Path | None = None, **settings: Any) -> dict[str, Any]:
        """Makes a fit set; returns its composition. Settings of the recipe go under `recipe`."""
        viewed = () if view is None else ("--view", view)
        return self.make(fitset_settings(**settings), *viewed)

    def make(self, settings: dict[str, Any], *arguments: object) -> dict[str, Any]:
        """Makes the fit set with exactly these settings; returns its composition."""
        self.script(
            message_fitset,
            *("--spec", self.spec(settings), "--data", self.data),
            *("--rows", self.folder / "rows.parquet"),
            *("--measures", self.folder / "measures.parquet", *arguments),
            *("--output-folder", self.folder / "fitset"),
        )
        return self.composition("fitset")

    def convert(self, *arguments: object) -> dict[str, Any]:
        self.script(
            convert_fitset,
            *("--fitset", self.folder / "fitset", "--data", self.data),
            *("--output-folder", self.folder / "converted", *arguments),
        )
        return self.composition("converted")

    def composition(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name / "composition.json").read_text())

    def table(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / name).to_pylist()

    def spec(self, settings: dict[str, Any]) -> Path:
        path = self.folder / "spec.json"
        path.write_text(json.dumps({"settings": settings}))
        return path

    @staticmethod
    def script(module: Any, *arguments: object) -> None:
        module.main([str(argument) for argument in arguments])


def configured(
    recipe: dict[str, Any] | None = None,
    judges: dict[str, Any] | None = None,
    **trajectories: Any,
) -> Any:
    """A configuration with one adapter `mas` of messages."""
    return load(
        {
            "judges": judges or {},
            "sources": [{"name": "main", "format": "trajectories", "path": "raw"}],
            "adapters": {"mas": {"beta": 0, **(recipe or {}), "trajectories": trajectories}},
        }
    )


def fitset_settings(
    recipe: dict[str, Any] | None = None,
    judges: dict[str, Any] | None = None,
    **trajectories: Any,
) -> dict[str, Any]:
    """Settings of the fit set of `mas`; dpo is asked for as a method that takes it would."""
    examples = trajectories.pop("examples", "sft")
    asked = {**trajectories, "examples": "sft" if examples == "dpo" else examples}
    made = MessageStages(configured(recipe, judges, **asked)).fitset_settings(
        "mas", NOT_FOR_SELECTION
    )
    made["recipe"]["trajectories"]["examples"] = examples
    return made
