"""Writes an adapter's card with its held-out figures beside the base's.

    card.py --spec spec.json --adapter results/adapters/drag \\
        --evaluations results/evaluation/base.parquet results/evaluation/drag.parquet \\
        --output results/cards/drag.md
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.atomic import write_text
from adaptermill.errors import UserError, run_command
from adaptermill.evaluation import predictions
from adaptermill.evaluation.card import card
from adaptermill.evaluation.tables import BASE, HeldOut, TableSettings
from adaptermill.fitsets.composition import learned_families


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spec", type=Path, required=True, help="settings of the tables (JSON)")
    parser.add_argument("--adapter", type=Path, required=True, help="the finished adapter's folder")
    parser.add_argument("--evaluations", type=Path, nargs="+", required=True, help="base's and its")
    parser.add_argument("--composition", type=Path, help="its fit set's composition.json")
    parser.add_argument("--output", type=Path, required=True, help="the card (Markdown)")
    arguments = parser.parse_args(argv)
    settings = json.loads(arguments.spec.read_text(encoding="utf-8"))["settings"]
    held_out = HeldOut(
        [predictions.read(path) for path in arguments.evaluations], TableSettings(**settings)
    )
    readme = arguments.adapter / "README.md"
    if not readme.is_file():
        raise UserError(f"{arguments.adapter} is no finished adapter: it has no README.md")
    names = [name for name in held_out.adapters if name != BASE]
    if BASE not in held_out.adapters or len(names) != 1:
        raise UserError("a card takes two evaluations: the base's and the adapter's")
    text = card(readme.read_text(encoding="utf-8"), held_out, names[0], own(arguments, names[0]))
    write_text(arguments.output, text)
    print(f"card of {names[0]}: {arguments.output}")


def own(arguments: argparse.Namespace, name: str) -> list[str]:
    """The adapter's own families: those that it learns."""
    # results/adapters/drag -> results/fitsets/drag/composition.json, where it is there
    beside = arguments.adapter.parent.parent / "fitsets" / name / "composition.json"
    path = arguments.composition or beside
    if not path.is_file():
        return []
    composition = json.loads(path.read_text(encoding="utf-8"))
    return learned_families(composition)


if __name__ == "__main__":
    sys.exit(run_command(main))
