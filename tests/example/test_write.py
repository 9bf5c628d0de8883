"""Replay roots of example episodes: the same bytes however many, by whom, in whichever process."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adaptermill.errors import UserError
from adaptermill.example.write import write_episodes

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "example_source.py"


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_more_episodes_change_no_old_one(tmp_path: Path) -> None:
    write_episodes(tmp_path / "few", 15, seed=3)
    write_episodes(tmp_path / "many", 30, seed=3)
    few, many = digests(tmp_path / "few"), digests(tmp_path / "many")
    assert few.items() < many.items()
    assert len(list((tmp_path / "many").iterdir())) == 30


def test_processes_and_hash_seeds_do_not_matter(tmp_path: Path) -> None:
    write_episodes(tmp_path / "here", 60, seed=0)
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, SCRIPT, "--episodes", "60", "--jobs", "2", "--output"]
    subprocess.run([*command, tmp_path / "there"], env=environment, check=True)
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_a_second_run_writes_only_what_is_missing_or_wrong(tmp_path: Path) -> None:
    assert write_episodes(tmp_path, 12, seed=0).written == 12
    before = digests(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / names[0] / "rows.jsonl").write_text("")
    (tmp_path / names[1] / "step_000.png").unlink()
    (tmp_path / "_interrupted.123").mkdir()
    again = write_episodes(tmp_path, 12, seed=0)
    assert (again.written, again.kept, again.removed) == (2, 10, 1)
    assert digests(tmp_path) == before


def test_a_smaller_set_removes_the_rest_but_nothing_of_others(tmp_path: Path) -> None:
    write_episodes(tmp_path, 12, seed=0)
    assert write_episodes(tmp_path, 5, seed=0).removed == 7
    recorded = tmp_path / "recorded-episode"
    recorded.mkdir()
    (recorded / "episode.json").write_text(json.dumps({"agent": "someone"}))
    with pytest.raises(UserError, match="recorded-episode"):
        write_episodes(tmp_path, 5, seed=0)
    assert recorded.is_dir()


def test_the_command_takes_a_spec_and_counts_rows(tmp_path: Path) -> None:
    spec, summary = tmp_path / "spec.json", tmp_path / "summary.json"
    spec.write_text(json.dumps({"settings": {"episodes": 10, "seed": 4}}))
    command = [sys.executable, SCRIPT, "--spec", spec, "--output", tmp_path / "root"]
    subprocess.run([*command, "--summary", summary, "--image-kb", "20"], check=True)
    counted = json.loads(summary.read_text())
    lines = sum(
        len(path.read_text().splitlines()) for path in (tmp_path / "root").glob("*/rows.jsonl")
    )
    assert counted["episodes"] == 10 and sum(counted["rows"].values()) == lines
    assert all(path.stat().st_size == 20_000 for path in (tmp_path / "root").glob("*/*.png"))
