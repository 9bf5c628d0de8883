"""Commands beside Snakemake: `python -m adaptermill validate`, `python -m adaptermill schema`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from adaptermill.config import load, schema
from adaptermill.errors import UserError, run_command
from adaptermill.validate import findings


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m adaptermill", description="Commands beside Snakemake."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser(
        "validate", help="check the configuration, the inputs and the disk; builds nothing"
    )
    validate.add_argument(
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
    return _validate(arguments.configfile)


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
