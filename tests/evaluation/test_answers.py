"""Protects the scoring of generated answers: what counts as right, and that nothing crashes."""

import json
import unicodedata
from pathlib import Path

import pytest

from adaptermill.evaluation.answers import Comparison, actions_of, compare, parse_json

REPLAY = Path(__file__).resolve().parents[3] / "shared" / "replay"
SCREEN = (320, 240)  # diagonal 400: a tolerance of 0.02 is 8 pixels


def answer(*actions, memory="m"):
    return json.dumps({"memory": memory, "action": list(actions)})


CLICK = answer({"click": {"index": 12}})
TYPE = answer({"input": {"index": 1, "text": "Latrobe, PA"}})
KEYS = answer({"send_keys": {"keys": "ArrowDown"}}, {"send_keys": {"keys": "Enter"}})
DRAG = answer({"drag": {"start_x": 100, "start_y": 50, "end_x": 200, "end_y": 60}})


def right(comparison: Comparison) -> bool:
    return comparison.step_success and False not in vars(comparison).values()


@pytest.mark.parametrize(
    ("predicted", "target"),
    [
        (CLICK, CLICK),
        (answer({"click": {"index": 12}}, memory="said otherwise"), CLICK),
        (f"  {CLICK}\n", CLICK),
        (answer({"click": {"index": 12.0}}), CLICK),
        (answer({"click": {"index": 12, "button": None}}), CLICK),
        (answer({"input": {"text": " Latrobe,\n PA", "index": 1}}), TYPE),
        (KEYS, KEYS),
        (answer({"go_back": None}), answer({"go_back": {}})),
        (answer({"drag": {"start_x": 104, "start_y": 50, "end_x": 200, "end_y": 68}}), DRAG),
    ],
)
def test_right_answers(predicted, target):
    assert right(compare(predicted, target, SCREEN))


def test_text_is_compared_in_composed_form():
    composed, split = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
    assert composed != split
    made, meant = (answer({"input": {"index": 1, "text": text}}) for text in (split, composed))
    assert right(compare(made, meant))


@pytest.mark.parametrize(
    ("predicted", "target", "op", "where", "args"),
    [
        (answer({"click": {"index": 13}}), CLICK, True, False, None),
        (answer({"click": {"index": "12"}}), CLICK, True, False, None),
        (answer({"click": {"index": True}}), answer({"click": {"index": 1}}), True, False, None),
        (answer({"hover": {"index": 12}}), CLICK, False, True, None),
        (answer({"input": {"index": 1, "text": "COD"}}), TYPE, True, True, False),
        (answer({"input": {"index": 1, "text": "latrobe, pa"}}), TYPE, True, True, False),
        (answer({"input": {"text": "Latrobe, PA"}}), TYPE, True, False, True),
        # too few, too many, in another order
        (answer({"send_keys": {"keys": "ArrowDown"}}), KEYS, False, None, False),
        (answer({"click": {"index": 12}}, {"click": {"index": 12}}), CLICK, False, False, None),
        (
            answer({"send_keys": {"keys": "Enter"}}, {"send_keys": {"keys": "ArrowDown"}}),
            KEYS,
            True,
            None,
            False,
        ),
        # one end of the drag, then the other, more than 8 pixels off
        (
            answer({"drag": {"start_x": 109, "start_y": 50, "end_x": 200, "end_y": 60}}),
            DRAG,
            True,
            False,
            None,
        ),
        (
            answer({"drag": {"start_x": 100, "start_y": 50, "end_x": 206, "end_y": 66}}),
            DRAG,
            True,
            False,
            None,
        ),
        (
            answer({"drag": {"start_x": 10**400, "start_y": 50, "end_x": 200, "end_y": 60}}),
            DRAG,
            True,
            False,
            None,
        ),
        (answer({"drag": {"start_x": 100, "start_y": 50}}), DRAG, True, False, None),
        (
            answer({"drag": {"start_x": "100", "start_y": 50, "end_x": 200, "end_y": 60}}),
            DRAG,
            True,
            False,
            None,
        ),
    ],
)
def test_what_is_wrong_is_told_apart(predicted, target, op, where, args):
    found = compare(predicted, target, SCREEN)
    assert found == Comparison(True, op, where, args, False)


