"""Never stale in silence: after random edits a build knows the same as one from nothing.

    python -m tests.staleness.edits --edits 50 --builds 5
    python -m tests.staleness.edits --hours 2 --seed 7

Data, configuration, code and what lies under results/ are edited at random (seeded). After every
edit the stages up to the keys run twice: on top of all that earlier edits left behind, and from
nothing. All keys must be equal. After some edits everything is built both ways, and adapters, fit
sets and tables must be equal bit for bit. Nothing below a key is built in between: that a finished
product lies under the right key is what the whole builds and the tables of tests show.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file

from adaptermill.example.episodes import draw_episode
from tests.staleness.mill import EPISODES, SEED, Mill
from tests.tiny_base import make_tiny_base

CODE = (
    *("rows/ingest.py", "rows/scan.py", "rows/images.py", "rows/summary.py", "splits.py"),
    *("measure.py", "models/encode.py", "fitsets/select.py", "fitsets/plan.py"),
    *("fitsets/composition.py", "training/loop.py", "training/lora.py", "training/schedule.py"),
    *("evaluation/metrics.py", "provenance.py"),
)
# Settings of an adapter and values that all give something to train.
RECIPE: dict[str, list[Any]] = {
    "learning_rate": [1e-3, 5e-4, "1e-3"],
    "dropout": [0, 0.05, 0.1],
    "limit": [None, 6, 8],
    "max_steps": [1, 2, None],
    "beta": [0, 0.1, 0.2],
    "anchor_ratio": [0, 0.25, 0.5],
    "seed": [0, 1, 2],
    "epochs": [1, 2, 0.5],
    "batch_rows": [4, 8],
    "fraction": [0.6, 0.8, 1],
    "ce_on": ["all", "action"],
    "drop_done": [False, True],
    "exclude_variants": [[], ["chain"], ["recovery", "chain"]],
    "families": ["all", ["Text entry"], ["Text entry", "Navigation"]],
    "init_from": [None, "pooled"],
}
SHARED: list[dict[str, Any]] = [
    *({"split": {"validation_fraction": value}} for value in (0.2, 0.25, 0.3)),
    *({"split": {"mixed_chains": value}} for value in ("exclude", "any")),
    *({"base": {"max_tokens": value}} for value in (700, 800, 16384)),
    *({"ingest": {"shard_mb": value}} for value in (0.1, 0.3, 256)),
    *({"ingest": {"image": {"min_side": value}}} for value in (8, 9)),
    *({"families": value} for value in ({}, {"Web": ["Navigation", "Text entry"]})),
    *({"recipe": {"learning_rate": value}} for value in (1e-3, 2e-3)),
    *({"evaluation": {"max_new_tokens": value}} for value in (256, 128)),
    {"training": {"save_every": 3}},
    {"training": {"processes": 2}},
    {"training": {"processes": 1}},
]


class Editor:
    """Makes one random edit at a time and says what it did."""

    def __init__(self, mill: Mill, random: Random) -> None:
        self.mill = mill
        self.random = random
        self.edits: list[Callable[[], str]] = [
            *[self.setting, self.shared_setting] * 3,
            *[self.add, self.remove, self.rewrite, self.damage, self.rename] * 2,
            *[self.code, self.code_back, self.comment] * 2,
            *[self.touch, self.base, self.new_adapter, self.drop_adapter],
            *[self.forget, self.scramble_times, self.delete_state, self.touch_outputs],
        ]
        self.code_before: dict[Path, str] = {}
        self.count = 0

    def edit(self) -> str:
        self.count += 1
        return self.random.choice(self.edits)()

    # ---- configuration -------------------------------------------------------------------------

    def setting(self) -> str:
        name = self.random.choice([n for n in self.mill.names if n != "pooled"])
        key = self.random.choice(sorted(RECIPE))
        value = self.random.choice(RECIPE[key])
        self.mill.settings["adapters"][name][key] = value
        self._name_families()
        self.mill.configure({})
        return f"adapters.{name}.{key}: {value}"

    def shared_setting(self) -> str:
        change = self.random.choice(SHARED)
        self.mill.configure(change)
        if "families" in change:  # replaced, not laid over
            self.mill.settings["families"] = dict(change["families"])
            self._name_families()
            self.mill.configure({})
        return json.dumps(change)

    def _name_families(self) -> None:
        """Adapters name families that exist under the new names."""
        renamed = {
            old: new for new, olds in self.mill.settings.get("families", {}).items() for old in olds
        }
        for recipe in self.mill.settings["adapters"].values():
            if isinstance(recipe.get("families"), list):
                plain = ["Text entry" if name == "Web" else name for name in recipe["families"]]
                recipe["families"] = sorted({renamed.get(name, name) for name in plain})

    def new_adapter(self) -> str:
        name = f"extra{self.count}"
        self.mill.settings["adapters"][name] = {"fraction": 0.7, "seed": self.random.randrange(3)}
        self.mill.configure({})
        return f"new adapter {name}"

    def drop_adapter(self) -> str:
        extra = [name for name in self.mill.names if name.startswith("extra")]
        if not extra:
            return self.new_adapter()
        del self.mill.settings["adapters"][extra[0]]
        self.mill.configure({})
        return f"adapter {extra[0]} removed"

    # ---- data ----------------------------------------------------------------------------------

    def episode(self) -> Path:
        return self.random.choice(sorted(self.mill.data.iterdir()))

    def add(self) -> str:
        there = {path.name for path in self.mill.data.iterdir()}
        while (index := self.random.randrange(EPISODES, EPISODES + 500)) is not None:
            if draw_episode(SEED, index).task_id not in there:
                return f"added {self.mill.add_episode(index)}"
        raise AssertionError

    def remove(self) -> str:
        if len(list(self.mill.data.iterdir())) < EPISODES - 5:
            return self.add()
        gone = self.episode()
        shutil.rmtree(gone)
        return f"removed {gone.name}"

    def rewrite(self) -> str:
        """Another answer in one row; half of the time under the file's old time."""
        path = self.episode() / "rows.jsonl"
        status = path.stat()
        lines = path.read_text(encoding="utf-8").splitlines()
        place = self.random.randrange(len(lines))
        try:
            record = json.loads(lines[place])
        except ValueError:
            return self.rename()
        record["target"] = record["target"].replace('"memory": "', f'"memory": "({self.count}) ', 1)
        lines[place] = json.dumps(record, ensure_ascii=False)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        old_time = self.random.random() < 0.5
        if old_time:
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return f"rewrote a row of {path.parent.name}{' under its old time' * old_time}"

    def damage(self) -> str:
        path = self.episode() / "rows.jsonl"
        with open(path, "ab") as handle:
            handle.write(b'{"task_id": \n')
        return f"damaged {path.parent.name}"

    def rename(self) -> str:
        """The same rows under another name: another side, perhaps, and another order."""
        folder = self.episode()
        new = f"{folder.name.split('~')[0]}x{self.count}"
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        for name in ("rows.jsonl", "episode.json"):
            files[name] = files[name].replace(folder.name.encode(), new.encode())
        shutil.rmtree(folder)
        self.mill.write(new, files)
        return f"renamed {folder.name} to {new}"

    def touch(self) -> str:
        for path in [*self.mill.data.rglob("*"), *self.mill.repository.rglob("*.py")]:
            os.utime(path)
        return "touched data and code"

    def base(self) -> str:
        folder = Path(self.mill.settings["base"]["model"])
        seed = self.random.randrange(3)
        shutil.rmtree(folder)
        make_tiny_base(folder, seed)
        return f"base of seed {seed}"

    # ---- code ----------------------------------------------------------------------------------

    def code(self) -> str:
        path = self.mill.repository / "adaptermill" / self.random.choice(CODE)
        text = path.read_text(encoding="utf-8")
        self.code_before.setdefault(path, text)
        path.write_text(f"{text}\n\nEDITED_{self.count} = {self.count}\n", encoding="utf-8")
        return f"logic of {path.name}"

    def code_back(self) -> str:
        if not self.code_before:
            return self.code()
        path = self.random.choice(sorted(self.code_before))
        path.write_text(self.code_before.pop(path), encoding="utf-8")
        return f"{path.name} as it was"

    def comment(self) -> str:
        path = self.mill.repository / "adaptermill" / self.random.choice(CODE)
        path.write_text(f"{path.read_text(encoding='utf-8')}\n# {self.count}\n", encoding="utf-8")
        return f"comment in {path.name}"

    # ---- what lies there -----------------------------------------------------------------------

    def forget(self) -> str:
        self.mill.forget()
        return f".snakemake deleted; {self.setting()}"

    def scramble_times(self) -> str:
        now = time.time()
        for path in self.mill.path("results").rglob("*"):
            when = now - self.random.random() * 1e6
            os.utime(path, (when, when))
        return f"file times of results/ scrambled; {self.setting()}"

    def delete_state(self) -> str:
        name = self.random.choice(
            ["splits", "base", ".work", "fitsets", "ingest/main/summary.json"]
        )
        place = self.mill.path(f"results/{name}")
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        return f"results/{name} deleted; {self.setting()}"

    def touch_outputs(self) -> str:
        """`snakemake --touch` after a change says that all is up to date."""
        said = f"{self.setting()}; {self.add()}; then --touch"
        self.mill.run(*self.mill.decided, "--touch", check=False)
        return said


