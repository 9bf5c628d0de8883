"""A copy of the checkout, a small data set and a tiny base: a whole mill that tests may edit.

Every build is checked against what `status` said before it: what was fresh is not trained, what was
stale is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from adaptermill.example.episodes import draw_episode
from adaptermill.example.write import write_episodes
from adaptermill.splits import fraction_key, side_of_episode
from tests.tiny_base import make_tiny_base
from tests.workflow.running import Run, Workspace, copy_checkout

EPISODES = 48
SEED = 0
VALIDATION = 0.2
SIX = {
    "pooled": {"beta": 0},
    "drag": {"families": ["Drag & gesture"], "init_from": "pooled", "limit": None},
    "text": {"families": ["Text entry"], "init_from": "pooled"},
    "half": {"beta": 0, "fraction": 0.5, "limit": None},
    "full": {"beta": 0, "limit": None},
    "form": {"families": ["Form transaction"], "judge": "format"},
}
SETTINGS: dict[str, Any] = {
    "base": {"model": "BASE"},
    "sources": [{"name": "main", "format": "replay", "path": "DATA"}],
    "ingest": {"max_quarantined": 50},
    "split": {"validation_fraction": VALIDATION},
    "recipe": {
        **{"rank": 2, "alpha": 4, "epochs": 1, "limit": 8, "max_steps": 1},
        **{"anchor_ratio": 0.25, "learning_rate": 1e-3},
    },
    "judges": {"format": {"kind": "action_format"}},
    "adapters": SIX,
    "evaluation": {"generate": False, "bootstrap": 100},
    # Two jobs side by side on two cores.
    "resources": {"train": {"threads": 1}, "evaluate": {"threads": 1}},
}


class Mill(Workspace):
    """A workspace whose code, data and configuration a test may change."""

    @classmethod
    def make(cls, folder: Path, **settings: Any) -> Mill:
        """Copies the checkout, draws the data and makes the base, all below `folder`."""
        checkout = folder / "checkout"
        copy_checkout(checkout)
        write_episodes(folder / "data", EPISODES, SEED)
        make_tiny_base(folder / "base")
        return cls.beside(folder, folder / "work", checkout, **settings)

    @classmethod
    def beside(cls, folder: Path, work: Path, checkout: Path, **settings: Any) -> Mill:
        """A workspace at `work` on the data and the base below `folder`."""
        given = {**SETTINGS, **settings}
        if given["base"] == SETTINGS["base"]:
            given["base"] = {"model": str(folder / "base")}
        given["sources"] = [{"name": "main", "format": "replay", "path": str(folder / "data")}]
        mill = cls(work, given, checkout)
        mill.data = folder / "data"
        return mill

    data: Path

    # ---- building ------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return list(self.settings["adapters"])

    @property
    def adapters(self) -> list[str]:
        """The targets of all adapters, without evaluations and tables."""
        return [f"results/adapters/{name}" for name in self.names]

    @property
    def decided(self) -> list[str]:
        """Targets that let every key be known, without training anything."""
        compositions = [f"results/fitsets/{name}/composition.json" for name in self.names]
        return [*compositions, "results/splits/heldout.json", "results/base/base.json"]

    def build(self, *targets: str, check: bool = True) -> Run:
        """Runs Snakemake; what `status` said before must hold for every adapter asked for."""
        before = self.status()
        run = self.run(*targets, check=check)
        if check and "--touch" not in targets and not {"-R", "--forcerun"} & set(targets):
            trained = set(self.trained(run))
            fresh = {name for name, state in before.items() if state["state"] == "fresh"}
            assert not trained & fresh, (before, run)
            asked = [name for name in self.names if f"results/adapters/{name}" in targets]
            whole = not any(target.startswith("results/") for target in targets)
            if whole and not {"--until", "-n"} & set(targets):
                asked = self.names
            stale = {name for name in asked if before[name]["state"] == "stale"}
            assert stale <= trained, (before, run)
        return run

    @staticmethod
    def trained(run: Run) -> list[str]:
        """The adapters that a run trained, sorted; each training must have ended."""
        names = sorted(re.findall(r"^Job \d+: Training adapter (\w+)$", run.output, re.MULTILINE))
        return names if run.jobs["train"] == len(names) else [*names, "and not all ended"]

    @staticmethod
    def evaluated(run: Run) -> list[str]:
        return sorted(re.findall(r"^Job \d+: Evaluating (\w+) on", run.output, re.MULTILINE))

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`python -m adaptermill` of the copied checkout, in the workspace."""
        environment = {**os.environ, "PYTHONPATH": str(self.repository)}
        return subprocess.run(
            [sys.executable, "-m", "adaptermill", *arguments],
            **{"capture_output": True, "text": True, "env": environment, "cwd": self.folder},
        )

    def status(self) -> dict[str, dict[str, Any]]:
        """What `status` says: adapter -> state, key and causes."""
        done = self.command("status", "--json")
        assert done.returncode == 0, done.stderr
        return {each["name"]: each for each in json.loads(done.stdout)}

    def keys(self) -> dict[str, str | None]:
        return {name: state["key"] for name, state in self.status().items()}

    def published(self, name: str) -> dict[str, Any]:
        return json.loads(self.path(f"results/adapters/{name}/training.json").read_text("utf-8"))

    # ---- editing -------------------------------------------------------------------------------

    def edit(self, file: str, old: str, new: str) -> None:
        """Replaces the one place of `old` in a file of the copied checkout."""
        path = self.repository / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (file, old, text.count(old))
        path.write_text(text.replace(old, new), encoding="utf-8")

    def forget(self) -> None:
        """Deletes what Snakemake remembers."""
        shutil.rmtree(self.path(".snakemake"), ignore_errors=True)

    def add_episode(self, index: int) -> str:
        """Adds the example's episode of that number; returns its name."""
        episode = draw_episode(SEED, index)
        self.write(episode.task_id, episode.files(0))
        return episode.task_id

    def write(self, task_id: str, files: dict[str, bytes]) -> None:
        (self.data / task_id).mkdir()
        for name, content in files.items():
            (self.data / task_id / name).write_bytes(content)

    def remove_episode(self, task_id: str) -> None:
        shutil.rmtree(self.data / task_id)


def find_episode(
    family: str, *, held_out: bool, half: bool | None = None, after: int = EPISODES
) -> int:
    """The first further plain example episode of `family` on that side.

    `half`: whether it is inside the fraction 0.5.
    """
    for index in range(after, after + 2000):
        episode = draw_episode(SEED, index)
        name = episode.task_id
        plain = "~" not in name and not name.startswith("chain")
        on_side = side_of_episode([name], VALIDATION) == ("validation" if held_out else "train")
        inside = half in (None, fraction_key([name]) < 0.5)
        if plain and on_side and inside and {row["family"] for row in episode.rows} == {family}:
            return index
    raise AssertionError("no such episode")
