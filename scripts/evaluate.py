"""Evaluates one adapter, or the base alone, on the held-out rows of every family.

    evaluate.py --spec spec.json --base results/base/base.json --adapter results/adapters/drag \\
        --heldout results/splits/heldout.parquet --data results/ingest/main \\
        --state results/.work/evaluation/0f3a… --output drag.parquet

Each row is scored (teacher-forced), with `curve: true` also under the adapter as it was after each
earlier epoch; with `generate: true` it is answered greedily. What the prompts of a chunk of rows
begin with is run once, and answers are decoded side by side.
Finished chunks of rows are kept in the state folder; start it again after an interruption and it
goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from adaptermill.errors import UserError, run_command
from adaptermill.evaluation import predictions
from adaptermill.evaluation.generated import Answerer
from adaptermill.evaluation.nodes import NodeAdapters
from adaptermill.evaluation.progress import Progress
from adaptermill.evaluation.reading import read_rows
from adaptermill.evaluation.state import CHUNK_ROWS, ChunkFolder
from adaptermill.evaluation.subject import Epochs, load_subject, subject_key
from adaptermill.evaluation.teacher_forced import Scored, figures, nll
from adaptermill.models.base import BaseRef, load_processor
from adaptermill.models.encode import Encoded, Encoder, TemplatePrefixError
from adaptermill.rows.dataset import Images, Rows, open_sources
from adaptermill.rows.images import decode
from adaptermill.rows.schema import Row

FROM_HELDOUT = ("row_id", "task_id", "family", "step", "op", "variant", "side")


class Evaluator:
    """Turns held-out rows into lines of predictions."""

    def __init__(
        self,
        model: Any,
        epochs: Epochs,
        encoder: Encoder,
        rows: Rows,
        images: Images,
        settings: dict[str, Any],
        nodes: NodeAdapters | None = None,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.rows = rows
        self.images = images
        self.device = next(model.parameters()).device
        self.epochs = epochs
        self.nodes = nodes
        self.answerer = None
        if settings["generate"]:
            self.answerer = Answerer(model, encoder, settings["max_new_tokens"])

    def lines(self, chunk: Sequence[dict[str, Any]], progress: Progress) -> list[dict[str, Any]]:
        """The predictions for lines of the held-out list."""
        rows = [self._row(listed) for listed in chunk]
        encoded = [self._encoded(row) for row in rows]
        read: dict[int, tuple[Scored, str | None]] = {}
        curves: dict[int, list[float]] = {number: [] for number in range(len(rows))}
        for subject, numbers in self._by_subject(rows).items():
            own = [encoded[number] for number in numbers]

            def tell(place: int, scored: Scored, own: list[Encoded] = own) -> None:
                progress.row(len(own[place].input_ids), nll(scored))

            with self._switched(subject):
                done = read_rows(self.model, own, self.device, self.answerer, tell)
                read.update(zip(numbers, done, strict=True))
                for model in self.epochs:
                    for number, (scored, _) in zip(
                        numbers, read_rows(model, own, self.device), strict=True
                    ):
                        curves[number].append(nll(scored))
        return [
            self._line(listed, rows[number], encoded[number], *read[number], curves[number])
            for number, listed in enumerate(chunk)
        ]

    def _row(self, listed: dict[str, Any]) -> Row:
        row = self.rows.get(listed["row_id"])
        if row.content_hash != listed["content_hash"]:
            raise UserError(
                f"row {row.row_id} is not what it was when the held-out rows were listed; build "
                "results/splits/heldout.parquet again with snakemake"
            )
        return row

    def _encoded(self, row: Row) -> Encoded:
        sent = [] if self.encoder.drops_images else row.images
        screens = [decode(self.images.bytes(name)) for name in sent]
        try:
            return self.encoder.encode(row.messages, row.target, screens)
        except TemplatePrefixError as error:
            raise UserError(
                f"row {row.row_id} cannot be encoded for this base ({error}); measure the rows "
                "again with snakemake results/splits/heldout.parquet"
            ) from None

    def _by_subject(self, rows: Sequence[Row]) -> dict[str | None, list[int]]:
        """Of adapters per node, which rows each answers, by its name; None: the base alone."""
        found: dict[str | None, list[int]] = {}
        for number, row in enumerate(rows):
            name = None if self.nodes is None else self.nodes.name_for(row)
            found.setdefault(name, []).append(number)
        return found

    def _switched(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, the model is what answers the rows of `_by_subject` with that name."""
        return nullcontext() if self.nodes is None else self.nodes.switched(self.model, name)

    def _line(
        self,
        listed: dict[str, Any],
        row: Row,
        encoded: Encoded,
        scored: Scored,
        predicted: str | None,
        curve: list[float],
    ) -> dict[str, Any]:
        width, height = self.images.size(row.images[-1]) if row.images else (None, None)
        return {
            **{name: listed[name] for name in FROM_HELDOUT},
            **figures(scored, encoded.action_mask),
            "predicted": predicted,
            "target": row.target,
            "epochs_nll": curve,
            "screen_width": width,
            "screen_height": height,
        }


