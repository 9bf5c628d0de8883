"""Small reports, made by the command lines as the workflow calls them, from predictions by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adaptermill.fitsets.composition import composition
from adaptermill.fitsets.labels import LABELS
from adaptermill.fitsets.plan import Line
from scripts import report, tables
from tests.evaluation.building import click, predictions, row, written
from tests.rows.building import Ingested, picture, record, write_episode

DRAG, TYPING, EMPTY = "Drag & gesture", "Text entry", "Navigation"


def drag(x: int, y: int) -> str:
    action = {"drag": {"start_x": 10, "start_y": 12, "end_x": x, "end_y": y}}
    return json.dumps({"memory": "m", "action": [action]})


def prompt(text: str) -> list[dict[str, Any]]:
    shown = {"type": "image_url", "image_url": {"url": "step_000.png"}}
    return [{"role": "user", "content": [{"type": "text", "text": text}, shown]}]


def records(episodes: int = 6, **changes: Any) -> list[dict[str, Any]]:
    """Two steps an episode: one drags, one clicks element 1."""
    found = []
    for number in range(episodes):
        task = f"task-{number}"
        text = f"Task: do {number}\n[1]<button>Go {number}</button>\n[2]<a>Back</a>"
        common = {"messages": prompt(text), **changes}
        found.append(record(task, 0, **{"family": DRAG, "target": drag(60, 30), **common}))
        found.append(record(task, 1, **{"family": TYPING, "target": click(1), **common}))
    return found


@dataclass
class World:
    """An ingested source, and what is said of adapters on it."""

    folder: Path
    rows: list[dict[str, Any]]
    own: Mapping[str, Sequence[str]]
    generated: bool = True
    families: Sequence[str] = (DRAG, EMPTY, TYPING)
    replicates: Sequence[Sequence[str]] = ()
    base_name: str = "tiny"
    logs: bool = True
    sides: Sequence[str] = ("validation",)

    def __post_init__(self) -> None:
        by_task: dict[str, list[dict[str, Any]]] = {}
        for line in self.rows:
            by_task.setdefault(line["task_id"], []).append(line)
        for task, lines in by_task.items():
            shown = picture("beige", size=(80, 50))
            write_episode(self.folder / "raw", task, lines, {"step_000.png": shown})
        self.ingested = Ingested(self.folder / "ingest", self.folder / "raw")

    def predictions(self, name: str) -> list[dict[str, Any]]:
        """The base is wrong everywhere; an adapter is right on its own families, and surer."""
        generator = np.random.default_rng(0)
        own = self.own.get(name, ())
        made = []
        for number, line in enumerate(self.rows):
            logps = -generator.gamma(4.0, 0.5, size=4) - 1.0
            mine = line["family"] in own
            shift = 0.9 if mine else 0.0 if name == "base" else -0.4
            said = line["target"] if mine else click(2) if line["family"] != DRAG else drag(20, 40)
            made.append(
                {
                    **row(
                        line["task_id"],
                        line["step"],
                        (logps + shift).tolist(),
                        family=line["family"],
                        greedy=mine,
                        predicted=said if self.generated else None,
                        target=line["target"],
                        side=self.sides[number // 2 % len(self.sides)],
                    ),
                    "epochs_nll": [2.0] if name != "base" and self.logs else None,
                    "screen_width": 80,
                    "screen_height": 50,
                }
            )
        return made

    def make(self, output: str = "report.html") -> Path:
        """The page's path."""
        names = ["base", *self.own]
        listed = [predictions(name, self.predictions(name)) for name in names]
        files = written(self.folder, *listed)
        self._write_products()
        given = ["--spec", "tables.json", "--output-folder", "tables", "--leaks", "leaks.json"]
        given += ["--episodes", "episodes.parquet", "--ingest-summary", "summary.json"]
        given = [part if part[0] == "-" else str(self.folder / part) for part in given]
        adapters = [str(self.folder / "adapters" / name) for name in self.own]
        if adapters:
            made = [str(self.folder / f"{name}.composition.json") for name in self.own]
            given += ["--fitsets", *made, "--training", *adapters]
        tables.main(["--evaluations", *files, *given])
        page = self.folder / output
        arguments = ["--spec", self.folder / "report.json", "--tables", self.folder / "tables"]
        arguments += ["--data", self.ingested.folder, "--base", self.folder / "base.json"]
        arguments += ["--output", page, "--figures", self.folder / "figures"]
        arguments += ["--evaluations", *files, "--adapters", *adapters]
        report.main([str(part) for part in arguments])
        return page

    def _write_products(self) -> None:
        files: dict[str, Any] = {
            "base.json": {"model": self.base_name, "revision": None, "identity": "base"},
            "leaks.json": {"duplicates": {"text": {"heldout_rows": 2, "examples": []}}},
            "summary.json": {
                "sources": {
                    "main": {
                        **{"lines": 15, "rows": 12, "quarantined": 3},
                        "reasons": {"json_syntax": 3},
                    }
                }
            },
            "tables.json": {
                "settings": {
                    **{"adapters": list(self.own), "families": list(self.families)},
                    **{"bootstrap": 200, "replicates": list(self.replicates)},
                    "sides": list(self.sides),
                }
            },
            "report.json": {
                "settings": {
                    **{"adapters": list(self.own), "parents": {}, "tolerance": 0.02},
                    **{"seed": 0, "gallery_rows": 4, "sides": list(self.sides)},
                }
            },
        }
        for name, families in self.own.items():
            files[f"{name}.composition.json"] = _composition(name, families)
            files[f"adapters/{name}/training.json"] = _training(name)
            log = "".join(json.dumps(line) + "\n" for line in _log())
            (self.folder / "adapters" / name).mkdir(parents=True, exist_ok=True)
            if self.logs:
                (self.folder / "adapters" / name / "train_log.jsonl").write_text(log)
        for name, value in files.items():
            (self.folder / name).write_text(json.dumps(value), encoding="utf-8")
        episodes = pd.DataFrame({"task_id": [line["task_id"] for line in self.rows]})
        episodes = episodes.assign(
            families=[[line["family"]] for line in self.rows], variant="plain", rows=1
        )
        episodes.assign(side="validation").to_parquet(self.folder / "episodes.parquet")


