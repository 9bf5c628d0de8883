"""Trackers get the figures of the log; one that is not asked for is not even loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adaptermill.errors import UserError
from adaptermill.training.tracking import KINDS, Trackers
from tests.training.world import REPOSITORY, Job, World, lines


def tracked(world: World, folder: Path, *names: str) -> Job:
    options = [part for name in names for part in ("--tracking", name)]
    job = world.job(folder / "job", lines(6), *options, "--tracks", folder / "tracks")
    # A tracker may need a process of its own (and wandb starts one).
    result = job.finish()
    assert result.status == 0, result.output
    return job


def test_none_is_loaded_unless_asked_for():
    code = (
        "import sys; import scripts.train; "
        "assert not {'tensorboard', 'wandb', 'trackio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_one_that_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"tracking: wandb is not installed.*pip install wandb"):
        Trackers(["wandb"], "drag", "key", {}, tmp_path)
    assert set(KINDS) == {"tensorboard", "wandb", "trackio"}


def test_one_that_fails_is_left_out(tmp_path: Path, capsys):
    pytest.importorskip("tensorboard")
    trackers = Trackers(["tensorboard"], "drag", "key", {}, tmp_path)
    trackers.log({"step": 1, "ce": 0.5, "anchor": None})
    trackers.log({"step": 2, "ce": "not a number"})
    assert "TensorBoard failed and is left out" in capsys.readouterr().out
    assert trackers.opened == []
    trackers.log({"step": 3, "ce": 0.5})
    trackers.close()


@pytest.mark.slow
def test_tensorboard(world: World, tmp_path: Path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    job = tracked(world, tmp_path, "tensorboard")
    events = EventAccumulator(str(tmp_path / "tracks/tensorboard/drag-0123456789abcdef")).Reload()
    losses = [(event.step, event.value) for event in events.Scalars("ce")]
    assert losses == [(line["step"], pytest.approx(line["ce"])) for line in job.log]
    assert "prefix_saved" in events.Tags()["scalars"]


@pytest.mark.slow
def test_wandb_without_a_network(world: World, tmp_path: Path):
    pytest.importorskip("wandb")
    tracked(world, tmp_path, "wandb")
    (run,) = (tmp_path / "tracks/wandb").glob("offline-run-*-0123456789abcdef")
    (stored,) = run.glob("*.wandb")
    content = stored.read_bytes()
    assert b"prefix_saved" in content and b"learning_rate" in content


@pytest.mark.slow
def test_trackio(world: World, tmp_path: Path):
    pytest.importorskip("trackio")
    tracked(world, tmp_path, "trackio")
    (store,) = (tmp_path / "tracks/trackio").glob("*.db")
    assert b"prefix_saved" in store.read_bytes()
