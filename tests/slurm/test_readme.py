"""The README's section "On a cluster", followed word for word on a SLURM: the example is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.slurm.mill import ATTENTIVE, SUBMITTED, job_facts
from tests.workflow.running import REPOSITORY, SMALL, copy_checkout, overlay

pytestmark = pytest.mark.slow
# Enough for every stage to have something to do.
TINY = {
    "base": {"model": "example", "example": {"steps": 5}},
    "sources": [{"name": "example", "format": "example", "episodes": 40}],
}


def blocks(kind: str) -> list[str]:
    """The section's code blocks of that kind."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    [section] = re.findall(r"^## On a cluster\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{kind}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_the_section_builds_the_whole_example(slurm: None, tmp_path: Path):
    copy_checkout(tmp_path)
    [settings], [commands] = blocks("yaml"), blocks("bash")
    configuration = overlay(overlay(SMALL, TINY), yaml.safe_load(settings))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(configuration), encoding="utf-8")
    programs = tmp_path / "programs"
    programs.mkdir()
    snakemake = programs / "snakemake"
    options = "--slurm-init-seconds-before-status-checks 1"
    snakemake.write_text(f'#!/bin/sh\nexec {sys.executable} {ATTENTIVE} "$@" {options}\n')
    snakemake.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": "", "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        **{"capture_output": True, "text": True, "cwd": tmp_path, "env": environment},
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-6000:]
    assert "slurm_partition" in said or "CHANGE" in done.stdout
    table = pd.read_csv(tmp_path / "results/tables/evaluation.csv")
    assert set(table["adapter"]) == {"base", "drag"}
    assert "Time and memory of each rule" in (tmp_path / "results/report.html").read_text("utf-8")
    asked = {}
    for _, job in SUBMITTED.findall(said):
        facts = job_facts(job)
        rule = facts["Comment"].removeprefix("rule_").split("_wildcards_")[0]
        asked[rule] = {name: facts[name] for name in ("JobState", "TimeLimit", "MinMemoryNode")}
    assert {"ingest", "measure", "fitset", "train", "evaluate", "tables", "report"} <= asked.keys()
    assert {each["JobState"] for each in asked.values()} == {"COMPLETED"}
    assert (asked["train"]["TimeLimit"], asked["train"]["MinMemoryNode"]) == (
        "1-00:00:00",
        "62.50G",
    )
    assert (asked["ingest"]["TimeLimit"], asked["ingest"]["MinMemoryNode"]) == ("01:00:00", "4000M")
