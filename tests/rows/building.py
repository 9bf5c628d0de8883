"""Replay roots made for a test, and the ingestion of one through the real command lines."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from adaptermill.rows.scan import stat_digest
from scripts import ingest, scan, summarize_ingest

SHARED = Path(__file__).resolve().parents[3] / "shared"
IMAGE_LIMITS = {"min_side": 8, "max_pixels": 50_000_000, "max_aspect": 100}


def picture(color: str = "navy", size: tuple[int, int] = (32, 24), format: str = "PNG") -> bytes:
    """A small image file."""
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, format)
    return buffer.getvalue()


def record(task_id: str = "a", step: int = 0, **changes: Any) -> dict[str, Any]:
    """A row as an agent left it, showing step_000.png."""
    return {
        "task_id": task_id,
        "step": step,
        "family": "Navigation",
        "op": "click",
        "messages": [
            {"role": "system", "content": "You drive a browser."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": f"Step {step} of {task_id}"},
                    {"type": "image_url", "image_url": {"url": "step_000.png"}},
                ],
            },
        ],
        "target": '{"action": [{"click": {"index": 3}}]}',
        **changes,
    }


def with_url(url: str) -> dict[str, Any]:
    """A row that shows the image at `url`."""
    content = [{"type": "image_url", "image_url": {"url": url}}]
    return record(messages=[{"role": "user", "content": content}])


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def json_lines(*lines: Any) -> bytes:
    """A JSONL file of these values; text and bytes are taken as they are."""
    raw = [line if isinstance(line, (str, bytes)) else json.dumps(line) for line in lines]
    return b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in raw)


def write_episode(
    root: Path,
    task_id: str = "a",
    lines: Sequence[dict[str, Any] | str | bytes] | None = None,
    files: dict[str, bytes] | None = None,
    described: dict[str, Any] | str | None = None,
) -> Path:
    """An episode folder; `lines` are records, or raw text or bytes."""
    folder = root / task_id
    folder.mkdir(parents=True)
    raw = []
    for line in [record(task_id)] if lines is None else lines:
        text = json.dumps(line) if isinstance(line, dict) else line
        raw.append(text.encode() if isinstance(text, str) else text)
    (folder / "rows.jsonl").write_bytes(b"\n".join(raw) + b"\n")
    for name, data in ({"step_000.png": picture()} if files is None else files).items():
        (folder / name).write_bytes(data)
    if described is None:
        described = {"task_id": task_id, "success": True}
    text = described if isinstance(described, str) else json.dumps(described)
    (folder / "episode.json").write_text(text)
    return folder


class Ingested:
    """A source ingested into `folder`, from `paths`, by scan.py, ingest.py, summarize_ingest.py.

    `reader` holds the format and its settings, where it is not `replay`.
    """

    def __init__(
        self,
        folder: Path,
        *paths: Path,
        family: str | None = None,
        reader: dict[str, Any] | None = None,
        shard_mb: float = 256,
        max_quarantined: float = 1_000_000,
        code: str = "code",
        files: str = "",
        **limits: float,
    ) -> None:
        self.work = folder
        self.folder = folder / "ingested"
        settings = {
            "source": "main",
            "format": "replay",
            "image": {**IMAGE_LIMITS, **limits},
            **({"family": family} if reader is None else reader),
        }
        scanned = {
            "source": "main",
            "format": settings["format"],
            "paths": [str(path) for path in paths],
            "shard_mb": shard_mb,
            "ingest_code": code,
            "files": files or stat_digest([str(path) for path in paths], settings["format"]),
            "ingest": settings,
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._spec("scan", scanned)
        self._spec("ingest", settings)
        self._spec("summarize", {"max_quarantined": max_quarantined})
        self.manifest_path = folder / "manifest.json"
        self.units_path = folder / "units.jsonl"
        arguments = ["--cache", folder / "hashes", "--output", self.manifest_path]
        arguments += ["--units", self.units_path]
        _run(scan, "--spec", folder / "scan.json", *arguments)
        self.manifest = json.loads(self.manifest_path.read_text())
        self.made = [name for name in self.names if self._make(name)]
        given = ["--manifest", self.manifest_path, "--folder", self.folder]
        given += ["--units", self.units_path]
        _run(summarize_ingest, "--spec", folder / "summarize.json", *given)
        self.summary = json.loads((self.folder / "summary.json").read_text())

    def _spec(self, name: str, settings: dict[str, Any]) -> None:
        (self.work / f"{name}.json").write_text(json.dumps({"settings": settings}))

    def _make(self, name: str) -> bool:
        """Ingests one shard, unless its files are there, as the workflow does."""
        paths = {kind: self.path(kind, name) for kind in ("shards", "images", "quarantine")}
        if all(path.is_file() for path in paths.values()):
            return False
        arguments = ["--spec", self.work / "ingest.json", "--units", self.units_path]
        outputs = ["--rows", paths["shards"], "--images", paths["images"]]
        outputs += ["--quarantine", paths["quarantine"]]
        _run(ingest, *arguments, "--shard", name, *outputs)
        return True

    @property
    def names(self) -> list[str]:
        return [shard["name"] for shard in self.manifest["shards"]]

    def path(self, kind: str, name: str) -> Path:
        return self.folder / kind / f"{name}.parquet"

    def table(self, kind: str) -> list[dict[str, Any]]:
        """The lines of all `shards`, `images` or `quarantine` files."""
        return [
            line for name in self.names for line in pq.read_table(self.path(kind, name)).to_pylist()
        ]

    @property
    def quarantine(self) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "quarantine.parquet").to_pylist()

    def files(self) -> dict[str, bytes]:
        """The bytes of every Parquet file of the shards."""
        return {
            f"{kind}/{name}": self.path(kind, name).read_bytes()
            for kind in ("shards", "images", "quarantine")
            for name in self.names
        }


def _run(script: Any, *arguments: object) -> None:
    script.main([str(argument) for argument in arguments])
