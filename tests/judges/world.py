"""Replay rows through the real scripts up to a judge: a folder in which scripts/judge.py runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from adaptermill.measurements import MEASURE_SCHEMA
from scripts import fitset, split
from scripts import judge as script
from tests.fitsets.building import DRAG, settings
from tests.judges.building import settings_of
from tests.rows.building import Ingested, record, write_episode
from tests.tiny_base import make_tiny_base

REPOSITORY = Path(__file__).resolve().parents[2]
SPLIT = {
    **{"validation_fraction": 0.2, "test_fraction": 0.0, "group_by": "source"},
    **{"mixed_chains": "exclude", "allow_leaks": False, "families": {}},
    "near_duplicates": {"threshold": 1, "ngram": 5, "permutations": 16, "report": False},
}


class World:
    """Episodes of one family; `judge` runs the real script on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw = folder / "raw"
        self.store = folder / "store"
        self.spec = folder / "judge.spec.json"
        folder.mkdir(parents=True, exist_ok=True)
        make_tiny_base(folder / "base").write(folder / "base.json")

    def episodes(self, names: list[str], steps: int = 4, described: Any = None, **fields: Any):
        """Episodes whose rows differ in their text; `fields` go to all of their rows."""
        for name in names:
            lines = [record(name, step, family=DRAG, **fields) for step in range(steps)]
            write_episode(self.raw, name, lines, described=described)

    def index(self) -> None:
        """Ingests, splits and measures what lies in `raw` now."""
        data = Ingested(self.folder / "work", self.raw).folder
        self._run(
            split,
            {
                **{"--spec": self._written("split", SPLIT), "--data": data},
                **{f"--{name}": self.folder / f"{name}.parquet" for name in ("episodes", "rows")},
                "--leaks": self.folder / "leaks.json",
            },
        )
        counts = {"prompt_tokens": 90, "target_tokens": 10, "image_tokens": 4}
        rows = pq.read_table(self.folder / "rows.parquet", columns=["row_id"]).to_pylist()
        lines = [{**row, **counts, "has_action_key": True} for row in rows]
        table = pa.Table.from_pylist(lines, schema=MEASURE_SCHEMA)
        pq.write_table(table, self.folder / "measures.parquet")

    def configure(self, judge: dict[str, Any], **recipe: Any) -> None:
        """The specs of the judge and of the fit set that asks it."""
        made = settings_of(judge)
        chosen = settings(**recipe)
        chosen["recipe"]["judge"] = "j"
        chosen["judge_configured"] = made["configured"]
        made["adapters"] = {"drag": chosen}
        made["actions"] = {}
        self._written("judge", made)
        self._written("fitset", chosen)

    def arguments(self, **endpoint: Any) -> list[str]:
        given = {
            **self._inputs(),
            **{"--spec": self.spec, "--base": self.folder / "base.json"},
            "--data": self.folder / "work" / "ingested",
            **{"--store": self.store, "--hash-cache": self.folder / "hashes"},
            **{"--output": self.folder / "j.parquet", "--summary": self.folder / "j.json"},
            "--endpoint": json.dumps(endpoint),
        }
        return [str(part) for pair in given.items() for part in pair]

    def command(self, **endpoint: Any) -> list[str]:
        return [sys.executable, str(REPOSITORY / "scripts/judge.py"), *self.arguments(**endpoint)]

    def judge(self, **endpoint: Any) -> dict[str, Any]:
        script.main(self.arguments(**endpoint))
        return json.loads((self.folder / "j.json").read_text())

    def lines(self) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "j.parquet").to_pylist()

    def fitset(self, *, judged: bool = True) -> dict[str, Any]:
        values = {
            **self._inputs(),
            **{"--spec": self.folder / "fitset.spec.json", "--output-folder": self.folder / "set"},
            **({"--judged": self.folder / "j.parquet"} if judged else {}),
        }
        self._run(fitset, values)
        return json.loads((self.folder / "set/composition.json").read_text())

    def table(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "set" / f"{name}.parquet").to_pylist()

    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]

    def _inputs(self) -> dict[str, Path]:
        return {f"--{name}": self.folder / f"{name}.parquet" for name in ("rows", "measures")}

    def _written(self, name: str, values: dict[str, Any]) -> Path:
        path = self.folder / f"{name}.spec.json"
        path.write_text(json.dumps({"settings": values}))
        return path

    @staticmethod
    def _run(module: Any, values: dict[str, Any]) -> None:
        module.main([str(part) for pair in values.items() for part in pair])
