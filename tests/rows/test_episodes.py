"""An episode's name decides its variant and sources as the recorded runs have them."""

import json

import pytest

from adaptermill.rows.episodes import sources_of, variant_of
from tests.rows.building import SHARED


@pytest.mark.parametrize(
    ("task_id", "has_parts", "variant"),
    [
        ("click-s01", False, "plain"),
        ("click-s01~rec", False, "recovery"),
        ("chain-001", False, "chain"),
        ("two-in-one", True, "chain"),
        ("chain-001~rec", True, "recovery"),
        ("click-s01~v2", False, "plain"),
    ],
)
def test_variant(task_id, has_parts, variant):
    assert variant_of(task_id, has_parts) == variant


def test_sources():
    assert sources_of("click-s01~rec~2") == ["click-s01"]
    assert sources_of("chain-001", ["a", "b"]) == ["a", "b"]
    assert sources_of("chain-001", []) == ["chain-001"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the golden values")
def test_golden_episodes():
    for case in json.loads((SHARED / "golden/webmix.json").read_text())["split"]:
        parts = case.get("parts")
        assert variant_of(case["task_id"], bool(parts)) == case["variant"]
        expected = parts or [case["source"]]
        assert sources_of(case["task_id"], parts) == expected
