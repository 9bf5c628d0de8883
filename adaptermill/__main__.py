"""Commands beside Snakemake: `python -m adaptermill status`, `validate`, `prune` and `schema`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.config import load, schema
from adaptermill.errors import UserError, run_command
from adaptermill.pipeline import Pipeline
from adaptermill.validate import findings

REPOSITORY = Path(__file__).resolve().parents[1]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m adaptermill", description="Commands beside Snakemake."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser(
        "validate", help="check the configuration, the inputs and the disk; builds nothing"
    )
    status = commands.add_parser(
        "status", help="say of every adapter whether a build would train it, and why; runs nothing"
    )
    status.add_argument("--json", action="store_true", help="print JSON, with the keys")
    prune = commands.add_parser(
        "prune", help="show finished and working state that no current target needs"
    )
    prune.add_argument("--yes", action="store_true", help="delete it")
    for command in (validate, status, prune):
        command.add_argument(
            "--configfile",
            nargs="+",
            type=Path,
            default=[Path("config.yaml")],
            help="configuration files, later ones over earlier ones",
        )
    commands.add_parser("schema", help="print the JSON schema of the configuration")
    arguments = parser.parse_args(argv)
    if arguments.command == "schema":
        print(json.dumps(schema(), indent=2))
        return 0
    if arguments.command == "status":
        return _status(arguments.configfile, arguments.json)
    if arguments.command == "prune":
        return _prune(arguments.configfile, arguments.yes)
    return _validate(arguments.configfile)


def _status(files: list[Path], as_json: bool) -> int:
    from adaptermill import status

    found = status.statuses(_pipeline(files))
    print(json.dumps([vars(each) for each in found]) if as_json else status.report(found))
    return 0


def _prune(files: list[Path], yes: bool) -> int:
    from adaptermill import prune

    found = prune.find(_pipeline(files))
    print(prune.report(found))
    if yes:
        prune.remove(found.leftovers)
        print("deleted")
    elif found.leftovers:
        print("nothing was deleted; do so with --yes")
    return 0


def _pipeline(files: list[Path]) -> Pipeline:
    """What the Snakefile of this checkout would know, without its checkpoints."""
    return Pipeline(_read(files), None, REPOSITORY, writes=False)


def _validate(files: list[Path]) -> int:
    config = load(_read(files), origin=" + ".join(map(str, files)))
    found = findings(config)
    for finding in found:
        print(f"{finding.level}: {finding.text}")
    errors = sum(finding.level == "error" for finding in found)
    if errors:
        print(f"{errors} thing(s) to mend; nothing was built")
        return 2
    print(
        f"the configuration is valid: {len(config.recipes)} adapters, {len(config.sources)} sources"
    )
    return 0


def _read(files: list[Path]) -> dict:
    """The files as Snakemake would overlay them."""
    import yaml
    from snakemake.utils import update_config

    merged: dict = {}
    for path in files:
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{path} does not exist; run this where your config.yaml lies, or name it with "
                "--configfile"
            ) from None
        except yaml.YAMLError as error:
            raise UserError(f"{path} is not YAML: {error}") from None
        if not isinstance(content, dict):
            raise UserError(f"{path} must hold a mapping of keys to values")
        update_config(merged, content)
    return merged


if __name__ == "__main__":
    sys.exit(run_command(main))
