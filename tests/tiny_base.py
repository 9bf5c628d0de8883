"""A random tiny Qwen3.5 base for tests: every hard part of the real architecture, in no time."""

from __future__ import annotations

from pathlib import Path

from adaptermill.example.architecture import Sizes, build
from adaptermill.models.base import BaseRef, resolve

TEXTS = [
    '{"memory": "Press the button.", "action": [{"click": {"index": 12}}]}',
    '{"memory": "Drag it there.", "action": [{"drag": {"start_x": 1, "start_y": 2}}]}',
    "You are an agent that works in a browser. Answer with JSON.\nInteractive elements:\n[1]<a>",
] * 4
SIZES = Sizes(
    hidden=32,
    intermediate=48,
    layers=("linear_attention", "full_attention"),
    heads=2,
    head_dim=16,
    vision_hidden=32,
    vision_depth=1,
    vocabulary=400,
)


def make_tiny_base(folder: Path, seed: int = 0, sizes: Sizes = SIZES) -> BaseRef:
    """Writes the base into `folder` and returns its reference."""
    build(folder, TEXTS, sizes, seed)
    return resolve("tiny", None, str(folder), folder.parent / "hashes.parquet")
