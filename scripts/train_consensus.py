"""Trains by consensus ADMM; start it again after an interruption and it goes on.

    torchrun --standalone --nproc-per-node 4 scripts/train_consensus.py --spec spec.json \\
        --key 0f3a… --base results/base/base.json --fitset fitset.parquet \\
        --data results/ingest/mas --state results/.work/training/0f3a… --output folder

Nodes are spread over the processes; how many these are changes no result. Ends with 0 when the
adapter (or one for each node) is written, 75 when it was interrupted (start it again), and 2 when
it refused: then the reason is printed and kept, and starting it again says the same.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from adaptermill.atomic import replacing_folder, write_json, write_text
from adaptermill.consensus import telemetry as rounds
from adaptermill.errors import EXIT_USER_ERROR, UserError
from adaptermill.models.base import BaseRef, load_model, load_processor
from adaptermill.models.encode import Encoder
from adaptermill.provenance import key
from adaptermill.rows.nodes import PER_NODE
from adaptermill.training.checkpoint import Refusal, StateFolder
from adaptermill.training.consensus.answers import Answers
from adaptermill.training.consensus.basis import Basis
from adaptermill.training.consensus.card import consensus_card
from adaptermill.training.consensus.examples import Example, make_nodes, read_examples
from adaptermill.training.consensus.fitting import Fitting
from adaptermill.training.consensus.loop import ConsensusTrainer
from adaptermill.training.consensus.recipe import ConsensusRecipe
from adaptermill.training.finishing import (
    EXIT_INTERRUPTED,
    is_finished,
    keep_rows,
    parent_key,
    reference_identity,
    telemetry,
)
from adaptermill.training.processes import Interrupted, Processes, Signals
from adaptermill.training.references import References
from adaptermill.training.saving import Saving
from adaptermill.training.tracking import KINDS, Trackers

# How long a process waits for the x-steps of the others.
PATIENCE = timedelta(days=2)
# What rollouts say that no adapter was on while they were collected.
NO_ADAPTER = ("base", "example")


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the run (JSON)")
    parser.add_argument("--key", required=True, help="hash of all that the adapter depends on")
    parser.add_argument("--base", type=Path, required=True, help="the resolved base (base.json)")
    parser.add_argument("--fitset", type=Path, required=True, help="the fit set (Parquet)")
    parser.add_argument("--data", type=Path, action="append", required=True, help="ingested source")
    parser.add_argument("--parent", type=Path, help="finished adapter to start from (init_from)")
    parser.add_argument("--state", type=Path, required=True, help="checkpoints of this run")
    parser.add_argument("--output", type=Path, required=True, help="folder of the adapter")
    parser.add_argument("--save-every", type=int, default=5000, help="examples between checkpoints")
    parser.add_argument("--save-minutes", type=float, default=10.0, help="minutes between them")
    parser.add_argument("--references", type=Path, help="where reference values are kept")
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
    recipe = ConsensusRecipe.from_settings(spec["settings"])
    ref = BaseRef.read(arguments.base)
    examples = read_examples(arguments.fitset, recipe.examples)
    nodes = make_nodes(examples, recipe.as_dict())
    dtype = arguments.dtype
    if dtype == "auto":
        dtype = "bfloat16" if processes.device.type == "cuda" else "float32"
    encoder = Encoder(load_processor(ref))
    answers = Answers(arguments.data, encoder)
    if recipe.kl_ref == "collect":
        check_collected(examples, answers, arguments.parent)
    if processes.is_first:
        counts = ", ".join(f"{node.name} {len(node.fitted)}" for node in nodes)
        print(
            f"{spec['name']}: {recipe.rounds} rounds on {ref.model} ({dtype}, {processes.count} x "
            f"{processes.device.type}); {recipe.examples} examples: {counts}",
            flush=True,
        )
    base = load_model(ref, processes.device, getattr(torch, dtype))
    basis = Basis(base, recipe, ref, arguments.parent)
    references = None
    if arguments.references is not None:
        start = arguments.parent if recipe.kl_ref == "collect" else None
        identity = reference_identity(start, spec, ref, dtype, processes.device)
        references = References(arguments.references, identity)
    trackers = Trackers(
        arguments.tracking if processes.is_first else [],
        spec["name"],
        arguments.key,
        recipe.as_dict(),
        arguments.tracks or arguments.state,
    )
    trainer = ConsensusTrainer(
        fitting=Fitting(basis, answers, nodes, recipe, processes.device, references),
        key=arguments.key,
        state=state,
        processes=processes,
        saving=Saving(arguments.save_every, arguments.save_minutes),
        trackers=trackers,
    )
    try:
        trainer.run(signals)
    finally:
        trackers.close()
    signals.ignore()
    if not processes.is_first:
        return
    passing = telemetry((time.monotonic() - started) / 60, processes, dtype)
    record = describe(arguments, spec, ref, encoder, trainer, passing)
    publish(arguments.output, trainer, arguments.fitset, record)
    state.remove()
    print(f"{spec['name']}: trained in {passing['minutes']:.1f} minutes", flush=True)


def check_collected(examples: Sequence[Example], answers: Answers, parent: Path | None) -> None:
    """`Refusal` unless the reference (the base, or `parent`) is what collected the rollouts."""
    wanted = parent_key(parent) if parent is not None else None
    for example in examples:
        found = answers.collected_with(example.chosen)
        if found != wanted and not (parent is None and found in (None, *NO_ADAPTER)):
            reference = "the base" if parent is None else f"the adapter of key {wanted}"
            raise Refusal(
                f"kl_ref: collect takes {reference} for the policy that collected the rollouts, "
                f"and {example.chosen.prompt} was collected with {found}. Set init_from to that "
                "adapter, or kl_ref: frozen"
            )


def describe(
    arguments: argparse.Namespace,
    spec: dict[str, Any],
    ref: BaseRef,
    encoder: Encoder,
    trainer: ConsensusTrainer,
    passing: dict[str, Any],
) -> dict[str, Any]:
    """training.json: what the key covers, the rounds, and apart from these the telemetry."""
    composition = json.loads(
        (arguments.fitset.parent / "composition.json").read_text(encoding="utf-8")
    )
    recipe, basis, fitting = trainer.recipe, trainer.fitting.basis, trainer.fitting
    vectors = trainer.vectors()
    nodes = [node.described() for node in trainer.nodes]
    for node, vector in vectors.items():
        if trainer.is_per_node:
            nodes[node]["relative_change"] = basis.relative_change(vector)
    kind = "pairs" if recipe.examples == "dpo" else "ce"
    return {
        "adapter": spec["name"],
        "method": recipe.method,
        "key": arguments.key,
        "deploy": PER_NODE if trainer.is_per_node else "one",
        "base": {"model": ref.name, "revision": ref.revision, "identity": ref.identity},
        "recipe": recipe.as_dict(),
        "rows": {kind: sum(len(node.fitted) for node in fitting.nodes)},
        "nodes": nodes,
        "steps": recipe.rounds * recipe.local_steps,
        "parameters": trainer.start.numel(),
        "best_round": trainer.best_round,
        "warnings": rounds.warnings(trainer.rounds),
        "images_dropped": encoder.drops_images,
        "end_of_turn": encoder.end_of_turn,
        "code_trusted": spec.get("noted", {}).get("code_trusted", False),
        "relative_change": max(basis.relative_change(vector) for vector in vectors.values()),
        "hashes": {
            "base": ref.identity,
            "basis": basis.hash,
            "fitset": composition["hashes"]["fitset"],
            "plan": composition["hashes"]["plan"],
            "recipe": key(**recipe.as_dict()),
            "code": spec["code"],
        },
        "rounds": trainer.rounds,
        # What a later change is explained by.
        "noted": {**spec.get("noted", {}), "init_from": parent_key(arguments.parent)},
        "telemetry": passing,
    }


def publish(output: Path, trainer: ConsensusTrainer, fitset: Path, record: dict[str, Any]) -> None:
    """Writes the finished folder under a temporary name and puts it in place whole.

    One adapter lies in the folder itself, several in nodes/<name>/; the best round's in `best/`.
    """
    for left_over in output.parent.glob(f".{output.name}.*.tmp"):  # of a trainer that was killed
        shutil.rmtree(left_over)
    with replacing_folder(output) as temporary:
        for node, vector in trainer.vectors().items():
            trainer.fitting.basis.save(vector, place(temporary, trainer, node))
        for node, vector in trainer.best().items():
            trainer.fitting.basis.save(vector, place(temporary, trainer, node) / "best")
        shutil.copyfile(trainer.state.log_path, temporary / "train_log.jsonl")
        keep_rows(fitset, temporary / "rows.parquet")
        write_json(temporary / "training.json", record)
        write_text(temporary / "README.md", consensus_card(record))


def place(folder: Path, trainer: ConsensusTrainer, node: int) -> Path:
    """Where a node's adapter lies: in the folder itself where there is one for all."""
    return folder / "nodes" / trainer.nodes[node].name if trainer.is_per_node else folder


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    processes = Processes(arguments.device, PATIENCE)
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
