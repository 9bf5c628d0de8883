"""A first lesson for the vision tower: what colour a page has.

A model that is trained for a minute finds no use for its screenshots by itself. Here the image
tokens of a coloured page learn to look like the word for its colour, as the language model embeds
it, so that attention can pick it up as it picks up a word of the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import torch
import torch.nn.functional as F
from transformers import PreTrainedTokenizerFast, Qwen3_5ForConditionalGeneration

from adaptermill.example.pages import BANNERS, COLUMNS, ROWS, Page

STEPS = 60
PAGES = 16
LEARNING_RATE = 2e-3
SHARPNESS = 20.0


def learn_colours(
    model: Qwen3_5ForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    process: Callable[..., dict[str, torch.Tensor]],
    pages: Iterator[Page],
    steps: int = STEPS,
) -> None:
    """Trains the vision tower alone, `steps` times on the next coloured pages.

    `process` is the base's image processor. Each image token stands for one cell of the page.
    """
    words = {colour: _word(tokenizer, name) for name, colour in BANNERS.items()}
    embedding = F.normalize(model.get_input_embeddings().weight.detach(), dim=-1)
    tower = list(model.model.visual.parameters())
    optimizer = torch.optim.AdamW(tower, lr=LEARNING_RATE, weight_decay=0.0)
    coloured = (page for page in pages if page.banner in words)
    for _ in range(steps):
        shown = list(islice(coloured, PAGES))
        made = process([page.draw() for page in shown], return_tensors="pt")
        seen = model.model.visual(made["pixel_values"], grid_thw=made["image_grid_thw"])
        likeness = SHARPNESS * F.normalize(seen.pooler_output, dim=-1) @ embedding.T
        names = torch.tensor([words[page.banner] for page in shown])
        loss = F.cross_entropy(likeness, names.repeat_interleave(COLUMNS * ROWS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _word(tokenizer: PreTrainedTokenizerFast, word: str) -> int:
    return tokenizer(word, add_special_tokens=False)["input_ids"][0]
