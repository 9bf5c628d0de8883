"""Dropout masks are a function of their key and of nothing else."""

from __future__ import annotations

import torch

from adaptermill.training.dropout import DropoutKeys, KeyedDropout, position_keys

LENGTH, FEATURES, PREFIX = 40, 64, 10


def mask(
    seed: int = 0,
    step: int = 3,
    row: str = "main/a/0",
    module: str = "layers.0.q_proj",
    p: float = 0.5,
    length: int = LENGTH,
) -> torch.Tensor:
    positions = position_keys(seed, step, row, length, PREFIX, "cpu")
    return ~KeyedDropout(p, module, DropoutKeys()).dropped(positions, FEATURES)


def agreement(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one == other).float().mean())


def test_each_part_of_the_key_gives_another_mask():
    """Two unrelated masks at p = 1/2 agree in half of their places."""
    usual = mask()
    assert usual.equal(mask())
    for other in (mask(seed=1), mask(step=4), mask(module="layers.1.q_proj")):
        assert 0.4 < agreement(usual, other) < 0.6
    own = slice(PREFIX, None)
    assert 0.4 < agreement(usual[own], mask(row="main/a/1")[own]) < 0.6
    for place in range(1, LENGTH):
        assert 0.2 < agreement(usual[place], usual[place - 1]) < 0.8


def test_rows_share_their_mask_in_the_common_prefix():
    assert mask(row="main/a/0")[:PREFIX].equal(mask(row="main/b/7")[:PREFIX])


def test_a_mask_does_not_depend_on_the_length_or_on_what_was_asked_before():
    assert mask(length=LENGTH).equal(mask(length=4 * LENGTH)[:LENGTH])
    positions = position_keys(0, 3, "main/a/0", LENGTH, PREFIX, "cpu")
    layer = KeyedDropout(0.5, "layers.0.q_proj", DropoutKeys())
    whole = mask()
    torch.rand(7)  # no generator takes part
    for chunk in (slice(30, 40), slice(0, 30)):
        assert layer.dropped(positions[chunk], FEATURES).equal(~whole[chunk])


def test_about_p_of_the_features_are_dropped():
    for p in (0.05, 0.5):
        kept = mask(p=p, length=2000)
        assert abs(1 - float(kept.float().mean()) - p) < 0.01
        # And not always the same ones.
        assert float(kept.float().mean(0).min()) > 1 - p - 0.1
        assert float(kept.float().mean(1).min()) > 1 - p - 0.3


def test_what_is_kept_is_scaled_up_and_gradients_follow_the_mask():
    keys = DropoutKeys()
    layer = KeyedDropout(0.25, "m", keys)
    keys.set(position_keys(0, 0, "r", LENGTH, PREFIX, "cpu"))
    inputs = torch.ones(1, LENGTH, FEATURES, requires_grad=True)
    outputs = layer(inputs)
    assert set(outputs.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    outputs.sum().backward()
    assert inputs.grad.equal(outputs.detach())
    before = torch.get_rng_state()
    assert layer(inputs).equal(outputs)
    assert torch.get_rng_state().equal(before)


def test_without_keys_nothing_is_dropped():
    layer = KeyedDropout(0.5, "m", DropoutKeys())
    inputs = torch.rand(1, LENGTH, FEATURES)
    assert layer(inputs) is inputs
