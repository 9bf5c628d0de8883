"""Rows are encoded ahead of time and kept within a limit, and are always what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptermill.training.examples import Examples, _size
from tests.training.world import World, lines

IDS = [f"main/e{number // 4}/{number % 4}" for number in range(12)]


def test_rows_encoded_ahead_are_those_encoded_at_once(world: World):
    ahead, once = (Examples([world.ingested.folder], world.encoder) for _ in range(2))
    ahead.expect(IDS)
    for row_id in IDS:
        made, wanted = ahead.encoded(row_id), once.encoded(row_id)
        assert made.input_ids.equal(wanted.input_ids)
        assert made.model_inputs.keys() == wanted.model_inputs.keys()
        for name, value in wanted.model_inputs.items():
            assert made.model_inputs[name].equal(value)
    assert not ahead._coming


def test_pixels_are_kept_within_the_limit(world: World):
    largest = max(_size(world.examples.encoded(row_id)) for row_id in IDS)
    examples = Examples([world.ingested.folder], world.encoder, kept_bytes=3 * largest)
    for row_id in IDS + IDS:
        examples.encoded(row_id)
        assert sum(size for _, size in examples._kept.values()) <= 3 * largest
    assert examples.encoded(IDS[-1]) is examples.encoded(IDS[-1])
    none = Examples([world.ingested.folder], world.encoder, kept_bytes=0)
    assert none.encoded(IDS[0]).input_ids.equal(examples.encoded(IDS[0]).input_ids)


def test_what_fails_ahead_of_time_is_said_when_the_row_is_asked_for(world: World):
    examples = Examples([world.ingested.folder], world.encoder)
    examples.expect(["main/gone/0"])
    with pytest.raises(Exception, match="main/gone/0"):
        examples.encoded("main/gone/0")


def test_screenshots_are_named_in_the_order_of_their_pixels(world: World):
    names = list(map(world.examples.screenshots, IDS))
    assert [len(each) for each in names] == [number % 3 > 0 for number in range(12)]
    assert names[1] == names[5] != names[4]  # the same picture in two rows


def test_the_vision_tower_sees_a_screenshot_once_a_step(world: World, tmp_path: Path):
    """Its features in place of pixels give the same loss, and the graph does not reach into it."""
    trainer = world.trainer(tmp_path, lines(12), batch_rows=12)
    tower = trainer.base.base_model.visual
    seen: list[bool] = []
    tower.register_forward_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    sums = trainer.accumulate(trainer.batches[0])
    assert seen == [False, False]  # eight rows and their references show two screenshots
    trainer.accumulate(trainer.batches[0])
    assert len(seen) == 4  # forgotten after a step
    trainer.screenshots.usable = False
    assert torch.allclose(trainer.accumulate(trainer.batches[0]), sums, rtol=1e-6)
    assert len(seen) > 12