def test_an_argument_too_many_is_no_success():
    found = compare(answer({"click": {"index": 12, "button": "right"}}), CLICK)
    assert found == Comparison(True, True, True, None, False)


def test_points_need_a_screenshot_to_be_near():
    near = answer({"drag": {"start_x": 101, "start_y": 50, "end_x": 200, "end_y": 60}})
    assert not compare(near, DRAG).step_success
    assert right(compare(DRAG, DRAG))
    assert not compare(near, DRAG, SCREEN, tolerance=0.0).step_success
    assert right(compare(near, DRAG, SCREEN, tolerance=1 / 400))


def test_points_by_other_names():
    for names in (("x", "y"), ("coordinate_x", "coordinate_y")):
        meant, near, far = (
            answer({"click": dict(zip(names, place, strict=True))})
            for place in ((50, 60), (53, 60), (50, 90))
        )
        assert right(compare(near, meant, SCREEN))
        assert compare(far, meant, SCREEN).target_match is False
    meant, near, far = (answer({"click": {"coordinate": [x, 60]}}) for x in (50, 55, 70))
    assert right(compare(near, meant, SCREEN))
    assert compare(far, meant, SCREEN).target_match is False


@pytest.mark.parametrize(
    "predicted",
    [
        "",
        "I would click on 12.",
        CLICK[:-1],
        CLICK + CLICK,
        f"```json\n{CLICK}\n```",
        "NaN",
        '{"action": [{"click": {"index": NaN}}]}',
        "[" * 100_000,
        "1" * 10_000,
        "\x00\ud800",
        '"text"',
        "[]",
        "null",
    ],
)
def test_what_is_no_json_object_is_wrong_and_never_a_crash(predicted):
    assert compare(predicted, TYPE, SCREEN) == Comparison(False, False, False, False, False)


@pytest.mark.parametrize(
    "predicted",
    [
        "{}",
        '{"action": []}',
        '{"action": {"click": {"index": 12}}}',
        '{"action": ["click"]}',
        '{"action": [{"click": 12}]}',
        '{"action": [{"click": {"index": 12}, "input": {}}]}',
        '{"action": [{}]}',
        '{"action": [null]}',
        '{"action": [{"click": {"index": {"a": [1, "\\ud800"]}}}]}',
    ],
)
def test_json_of_another_form_is_wrong(predicted):
    found = compare(predicted, CLICK, SCREEN)
    assert found.json_valid
    assert found.target_match is False
    assert not found.step_success


def test_recorded_answers_without_actions_are_compared_whole():
    plan = '{"plan": ["open  the page", "read"], "n": 1}'
    same = compare('{"n": 1.0, "plan": ["open the page", "read"]}', plan)
    assert same == Comparison(True, None, None, None, True)
    assert compare("no", plan) == Comparison(False, None, None, None, False)
    assert compare("Yes,  it is.", "Yes, it is.") == Comparison(None, None, None, None, True)


@pytest.mark.skipif(not REPLAY.is_dir(), reason="the recorded episodes are not here")
def test_recorded_answers_are_right_against_themselves_and_wrong_against_others():
    targets = [
        json.loads(line)["target"]
        for path in sorted(REPLAY.glob("[!_]*/rows.jsonl"))
        for line in path.read_text().splitlines()
        if line.strip()
    ]
    assert len(targets) > 900
    for target, other in zip(targets, targets[1:] + targets[:1], strict=True):
        assert right(compare(target, target, SCREEN))
        assert actions_of(parse_json(target)) is not None
        equal = json.loads(target)["action"] == json.loads(other)["action"]
        if not equal:
            assert not compare(other, target, None).step_success
