"""Near-duplicates among many examples: the fit set's way beside datatrove's and text-dedup's.

    python benchmarks/dedup.py                                    100,000 examples
    python benchmarks/dedup.py --examples 20000 --words 1500
    python benchmarks/dedup.py --datatrove PYTHON --text-dedup PYTHON

Examples share a system prompt, have a page of words of their own, and an answer. Of each ten, three
are copies of an earlier one with a few words changed, and one is an exact copy; what is found is
compared with that. Ours is `scripts/fitset.py` from Parquet shards to the written fit set (reading,
signing, exact and near-duplicates, plan), cold and with the signatures kept. The others read the
same texts from files and keep one of each cluster; PYTHON is an interpreter that has them (they
need not be in this environment). Each takes two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
THRESHOLD, NGRAM, PERMUTATIONS = 0.85, 5, 128
FAMILY = "Navigation"
SHARDS = 8
_VOCABULARY = 20_000
_SYSTEM_WORDS = 150


def draw(examples: int, words: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """(what it is: new, near or exact; page; answer) of each example."""
    draws = random.Random(seed)
    # Common words are common, as in real text.
    vocabulary = [f"word{k}" for k in range(_VOCABULARY)]
    weights = [1 / (k + 10) for k in range(_VOCABULARY)]
    made: list[tuple[list[str], str]] = []
    for number in range(examples):
        place = number % 10
        if place in (4, 6, 8):
            page, answer = made[draws.randrange(len(made))]
            page = list(page)
            for spot in draws.sample(range(len(page)), max(1, len(page) // 200)):
                page[spot] = f"changed{number}"
            kind = "near"
        elif place == 9:
            page, answer = made[draws.randrange(len(made))]
            kind = "exact"
        else:
            length = draws.randrange(words // 2, words + words // 2)
            page = draws.choices(vocabulary, weights, k=length)
            memory = " ".join(draws.choices(vocabulary, weights, k=12))
            answer = json.dumps({"memory": memory, "action": [{"click": {"index": number}}]})
            kind = "new"
            made.append((page, answer))
        yield kind, " ".join(page), answer


def write(folder: Path, examples: int, words: int) -> dict[str, str]:
    """Shards, their row index and measures as the pipeline has them, and the texts as JSON lines.

    Returns what each row is.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    from adaptermill.measurements import MEASURE_SCHEMA
    from adaptermill.rows.schema import ROW_SCHEMA, content_hashes, dump

    system = " ".join(f"rule{k}" for k in range(_SYSTEM_WORDS))
    kinds, index, texts = {}, [], []
    shards: list[list[dict[str, Any]]] = [[] for _ in range(SHARDS)]
    for number, (kind, page, answer) in enumerate(draw(examples, words, seed=0)):
        task = f"e{number:07}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": page}]
        row = {
            **{"row_id": f"main/{task}/0", "source": "main", "task_id": task, "step": 0},
            **{"family": FAMILY, "op": "click", "variant": "plain", "sources": [task]},
            **{"trainable": True, "messages": dump(messages), "target": answer, "fields": "{}"},
            **{"images": [], **content_hashes(messages, answer, [])},
        }
        shards[number % SHARDS].append(row)
        kinds[row["row_id"]] = kind
        index.append({name: row[name] for name in row if name not in ("messages", "target")})
        texts.append({"text": f"{system}\n{page}\n{answer}", "id": row["row_id"]})
    ingested = folder / "ingested"
    (ingested / "shards").mkdir(parents=True)
    for number, rows in enumerate(shards):
        table = pa.Table.from_pylist(rows, schema=ROW_SCHEMA)
        pq.write_table(table, ingested / "shards" / f"s{number}.parquet", row_group_size=1000)
    summary = {"shards": [f"s{number}" for number in range(SHARDS)]}
    (ingested / "summary.json").write_text(json.dumps(summary))
    rows = pd.DataFrame(index).drop(columns=["images", "fields"])
    rows = rows.assign(side="train", group=rows["task_id"], fraction_key=0.5, screenshots="")
    rows = rows.assign(untrainable=None)
    rows.to_parquet(folder / "rows.parquet", index=False)
    lengths = {"prompt_tokens": 100, "target_tokens": 10, "image_tokens": 0}
    measures = [{"row_id": name, "has_action_key": True, **lengths} for name in kinds]
    pq.write_table(
        pa.Table.from_pylist(measures, schema=MEASURE_SCHEMA), folder / "measures.parquet"
    )
    # Both of the others share work out by files.
    (folder / "texts").mkdir()
    for part in range(2):
        with open(folder / "texts" / f"{part}.jsonl", "w", encoding="utf-8") as handle:
            handle.writelines(json.dumps(text) + "\n" for text in texts[part::2])
    return kinds


