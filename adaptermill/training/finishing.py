"""What a training run begins and ends with, by whatever recipe: who it is, and what it leaves."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from adaptermill.models.base import BaseRef
from adaptermill.training import lora
from adaptermill.training.processes import Processes

EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: try again
RECORDED_PACKAGES = ("torch", "transformers", "peft", "pyarrow", "pillow", "tokenizers")


def reference_identity(
    parent: Path | None, spec: Mapping[str, Any], ref: BaseRef, dtype: str, device: torch.device
) -> dict[str, Any]:
    """All that a row's reference log-probabilities depend on beside the row."""
    on_gpu = device.type == "cuda"
    return {
        "base": ref.identity,
        "start": None if parent is None else lora.content(parent),
        "dtype": dtype,
        # Sums are taken in another order on another GPU, or with another number of threads.
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "threads": None if on_gpu else torch.get_num_threads(),
        "code": spec["code"],
        "versions": spec["settings"].get("versions", {}),
    }


def is_finished(output: Path, key: str) -> bool:
    """Whether the adapter was written while this process waited for the lock.

    So it is where a trainer outlived its caller; Snakemake deletes outputs before it starts a job.
    """
    record = output / "training.json"
    return record.is_file() and json.loads(record.read_text(encoding="utf-8"))["key"] == key


def parent_key(parent: Path | None) -> str | None:
    """The key of the adapter that training started from; None where it has none."""
    if parent is None or not (parent / "training.json").is_file():
        return None
    return json.loads((parent / "training.json").read_text(encoding="utf-8"))["key"]


def keep_rows(fitset: Path, output: Path) -> None:
    """Keeps which rows were trained on, by content: later changes can be told row by row."""
    rows = pq.read_table(fitset, columns=["kind", "family", "content_hash"])
    pq.write_table(rows, output, compression="zstd")


def telemetry(minutes: float, processes: Processes, dtype: str) -> dict[str, Any]:
    """What no key covers: how long it took, and on what."""
    return {
        "minutes": round(minutes, 3),
        "processes": processes.count,
        "threads": torch.get_num_threads(),
        "device": processes.device.type,
        "dtype": dtype,
        "versions": {name: version(name) for name in RECORDED_PACKAGES},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
