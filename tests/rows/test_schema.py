"""A row's hashes follow what is trained on, and nothing else."""

import copy

from adaptermill.rows.schema import content_hashes, digest
from tests.rows.building import record

MESSAGES = record()["messages"]
HASHES = content_hashes(MESSAGES, "t", ["aa"])


def changed(messages=None, target="t", images=("aa",)):
    """Which of the four hashes differ from those of the plain row."""
    found = content_hashes(messages or MESSAGES, target, list(images))
    return {name for name in found if found[name] != HASHES[name]}


def test_where_the_picture_lies_does_not_count():
    moved = copy.deepcopy(MESSAGES)
    moved[1]["content"][1]["image_url"] = {"url": "elsewhere.png", "detail": "auto"}
    assert changed(moved) == set()


def test_what_is_seen_and_said_counts():
    assert changed(images=("bb",)) == {"prompt_hash", "content_hash"}
    assert changed(target="u") == {"target_hash", "content_hash"}
    said = copy.deepcopy(MESSAGES)
    said[0]["content"] += "!"
    assert changed(said) == {"text_hash", "prompt_hash", "content_hash"}


def test_parts_are_kept_apart():
    assert digest("ab", "c") != digest("a", "bc")
