"""Stopped anywhere, gone on with, and spread over processes: the same bits."""

import os
import signal

import pytest
import torch

from adaptermill.training.processes import Interrupted, Signals
from tests.training.consensus.agents import Agents, Run

SETTINGS = {"rounds": 3, "local_steps": 3, "keep_adam": True}


class Stop(Exception):
    pass


def same(one: Run, other: Run, nodes: tuple[str | None, ...] = (None,)) -> bool:
    for node in nodes:
        tensors, others = one.tensors(node), other.tensors(node)
        if not all(torch.equal(tensors[name], others[name]) for name in tensors):
            return False
    return one.record["rounds"] == other.record["rounds"]


def finished(agents: Agents, folder, stop_at: int | None = None, how: str = "signal"):
    """What a trainer in this process ends with; stopped once after that many local steps."""
    trainer = agents.trainer(folder, **SETTINGS)
    calls = 0

    def on_step(node, step):
        nonlocal calls
        calls += 1
        if calls == stop_at and how == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        if calls == stop_at and how == "crash":
            raise Stop

    trainer.on_step = on_step
    try:
        trainer.run(Signals())
    except (Interrupted, Stop):
        assert stop_at is not None
        again = agents.trainer(folder, **SETTINGS)
        again.run(Signals())
        return again
    assert stop_at is None or calls < stop_at
    return trainer


@pytest.mark.parametrize("how", ["signal", "crash"])
@pytest.mark.parametrize("stop_at", [1, 5, 12, 13, 20, 36])
def test_a_run_goes_on_where_it_was_bit_by_bit(agents, tmp_path, how, stop_at, whole):
    resumed = finished(agents, tmp_path, stop_at, how)
    for node in range(4):
        one, other = (t.folder.load(3, node) for t in (whole, resumed))
        for name in ("x", "z", "u"):
            assert torch.equal(getattr(one[0], name), getattr(other[0], name)), (node, name)
        for name, value in one[1].items():
            assert torch.equal(value, other[1][name])
    assert resumed.rounds == whole.rounds


@pytest.fixture(scope="module")
def whole(agents, tmp_path_factory):
    return finished(agents, tmp_path_factory.mktemp("whole"))


def test_a_signal_keeps_the_last_local_step(agents, tmp_path):
    trainer = agents.trainer(tmp_path, **SETTINGS)
    trainer.on_step = lambda node, step: step == 2 and node == 1 and os.kill(os.getpid(), 15)
    with pytest.raises(Interrupted):
        trainer.run(Signals())
    steps = {
        node: trainer.folder.load_partial(0, node).step
        for node in range(4)
        if trainer.folder.load_partial(0, node)
    }
    assert steps == {0: 3, 1: 2}


def test_a_damaged_round_is_passed_over(agents, tmp_path, whole, capsys):
    finished(agents, tmp_path)
    (tmp_path / "state" / "round_3" / "node_2.pt").write_bytes(b"half a checkpo")
    log = tmp_path / "state" / "train_log.jsonl"
    log.write_text(log.read_text()[:-20])
    again = agents.trainer(tmp_path, **SETTINGS)
    again.run(Signals())
    said = capsys.readouterr().out
    assert "node_2.pt cannot be read" in said and "resuming after round 2 of 3" in said
    assert torch.equal(again.folder.load(3, 2)[0].z, whole.folder.load(3, 2)[0].z)
    assert again.rounds == whole.rounds


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 5])
def test_the_number_of_processes_changes_no_bit(agents, tmp_path, processes):
    arm = {"consensus": "gossip", "topology": "chain", "gossip_steps": 2, "heldout_fraction": 0.3}
    nodes = tuple(f"seat_{number}" for number in range(4))
    alone = agents.job(tmp_path / "alone", **SETTINGS, **arm)
    assert alone.finish().status == 0
    spread = agents.job(tmp_path / "spread", **SETTINGS, **arm)
    result = spread.finish(processes)
    assert result.status == 0, result.output
    assert same(alone, spread, nodes)
    assert spread.record["telemetry"]["processes"] == processes


@pytest.mark.slow
def test_killed_processes_go_on_in_another_number(agents, tmp_path):
    alone = agents.job(tmp_path / "alone", **SETTINGS)
    assert alone.finish().status == 0
    job = agents.job(tmp_path / "job", "--save-every", "1", **SETTINGS)
    for pattern, processes, number in (
        ("round_0/step_2.pt", 2, signal.SIGKILL),
        ("round_1/step_*.pt", None, signal.SIGTERM),
        ("round_2/step_*.pt", 3, signal.SIGTERM),
    ):
        process = job.run_until(pattern, processes)
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=120)
        assert process.returncode != 0, output
    result = job.finish(2)
    assert result.status == 0, result.output
    assert "resuming after round" in result.output
    assert same(alone, job)


@pytest.mark.slow
def test_one_node_that_is_not_finite_ends_all_processes(agents, tmp_path):
    job = agents.job(tmp_path, learning_rate=1e30, rounds=3)
    result = job.finish(3)
    assert result.status != 0 and "is not finite" in (job.state / "refused.txt").read_text()
    assert "is not finite" in job.finish().output
