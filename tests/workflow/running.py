"""Runs the real Snakemake on a small configuration in a folder of its own."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = REPOSITORY.parent / "shared"
# What of the checkout runs when it is used.
CHECKOUT = ("Snakefile", "rules", "scripts", "adaptermill", "envs", "profiles", "docs/captions")

# Small enough for minutes, with every stage in it: a base of few steps and adapters of few rows.
SMALL: dict[str, Any] = {
    "base": {"model": "example", "example": {"steps": 20}},
    "sources": [{"name": "example", "format": "example", "episodes": 60}],
    "split": {"validation_fraction": 0.2},
    "recipe": {"rank": 4, "alpha": 8, "epochs": 1, "limit": 12, "learning_rate": 1e-3},
    "adapters": {"drag": {"families": ["Drag & gesture"]}},
    "evaluation": {"generate": False, "bootstrap": 200},
}


def overlay(below: Any, above: Any) -> Any:
    """`above` laid over a copy of `below`, mapping by mapping."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {
            **copy.deepcopy(below),
            **{name: overlay(below.get(name), value) for name, value in above.items()},
        }
    return copy.deepcopy(above)


def copy_checkout(folder: Path, *more: str) -> None:
    """Copies what runs (and the files named beside it) to `folder`."""
    skip = shutil.ignore_patterns("__pycache__")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*CHECKOUT, *more):
        place = REPOSITORY / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=skip)
        else:
            shutil.copyfile(place, folder / name)


class Run:
    """What one Snakemake invocation said and did."""

    def __init__(self, finished: subprocess.CompletedProcess[str]) -> None:
        self.status = finished.returncode
        self.output = finished.stdout + finished.stderr

    @property
    def jobs(self) -> Counter[str]:
        """Rule -> number of jobs that ended well."""
        return Counter(re.findall(r"Finished jobid: \d+ \(Rule: (\w+)\)", self.output))

    def __repr__(self) -> str:
        return f"<status {self.status}, jobs {dict(self.jobs)}>\n{self.output[-6000:]}"


class Workspace:
    """A folder with a config.yaml in which this checkout (or a copy of it) is run."""

    def __init__(
        self, folder: Path, settings: dict[str, Any], repository: Path = REPOSITORY
    ) -> None:
        self.folder = folder
        self.repository = repository
        self.settings = settings
        folder.mkdir(parents=True, exist_ok=True)
        self.configure({})

    def configure(self, change: dict[str, Any]) -> None:
        """Lays `change` over the configuration and writes it."""
        self.settings = overlay(self.settings, change)
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.settings, sort_keys=False), encoding="utf-8")

    def arguments(self, *targets: str) -> list[str]:
        """The command line of an invocation; targets may be options too."""
        return [
            str(Path(sys.executable).with_name("snakemake")),
            *("--snakefile", str(self.repository / "Snakefile")),
            *("--workflow-profile", str(self.repository / "profiles" / "default")),
            *("--directory", str(self.folder), "--cores", "2", *targets),
        ]

    def run(self, *targets: str, check: bool = True) -> Run:
        environment = {**os.environ, "PYTHONPATH": ""}
        run = Run(
            subprocess.run(
                self.arguments(*targets),
                capture_output=True,
                text=True,
                env=environment,
                cwd=self.folder,
            )
        )
        assert not check or run.status == 0, run
        return run

    def path(self, name: str) -> Path:
        return self.folder / name
