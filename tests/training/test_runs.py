"""Whole runs of scripts/train.py: what a finished adapter's folder holds, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from peft import PeftModel
from safetensors.torch import load_file

from adaptermill.models.base import load_model
from adaptermill.training.batches import PlanLine
from adaptermill.training.card import SERVER_RANKS, serving_command
from adaptermill.training.schedule import multiplier
from tests.training.world import SETTINGS, Job, World, difference, lines

LOG_FIELDS = [
    *("rows", "of", "step", "epoch", "ce", "anchor", "clamped", "lr", "grad_norm"),
    *("prefix_saved", "rows_per_s", "tokens_per_s", "eta_s", "peak_gb"),
]


@pytest.fixture(scope="module")
def finished(world: World, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A run over two epochs of seven rows, in batches of three."""
    job = world.job(tmp_path_factory.mktemp("finished"), lines(14, epochs=2), dropout=0.05)
    assert job.run() == 0
    return job


def test_the_folder_holds_the_adapter_and_what_belongs_to_it(finished: Job):
    names = sorted(path.name for path in finished.output.iterdir())
    assert names == [
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "epochs",
        "rows.parquet",
        "train_log.jsonl",
        "training.json",
    ]
    assert not finished.state.exists()


def test_a_finished_adapter_is_not_trained_again(finished: Job, capsys):
    """A trainer may outlive its caller and finish while the next one waits for the lock."""
    before = (finished.output / "training.json").stat().st_mtime_ns
    assert finished.run() == 0
    assert "holds this adapter already" in capsys.readouterr().out
    assert (finished.output / "training.json").stat().st_mtime_ns == before
    assert not finished.state.exists()


def test_training_json_says_what_the_adapter_is_made_of(finished: Job, world: World):
    record = finished.record
    assert record["adapter"] == "drag"
    assert record["method"] == "anchored"
    assert record["key"] == "0123456789abcdef"
    assert record["base"] == {"model": "tiny", "revision": None, "identity": world.ref.identity}
    assert record["recipe"] == SETTINGS | {"dropout": 0.05}
    assert record["rows"] == {"anchor": 4, "ce": 10}
    assert record["steps"] == 5
    assert record["hashes"] == {
        "base": world.ref.identity,
        "fitset": "hash of the fit set",
        "plan": "hash of the plan",
        "recipe": record["hashes"]["recipe"],
        "code": "c0de",
    }
    assert record["relative_change"] > 1e-3
    assert set(record["telemetry"]) == {
        *("minutes", "processes", "threads", "device", "dtype", "versions", "python", "machine"),
    }


def test_the_log_has_a_line_of_figures_for_every_step(finished: Job):
    log = finished.log
    assert [list(line) for line in log] == [LOG_FIELDS] * 5
    assert [line["step"] for line in log] == [1, 2, 3, 4, 5]
    assert [line["rows"] for line in log] == [3, 6, 9, 12, 14]
    assert [line["epoch"] for line in log] == [0, 0, 1, 1, 1]
    assert [line["lr"] for line in log] == [1e-2 * multiplier(step, 5) for step in range(5)]
    assert 0 <= log[0]["anchor"] <= 1e-10  # a new adapter is the reference
    assert log[-1]["anchor"] is None  # no anchor row in the last batch
    for line in log:
        assert math.isfinite(line["ce"]) and line["grad_norm"] > 0
        assert line["of"] == 14 and line["peak_gb"] > 0
        assert 0.1 < line["prefix_saved"] < 1 and line["rows_per_s"] > 0
    assert log[-1]["eta_s"] == 0
    assert log[-1]["ce"] < log[0]["ce"]


def test_each_epochs_adapter_is_kept(finished: Job, world: World):
    epochs = finished.output / "epochs"
    assert sorted(path.name for path in epochs.iterdir()) == ["1", "2"]
    first, last = (load_file(epochs / n / "adapter_model.safetensors") for n in "12")
    assert difference(last, finished.tensors) == 0
    assert difference(first, last) > 1e-4
    PeftModel.from_pretrained(load_model(world.ref), epochs / "1")