def settings() -> dict[str, Any]:
    """The settings of a fit set that leaves out near-duplicates."""
    from adaptermill.config import load
    from adaptermill.specs import NOT_FOR_SELECTION

    near = {"threshold": THRESHOLD, "ngram": NGRAM, "permutations": PERMUTATIONS}
    adapter = {"beta": 0, "epochs": 1, "dedup": {"key": "prompt+target", "near": near}}
    source = {"name": "main", "format": "example"}
    config = load({"sources": [source], "adapters": {"bench": adapter}})
    return {
        "adapter": "bench",
        "recipe": config.recipes["bench"].model_dump(exclude=NOT_FOR_SELECTION),
        "max_tokens": 1000,
        "families_all": config.seven(),
        "own_families": config.own_families("bench"),
        "anchor_families": [],
    }


def measure(command: list[str], log: Path) -> tuple[float, float, float]:
    """Seconds on the clock and of the processors, and the largest process's peak in GiB."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        **dict.fromkeys(("OMP_NUM_THREADS", "ARROW_NUM_THREADS"), "1"),
    }
    # Children of a process of its own, so that peaks of earlier commands do not count.
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print('used', used.ru_utime + used.ru_stime, used.ru_maxrss);"
        "sys.exit(done.returncode)"
    )
    begun = time.perf_counter()
    with open(log, "w", encoding="utf-8") as handle:
        done = subprocess.run(
            [sys.executable, "-c", code, *command],
            stdout=handle,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    seconds = time.perf_counter() - begun
    said = log.read_text(encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{said[-2000:]}")
    cpu, peak = said.rsplit("used ", 1)[1].split()
    return seconds, float(cpu), int(peak) / 2**20


def ours(folder: Path, output: Path) -> list[str]:
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"settings": settings()}))
    return [
        *(sys.executable, str(REPOSITORY / "scripts" / "fitset.py"), "--spec", str(spec)),
        *("--rows", str(folder / "rows.parquet"), "--measures", str(folder / "measures.parquet")),
        *("--data", str(folder / "ingested"), "--signatures", str(folder / "signatures")),
        *("--jobs", "2", "--output-folder", str(output)),
    ]


# What datatrove's documentation shows, with bands and runs like ours.
DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature)
from datatrove.pipeline.dedup.minhash import HashConfig, MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

if __name__ == "__main__":
    folder = sys.argv[1]
    bands, rows, ngram = map(int, sys.argv[2:5])
    config = MinhashConfig(
        hash_config=HashConfig(precision=64),
        num_buckets=bands, hashes_per_bucket=rows, n_grams=ngram)

    def run(tasks, *steps):
        LocalPipelineExecutor(pipeline=list(steps), tasks=tasks, workers=2).run()

    work, texts = f"{folder}/datatrove", JsonlReader(f"{folder}/texts")
    run(2, texts, MinhashDedupSignature(f"{work}/signatures", config))
    run(bands, MinhashDedupBuckets(f"{work}/signatures", f"{work}/buckets", config=config))
    run(1, MinhashDedupCluster(f"{work}/buckets", f"{work}/remove", config=config))
    run(2, texts, MinhashDedupFilter(f"{work}/remove"), JsonlWriter(f"{work}/kept"))
"""


