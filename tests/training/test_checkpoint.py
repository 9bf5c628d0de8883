"""The state folder: one holder, the newest good checkpoint, no foreign one, a log without gaps."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from adaptermill.errors import UserError
from adaptermill.training.checkpoint import StateFolder
from tests.training.world import World, difference, lines

HOLDER = """
import sys
from pathlib import Path
from adaptermill.training.checkpoint import StateFolder
state = StateFolder(Path(sys.argv[1]))
state.lock()
print("held", flush=True)
input()
"""


def content(step: int, key: str = "a key") -> dict:
    return {"key": key, "adapter": [torch.full((2,), float(step))], "optimizer": {}}


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    made = StateFolder(tmp_path / "state")
    made.folder.mkdir()
    return made


def test_the_newest_two_checkpoints_are_kept_and_the_newest_is_loaded(state: StateFolder):
    assert state.load("a key") is None
    for step in (2, 9, 10, 11):
        state.save(step, content(step))
    assert sorted(path.name for path in state.folder.iterdir()) == ["step_10.pt", "step_11.pt"]
    loaded = state.load("a key")
    assert loaded["step"] == 11
    assert loaded["adapter"][0].tolist() == [11.0, 11.0]


@pytest.mark.parametrize("left", [0, 100, 1000])
def test_a_truncated_checkpoint_falls_back_to_the_one_before(state, left, capsys):
    for step in (1, 2):
        state.save(step, content(step))
    newest = state.folder / "step_2.pt"
    newest.write_bytes(newest.read_bytes()[:left])
    assert state.load("a key")["step"] == 1
    assert "step_2.pt cannot be read" in capsys.readouterr().out


def test_a_checkpoint_of_another_run_is_an_error(state: StateFolder):
    state.save(1, content(1, key="another"))
    with pytest.raises(UserError, match="belongs to the run another, not to a key"):
        state.load("a key")


def test_the_log_is_cut_behind_the_checkpoint(state: StateFolder):
    for step in (1, 2, 3):
        state.log({"step": step})
    with open(state.log_path, "a") as handle:
        handle.write('{"step": 4, "c')  # killed while it wrote
    state.cut_log(2)
    assert [json.loads(line) for line in state.log_path.read_text().splitlines()] == [
        {"step": 1},
        {"step": 2},
    ]
    state.cut_log(0)
    assert state.log_path.read_text() == ""


def test_one_process_holds_the_state_and_its_death_frees_it(state: StateFolder):
    command = [sys.executable, "-c", HOLDER, str(state.folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"another process .pid {holder.pid} on"):
            state.lock(wait_seconds=0.3)
    finally:
        holder.kill()
        holder.communicate()
    (state.folder / ".step_3.pt.99.tmp").write_bytes(b"half")
    state.lock(wait_seconds=5)
    assert [path.name for path in state.folder.iterdir()] == ["lock"]


def test_a_lock_on_a_removed_folder_is_not_taken_for_the_new_one(state, monkeypatch):
    """The first ends just when the second locks: the second and a third are not both let in."""
    state.lock()
    take = fcntl.flock

    def take_late(handle, operation):
        monkeypatch.undo()
        state.remove()
        state._lock.close()
        take(handle, operation)

    monkeypatch.setattr(fcntl, "flock", take_late)
    second, third = StateFolder(state.folder), StateFolder(state.folder)
    second.lock(wait_seconds=5)
    with pytest.raises(UserError):
        third.lock(wait_seconds=0.3)


def test_a_run_goes_on_from_what_can_be_read(world: World, tmp_path: Path):
    """Three steps, the newest checkpoint broken: the end is that of a run without a break."""

    class Stop(Exception):
        pass

    def stop(step: int) -> None:
        trainer.checkpoint()
        if step == 3:
            raise Stop

    whole = world.trainer(tmp_path / "whole", lines(12), dropout=0.05)
    whole.run()
    trainer = world.trainer(tmp_path / "state", lines(12), dropout=0.05)
    trainer.on_step = stop
    with pytest.raises(Stop):
        trainer.run()
    newest = tmp_path / "state" / "step_3.pt"
    newest.write_bytes(newest.read_bytes()[:-500])
    resumed = world.trainer(tmp_path / "state", lines(12), dropout=0.05)
    steps = []
    resumed.on_step = steps.append
    resumed.run()
    assert steps == [3, 4]
    made, wanted = (dict(enumerate(trainer.parameters)) for trainer in (resumed, whole))
    assert difference(made, wanted) == 0
    log = (tmp_path / "state" / "train_log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == [1, 2, 3, 4]
