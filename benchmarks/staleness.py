"""What it costs to find out that nothing, or nearly nothing, must be done: 60 adapters, 200 shards.

    python -m benchmarks.staleness
    python -m benchmarks.staleness --adapters 240 --shards 1000 --dvc /path/to/venv/bin/dvc

A data set is drawn and ingested, fit sets are chosen by the real stages; finished adapters and
evaluations are put into the store under their keys instead of being made. Then are timed: a build
with nothing to do, a build after an episode was added that is all quarantined (nothing may be
trained or evaluated), and `status`. With --dvc, a `dvc repro` on a pipeline of the same stages with
nothing to do is timed beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from adaptermill.example.write import write_episodes
from adaptermill.pipeline import Pipeline
from scripts import ingest, measure
from tests.tiny_base import make_tiny_base

REPOSITORY = Path(__file__).resolve().parents[1]


def settings(folder: Path, adapters: int, shard_mb: float) -> dict:
    """Families in turn, every third adapter branched from `pooled`."""
    families = ["Drag & gesture", "Text entry", "Navigation", "Form transaction"]
    recipes: dict = {"pooled": {"beta": 0}}
    for number in range(adapters - 1):
        recipe = {"families": [families[number % len(families)]], "seed": number}
        recipes[f"adapter{number}"] = recipe | ({"init_from": "pooled"} if number % 3 == 0 else {})
    return {
        "base": {"model": str(folder / "base")},
        "sources": [{"name": "main", "format": "replay", "path": str(folder / "data")}],
        "ingest": {"shard_mb": shard_mb, "max_quarantined": 50},
        "split": {"validation_fraction": 0.1},
        "recipe": {"rank": 4, "alpha": 8},
        "adapters": recipes,
        "evaluation": {"generate": False, "bootstrap": 100},
    }


def snakemake(*targets: str) -> tuple[float, str]:
    """Seconds and output of one invocation in the current folder."""
    command = [
        str(Path(sys.executable).with_name("snakemake")),
        *("--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "2"),
        *("--workflow-profile", str(REPOSITORY / "profiles" / "default"), *targets),
    ]
    return timed(command)


def timed(command: list[str]) -> tuple[float, str]:
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return seconds, done.stdout + done.stderr


def pipeline() -> Pipeline:
    given = yaml.safe_load(Path("config.yaml").read_text(encoding="utf-8"))
    return Pipeline(given, None, REPOSITORY, writes=False)


def prepare(folder: Path, adapters: int, shards: int) -> int:
    """Everything up to finished adapters in the store; returns the number of shards."""
    write_episodes(folder / "data", 3 * shards, seed=0, jobs=os.cpu_count() or 1)
    make_tiny_base(folder / "base")
    size = sum(path.stat().st_size for path in (folder / "data").rglob("*")) / 1e6
    # Leaves of a trie are half full or less.
    given = settings(folder, adapters, 1.35 * size / shards)
    Path("config.yaml").write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
    snakemake("results/.work/ingest/main/manifest.json", "results/base/base.json")
    made = make_shards()
    names = list(given["adapters"])
    snakemake(
        *(f"results/fitsets/{name}/composition.json" for name in names),
        "results/splits/heldout.json",
        "results/ingest/summary.json",
    )
    snakemake("results/evaluation/base.parquet")
    fill_store(names)
    snakemake()
    return made


def make_shards() -> int:
    """Ingests and measures in this process, which spares starting Python for every shard."""
    units = Path("results/.work/ingest/main")
    manifest = json.loads((units / "manifest.json").read_text(encoding="utf-8"))
    spec = "results/.work/specs/ingest/main.json"
    for shard in [each["name"] for each in manifest["shards"]]:
        kinds = {"rows": "shards", "images": "images", "quarantine": "quarantine"}
        paths = {kind: f"results/ingest/main/{kinds[kind]}/{shard}.parquet" for kind in kinds}
        outputs = [part for kind in kinds for part in (f"--{kind}", paths[kind])]
        given = ["--spec", spec, "--units", str(units / "units.jsonl"), "--shard", shard]
        ingest.main([*given, *outputs])
    wanted = pipeline().measures_on_disk()
    assert wanted is not None
    for path in wanted:
        shard = path.stem.removeprefix("main__")
        rows, images = (f"results/ingest/main/{k}/{shard}.parquet" for k in ("shards", "images"))
        base = "results/base/base.json"
        measure.main(["--rows", rows, "--images", images, "--base", base, "--output", str(path)])
    return len(wanted)


def fill_store(names: list[str]) -> None:
    """Stands in for training and evaluation: small finished products under the right keys."""
    known = pipeline()
    base_rows = pq.read_table("results/evaluation/base.parquet")
    for name in names:
        key = known.key_on_disk(name)
        folder = Path("results/.store/adapters", str(key))
        folder.mkdir(parents=True, exist_ok=True)
        composition = Path("results/fitsets", name, "composition.json")
        hashes = json.loads(composition.read_text(encoding="utf-8"))["hashes"]
        record = {
            **{"adapter": name, "method": "anchored", "key": key, "rows": {"ce": 1}, "steps": 1},
            "base": {"model": "tiny", "revision": None, "identity": "tiny"},
            "recipe": known.specs.train_settings(name),
            "hashes": {**hashes, "base": "tiny", "recipe": "", "code": known.specs.code("train")},
            "telemetry": {"minutes": 0.0, "processes": 1, "device": "cpu", "dtype": "float32"},
            **{"images_dropped": False, "end_of_turn": "", "code_trusted": False},
            "relative_change": 0.1,
        }
        (folder / "training.json").write_text(json.dumps(record), encoding="utf-8")
        (folder / "README.md").write_text("---\n---\n", encoding="utf-8")
        (folder / "train_log.jsonl").touch()
        place = f"results/.store/evaluations/{known.evaluation_key_on_disk(name)}.parquet"
        metadata = {**(base_rows.schema.metadata or {}), b"adapter_key": str(key).encode()}
        pq.write_table(base_rows.replace_schema_metadata(metadata), place)


def jobs(output: str, rule: str) -> int:
    return len(re.findall(rf"^Finished jobid: \d+ \(Rule: {rule}\)", output, re.MULTILINE))


def dvc_repro(dvc: str, adapters: int, shards: int, folder: Path) -> float:
    """A pipeline of as many stages that only copy a line, built once and run again."""
    folder.mkdir()
    os.chdir(folder)
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run([dvc, "init", "--quiet"], check=True)
    stages = {}
    for shard in range(shards):
        Path(f"raw{shard}").write_text(str(shard), encoding="utf-8")
        stages[f"shard{shard}"] = {
            **{"cmd": f"cp raw{shard} shard{shard}", "deps": [f"raw{shard}"]},
            "outs": [f"shard{shard}"],
        }
    every = [f"shard{shard}" for shard in range(shards)]
    stages["split"] = {"cmd": "cat shard* > rows", "deps": every, "outs": ["rows"]}
    for adapter in range(adapters):
        above = "rows"
        for stage in ("fitset", "train", "evaluate"):
            out = f"{stage}{adapter}"
            stages[out] = {"cmd": f"cp {above} {out}", "deps": [above], "outs": [out]}
            above = out
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}), encoding="utf-8")
    timed([dvc, "repro", "--quiet"])
    return timed([dvc, "repro", "--quiet"])[0]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapters", type=int, default=60, help="default: 60")
    parser.add_argument("--shards", type=int, default=200, help="about so many (default: 200)")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many (default: 3)")
    parser.add_argument("--dvc", help="the dvc command of an environment of its own")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="staleness-"))
    (folder / "work").mkdir()
    os.chdir(folder / "work")
    shards = prepare(folder, arguments.adapters, arguments.shards)
    print(f"{arguments.adapters} adapters, {shards} shards")
    nothing = min(snakemake()[0] for _ in range(arguments.repeat))
    print(f"  nothing to do            {nothing:6.1f} s")
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    command = [sys.executable, "-m", "adaptermill", "status"]
    print(f"  status                   {min(timed(command)[0] for _ in range(3)):6.1f} s")
    bad = folder / "data" / "broken-s0001"
    bad.mkdir()
    (bad / "rows.jsonl").write_text('{"task_id": \n', encoding="utf-8")
    seconds, output = snakemake()
    assert jobs(output, "train") == jobs(output, "evaluate") == 0, output
    print(f"  one bad episode added    {seconds:6.1f} s  ({jobs(output, '[a-z_]+')} jobs)")
    if arguments.dvc:
        seconds = dvc_repro(arguments.dvc, arguments.adapters, shards, folder / "dvc")
        print(f"  dvc repro, nothing to do {seconds:6.1f} s")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
