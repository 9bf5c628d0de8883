"""A tiny base of the Qwen3.5 architecture, adapters for it, and queries."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file, save_file

from adaptermill.models.base import resolve
from tests.evaluation.conftest import write_adapter
from tests.tiny_base import make_tiny_base

ARITHMETIC = [
    {"query_id": f"add-{n}", "query": f"What is {n} + {n * n}?", "gold": str(n + n * n)}
    for n in range(2, 8)
]


def write_queries(path, lines=ARITHMETIC):
    path.write_text("".join(json.dumps({"answer_type": "math", **line}) + "\n" for line in lines))
    return path


def _liven(folder):
    """Larger weights: what such a base says next depends on all that was said before."""
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if tensor.ndim >= 2 and "visual" not in name:
            tensor *= 8
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rollouts")
    make_tiny_base(folder / "tiny")
    _liven(folder / "tiny")
    ref = resolve("tiny", None, str(folder / "tiny"), folder / "hashes.parquet")
    ref.write(folder / "base.json")
    return ref


@pytest.fixture(scope="session")
def adapter(tiny, tmp_path_factory):
    """An adapter that changes what the base says."""
    folder = tmp_path_factory.mktemp("adapter") / "adapter"
    write_adapter(tiny, folder, seed=1, scale=0.3)
    return folder
