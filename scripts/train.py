"""Trains one adapter by the anchored recipe; start it again after an interruption and it goes on.

    torchrun --standalone --nproc-per-node 2 scripts/train.py --spec spec.json --key 0f3a… \\
        --base results/base/base.json --fitset fitset.parquet --plan plan.parquet \\
        --data results/ingest/main --state results/.work/training/0f3a… --output folder

Ends with 0 when the adapter is written, 75 when it was interrupted (start it again), and 2 when it
refused: then the reason is printed and kept, and starting it again says the same.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from adaptermill.atomic import replacing_folder, write_json, write_text
from adaptermill.errors import EXIT_USER_ERROR, UserError
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.models.states import why_unknown
from adaptermill.provenance import key
from adaptermill.training import lora
from adaptermill.training.batches import read_plan
from adaptermill.training.card import model_card
from adaptermill.training.checkpoint import Refusal, StateFolder
from adaptermill.training.dropout import DropoutKeys
from adaptermill.training.examples import Examples
from adaptermill.training.finishing import (
    EXIT_INTERRUPTED,
    is_finished,
    keep_rows,
    parent_key,
    reference_identity,
    telemetry,
)
from adaptermill.training.loop import Shortcuts, Trainer
from adaptermill.training.processes import Interrupted, Processes, Signals
from adaptermill.training.recipe import Recipe
from adaptermill.training.references import References
from adaptermill.training.saving import Saving
from adaptermill.training.tracking import KINDS, Trackers


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the run (JSON)")
    parser.add_argument("--key", required=True, help="hash of all that the adapter depends on")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--fitset", type=Path, required=True, help="the fit set (Parquet)")
    parser.add_argument("--plan", type=Path, required=True, help="the order of rows (Parquet)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--parent", type=Path, help="finished adapter to start from (init_from)")
    parser.add_argument("--state", type=Path, required=True, help="checkpoints of this run")
    parser.add_argument("--output", type=Path, required=True, help="folder of the adapter")
    parser.add_argument("--save-every", type=int, default=5000, help="rows between checkpoints")
    parser.add_argument("--save-minutes", type=float, default=10.0, help="minutes between them")
    parser.add_argument("--keep-curve", action="store_true", help="keep the adapter of each")
    parser.add_argument("--whole-rows", action="store_true", help="do not share a batch's prefix")
    parser.add_argument("--references", type=Path, help="where reference values are kept")
    parser.add_argument(
        "--token-budget", type=int, help="rows longer than so many tokens are run in less memory"
    )
    parser.add_argument(
        "--tracking", action="append", default=[], choices=list(KINDS), help="experiment tracker"
    )
    parser.add_argument("--tracks", type=Path, help="folder of the trackers' files")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    return parser.parse_args(argv)


def train(arguments: argparse.Namespace, processes: Processes, state: StateFolder) -> None:
    signals = Signals(processes.count)
    if processes.agree(is_finished(arguments.output, arguments.key)):
        if processes.is_first:
            print(f"{arguments.output} holds this adapter already", flush=True)
            state.remove()
        return
    state.check_not_refused()
    started = time.monotonic()
    spec = json.loads(arguments.spec.read_text(encoding="utf-8"))
    recipe = Recipe.from_settings(spec["settings"])
    ref = BaseRef.read(arguments.base)
    plan = read_plan(arguments.plan)
    dtype = arguments.dtype
    if dtype == "auto":
        dtype = "bfloat16" if processes.device.type == "cuda" else "float32"
    encoder = Encoder(load_processor(ref))
    if processes.is_first:
        print(
            f"{spec['name']}: {len(plan)} rows of the plan on {ref.model} ({dtype}, "
            f"{processes.count} x {processes.device.type})",
            flush=True,
        )
        if encoder.drops_images:
            print("the base is text only: screenshots are left out of the prompts", flush=True)
    base = load_model(ref, processes.device, getattr(torch, dtype))
    unknown = None if arguments.whole_rows else why_unknown(base.config)
    if unknown is not None and processes.is_first:
        print(f"every row is run whole, its prefix too: {unknown}", flush=True)
    keys = DropoutKeys()
    model = lora.attach(base, recipe, ref, keys)
    if arguments.parent is not None:
        lora.load_start(model, arguments.parent, recipe)
    model.train(False)  # dropout is ours; nothing else may behave differently in training
    saving = Saving(arguments.save_every, arguments.save_minutes, arguments.keep_curve)
    references = None
    if arguments.references is not None:
        identity = reference_identity(arguments.parent, spec, ref, dtype, processes.device)
        references = References(arguments.references, identity)
    trackers = Trackers(
        arguments.tracking if processes.is_first else [],
        spec["name"],
        arguments.key,
        recipe.as_dict(),
        arguments.tracks or arguments.state,
    )
    trainer = Trainer(
        model=model,
        examples=Examples(arguments.data, encoder),
        plan=plan,
        recipe=recipe,
        key=arguments.key,
        state=state,
        processes=processes,
        keys=keys,
        saving=saving,
        shortcuts=Shortcuts(not arguments.whole_rows, arguments.token_budget, references),
        trackers=trackers,
    )
    try:
        trainer.run(signals)
    finally:
        trackers.close()
    signals.ignore()
    if not processes.is_first:
        return
    found = telemetry((time.monotonic() - started) / 60, processes, dtype)
    record = describe(arguments, spec, recipe, ref, encoder, trainer, found)
    publish(arguments.output, trainer, arguments.fitset, record)
    state.remove()
    print(f"{spec['name']}: trained in {found['minutes']:.1f} minutes", flush=True)


def describe(
    arguments: argparse.Namespace,
    spec: dict[str, Any],
    recipe: Recipe,
    ref: BaseRef,
    encoder: Encoder,
    trainer: Trainer,
    found: dict[str, Any],
) -> dict[str, Any]:
    """training.json: what the key covers, and apart from it the telemetry."""
    composition = json.loads(
        (arguments.fitset.parent / "composition.json").read_text(encoding="utf-8")
    )
    kinds = pq.read_table(arguments.plan, columns=["kind"])["kind"].to_pylist()
    return {
        "adapter": spec["name"],
        "method": recipe.method,
        "key": arguments.key,
        "base": {"model": ref.name, "revision": ref.revision, "identity": ref.identity},
        "recipe": recipe.as_dict(),
        "rows": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "steps": len(trainer.batches),
        "images_dropped": encoder.drops_images,
        "end_of_turn": encoder.end_of_turn,
        "code_trusted": spec.get("noted", {}).get("code_trusted", False),
        "relative_change": lora.relative_change(trainer.model),
        "hashes": {
            "base": ref.identity,
            "fitset": composition["hashes"]["fitset"],
            "plan": composition["hashes"]["plan"],
            "recipe": key(**recipe.as_dict()),
            "code": spec["code"],
        },
        # What a later change is explained by.
        "noted": {**spec.get("noted", {}), "init_from": parent_key(arguments.parent)},
        "telemetry": found,
    }


def publish(output: Path, trainer: Trainer, fitset: Path, record: dict[str, Any]) -> None:
    """Writes the finished folder under a temporary name and puts it in place whole."""
    for left_over in output.parent.glob(f".{output.name}.*.tmp"):  # of a trainer that was killed
        shutil.rmtree(left_over)
    with replacing_folder(output) as temporary:
        lora.save(trainer.model, temporary)
        copy_kept(trainer.state.folder, temporary)
        keep_rows(fitset, temporary / "rows.parquet")
        write_json(temporary / "training.json", record)
        write_text(temporary / "README.md", model_card(record))


def copy_kept(state: Path, folder: Path) -> None:
    """The adapters kept along the way, and the log."""
    shutil.copyfile(state / "train_log.jsonl", folder / "train_log.jsonl")
    for name in ["epochs", *(path.name for path in sorted(state.glob("rows_*")))]:
        if (state / name).is_dir():
            shutil.copytree(state / name, folder / name)


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    processes = Processes(arguments.device)
    state = StateFolder(arguments.state)
    try:
        if processes.is_first:
            state.lock()
        train(arguments, processes, state)
        return 0
    except Refusal as refusal:
        Signals.ignore()  # torchrun ends all processes as soon as one has ended badly
        if processes.is_first:
            if not state.refusal_path.is_file():
                state.refuse(str(refusal))
            print(f"error: {refusal}", file=sys.stderr, flush=True)
        return EXIT_USER_ERROR
    except UserError as error:
        # It may be in a row that only this process has.
        where = "" if processes.is_first else f" in process {processes.rank}"
        print(f"error{where}: {error}", file=sys.stderr, flush=True)
        return EXIT_USER_ERROR
    except OSError as error:  # a full disk, a folder that cannot be written or is gone
        print(f"error: {error}; mend that and start again to go on", file=sys.stderr, flush=True)
        return EXIT_USER_ERROR
    except Interrupted as interrupted:
        if processes.is_first:
            print(f"interrupted ({interrupted}); start again to go on", flush=True)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
