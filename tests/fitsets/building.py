"""Row indexes and settings made for a test, as scripts/split.py and the configuration make them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from adaptermill.config import load
from adaptermill.specs import NOT_FOR_SELECTION
from adaptermill.splits import fraction_key

DRAG = "Drag & gesture"
NAVIGATION = "Navigation"


def row(task_id: str = "a", step: int = 0, **changes: Any) -> dict[str, Any]:
    """A row of the index that is trained on; its content is its own unless given."""
    name = f"{task_id}/{step}"
    values = {
        "row_id": f"main/{name}",
        "source": "main",
        "task_id": task_id,
        "step": step,
        "family": DRAG,
        "op": "click",
        "variant": "plain",
        "sources": [task_id],
        "untrainable": None,
        "side": "train",
        "text_hash": f"text {name}",
        "target_hash": f"target {name}",
        "image": "",
        "prompt_tokens": 90,
        "target_tokens": 10,
        "image_tokens": 4,
        "unfit": None,
        "unfit_detail": None,
        **changes,
    }
    values["screenshots"] = values.pop("image")
    prompt = values["text_hash"] + values["screenshots"]
    hashes = {"prompt_hash": prompt, "content_hash": prompt + values["target_hash"]}
    values["trainable"] = values["untrainable"] is None
    return {"fraction_key": fraction_key(values["sources"]), **hashes, **values}


def rows(*given: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(given))


def pool(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Rows of another family."""
    return [row(f"pool{k}", family=NAVIGATION, **changes) for k in range(count)]


def settings(max_tokens: int = 1000, **recipe: Any) -> dict[str, Any]:
    """Settings of the fit set of an adapter `drag`, with the recipe's defaults."""
    adapter = {"families": [DRAG], **recipe}
    source = {"name": "main", "format": "example"}
    config = load({"sources": [source, {**source, "name": "other"}], "adapters": {"drag": adapter}})
    return {
        "adapter": "drag",
        "recipe": config.recipes["drag"].model_dump(exclude=NOT_FOR_SELECTION),
        "max_tokens": max_tokens,
        "families_all": config.seven(),
        "own_families": config.own_families("drag"),
        "anchor_families": config.anchor_families("drag"),
    }
