"""What a user gets wrong ends with a message that names the place and the way out."""

import json
import shutil

import pytest

from tests.rows.building import record, write_episode
from tests.workflow.running import SMALL, Workspace, overlay


def replay(path: str, **change) -> dict:
    source = [{"name": "main", "format": "replay", "path": path}]
    return overlay(overlay(SMALL, {"sources": source}), change)


def failed(workspace: Workspace, *targets: str) -> str:
    """What a run that must fail says."""
    run = workspace.run(*targets, check=False)
    assert run.status != 0, run
    return run.output


def test_an_empty_source(tmp_path):
    (tmp_path / "data").mkdir()
    said = failed(Workspace(tmp_path, replay("data")), "results/ingest/summary.json")
    assert "no episode in data" in said and "rows.jsonl" in said


def test_a_source_that_is_not_there(tmp_path):
    said = failed(Workspace(tmp_path, replay("nowhere")), "results/ingest/summary.json")
    assert "there is no folder nowhere" in said


def test_broken_json_and_a_missing_screenshot_stop_the_run_with_their_lines(tmp_path):
    workspace = Workspace(tmp_path, replay("data"))
    write_episode(tmp_path / "data", "a", [record("a", 0), '{"task_id": '])
    write_episode(tmp_path / "data", "b", [record("b", 0)], files={})
    said = failed(workspace, "results/ingest/summary.json")
    assert "2 of 3 lines" in said
    assert "json_syntax" in said and "image_missing" in said
    assert "ingest.max_quarantined" in said


def test_a_base_folder_that_is_no_model(tmp_path):
    (tmp_path / "model").mkdir()
    settings = overlay(SMALL, {"base": {"model": "./model"}})
    said = failed(Workspace(tmp_path, settings), "results/base/base.json")
    assert "./model is not a model" in said and "config.json" in said


def test_an_unknown_key_in_the_configuration(tmp_path):
    settings = overlay(SMALL, {"adapters": {"drag": {"rnak": 8}}})
    said = failed(Workspace(tmp_path, settings), "results/adapters/drag")
    assert "adapters.drag.rnak: unknown key; did you mean 'rank'" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_an_adapter_whose_families_no_row_has(tmp_path):
    settings = overlay(SMALL, {"adapters": {"drag": {"families": ["Dragging"]}}})
    said = failed(Workspace(tmp_path, settings), "results/adapters/drag")
    assert "no row has the family 'Dragging'" in said and "Drag & gesture" in said


def test_validate_finds_what_is_wrong_before_anything_is_built(tmp_path, monkeypatch, capsys):
    from adaptermill.__main__ import main

    Workspace(tmp_path, replay("nowhere", base={"model": "./nothing"}))
    monkeypatch.chdir(tmp_path)
    assert main(["validate"]) == 2
    said = capsys.readouterr().out
    assert "there is no folder nowhere" in said and "./nothing" in said
    assert not (tmp_path / "results").exists()
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_schema_is_printed(capsys):
    from adaptermill.__main__ import main

    assert main(["schema"]) == 0
    assert "adapters" in json.loads(capsys.readouterr().out)["properties"]