# ---- comparing ---------------------------------------------------------------------------------


def from_nothing(mill: Mill, folder: Path) -> Mill:
    """A workspace with the same data, base, code and configuration in which nothing is built."""
    shutil.rmtree(folder, ignore_errors=True)
    fresh = Mill.beside(mill.data.parent, folder, mill.repository)
    fresh.settings = mill.settings
    fresh.configure({})
    return fresh


def known(mill: Mill) -> dict[str, Any]:
    """All that decides what is trained and evaluated, once the stages above have run."""
    heldout = json.loads(mill.path("results/splits/heldout.json").read_text("utf-8"))
    base = json.loads(mill.path("results/base/base.json").read_text("utf-8"))
    return {**mill.keys(), "held out": heldout["digest"], "base": base["identity"]}


def assert_same_keys(mill: Mill, fresh: Mill) -> None:
    """Builds up to the keys both ways. A configuration that ends in an error must do so in both."""
    runs = [each.run(*each.decided, check=False) for each in (mill, fresh)]
    assert runs[0].status == runs[1].status, runs
    if runs[0].status == 0:
        found, expected = known(mill), known(fresh)
        assert found == expected, (found, expected, runs[0])
        assert None not in found.values(), found


def assert_same_products(mill: Mill, fresh: Mill) -> None:
    """Builds everything both ways and compares bit for bit."""
    mill.build()
    fresh.run()
    for name in mill.names:
        folders = [each.path(f"results/adapters/{name}") for each in (mill, fresh)]
        weights = [load_file(folder / "adapter_model.safetensors") for folder in folders]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(weights[0][part], weights[1][part]) for part in weights[0]), name
        configs = [json.loads((folder / "adapter_config.json").read_bytes()) for folder in folders]
        assert sorted_lists(configs[0]) == sorted_lists(configs[1])
    tables = [f"fitsets/{name}/{part}" for name in mill.names for part in ("fitset", "plan")]
    tables += [f"evaluation/{name}" for name in ["base", *mill.names]]
    for table in [*tables, "tables/evaluation", "tables/comparison"]:
        frames = [pd.read_parquet(each.path(f"results/{table}.parquet")) for each in (mill, fresh)]
        pd.testing.assert_frame_equal(*frames, check_exact=True, obj=table)


