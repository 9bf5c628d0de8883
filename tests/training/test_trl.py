"""TRL's SFTTrainer, which shares no code with ours, finds the same loss in the same tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adaptermill.models.base import load_processor
from adaptermill.models.encode import Encoder
from adaptermill.training.examples import Examples
from adaptermill.training.loop import SUMS
from tests.training.world import World, lines, shake

pytestmark = pytest.mark.slow


def test_the_loss_of_text_rows_is_that_of_trl(world: World, tmp_path: Path):
    pytest.importorskip("trl")
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    plan = lines(6, anchors=0)
    trainer = world.trainer(tmp_path / "ours", plan, batch_rows=1)
    # Without screenshots: TRL's data for images is made by a processor that needs torchvision.
    encoder = Encoder(replace(load_processor(world.ref), multimodal=None))
    trainer.examples = Examples([world.ingested.folder], encoder)
    shake(trainer.model)
    ours = [trainer.accumulate(batch)[SUMS.index("ce")].item() for batch in trainer.batches]

    rows = []
    for line in plan:
        encoded = trainer.examples.encoded(line.row_id)
        mask = [int(at >= encoded.prompt_length) for at in range(len(encoded.input_ids))]
        rows.append({"input_ids": encoded.input_ids.tolist(), "completion_mask": mask})
    settings = SFTConfig(
        output_dir=str(tmp_path / "trl"),
        per_device_train_batch_size=1,
        learning_rate=0.0,
        num_train_epochs=1,
        max_length=None,
        completion_only_loss=True,
        shuffle_dataset=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    theirs = SFTTrainer(
        model=trainer.model,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=encoder.tokenizer,
    )
    theirs.train()
    losses = [line["loss"] for line in theirs.state.log_history if "loss" in line]
    assert sorted(losses) == pytest.approx(sorted(ours), rel=1e-4)
    assert max(ours) - min(ours) > 0.01  # six rows, not one six times
