"""Ingestion beside what else copies rows into Parquet, on the same files in one run.

    python benchmarks/ingest.py                       20,000 rows with screenshots of 200 KB (4 GB)
    python benchmarks/ingest.py --rows 100000 --workdir /big/disk

Example episodes are drawn into the working directory, then each of these reads them all: `cp -r`,
pyarrow in one plain process, Hugging Face datasets (`from_generator` + `to_parquet`), and the scan,
shards and summary of this pipeline with one and with two jobs at a time. Only ours looks at what it
copies. Files are read once beforehand, so that all read from memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
SCRIPTS = REPOSITORY / "scripts"
# Disk per byte of input: the input, and one output at a time (datasets writes twice).
DISK = 3.3
_BATCH = 100


@dataclass
class Measured:
    """Seconds on the clock and of the processors, and the largest process's peak memory."""

    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0


class Runner:
    """Runs commands, some at a time, and adds up what they took."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.environment = {
            **os.environ,
            # Arrow's own threads too: a job is one core's work.
            **dict.fromkeys(("OMP_NUM_THREADS", "ARROW_IO_THREADS"), "1"),
            "PYTHONPATH": str(REPOSITORY),
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        }

    def run(self, commands: list[list[str]], jobs: int = 1) -> Measured:
        found = Measured()
        begun = time.perf_counter()
        waiting, running = list(reversed(commands)), {}
        with open(self.log, "ab") as log:
            while waiting or running:
                while waiting and len(running) < jobs:
                    command = waiting.pop()
                    process = subprocess.Popen(
                        command, stdout=log, stderr=subprocess.STDOUT, env=self.environment
                    )
                    running[process.pid] = command
                pid, status, usage = os.wait4(-1, 0)
                command = running.pop(pid)
                if status != 0:
                    raise SystemExit(f"{' '.join(command)} failed; see {self.log}")
                found.cpu += usage.ru_utime + usage.ru_stime
                found.peak = max(found.peak, usage.ru_maxrss * 1024)
        found.seconds = time.perf_counter() - begun
        return found


def draw(root: Path, rows: int, image_kb: int, runner: Runner) -> int:
    """Example episodes with at least `rows` rows; returns how many there are."""
    episodes = max(20, rows // 4)
    while True:
        command = [sys.executable, str(SCRIPTS / "example_source.py"), "--output", str(root)]
        command += ["--episodes", str(episodes), "--image-kb", str(image_kb), "--jobs", "2"]
        runner.run([command])
        shown = list(root.glob("*/*.png"))
        if len(shown) >= rows:
            break
        episodes += episodes * (rows - len(shown)) // len(shown) + 20
    for number, path in enumerate(shown):
        # Real screenshots hardly repeat, the example's do.
        data = path.read_bytes()
        mark = b"noIe" + number.to_bytes(8, "big")
        chunk = struct.pack(">I", 8) + mark + struct.pack(">I", zlib.crc32(mark))
        path.write_bytes(data[:-12] + chunk + data[-12:])
    return len(shown)


def read_rows(root: Path) -> Iterator[dict[str, Any]]:
    """The rows as a short script would read them: JSON parsed, screenshots as bytes."""
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        with open(folder / "rows.jsonl", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                shown = []
                for message in row["messages"]:
                    if isinstance(message["content"], list):
                        for part in message["content"]:
                            if part["type"] == "image_url":
                                shown.append((folder / part["image_url"]["url"]).read_bytes())
                yield {
                    "row_id": f"{row['task_id']}/{row['step']}",
                    "family": row["family"],
                    "op": row["op"],
                    "messages": json.dumps(row["messages"]),
                    "target": row["target"],
                    "images": shown,
                }


def with_pyarrow(root: Path, output: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = ["row_id", "family", "op", "messages", "target"]
    schema = pa.schema(
        [*((name, pa.string()) for name in text), ("images", pa.list_(pa.large_binary()))]
    )
    rows = read_rows(root)
    with pq.ParquetWriter(output / "rows.parquet", schema) as writer:
        while batch := list(itertools.islice(rows, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def with_datasets(root: Path, output: Path) -> None:
    import datasets

    made = datasets.Dataset.from_generator(
        read_rows, gen_kwargs={"root": root}, cache_dir=str(output / "cache")
    )
    made.to_parquet(str(output / "rows.parquet"))


def write_spec(path: Path, settings: dict[str, Any]) -> str:
    path.write_text(json.dumps({"settings": settings}))
    return str(path)


def ours(root: Path, output: Path, shard_mb: float, jobs: int, runner: Runner) -> list[Measured]:
    """Scan, shards and summary, each a process of its own, as the workflow runs them."""
    image = {"min_side": 8, "max_pixels": 50_000_000, "max_aspect": 100}
    ingest = {"source": "main", "format": "replay", "family": None, "image": image}
    scan = {
        "source": "main",
        "format": "replay",
        "paths": [str(root)],
        "shard_mb": shard_mb,
        "ingest_code": "",
        "ingest": ingest,
    }
    specs = {
        "scan": write_spec(output / "scan.json", scan),
        "ingest": write_spec(output / "ingest.json", ingest),
        "summarize": write_spec(output / "summarize.json", {"max_quarantined": 0}),
    }
    manifest, units = output / "manifest.json", output / "units.jsonl"

    def command(script: str, spec: str, *arguments: object) -> list[str]:
        given = [str(argument) for argument in arguments]
        return [sys.executable, str(SCRIPTS / script), "--spec", specs[spec], *given]

    parts = ["--cache", output / "hashes", "--output", manifest, "--units", units]
    parts += ["--threads", jobs]
    scanned = runner.run([command("scan.py", "scan", *parts)])
    shards = [shard["name"] for shard in json.loads(manifest.read_text())["shards"]]
    commands = []
    for name in shards:
        outputs: list[object] = ["--units", units, "--shard", name]
        for option, kind in (("rows", "shards"), ("images",) * 2, ("quarantine",) * 2):
            outputs += [f"--{option}", output / "main" / kind / f"{name}.parquet"]
        commands.append(command("ingest.py", "ingest", *outputs))
    made = runner.run(commands, jobs)
    parts = ["--manifest", manifest, "--units", units, "--folder", output / "main"]
    summed = runner.run([command("summarize_ingest.py", "summarize", *parts)])
    return [scanned, made, summed]


def together(parts: list[Measured]) -> Measured:
    return Measured(
        sum(part.seconds for part in parts),
        sum(part.cpu for part in parts),
        max(part.peak for part in parts),
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000, help="at least (default: 20000)")
    parser.add_argument("--image-kb", type=int, default=200, help="of a screenshot (default: 200)")
    parser.add_argument("--shard-mb", type=float, default=256, help="(default: 256, as configured)")
    parser.add_argument("--repeat", type=int, default=1, help="the fastest counts (default: 1)")
    parser.add_argument("--workdir", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--as", dest="alone", choices=["pyarrow", "datasets"], help="run only this")
    parser.add_argument("--root", type=Path, help="with --as: what is read")
    parser.add_argument("--output", type=Path, help="with --as: the folder that is written to")
    arguments = parser.parse_args(argv)
    if arguments.alone is not None:
        copy = {"pyarrow": with_pyarrow, "datasets": with_datasets}[arguments.alone]
        copy(arguments.root, arguments.output)
        return
    with tempfile.TemporaryDirectory(dir=arguments.workdir, prefix="ingest-") as folder:
        compare(arguments, Path(folder))


def compare(arguments: argparse.Namespace, work: Path) -> None:
    wanted = int(arguments.rows * arguments.image_kb * 1000 * DISK)
    free = shutil.disk_usage(work).free
    if wanted > free:
        raise SystemExit(f"{wanted / 1e9:.0f} GB are needed in {work}, {free / 1e9:.0f} are free")
    runner = Runner(work / "log")
    root, output = work / "raw", work / "out"
    rows = draw(root, arguments.rows, arguments.image_kb, runner)
    size = 0
    for path in root.glob("*/*"):
        size += len(path.read_bytes())
    print(f"{rows} rows, {size / 1e6:.0f} MB, {os.cpu_count()} cores")

    def python(name: str) -> Callable[[], list[Measured]]:
        this = [sys.executable, str(Path(__file__).resolve()), "--as", name]
        command = [*this, "--root", str(root), "--output", str(output)]
        return lambda: [runner.run([command])]

    ways: dict[str, Callable[[], list[Measured]]] = {
        "cp -r": lambda: [runner.run([["cp", "-r", str(root), str(output)]])],
        "pyarrow": python("pyarrow"),
        "datasets": python("datasets"),
        "ours, 1 core": lambda: ours(root, output, arguments.shard_mb, 1, runner),
        "ours, 2 cores": lambda: ours(root, output, arguments.shard_mb, 2, runner),
    }
    print(f"{'':16} {'seconds':>8} {'rows/s':>8} {'MB/s':>8} {'cpu s':>8} {'peak MB':>8}")
    totals: dict[str, Measured] = {}
    shards: dict[str, Measured] = {}
    for name, way in ways.items():
        best: list[Measured] | None = None
        for _ in range(arguments.repeat):
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir()
            os.sync()
            parts = way()
            if best is None or together(parts).seconds < together(best).seconds:
                best = parts
        assert best is not None
        totals[name] = together(best)
        lines = [(name, totals[name])]
        if len(best) > 1:
            shards[name] = best[1]
            lines += zip(("  scan", "  shards", "  summary"), best, strict=True)
        for label, found in lines:
            print(
                f"{label:16} {found.seconds:8.2f} {rows / found.seconds:8.0f} "
                f"{size / 1e6 / found.seconds:8.0f} {found.cpu:8.2f} {found.peak / 1e6:8.0f}",
                flush=True,
            )
    for part, found in (("all", totals), ("shards", shards)):
        one, two = found["ours, 1 core"].seconds, found["ours, 2 cores"].seconds
        other = totals["datasets"].seconds
        print(f"{part}: one core {other / one:.2f} times the rate of datasets, ", end="")
        print(f"two cores {one / two:.2f} times the rate of one")


if __name__ == "__main__":
    main()
