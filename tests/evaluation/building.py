"""Predictions made by hand, whose figures can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from adaptermill.evaluation.predictions import SCHEMA, Origin, Predictions, write

FAMILIES = ("Drag & gesture", "Navigation", "Text entry")


def click(index: int) -> str:
    return json.dumps({"memory": "m", "action": [{"click": {"index": index}}]})


def row(
    episode: str,
    step: int,
    logps: Sequence[float],
    *,
    family: str = FAMILIES[0],
    action: Sequence[bool] | None = None,
    greedy: bool = False,
    predicted: str | None = None,
    target: str | None = None,
    side: str = "validation",
) -> dict[str, Any]:
    """One line of predictions from the log-probabilities of its target tokens."""
    values = np.array(logps, dtype=np.float32).astype(np.float64)
    mask = np.array([True] * len(values) if action is None else action)
    return {
        "row_id": f"main/{episode}/{step}",
        "task_id": episode,
        "family": family,
        "step": step,
        "op": "click",
        "variant": "plain",
        "side": side,
        "nll": -values.mean(),
        "nll_sum": -values.sum(),
        "target_tokens": len(values),
        "nll_action": -values[mask].mean(),
        "action_tokens": int(mask.sum()),
        "greedy_match": greedy,
        "logps": list(logps),
        "action_mask": mask.tolist(),
        "predicted": predicted,
        "target": click(1) if target is None else target,
        "screen_width": 320,
        "screen_height": 240,
    }


def predictions(name: str, rows: Sequence[dict[str, Any]], **changes: Any) -> Predictions:
    """Predictions of `name`; `changes` are made to their origin."""
    origin = {
        "split_hash": "split",
        "base_hash": "base",
        "adapter_key": None if name == "base" else f"key of {name}",
        "generated": any(line["predicted"] is not None for line in rows),
        "max_new_tokens": 64,
        "dtype": "float32",
        "device": "cpu",
        **changes,
    }
    listed = sorted(rows, key=lambda line: line["row_id"])
    return Predictions(name, Origin(**origin), pa.Table.from_pylist(listed, schema=SCHEMA))


def drawn(
    name: str, seed: int, better_in: str | None = None, episodes: int = 18, generated: bool = False
) -> Predictions:
    """Rows drawn from `seed`; in the family `better_in` every token is more likely by one nat.

    Text entry has no rows; Navigation has few episodes.
    """
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(episodes):
        family = FAMILIES[1] if number % 6 == 0 else FAMILIES[0]
        for step in range(1 + number % 3):
            logps = -generator.gamma(2.0, 1.0, size=3 + step) - 1.0
            shift = 1.0 if family == better_in else 0.0
            rows.append(
                row(
                    f"task-{number:02}",
                    step,
                    (logps + shift).tolist(),
                    family=family,
                    action=[False] + [True] * (2 + step),
                    greedy=bool(generator.random() < 0.3 + shift / 2),
                    predicted=click(1 if generator.random() < 0.5 else 2) if generated else None,
                )
            )
    return predictions(name, rows)


def written(folder: Path, *made: Predictions) -> list[str]:
    """Paths of files that hold the predictions."""
    paths = [folder / f"{each.name}.parquet" for each in made]
    for path, each in zip(paths, made, strict=True):
        write(path, each.rows, each.origin)
    return [str(path) for path in paths]
