"""The samples of docs/ingestion.md come in as they stand there."""

import json
import re

import pytest

from tests.rows.building import Ingested, data_url, picture, write_episode
from tests.workflow.running import REPOSITORY


def samples():
    """Format -> the line that shows it."""
    text = (REPOSITORY / "docs" / "ingestion.md").read_text(encoding="utf-8")
    found = re.findall(r"```json\n(.+)\n```", text)
    assert len(found) == 5
    return dict(zip(["replay", "openai", "sharegpt", "trl", "browser_use"], found, strict=True))


@pytest.mark.parametrize("format", list(samples()))
def test_sample(tmp_path, format):
    line = samples()[format].replace("data:image/png;base64,iVBO…", data_url(picture()))
    root = tmp_path / "data"
    reader = {"format": format, "families": {"constant": "Navigation"}}
    if format == "replay":
        write_episode(root, "buy-1", [line])
        reader = None
    else:
        reader |= {"system": None} if format == "browser_use" else {"episode": None}
        (root / "pictures").mkdir(parents=True)
        for name in ("pictures/1.png", "step_1.png"):
            (root / name).write_bytes(picture())
        suffix = "json" if format == "browser_use" else "jsonl"
        (root / f"sample.{suffix}").write_text(line + "\n", encoding="utf-8")
    made = Ingested(tmp_path / "out", root, reader=reader, max_quarantined=0)
    [row] = made.table("shards")
    assert len(row["images"]) == 1
    assert (row["op"], row["target"]) in [
        ("answer", "A kettle."),
        ("click", '{"action": [{"click": {"index": 3}}]}'),
        ("click", '{"memory": "On the shop\'s page.", "action": [{"click": {"index": 3}}]}'),
    ]
    assert json.loads(row["fields"])["target"] is None
