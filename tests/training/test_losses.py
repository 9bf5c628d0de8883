"""Losses and gradients of rows against a plain computation that shares no code with the trainer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptermill.training import lora
from adaptermill.training.batches import PlanLine
from adaptermill.training.loop import SUMS, Shortcuts, Trainer
from tests.training.world import World, lines, shake, target

ROW = 7  # main/e1/3, which has a screenshot


def plan(*kinds: str) -> list[PlanLine]:
    return [
        PlanLine(0, at, f"main/e{(ROW + at) // 4}/{(ROW + at) % 4}", kind)
        for at, kind in enumerate(kinds)
    ]


def plain_loss(trainer: Trainer, kind: str, reference: list[float] | None = None):
    """The loss of row ROW from one full forward, with masks found by decoding."""
    encoded = trainer.examples.encoded(f"main/e{ROW // 4}/{ROW % 4}")
    tokenizer = trainer.examples.encoder.tokenizer
    ids = encoded.input_ids
    logits = trainer.model(input_ids=ids[None], **encoded.model_inputs).logits[0]
    # The targets: the shortest ending that holds the whole answer.
    first = max(i for i in range(len(ids)) if tokenizer.decode(ids[i:]).startswith(target(ROW)))
    action = max(i for i in range(len(ids)) if '"action"' in tokenizer.decode(ids[i:]))
    losses = []
    for place in range(first, len(ids)):
        logp = logits[place - 1].log_softmax(0)[ids[place]]
        if kind == "ce":
            losses.append(-logp)
        elif place >= action:
            if kind == "ce on action":
                losses.append(-logp)
            else:
                d = (reference[place - first] - logp).clamp(-20, 8)
                losses.append(0.1 * (d.exp() - d - 1))
    return sum(losses) / len(losses)


def gradients(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in trainer.parameters]


def assert_close(made: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    for one, other in zip(made, wanted, strict=True):
        assert float((one - other).norm()) <= 1e-5 * max(float(other.norm()), 1e-3)


@pytest.mark.parametrize("kind", ["ce", "ce on action", "anchor"])
def test_loss_and_gradient_of_a_row(world: World, tmp_path: Path, kind: str):
    ce_on = "action" if kind == "ce on action" else "all"
    trainer = world.trainer(tmp_path, plan(kind.split()[0]), ce_on=ce_on)
    shake(trainer.model)
    reference = None
    if kind == "anchor":
        with torch.no_grad():
            factors = [
                layer.lora_B["default"].weight for _, layer in lora.lora_layers(trainer.model)
            ]
            kept = [factor.clone() for factor in factors]
            for factor in factors:
                factor.zero_()
            encoded = trainer.examples.encoded(f"main/e{ROW // 4}/{ROW % 4}")
            logits = trainer.model(
                input_ids=encoded.input_ids[None], **encoded.model_inputs
            ).logits[0]
            for factor, value in zip(factors, kept, strict=True):
                factor.copy_(value)
        logps = logits.log_softmax(-1)
        reference = [
            float(logps[place - 1, encoded.input_ids[place]])
            for place in range(encoded.prompt_length, len(encoded.input_ids))
        ]
    wanted = plain_loss(trainer, kind, reference)
    wanted.backward()
    plain = gradients(trainer)
    assert max(float(gradient.abs().max()) for gradient in plain) > 1e-4
    sums = trainer.accumulate(trainer.batches[0])
    noted = dict(zip(SUMS, sums.tolist(), strict=True))
    if kind == "anchor":
        assert 0.1 * noted["anchor"] == pytest.approx(wanted.item(), rel=1e-5)
        assert noted["anchor_tokens"] == len(encoded.action_mask.nonzero())
    else:
        assert noted["ce"] == pytest.approx(wanted.item(), rel=1e-5)
    assert_close(gradients(trainer), plain)


def test_a_batch_is_the_mean_of_its_rows_whatever_their_kind(world: World, tmp_path: Path):
    rows = plan("ce", "anchor", "ce")
    trainer = world.trainer(tmp_path, rows, batch_rows=3)
    shake(trainer.model)
    trainer.accumulate(rows)
    together = gradients(trainer)
    apart = [torch.zeros_like(parameter) for parameter in trainer.parameters]
    for row in rows:
        trainer.accumulate([row])
        for total, one in zip(apart, gradients(trainer), strict=True):
            total += one / 3
    assert_close(together, apart)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("share_prefix", [False, True])
def test_the_penalty_of_a_new_adapter_is_zero(world, tmp_path: Path, share_prefix, dropout: float):
    """Exactly where adapter and reference take the same path, else but for rounding."""
    trainer = world.trainer(
        tmp_path,
        lines(6, anchors=1),
        batch_rows=6,
        dropout=dropout,
        shortcuts=Shortcuts(share_prefix=share_prefix),
    )
    sums = trainer.accumulate(trainer.batches[0])
    noted = dict(zip(SUMS, sums.tolist(), strict=True))
    assert noted["anchor_rows"] == 6
    assert noted["anchor"] <= (6e-10 if share_prefix else 0.0)
    largest = max(float(gradient.abs().max()) for gradient in gradients(trainer))
    assert largest <= (1e-6 if share_prefix else 0.0)


def test_clamped_tokens_are_counted(world: World, tmp_path: Path):
    trainer = world.trainer(tmp_path, plan("anchor"))
    shake(trainer.model, size=1.0)
    with torch.no_grad():
        trainer.model.get_output_embeddings().weight.mul_(50)  # a base that is very sure
    sums = trainer.accumulate(trainer.batches[0])
    noted = dict(zip(SUMS, sums.tolist(), strict=True))
    encoded = trainer.examples.encoded(trainer.plan[0].row_id)
    with torch.no_grad():
        distance = trainer.reference_logps(encoded) - trainer._logps(encoded)
    outside = ((distance > 8) | (distance < -20)) & encoded.action_mask
    assert noted["clamped"] == outside.sum() > 0


def test_dropout_is_on_in_the_trained_copy_and_off_in_the_reference(world: World, tmp_path: Path):
    trainer = world.trainer(tmp_path, plan("anchor"), dropout=0.2)
    shake(trainer.model)
    encoded = trainer.examples.encoded(trainer.plan[0].row_id)

    def reference_and_penalty() -> tuple[torch.Tensor, float]:
        sums = trainer.accumulate(trainer.batches[0])
        return trainer.reference_logps(encoded), sums[SUMS.index("anchor")].item()

    first, penalty = reference_and_penalty()
    again, same = reference_and_penalty()
    trainer.step = 1  # another key, other masks
    third, other = reference_and_penalty()
    assert first.equal(again)
    assert first.equal(third)
    assert penalty == same != other


def test_rows_of_a_batch_do_not_depend_on_its_order(world: World, tmp_path: Path):
    rows = plan("ce", "anchor", "ce")
    trainer = world.trainer(tmp_path, rows, batch_rows=3, dropout=0.2)
    shake(trainer.model)
    trainer.accumulate(rows)
    forwards = gradients(trainer)
    trainer.accumulate(rows[::-1])
    assert_close(gradients(trainer), forwards)