def _composition(name: str, families: Sequence[str]) -> dict[str, Any]:
    rows = [
        {
            **{"row_id": f"main/t/{n}", "kind": "ce", "family": families[n % len(families)]},
            **{"op": "click", "variant": "plain", "target_hash": "t", "content_hash": f"{n}"},
            **dict.fromkeys(("pair_id", *LABELS)),
        }
        for n in range(5)
    ]
    dropped = pd.DataFrame({"reason": ["held_out", "other_family"]})
    return composition(name, 7, pd.DataFrame(rows), dropped, [Line(0, 0, "main/t/0", "ce")], 2)


def _training(name: str) -> dict[str, Any]:
    return {
        **{"adapter": name, "method": "anchored", "key": f"key of {name}", "steps": 3},
        "base": {"model": "tiny", "revision": None, "identity": "base"},
        "recipe": {"rank": 4, "alpha": 8.0, "learning_rate": 1e-4, "seed": 0, "init_from": None},
        "rows": {"anchor": 2, "ce": 4},
        "hashes": {"fitset": "f", "plan": "p", "recipe": "r", "code": "c"},
        "telemetry": {"minutes": 1.5, "device": "cpu", "dtype": "float32"},
    }


def _log() -> list[dict[str, Any]]:
    return [
        {
            **{"rows": 2 * step, "of": 20, "step": step, "epoch": step // 5},
            **{"ce": 3.0 / step, "anchor": 0.01 * step if step % 2 else None},
        }
        for step in range(1, 11)
    ]