def test_the_card_has_front_matter_and_a_command_that_serves(finished: Job):
    text = (finished.output / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    front_matter = yaml.safe_load(front)
    assert front_matter["base_model"] == "tiny"
    assert front_matter["library_name"] == "peft"
    assert "lora" in front_matter["tags"]
    assert "vllm serve tiny --enable-lora --max-lora-rank 8 --lora-modules drag=" in body
    assert "screenshots were left out" not in body


@pytest.mark.parametrize("rank", [1, 8, 9, 64, 65, 200, 512])
def test_the_serving_command_names_a_rank_that_servers_take(rank: int):
    base = {"model": "owner/name", "revision": "abc"}
    record = {"adapter": "drag", "base": base, "recipe": {"rank": rank}}
    words = serving_command(record).split()
    named = int(words[words.index("--max-lora-rank") + 1])
    assert named in SERVER_RANKS and named >= rank
    assert words[words.index("--revision") + 1] == "abc"


def test_a_fractional_last_epoch_is_kept_too_and_the_curve_when_asked(world: World, tmp_path: Path):
    plan = [PlanLine(at // 5, at, line.row_id, line.kind) for at, line in enumerate(lines(7))]
    job = world.job(tmp_path, plan, "--keep-curve", "--save-every", 3, batch_rows=2)
    assert job.run() == 0
    kept = {path.name for path in (job.output / "epochs").iterdir()}
    assert kept == {"1", "2"}
    # The first step boundary at or after every third row.
    assert sorted(path.name for path in job.output.glob("rows_*")) == ["rows_4", "rows_6"]
    at_four, at_six = (
        load_file(job.output / f"rows_{rows}" / "adapter_model.safetensors") for rows in (4, 6)
    )
    # The first epoch's fifth row is in the third batch.
    assert difference(at_six, load_file(job.output / "epochs/1/adapter_model.safetensors")) == 0
    assert difference(at_four, at_six) > 1e-5


def test_saving_changes_no_result(world: World, tmp_path: Path):
    jobs = [
        world.job(tmp_path / str(every), lines(7), "--save-every", every, dropout=0.05)
        for every in (1, 5000)
    ]
    assert [job.run() for job in jobs] == [0, 0]
    assert difference(jobs[0].tensors, jobs[1].tensors) == 0


def test_branching_goes_through_the_command_line(world: World, tmp_path: Path, finished: Job):
    job = world.job(tmp_path, lines(6), "--parent", finished.output, init_from="pooled")
    assert job.run() == 0
    assert 0 <= job.log[0]["anchor"] <= 1e-10
    assert job.log[-1]["anchor"] > 0.0
    assert difference(job.tensors, finished.tensors) > 1e-4
    assert job.tensors.keys() == finished.tensors.keys()
    assert "Branched from `pooled`" in (job.output / "README.md").read_text()


def refused(job: Job, capsys: pytest.CaptureFixture[str], reason: str) -> str:
    """Runs the job twice; it must end with the same reason, the second time without training."""
    assert job.run() == 2
    first = capsys.readouterr()
    assert reason in first.err
    assert reason in (job.state / "refused.txt").read_text()
    assert not job.output.exists()
    written = (job.state / "refused.txt").read_bytes()
    assert job.run() == 2
    again = capsys.readouterr()
    assert reason in again.err and "delete" in again.err
    assert "rows of the plan on" not in again.out  # it did not begin
    assert (job.state / "refused.txt").read_bytes() == written
    return first.err


def test_an_adapter_that_did_not_move_is_refused(world: World, tmp_path: Path, capsys):
    job = world.job(tmp_path, lines(3), learning_rate=1e-12)
    refused(job, capsys, "the adapter did not move")


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_rows(world, tmp_path, capsys):
    plan = lines(12)
    job = world.job(tmp_path, plan, "--save-every", 1, learning_rate=1e30)
    said = refused(job, capsys, "is not finite at step 1")
    for line in plan[3:6]:
        assert f"{line.row_id} ({line.kind})" in said
    assert plan[0].row_id not in said and plan[6].row_id not in said
    assert [path.name for path in job.state.glob("step_*.pt")] == ["step_1.pt"]


def test_settings_that_cannot_be_trained_are_refused(world, tmp_path, capsys, finished: Job):
    refused(world.job(tmp_path / "empty", []), capsys, "nothing to train on")
    parent = ("--parent", finished.output)
    job = world.job(tmp_path / "rank", lines(3), *parent, rank=8, init_from="pooled")
    refused(job, capsys, "rank is 4 there and 8 here")


def test_what_may_be_mended_outside_leaves_no_refusal(world, tmp_path, capsys):
    """A row that is in no shard: the shards may be made again under the same key."""
    job = world.job(tmp_path, [PlanLine(0, 0, "main/gone/0", "ce")])
    assert job.run() == 2
    assert "main/gone/0" in capsys.readouterr().err
    assert not (job.state / "refused.txt").exists()


def test_the_output_of_an_earlier_run_is_replaced_whole(world: World, tmp_path: Path):
    job = world.job(tmp_path, lines(3))
    job.output.mkdir()
    (job.output / "stale.txt").write_text("old")
    (tmp_path / ".adapter.99.tmp").mkdir()  # of one that was killed while it wrote
    assert job.run() == 0
    assert not (tmp_path / ".adapter.99.tmp").exists()
    assert not (job.output / "stale.txt").exists()
    assert json.loads((job.output / "training.json").read_text())["steps"] == 1
