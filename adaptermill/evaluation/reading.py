"""Scores and answers many rows: common prefixes once, answers side by side.

    read = read_rows(model, rows, device, answerer)
    scored, answer = read[0]

Where an architecture's layers may keep more of earlier tokens than is known, each row runs whole
and by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from adaptermill.evaluation.decoding import BATCH_TOKENS, Start, decode
from adaptermill.evaluation.generated import Answerer
from adaptermill.evaluation.prompts import Prompts
from adaptermill.evaluation.teacher_forced import Scored, score
from adaptermill.models.encode import Encoded

Read = tuple[Scored, str | None]


def read_rows(
    model: torch.nn.Module,
    rows: Sequence[Encoded],
    device: torch.device | str,
    answerer: Answerer | None = None,
    tell: Callable[[int, Scored], None] = lambda number, scored: None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Read]:
    """What each row's recorded answer scores, and the greedy answer (None without an answerer).

    `tell` hears of every row as soon as it is scored. `batch_tokens` bounds the keys and values
    that are held at a time.
    """
    if not Prompts.can_read(model):
        alone = partial(_alone, model, device, answerer, tell)
        return [alone(number, row) for number, row in enumerate(rows)]
    prompts = Prompts(model, rows, device)
    found: list[Scored] = []
    begun: dict[int, list[int]] = {}
    waiting: dict[int, Start] = {}
    for number, row in enumerate(rows):
        prompt = prompts.read(row)
        found.append(prompts.score(prompt))
        tell(number, found[-1])
        if answerer is None:
            continue
        begun[number], whole = answerer.draft(found[-1])
        if not whole:
            waiting[number] = answerer.start(prompts, prompt, begun[number])
        # As many again are held when they are put side by side.
        if 2 * sum(start.length for start in waiting.values()) > batch_tokens:
            _finish(prompts, answerer, begun, waiting, batch_tokens)
    if answerer is None:
        return [(scored, None) for scored in found]
    _finish(prompts, answerer, begun, waiting, batch_tokens)
    return [(scored, answerer.text(begun[number])) for number, scored in enumerate(found)]


def _finish(
    prompts: Prompts,
    answerer: Answerer,
    begun: dict[int, list[int]],
    waiting: dict[int, Start],
    batch_tokens: int,
) -> None:
    """Decodes what waits, and empties it."""
    decode(prompts.base, prompts.kinds, list(waiting.values()), answerer.ends, batch_tokens)
    for number, start in waiting.items():
        begun[number] = begun[number] + start.made
    waiting.clear()


def _alone(
    model: torch.nn.Module,
    device: torch.device | str,
    answerer: Answerer | None,
    tell: Callable[[int, Scored], None],
    number: int,
    row: Encoded,
) -> Read:
    scored = score(model, row, device)
    tell(number, scored)
    return scored, answerer and answerer.answer(row, scored, device)
