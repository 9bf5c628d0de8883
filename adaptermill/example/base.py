"""The example base: a tiny Qwen3.5 that is trained from nothing on generic rows.

Generic rows have the form and the actions of the example source's rows, but come from other seeds
and follow another convention (`script.GENERIC`). After a minute the base answers in the right form,
finds elements by their text and sees the screenshot; what it does not know is how the source's
agent grips things and words its memories.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F

from adaptermill.example.architecture import Sizes, make_model, save, train_tokenizer
from adaptermill.example.episodes import BLOCK, Episode, chain_of, draw_part, task_episode
from adaptermill.example.pages import Page
from adaptermill.example.script import GENERIC, HOUSE, Convention
from adaptermill.example.seeing import learn_colours
from adaptermill.example.tasks import FAMILIES
from adaptermill.models.base import load_processor, resolve
from adaptermill.models.encode import Encoded, Encoder

STEPS = 160
BATCH_ROWS = 16
LEARNING_RATE = 3e-3
WARM_UP = 0.05
CLIP = 1.0
# Rows of about the same length are batched together, chosen from so many at a time.
WINDOW = 8 * BATCH_ROWS
# Fixed: sums are taken in another order with another number of threads.
THREADS = 2
# Every eighth generic episode is a chain.
CHAIN_EVERY = 8
# Tasks whose answer only the screenshot tells are drawn more often: seeing is the hard part.
SEEN = ("Drag & gesture", "Discrete selection", "Reasoning base")
# One task in so many asks for the page's colour.
COLOUR_EVERY = 8
COLOUR_TASK = ("Discrete selection", "press-colour")
SIZES = Sizes(vocabulary=1536, layers=("linear_attention", "full_attention", "full_attention"))


@dataclass(frozen=True)
class GenericRow:
    """A row with the page that its screenshot shows."""

    family: str
    kind: str
    messages: list[dict[str, Any]]
    target: str
    page: Page


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
            block = random.randrange(10**5)
            if random.randrange(COLOUR_EVERY) == 0:
                family, kind = COLOUR_TASK
                kinds = list(FAMILIES[family])
                block = block // len(kinds) * len(kinds) + kinds.index(kind)
            index = block * BLOCK + families.index(family)
            parts.append(
                draw_part(name, index, convention=convention, mistake=random.random() < 0.2)
            )
        if count == 1:
            yield task_episode(parts[0], convention)
        else:
            yield chain_of(f"generic-{number}", parts, convention)


def generic_rows(seed: int, convention: Convention = GENERIC) -> Iterator[GenericRow]:
    """Endless rows to train on; mistakes are left out, as adapters leave them out."""
    for episode in generic_episodes(seed, convention):
        for row, page in zip(episode.rows, episode.pages, strict=True):
            if "inject" not in row:
                yield GenericRow(row["family"], row["macro"], row["messages"], row["target"], page)


def tokenizer_texts(seed: int) -> Iterator[str]:
    """Text of both conventions: the tokenizer, like a real one, knows more than the model."""
    for convention in (GENERIC, HOUSE):
        episodes = generic_episodes(seed, convention)
        for _ in range(200):
            for row in next(episodes).rows:
                yield row["messages"][0]["content"]
                yield row["messages"][1]["content"][0]["text"]
                yield row["target"]


def batches(encoder: Encoder, seed: int) -> Iterator[list[Encoded]]:
    """Endless batches of generic rows, rows of about the same length together."""
    rows = generic_rows(seed)
    random = Random(f"batches/{seed}")
    while True:
        window = [encode(encoder, next(rows)) for _ in range(WINDOW)]
        window.sort(key=lambda row: len(row.input_ids))
        made = [window[at : at + BATCH_ROWS] for at in range(0, WINDOW, BATCH_ROWS)]
        random.shuffle(made)
        yield from made


def encode(encoder: Encoder, row: GenericRow) -> Encoded:
    return encoder.encode(row.messages, row.target, [row.page.draw()])


def loss_of(model: torch.nn.Module, rows: list[Encoded]) -> torch.Tensor:
    """Mean of -log p over the target tokens of rows that are padded to one length."""
    length = max(len(row.input_ids) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.int64)
    labels = torch.full((len(rows), length), -100)
    types = torch.zeros(len(rows), length, dtype=torch.int64)
    for place, row in enumerate(rows):
        size = len(row.input_ids)
        ids[place, :size] = row.input_ids
        labels[place, row.prompt_length : size] = row.targets
        types[place, :size] = row.model_inputs["mm_token_type_ids"][0]
    hidden = model.model(
        input_ids=ids,
        # Padding stands behind the rows and is seen by none of their tokens.
        mm_token_type_ids=types,
        pixel_values=torch.cat([row.model_inputs["pixel_values"] for row in rows]),
        image_grid_thw=torch.cat([row.model_inputs["image_grid_thw"] for row in rows]),
        use_cache=False,
    ).last_hidden_state[:, :-1]
    supervised = labels[:, 1:] != -100
    return F.cross_entropy(model.lm_head(hidden[supervised]), labels[:, 1:][supervised])


def train(
    model: torch.nn.Module,
    encoder: Encoder,
    seed: int,
    steps: int,
    tell: Callable[[int, float], None],
) -> None:
    """Trains all weights on generic rows; `tell(step, loss)` hears of every step."""
    rates = [
        min(1.0, (step + 1) / (WARM_UP * steps + 1)) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for step in range(steps)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    model.train()
    for step, (rate, rows) in enumerate(zip(rates, batches(encoder, seed), strict=False)):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * rate
        optimizer.zero_grad()
        loss = loss_of(model, rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        tell(step + 1, loss.item())


def build_base(
    folder: Path, seed: int = 0, steps: int = STEPS, show: Callable[[str], None] = print
) -> None:
    """Writes the trained base; the same seed, steps and versions give the same bits."""
    torch.set_num_threads(THREADS)
    tokenizer = train_tokenizer(tokenizer_texts(seed), SIZES.vocabulary)
    model = make_model(tokenizer, SIZES, seed)
    save(folder, model, tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        ref = resolve("example", None, str(folder), Path(scratch) / "hashes.parquet")
    encoder = Encoder(load_processor(ref))
    begun = last = time.monotonic()
    recent: list[float] = []

    def tell(step: int, loss: float) -> None:
        nonlocal last
        recent.append(loss)
        now = time.monotonic()
        if step == steps or now - last >= 5:
            last = now
            left = (now - begun) / step * (steps - step)
            mean = sum(recent[-20:]) / len(recent[-20:])
            show(f"{step:>5}/{steps} steps  loss {mean:.3f}  ETA {left:.0f} s")

    pages = (row.page for row in generic_rows(seed + 1))
    learn_colours(model, tokenizer, encoder.multimodal.image_processor, pages)
    train(model, encoder, seed, steps, tell)
    model.eval()
    save(folder, model, tokenizer)
