"""Evaluation beside a plain transformers loop, on the same held-out rows and base in one run.

    python -m benchmarks.evaluate --replay ../shared/replay           a base of 60 million weights
    python -m benchmarks.evaluate --replay ../shared/replay --base example --rows 48

The pipeline ingests the rows; then, over rows that lie beside each other as held-out ones do,

    plain    a whole row at a time: a forward for the recorded answer, `generate` for the other
    ours     what prompts begin with once, a prompt's states for both answers, those side by side

Rows scored a second and tokens answered a second are told, with the largest difference of a token's
log p and the answers that differ. (A base with random weights never answers as recorded: there the
recorded answer is no help as a draft.)
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from adaptermill.errors import run_command
from adaptermill.evaluation.generated import Answerer
from adaptermill.evaluation.reading import read_rows
from adaptermill.evaluation.state import CHUNK_ROWS
from adaptermill.evaluation.teacher_forced import Scored, score
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoded, Encoder
from adaptermill.rows.dataset import iterate, open_sources, shard_paths
from adaptermill.rows.images import decode
from benchmarks.train import prepare


def rows_of(workdir: Path, encoder: Encoder, count: int) -> list[Encoded]:
    """The first rows of the source, in the order in which they would be evaluated."""
    folder = workdir / "results/ingest/main"
    rows, images = open_sources([folder])
    names = sorted(row.row_id for path in shard_paths(folder, "shards") for row in iterate(path))
    found = []
    for name in names[:count]:
        row = rows.get(name)
        shown = [] if encoder.drops_images else row.images
        pictures = [decode(images.bytes(image)) for image in shown]
        found.append(encoder.encode(row.messages, row.target, pictures))
    return found


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return work(), time.perf_counter() - started


def ours(model: Any, rows: list[Encoded], answerer: Answerer | None) -> list[tuple[Scored, Any]]:
    chunks = [rows[start : start + CHUNK_ROWS] for start in range(0, len(rows), CHUNK_ROWS)]
    return [read for chunk in chunks for read in read_rows(model, chunk, "cpu", answerer)]


def generate(answerer: Answerer, row: Encoded) -> list[int]:
    """The tokens of the greedy answer by transformers alone, without a draft."""
    nothing = Scored(*(torch.zeros(0, dtype=torch.int64) for _ in range(3)))
    return answerer.tokens(row, nothing, "cpu")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replay", type=Path, required=True, help="a replay root")
    parser.add_argument("--base", default="medium", help="medium, example, or a folder")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--workdir", type=Path, help="kept and used again where it is given")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        workdir = (arguments.workdir or Path(scratch)).resolve()
        prepare(workdir, arguments.replay, arguments.base, arguments.rows)
        os.chdir(workdir)
        compare(workdir, arguments)


def compare(workdir: Path, arguments: argparse.Namespace) -> None:
    ref = BaseRef.read(workdir / "results/base/base.json")
    encoder = Encoder(load_processor(ref))
    rows = rows_of(workdir, encoder, arguments.rows)
    model = load_model(ref)
    answerer = Answerer(model, encoder, arguments.max_new_tokens)
    lengths = sorted(row.prompt_length for row in rows)
    print(
        f"{len(rows)} rows of {lengths[0]} to {lengths[-1]} tokens of prompt, "
        f"{arguments.threads} threads, load {os.getloadavg()[0]:.1f} at the start",
        flush=True,
    )
    score(model, rows[0], "cpu")
    plain, plain_scoring = timed(lambda: [score(model, row, "cpu") for row in rows])
    read, scoring = timed(lambda: ours(model, rows, None))
    apart = max(
        float((one.logps - other.logps).abs().max())
        for one, (other, _) in zip(plain, read, strict=True)
    )
    print(
        f"scored     plain {len(rows) / plain_scoring:.3f} rows/s, ours "
        f"{len(rows) / scoring:.3f} rows/s ({plain_scoring / scoring:.2f}x), log p within "
        f"{apart:.0e}",
        flush=True,
    )
    answers, answering = timed(lambda: [generate(answerer, row) for row in rows])
    read, both = timed(lambda: ours(model, rows, answerer))
    tokens = sum(map(len, answers))
    texts = map(answerer.text, answers)
    differ = sum(one != other for one, (_, other) in zip(texts, read, strict=True))
    print(
        f"answered   plain {tokens / answering:.1f} tokens/s, ours, with scoring, "
        f"{tokens / both:.1f} tokens/s ({answering / both:.2f}x); {differ} answers differ\n"
        f"evaluated  plain {len(rows) / (plain_scoring + answering):.3f} rows/s, ours "
        f"{len(rows) / both:.3f} rows/s ({(plain_scoring + answering) / both:.2f}x)",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
