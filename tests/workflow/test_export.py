"""Shards and adapters go out through Snakemake's storage plugins; once exported they stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from adaptermill.example.write import write_episodes
from tests.tiny_base import make_tiny_base
from tests.workflow.running import Workspace


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("rsync") is None, reason="the fs storage plugin takes rsync")
def test_what_was_exported_is_what_lies_here(tmp_path: Path):
    write_episodes(tmp_path / "data", 30, 0)
    make_tiny_base(tmp_path / "base")
    settings = {
        "base": {"model": str(tmp_path / "base")},
        "sources": [{"name": "main", "format": "replay", "path": str(tmp_path / "data")}],
        "recipe": {"rank": 2, "alpha": 4, "epochs": 1, "limit": 4, "beta": 0},
        "adapters": {"one": {}},
        "export": {"to": str(tmp_path / "elsewhere" / "mill")},
    }
    workspace = Workspace(tmp_path / "work", settings)
    run = workspace.run("exported")
    out = tmp_path / "elsewhere" / "mill"
    copies = [path for path in out.rglob("*") if path.is_file()]
    assert len(copies) >= 7
    for copy in copies:
        name = copy.relative_to(out)
        assert copy.read_bytes() == workspace.path(f"results/{name}").read_bytes(), name
    assert (out / "adapters/one/adapter_model.safetensors") in copies
    kinds = {path.parent.name for path in copies}
    assert {"shards", "images"} <= kinds
    assert run.jobs["train"] == 1
    assert not workspace.run("exported").jobs
    # Nothing that is exported is a reason to train.
    shutil.rmtree(out)
    assert not workspace.run("exported").jobs["train"]
