"""Whole runs of train_consensus.py, and what they leave."""

import json
import shutil

import pytest
import torch
from peft import PeftModel

from adaptermill.consensus.topology import TOPOLOGIES
from adaptermill.models.base import load_model
from adaptermill.training.checkpoint import Refusal, StateFolder
from tests.training.consensus.agents import Agents


def largest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.fixture(scope="module")
def ring(agents: Agents, tmp_path_factory):
    job = agents.job(tmp_path_factory.mktemp("ring"), rounds=3)
    assert job.run() == 0
    return job


def test_a_run_ends_in_one_adapter_that_peft_loads(agents, ring):
    record = ring.record
    assert record["method"] == "consensus" and record["deploy"] == "one"
    assert [node["name"] for node in record["nodes"]] == ["seat_0", "seat_1", "seat_2", "seat_3"]
    assert record["rows"] == {"pairs": sum(node["examples"] for node in record["nodes"])}
    assert record["relative_change"] > 1e-6 and record["recipe"]["alpha"] == 4
    assert set(record["hashes"]) == {"base", "basis", "fitset", "plan", "recipe", "code"}
    assert [told["round"] for told in record["rounds"]] == [1, 2, 3]
    size = 4 * record["parameters"]
    for told in record["rounds"]:
        assert told["bytes_sent"] == [2 * 3 * size // 4] * 4
        assert len(told["objective"]) == len(told["distance"]) == 4
        assert told["primal_residual"] > 0 and told["disagreement"] < 1e-7
    model = PeftModel.from_pretrained(load_model(agents.ref), str(ring.output))
    assert any(p.abs().max() > 0 for n, p in model.named_parameters() if "lora_B" in n)
    card = (ring.output / "README.md").read_text()
    assert "consensus ADMM on preference pairs" in card and "--max-lora-rank 8" in card
    assert not ring.state.exists()  # a finished run needs no checkpoints
    lines = (ring.output / "train_log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_ring_and_coordinator_end_in_the_same_adapter(agents, ring, tmp_path):
    coordinator = agents.job(tmp_path, rounds=3, consensus="coordinator")
    assert coordinator.run() == 0
    assert largest(coordinator.tensors(), ring.tensors()) == 0
    assert coordinator.record["hashes"]["basis"] == ring.record["hashes"]["basis"]


@pytest.mark.slow
def test_the_example_agrees_and_ring_equals_coordinator(agents, tmp_path):
    """With the settings there are by default, but for fewer rounds and steps."""
    shape = {"rank": 16, "alpha": 16, "batch_examples": 8, "grad_clip": 0.01}
    runs = {
        name: agents.job(tmp_path / name, consensus=name, rounds=8, local_steps=8, **shape)
        for name in ("ring", "coordinator")
    }
    assert [job.run() for job in runs.values()] == [0, 0]
    assert largest(runs["ring"].tensors(), runs["coordinator"].tensors()) == 0
    told = runs["ring"].record["rounds"]
    residuals = [line["primal_residual"] for line in told]
    assert residuals[-1] < 0.6 * residuals[0], residuals
    assert sum(told[-1]["loss"]) < sum(told[0]["loss"]) < 4 * 0.6932  # pairs are told apart


ARMS = {
    **{f"gossip {t}": {"consensus": "gossip", "topology": t} for t in TOPOLOGIES},
    "pooled": {"pooled": True},
    "local": {"local_only": True},
    "no dual": {"dual": False},
    "by query": {"partition": "anchor", "n_partitions": 2},
    "rsft": {"trajectories": {"examples": "rsft"}},
    "sft": {"trajectories": {"examples": "sft"}, "role_balance": False},
    "keeps adam": {"keep_adam": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_is_an_adapter_or_one_for_each_node(agents, ring, tmp_path, arm):
    job = agents.job(tmp_path, **ARMS[arm])
    assert job.run() == 0
    record, nodes = job.record, [node["name"] for node in job.record["nodes"]]
    if arm.startswith("gossip") or arm == "local":
        assert record["deploy"] == "per-node"
        assert not (job.output / "adapter_model.safetensors").exists()
        tensors = [job.tensors(name) for name in nodes]
        spread = max(largest(tensors[0], other) for other in tensors[1:])
        # A complete graph (so is the expander of four) mixes to the mean in one step.
        exact = arm in ("gossip complete", "gossip expander")
        assert spread < 1e-7 if exact else spread > 1e-5
        assert "serve each agent with its own" in (job.output / "README.md").read_text()
    else:
        assert record["deploy"] == "one" and not (job.output / "nodes").exists()
        assert largest(job.tensors(), ring.tensors()) > 1e-6
    expected = {"pooled": ["pooled"], "by query": ["part_0", "part_1"]}
    assert nodes == expected.get(arm, ["seat_0", "seat_1", "seat_2", "seat_3"])
    told = record["rounds"][-1]
    if arm in ("local", "pooled"):
        assert told["bytes_sent"] == [0] * len(nodes)
    assert ("primal_residual" in told) == (arm != "local")
    # A was drawn once, and is the same in every adapter of every arm.
    assert record["hashes"]["basis"] == ring.record["hashes"]["basis"]


def test_the_best_round_is_kept_where_queries_are_held_out(agents, tmp_path):
    job = agents.job(tmp_path, rounds=4, heldout_fraction=0.3, learning_rate=0.05)
    assert job.run() == 0
    record = job.record
    held_out = [told["heldout_nll"] for told in record["rounds"]]
    assert record["best_round"] == 1 + held_out.index(min(held_out))
    best = PeftModel.from_pretrained(load_model(agents.ref), str(job.output / "best"))
    fitting = agents.fitting(tmp_path / "again", heldout_fraction=0.3)
    vector = torch.cat([p.flatten() for n, p in best.named_parameters() if "lora_B" in n])
    totals = [fitting.held_out_nll(node, vector) for node in range(4)]
    nll = sum(total for total, _ in totals) / sum(count for _, count in totals)
    assert nll == pytest.approx(min(held_out), rel=1e-5)


def test_a_warm_start_begins_at_the_adapter_it_is_branched_from(agents, ring, tmp_path, capsys):
    warm = agents.job(tmp_path / "warm", "--parent", ring.output, rounds=1, learning_rate=1e-6)
    assert warm.run() == 0
    assert 0 < largest(warm.tensors(), ring.tensors()) < 1e-5
    assert warm.record["noted"]["init_from"] == ring.record["key"]
    other = agents.job(tmp_path / "other", "--parent", ring.output, rank=4)
    assert other.run() == 2
    assert "rank is 2 there and 4 here" in capsys.readouterr().err


def test_a_reference_that_did_not_collect_is_refused(agents, ring, tmp_path, capsys):
    assert agents.job(tmp_path / "base", kl_ref="collect", rounds=1).run() == 0
    job = agents.job(tmp_path / "other", "--parent", ring.output, kl_ref="collect", rounds=1)
    assert job.run() == 2
    said = capsys.readouterr().err
    assert "was collected with example" in said and "kl_ref: frozen" in said


def test_what_did_not_move_is_refused_again_at_once(agents, tmp_path, capsys):
    job = agents.job(tmp_path, learning_rate=1e-12, rounds=1)
    assert job.run() == 2
    assert "did not move" in capsys.readouterr().err and not job.output.exists()
    with pytest.raises(Refusal, match=r"did not move[^\0]*an earlier try of the same run"):
        StateFolder(job.state).check_not_refused()


def test_what_is_not_finite_names_the_rows(agents, tmp_path, capsys):
    job = agents.job(tmp_path, learning_rate=1e30, rounds=3)
    assert job.run() == 2
    said = capsys.readouterr().err
    assert "is not finite" in said
    assert "(seat_0), in the batch of\n  main/" in said or "vector is not finite" in said
    assert not job.output.exists()


def test_a_finished_run_is_not_done_again(agents, ring, tmp_path, capsys):
    shutil.copytree(ring.output, tmp_path / "adapter")
    job = agents.job(tmp_path, rounds=3)
    assert job.run() == 0
    assert "holds this adapter already" in capsys.readouterr().out
