"""Puts a finished product of the store where people look for it.

    publish.py adapter --stored results/.store/adapters/<key> --name drag \\
        --output results/adapters/drag
    publish.py evaluation --stored results/.store/evaluations/<key>.parquet --name drag \\
        --output results/evaluation/drag.parquet --key-file <file that notes the key>

Weights are hard links where the file system allows it: publishing costs no disk.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from adaptermill.atomic import replacing, replacing_folder, write_json, write_text
from adaptermill.errors import UserError, run_command


def publish_adapter(stored: Path, name: str, output: Path) -> None:
    """Copies the finished adapter; `training.json` then says under which name it is published."""
    described = stored / "training.json"
    if not described.is_file():
        raise UserError(
            f"{stored} is no finished adapter (it has no training.json); delete that folder and "
            f"build results/adapters/{name} again"
        )
    with replacing_folder(output) as temporary:
        shutil.copytree(stored, temporary, dirs_exist_ok=True, copy_function=link_or_copy)
        record = json.loads(described.read_text(encoding="utf-8"))
        (temporary / "training.json").unlink()
        write_json(temporary / "training.json", {**record, "adapter": name})


def publish_evaluation(stored: Path, output: Path, key_file: Path) -> None:
    with replacing(output) as temporary:
        link_or_copy(stored, temporary)
    write_text(key_file, stored.stem + "\n")


def link_or_copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """A hard link for weights and tables (they are replaced, never edited), a copy for the rest."""
    if Path(source).suffix in (".safetensors", ".parquet"):
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # another file system, or one without hard links
    shutil.copyfile(source, target)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["adapter", "evaluation"], help="what is published")
    parser.add_argument("--stored", type=Path, required=True, help="the finished product")
    parser.add_argument("--name", required=True, help="the adapter's name, or base")
    parser.add_argument("--output", type=Path, required=True, help="where people look for it")
    parser.add_argument("--key-file", type=Path, help="file that notes an evaluation's key")
    arguments = parser.parse_args(argv)
    if arguments.kind == "adapter":
        publish_adapter(arguments.stored, arguments.name, arguments.output)
    else:
        if arguments.key_file is None:
            parser.error("publishing an evaluation needs --key-file")
        publish_evaluation(arguments.stored, arguments.output, arguments.key_file)
    print(f"{arguments.name}: published {arguments.stored} as {arguments.output}")


if __name__ == "__main__":
    sys.exit(run_command(main))