def sorted_lists(value: Any) -> Any:
    """PEFT writes sets as lists, in any order."""
    if isinstance(value, dict):
        return {name: sorted_lists(child) for name, child in value.items()}
    return sorted(value) if isinstance(value, list) and all(map(str, value)) else value


def run_edits(folder: Path, seed: int, edits: int, builds: int, until: float, report=print) -> None:
    """Makes `edits` edits (or as many as fit before `until`), of which `builds` are built whole."""
    random = Random(seed)
    mill = Mill.make(folder)
    mill.configure({"split": {"allow_leaks": True}})  # edits may well make twins
    editor = Editor(mill, random)
    mill.run(*mill.decided)
    whole = set(random.sample(range(edits), min(builds, edits)))
    for number in range(edits):
        if time.time() > until:
            break
        begun = time.time()
        said = editor.edit()
        # Some changes reach a build together.
        while random.random() < 0.2:
            said += f"; and {editor.edit()}"
        fresh = from_nothing(mill, folder / "fresh")
        try:
            assert_same_keys(mill, fresh)
            if number in whole:
                assert_same_products(mill, fresh)
        except AssertionError:
            report(f"edit {number} of seed {seed}: {said}: NOT THE SAME (left in {folder})")
            raise
        kind = "whole builds equal" if number in whole else "keys equal"
        report(f"{number:>4}  {time.time() - begun:5.0f} s  {kind}  {said}")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--builds", type=int, default=5, help="of them built whole (default: 5)")
    parser.add_argument("--hours", type=float, help="go on for so long, with ever new seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    arguments = parser.parse_args(argv)
    until = float("inf") if arguments.hours is None else time.time() + arguments.hours * 3600
    seed = arguments.seed
    while True:
        folder = (arguments.folder or Path(tempfile.gettempdir())) / f"edits-{os.getpid()}-{seed}"
        print(f"seed {seed} in {folder}", flush=True)
        run_edits(
            folder,
            seed,
            arguments.edits,
            arguments.builds,
            until,
            lambda line: print(line, flush=True),
        )
        shutil.rmtree(folder)
        seed += 1
        if arguments.hours is None or time.time() > until:
            return


if __name__ == "__main__":
    sys.exit(main())
