"""The example base: a tiny Qwen3.5 that is trained from nothing on generic rows.

Generic rows have the form and the actions of the example source's rows, but come from other seeds
and follow another convention (`script.GENERIC`). After a minute the base answers in the right form,
finds elements by their text and sees the screenshot; what it does not know is how the source's
agent grips things and words its memories.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image

from adaptermill.example.architecture import Sizes, make_model, save, train_tokenizer
from adaptermill.example.episodes import BLOCK, Episode, chain_of, draw_part, task_episode
from adaptermill.example.script import GENERIC, HOUSE, Convention
from adaptermill.example.tasks import FAMILIES
from adaptermill.models.base import load_processor, resolve
from adaptermill.models.encode import Encoded, Encoder

STEPS = 400
BATCH_ROWS = 16
LEARNING_RATE = 3e-3
WARM_UP = 0.05
CLIP = 1.0
# Fixed: sums are taken in another order with another number of threads.
THREADS = 2
# Every eighth generic episode is a chain.
CHAIN_EVERY = 8
# Tasks whose answer only the screenshot tells are drawn more often: seeing is the hard part.
SEEN = ("Drag & gesture", "Discrete selection", "Reasoning base")


@dataclass(frozen=True)
class GenericRow:
    """A row with its screenshot still as pixels."""

    family: str
    kind: str
    messages: list[dict[str, Any]]
    target: str
    image: Image.Image


def generic_episodes(seed: int, convention: Convention = GENERIC) -> Iterator[Episode]:
    """Endless episodes whose seeds no example source has (a source's seed is a number)."""
    name = f"generic/{seed}"
    random = Random(name)
    families = list(FAMILIES)
    number = 0
    while True:
        number += 1
        count = 2 if number % CHAIN_EVERY == 0 else 1
        parts = []
        for _ in range(count):
            family = random.choice(families + list(SEEN))
            index = random.randrange(10**5) * BLOCK + families.index(family)
            parts.append(draw_part(name, index, convention=convention, mistake=random.random() < 0.2))
        if count == 1:
            yield task_episode(parts[0], convention)
        else:
            yield chain_of(f"generic-{number}", parts, convention)


def generic_rows(seed: int, convention: Convention = GENERIC) -> Iterator[GenericRow]:
    """Endless rows to train on; mistakes are left out, as adapters leave them out."""
    for episode in generic_episodes(seed, convention):
        for row, page in zip(episode.rows, episode.pages, strict=True):
            if "inject" not in row:
                yield GenericRow(
                    row["family"], row["macro"], row["messages"], row["target"], page.draw()
                )


def tokenizer_texts(seed: int) -> Iterator[str]:
    """Text of both conventions: the tokenizer, like a real one, knows more than the model."""
    for convention in (GENERIC, HOUSE):
        episodes = generic_episodes(seed, convention)
        for _ in range(200):
            for row in next(episodes).rows:
                yield row["messages"][0]["content"]
                yield row["messages"][1]["content"][0]["text"]
                yield row["target"]
