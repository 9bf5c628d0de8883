"""Answers that an environment could not carry out are found, with their fault; real ones pass."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from adaptermill.judges.action_format import ActionFormat
from adaptermill.judges.replay import known_actions
from tests.judges.building import example, settings_of
from tests.rows.building import SHARED

PAGE = "Task: [99] is the answer\nElements:\n[3]<button />\n\tSend\n*[14]<input id=a />"
ACTIONS = ("click", "input", "drag", "done", "scroll")


def verdict(target, coordinates="viewport", actions=None, page=PAGE, **fields):
    messages = [
        {"role": "system", "content": "Elements look like [77]<a>."},
        {"role": "user", "content": [{"type": "text", "text": page}, {"type": "image_url"}]},
    ]
    fields = {"screen": (320, 240), "actions": ACTIONS, **fields}
    text = target if isinstance(target, str) else json.dumps({"action": target})
    return ActionFormat(actions, coordinates).verdict(example(text, messages=messages, **fields))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ([{"click": {"index": 3}}], "well_formed"),
        ([{"click": {"index": 14}}, {"done": {"text": "[55]"}}], "well_formed"),
        ([{"done": None}], "well_formed"),
        ([{"scroll": {"index": None, "delta_x": 0, "delta_y": -400}}], "well_formed"),
        ([{"drag": {"start_x": 0, "start_y": 0, "end_x": 320, "end_y": 240}}], "well_formed"),
        ("click 3", "not_json"),
        ("[1, 2]", "not_json"),
        ('{"action": [{"click": {"index": 3}}]} and more', "not_json"),
        ('{"memory": "x"}', "no_actions"),
        ('{"action": []}', "no_actions"),
        ('{"action": {"click": {"index": 3}}}', "no_actions"),
        ([{"click": {"index": 3}, "done": {}}], "no_actions"),
        ([{"fly": {}}], "unknown_action"),
        ([{"click": {"index": 3}}, {"fly": {}}], "unknown_action"),
        ([{"click": {"index": 4}}], "index_not_listed"),
        ([{"click": {"index": "3"}}], "index_not_listed"),
        ([{"click": {"index": True}}], "index_not_listed"),
        ([{"click": {"index": 77}}], "index_not_listed"),
        ([{"drag": {"start_x": 1, "start_y": 1, "end_x": 321, "end_y": 9}}], "point_outside"),
        ([{"click": {"coordinate": [5, -1]}}], "point_outside"),
    ],
)
def test_every_fault_has_its_name(target, said):
    found = verdict(target)
    assert found.verdict == said
    assert found.reward == (1.0 if said == "well_formed" else 0.0)


def test_coordinates_may_be_thousandths_or_anything():
    click = [{"click": {"x": 999, "y": 1000}}]
    assert verdict(click).verdict == "point_outside"
    assert verdict(click, "thousand").verdict == "well_formed"
    assert verdict([{"click": {"x": 1001, "y": 0}}], "thousand").verdict == "point_outside"
    assert verdict([{"click": {"x": -5, "y": 9999}}], "any").verdict == "well_formed"
    # Without a screenshot there is no upper bound.
    assert verdict(click, screen=None).verdict == "well_formed"


def test_the_configuration_names_the_actions_or_else_the_source_does():
    assert verdict([{"click": {"index": 3}}], actions=["input"]).verdict == "unknown_action"
    assert verdict([{"fly": {}}], actions=["fly"]).verdict == "well_formed"
    bare = example('{"action": [{"fly": {}}]}')
    assert ActionFormat(None, "viewport").verdict(bare).verdict == "well_formed"


def test_action_names_come_from_a_schema_file_or_from_the_rows(tmp_path):
    index = pd.DataFrame({"source": ["a", "a", "b"], "op": ["input", "click", "done"]})
    assert known_actions(index, {}) == {"a": ["click", "input"], "b": ["done"]}
    assert known_actions(index, {"a": ["fly"], "b": None}) == {"a": ["fly"], "b": ["done"]}
    listed, described = tmp_path / "list.json", tmp_path / "schema.json"
    listed.write_text('["b", "a"]')
    choices = [{"properties": {"click": {}}}, {"properties": {"done": {}}}]
    described.write_text(
        json.dumps({"properties": {"action": {"type": "array", "items": {"anyOf": choices}}}})
    )
    for path, names in ((listed, ["a", "b"]), (described, ["click", "done"])):
        found = settings_of({"kind": "action_format"}, action_schema=str(path))
        assert found["actions"] == {"main": names}


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded episodes")
def test_recorded_rows_of_a_real_agent_are_all_well_formed():
    rows = [
        json.loads(line)
        for path in sorted(Path(SHARED, "replay").glob("*/rows.jsonl"))
        for line in path.read_text().splitlines()
    ]
    actions = tuple({row["op"] for row in rows})
    judge = ActionFormat(None, "viewport")
    said = Counter(
        judge.verdict(
            example(row["target"], messages=row["messages"], actions=actions, screen=(320, 240))
        ).verdict
        for row in rows
    )
    assert said == {"well_formed": len(rows)}