def evaluate(arguments: argparse.Namespace) -> None:
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    ref = BaseRef.read(arguments.base)
    listed = read_heldout(arguments.heldout)
    device = arguments.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = arguments.dtype
    if dtype == "auto":
        dtype = "bfloat16" if device == "cuda" else "float32"
    origin = predictions.Origin(
        split_hash=heldout_digest(arguments.heldout),
        base_hash=ref.identity,
        adapter_key=arguments.adapter and subject_key(arguments.adapter),
        generated=settings["generate"],
        max_new_tokens=settings["max_new_tokens"],
        dtype=dtype,
        device=device,
    )
    if not listed:
        print("no row is held out: the evaluation is empty", flush=True)
        predictions.write(arguments.output, predictions.SCHEMA.empty_table(), origin)
        return
    state = ChunkFolder(
        arguments.state, {**vars(origin), "key": arguments.key, "rows": len(listed)}
    )
    chunks = [listed[start : start + CHUNK_ROWS] for start in range(0, len(listed), CHUNK_ROWS)]
    tables = [state.read(number) for number in range(len(chunks))]
    kept = sum(len(table) for table in tables if table is not None)
    print(
        f"{arguments.name}: {len(listed)} held-out rows on {ref.model} ({dtype}, {device})"
        + (f", {kept} of them done before" if kept else ""),
        flush=True,
    )
    if kept < len(listed):
        encoder = Encoder(load_processor(ref))
        if encoder.drops_images:
            print("the base is text only: screenshots are left out of the prompts", flush=True)
        model = load_subject(ref, arguments.adapter, device, getattr(torch, dtype))
        epochs = Epochs(model, arguments.adapter if settings["curve"] else None)
        evaluator = Evaluator(
            model,
            epochs,
            encoder,
            *open_sources(arguments.data),
            settings,
            NodeAdapters.of(arguments.adapter),
        )
        progress = Progress(len(listed), kept)
        for number, chunk in enumerate(chunks):
            if tables[number] is None:
                tables[number] = state.write(number, evaluator.lines(chunk, progress))
    predictions.write(arguments.output, pa.concat_tables(tables), origin)
    state.remove()


def read_heldout(path: Path) -> list[dict[str, Any]]:
    """The held-out list, sorted by row id."""
    if not path.is_file():
        raise UserError(
            f"{path} is missing; build it with snakemake results/splits/heldout.parquet"
        )
    lines = pq.read_table(path, columns=[*FROM_HELDOUT, "content_hash"]).to_pylist()
    return sorted(lines, key=lambda line: line["row_id"])


def heldout_digest(path: Path) -> str:
    """The identity of the held-out rows, which is noted beside their list."""
    summary = path.with_suffix(".json")
    try:
        return json.loads(summary.read_text(encoding="utf-8"))["digest"]
    except (FileNotFoundError, json.JSONDecodeError, KeyError):
        raise UserError(
            f"{summary} with the digest of the held-out rows is missing; scripts/heldout.py writes "
            "it together with the list"
        ) from None


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="generate, curve, … (JSON)")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--adapter", type=Path, help="finished adapter; without it, the base alone")
    parser.add_argument("--name", help="what the log calls it (default: the output's name)")
    parser.add_argument("--key", help="hash of all that the evaluation depends on")
    parser.add_argument("--heldout", type=Path, required=True, help="the held-out rows (Parquet)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--state", type=Path, required=True, help="finished chunks of this run")
    parser.add_argument("--output", type=Path, required=True, help="predictions (Parquet)")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    arguments = parser.parse_args(argv)
    arguments.name = arguments.name or arguments.output.stem
    return arguments


def main(argv: list[str] | None = None) -> None:
    evaluate(parse(argv))


if __name__ == "__main__":
    sys.exit(run_command(main))
