"""Reference log-probabilities are computed once per row and reference, and stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adaptermill.training.loop import Shortcuts, Trainer
from adaptermill.training.references import References
from tests.training.world import Job, World, difference, lines, shake

IDENTITY = {"base": "b", "start": None, "dtype": "float32", "device": "cpu", "code": "c0de"}


def counted(trainer: Trainer) -> list[int]:
    """Grows by one with every reference that the trainer computes."""
    calls: list[int] = []
    compute = trainer.reference_logps
    trainer.reference_logps = lambda encoded: calls.append(1) or compute(encoded)
    return calls


def batch_results(world: World, folder: Path, store: Path | None) -> tuple[Trainer, list[int]]:
    kept = None if store is None else References(store, IDENTITY)
    plan = lines(12)
    trainer = world.trainer(folder, plan, batch_rows=12, shortcuts=Shortcuts(references=kept))
    shake(trainer.model)
    calls = counted(trainer)
    trainer.sums = trainer.accumulate(plan)
    return trainer, calls


def test_kept_values_are_those_computed_again(world: World, tmp_path: Path):
    """Bit for bit, in the run that computes them and in the next that reads them."""
    again, calls = batch_results(world, tmp_path, None)
    assert len(calls) == 4
    for computed in (4, 0):
        trainer, calls = batch_results(world, tmp_path, tmp_path / "store")
        assert len(calls) == computed
        assert trainer.sums.equal(again.sums)
        for one, other in zip(trainer.parameters, again.parameters, strict=True):
            assert one.grad.equal(other.grad)
        trainer.accumulate(trainer.batches[0])
        assert len(calls) == computed  # once, however often it is asked for
        trainer.shortcuts.references.write()


def values(kept: References) -> dict[str, torch.Tensor]:
    kept._read_new()
    return kept._known


def test_a_value_depends_on_its_row_alone(world: World, tmp_path: Path):
    """Not on the batch, its order or its prefix; made again from nothing it has the same bits."""
    rows = list(lines(12, anchors=1))
    found = []
    orders = ([rows], [rows[::-1]], [[row] for row in rows[5:] + rows[:5]])
    for number, batches in enumerate(orders):
        kept = References(tmp_path / str(number), IDENTITY)
        trainer = world.trainer(tmp_path, rows, shortcuts=Shortcuts(references=kept), dropout=0.05)
        shake(trainer.model, seed=number)
        for batch in batches:
            trainer.accumulate(batch)
        kept.write()
        found.append(values(References(tmp_path / str(number), IDENTITY)))
    assert len(found[0]) == 12
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(found[0][name].equal(other[name]) for name in other)


@pytest.mark.parametrize("part", IDENTITY)
def test_values_of_another_reference_are_not_taken(tmp_path: Path, part: str):
    one = References(tmp_path, IDENTITY)
    one.get("row", lambda: torch.zeros(3))
    one.write()
    other = References(tmp_path, {**IDENTITY, part: "other"})
    assert other.get("row", lambda: torch.ones(2)).tolist() == [1, 1]


def test_processes_share_what_each_has_written_and_a_broken_file_is_passed_over(
    tmp_path: Path, capsys
):
    one, other = (References(tmp_path, IDENTITY) for _ in range(2))
    one.get("a", lambda: torch.tensor([0.1, -1 / 3]))
    one.write()
    (one.folder / "0.parquet").write_bytes(b"PAR1 cut")
    found = other.get("a", lambda: pytest.fail("computed again"))
    assert found.equal(torch.tensor([0.1, -1 / 3]))
    assert "0.parquet cannot be read" in capsys.readouterr().out
    other.write()  # nothing new
    assert len(list(one.folder.glob("*.parquet"))) == 2


def test_runs_share_the_store_and_end_with_the_adapter_of_a_run_without(world, tmp_path: Path):
    jobs: list[Job] = []
    for name, options in (("none", []), ("first", ["store"]), ("second", ["store"])):
        given = [part for store in options for part in ("--references", tmp_path / store)]
        jobs.append(world.job(tmp_path / name, lines(12, epochs=2), *given, dropout=0.05))
        assert jobs[-1].run() == 0
    assert len(list((tmp_path / "store").glob("*/*.parquet"))) == 1
    assert difference(jobs[0].tensors, jobs[1].tensors) == 0
    assert difference(jobs[0].tensors, jobs[2].tensors) == 0


def test_a_branched_adapter_has_a_reference_of_its_own(world: World, tmp_path: Path):
    store = ("--references", tmp_path / "store")
    parent = world.job(tmp_path / "parent", lines(6), *store)
    assert parent.run() == 0
    branched = world.job(tmp_path / "child", lines(6), *store, "--parent", parent.output)
    assert branched.run() == 0
    assert branched.log[0]["anchor"] <= 1e-10
    assert len(list((tmp_path / "store").iterdir())) == 2
