"""What a killed Snakemake marked as unfinished is not made again where it lies there whole."""

from pathlib import Path

from snakemake.persistence.file import FilePersistence

from adaptermill.specs import STORE
from adaptermill.unfinished import forgive_whole

WHOLE = str(STORE / "adapters" / "0f3a")
LONG = str(STORE / "adapters" / ("long/" * 60 + "0f3a"))
MISSING = str(STORE / "evaluations" / "77aa.parquet")
OUTSIDE = "results/fitsets/drag/fitset.parquet"


def test_only_marks_of_whole_work_in_the_store_are_deleted(tmp_path, monkeypatch):
    """Marks written by Snakemake itself; other outputs may be half written."""
    monkeypatch.chdir(tmp_path)
    persistence = FilePersistence(path=tmp_path / ".snakemake")
    for path in (WHOLE, LONG, MISSING, OUTSIDE):
        persistence._mark_incomplete(path, None)
    for path in (WHOLE, LONG):
        Path(path).mkdir(parents=True)
    Path(OUTSIDE).parent.mkdir(parents=True)
    Path(OUTSIDE).write_text("half", encoding="utf-8")
    assert sorted(forgive_whole()) == sorted([WHOLE, LONG])
    again = FilePersistence(path=tmp_path / ".snakemake")
    left = again._filter_incomplete_keys([WHOLE, LONG, MISSING, OUTSIDE])
    assert left == {MISSING, OUTSIDE}


def test_a_folder_without_marks_and_files_that_are_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert forgive_whole() == []
    Path(".snakemake/incomplete").mkdir(parents=True)
    Path(".snakemake/incomplete/migration_underway").write_text("", encoding="utf-8")
    assert forgive_whole() == []
    assert Path(".snakemake/incomplete/migration_underway").exists()