def datatrove(python: str, folder: Path) -> list[str]:
    from adaptermill.minhash import bands

    script = folder / "datatrove_way.py"
    script.write_text(DATATROVE)
    cut = [str(number) for number in bands(THRESHOLD, PERMUTATIONS)]
    return [python, str(script), str(folder), *cut, str(NGRAM)]


def text_dedup(python: str, folder: Path) -> list[str]:
    return [
        *(python, "-m", "text_dedup.minhash", "--path", "json", "--split", "train"),
        *("--data_files", str(folder / "texts" / "*.jsonl"), "--column", "text"),
        *("--output", str(folder / "text_dedup"), "--cache_dir", str(folder / "cache")),
        *("--ngram", str(NGRAM), "--num_perm", str(PERMUTATIONS), "--threshold", str(THRESHOLD)),
        *("--num_proc", "2", "--batch_size", "10000", "--hash_func", "xxh3", "--hash_bits", "32"),
    ]


def kept_by_ours(output: Path) -> set[str]:
    import pyarrow.parquet as pq

    return set(pq.read_table(output / "fitset.parquet", columns=["row_id"])["row_id"].to_pylist())


def kept_by_datatrove(folder: Path) -> set[str]:
    import gzip

    kept = set()
    for path in (folder / "datatrove" / "kept").glob("*.jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as handle:
            kept |= {json.loads(line)["id"] for line in handle}
    return kept


def kept_by_text_dedup(folder: Path) -> set[str]:
    import pyarrow as pa

    kept: set[str] = set()
    for path in (folder / "text_dedup").glob("*.arrow"):
        with pa.memory_map(str(path)) as source:
            kept |= set(pa.ipc.open_stream(source).read_all()["id"].to_pylist())
    return kept


def report(
    name: str, took: tuple[float, float, float], kept: set[str], kinds: dict[str, str]
) -> None:
    """One line: of the planted duplicates the share that is gone, and what is gone besides."""
    news = sum(kind == "new" for kind in kinds.values())
    planted = len(kinds) - news
    gone = (len(kinds) - len(kept)) / planted
    seconds, cpu, peak = took
    print(
        f"{name:26} {seconds:7.1f} s {cpu:7.1f} s CPU {peak:5.2f} GiB  {len(kept):>7} kept"
        f" ({news} are new; {gone:.1%} of the duplicates gone)",
        flush=True,
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300, help="of a page, on average")
    parser.add_argument("--datatrove", metavar="PYTHON", help="an interpreter that has datatrove")
    parser.add_argument("--text-dedup", metavar="PYTHON", help="one that has text-dedup 0.4")
    parser.add_argument("--workdir", type=Path, help="where the texts go (default: temporary)")
    arguments = parser.parse_args(argv)
    sys.path.insert(0, str(REPOSITORY))
    with tempfile.TemporaryDirectory(dir=arguments.workdir) as name:
        folder = Path(name)
        kinds = write(folder, arguments.examples, arguments.words)
        load = os.getloadavg()[0]
        print(
            f"{arguments.examples} examples, about {arguments.words + _SYSTEM_WORDS} words a "
            f"prompt ({_SYSTEM_WORDS} of them shared by all); load {load:.1f} before the start"
        )
        took = measure(ours(folder, folder / "cold"), folder / "log")
        cold = kept_by_ours(folder / "cold")
        report("fit set, first time", took, cold, kinds)
        took = measure(ours(folder, folder / "warm"), folder / "log")
        report("fit set, signatures kept", took, kept_by_ours(folder / "warm"), kinds)
        same = kept_by_ours(folder / "warm") == cold
        print(f"{'':26} the same examples both times: {same}")
        if arguments.datatrove:
            took = measure(datatrove(arguments.datatrove, folder), folder / "log")
            report("datatrove", took, kept_by_datatrove(folder), kinds)
        if arguments.text_dedup:
            took = measure(text_dedup(arguments.text_dedup, folder), folder / "log")
            report("text-dedup", took, kept_by_text_dedup(folder), kinds)
    print(f"(this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB)")


if __name__ == "__main__":
    main()
