"""What a line must be to become a row, and the reason for each way of not being one."""

import json

import pytest

from adaptermill.rows.records import MAX_DEPTH, Problem, check_record, parse
from tests.rows.building import record


def reason_of(data: bytes | str) -> str | None:
    try:
        check_record(parse(data.encode() if isinstance(data, str) else data))
    except Problem as problem:
        assert problem.message
        return problem.reason
    return None


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("json_syntax", '{"task_id": "a"'),
        ("json_syntax", "{'task_id': 1}"),
        ("json_syntax", '{"a": 1}{"b": 2}'),
        ("json_syntax", '{"a": 01}'),
        ("json_syntax", '\ufeff{"a": 1}'),
        ("json_syntax", '{"a": ' + "9" * 5000 + "}"),
        ("json_syntax", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        ("json_syntax", '{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"),
        ("not_an_object", "[1, 2]"),
        ("not_an_object", '"text"'),
        ("not_an_object", "null"),
        ("duplicate_key", '{"a": 1, "a": 1}'),
        ("duplicate_key", '{"x": {"deep": [{"k": 1, "k": 2}]}}'),
        ("non_finite_number", '{"a": NaN}'),
        ("non_finite_number", '{"a": [-Infinity]}'),
        ("non_finite_number", '{"a": 1e999}'),
        ("lone_surrogate", '{"a": "\\ud83d"}'),
        ("lone_surrogate", '{"\\uDE00": 1}'),
        ("lone_surrogate", '{"a": "\\ude00\\ud83d"}'),
        ("not_utf8", b'{"a": "\xff"}'),
        ("not_utf8", b'{"a": "\xed\xa0\x80"}'),
        ("not_utf8", '{"a": 1}'.encode("utf-16")),
    ],
)
def test_what_is_no_json_object(reason, line):
    assert reason_of(line) == reason


def without(name):
    return {key: value for key, value in record().items() if key != name}


def content(*parts):
    return record(messages=[{"role": "user", "content": list(parts)}])


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        *(
            ("missing_field", without(name))
            for name in ("task_id", "step", "family", "op", "messages", "target")
        ),
        ("missing_field", record(family="")),
        ("missing_field", record(messages=[])),
        ("missing_field", record(messages=[{"role": "user"}])),
        ("missing_field", record(messages=[{"content": "x"}])),
        ("wrong_type", record(task_id=7)),
        ("wrong_type", record(step="1")),
        ("wrong_type", record(step=1.0)),
        ("wrong_type", record(step=True)),
        ("wrong_type", record(step=-1)),
        ("wrong_type", record(step=2**31)),
        ("wrong_type", record(step=None)),
        ("wrong_type", record(family=["Navigation"])),
        ("wrong_type", record(op=None)),
        ("wrong_type", record(target={"action": []})),
        ("wrong_type", record(messages={"role": "user"})),
        ("wrong_type", record(messages=["hello"])),
        ("wrong_type", record(messages=[{"role": "robot", "content": "x"}])),
        ("wrong_type", record(messages=[{"role": ["user"], "content": "x"}])),
        ("wrong_type", record(messages=[{"role": "user", "content": None}])),
        ("wrong_type", content("text")),
        ("wrong_type", content({"type": "text", "text": 5})),
        ("wrong_type", content({"type": "video"})),
        ("wrong_type", content({"type": "image_url", "image_url": "step_000.png"})),
        ("wrong_type", content({"type": "image_url", "image_url": {"url": None}})),
        ("wrong_type", record(aug_prefix=1)),
        ("wrong_type", record(inject=["click"])),
        ("empty_target", record(target="")),
        ("empty_target", record(target=" \n\t")),
    ],
)
def test_what_is_no_row(reason, changed):
    assert reason_of(json.dumps(changed)) == reason


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(record()),
        json.dumps(record(inject="wrong click", aug_prefix=False, memory_by="x", n=None)),
        json.dumps(record(messages=[{"role": "user", "content": "x"}])),
        json.dumps(record(messages=[{"role": "tool", "content": "x", "name": "n"}])),
        json.dumps(record(target="done \U0001f600 \u2028 \x00 \x1f"), ensure_ascii=False),
        json.dumps(record(target="done \U0001f600 \u2028 \x00 \x1f"), ensure_ascii=True),
        json.dumps(record(target="<|im_end|><|image_pad|>")),
        json.dumps(record(number=2**80, small=-0.0, exponent=1e-300)),
        # not valid in strict JSON, but text all the same
        json.dumps(record(target="a@b"), ensure_ascii=False).replace("@", "\t\x0b\x0c\x1c\r"),
    ],
)
def test_what_is_accepted(line):
    assert reason_of(line) is None


def test_text_is_read_as_it_stands():
    text = "tab\t feed\x0c nul\x00 next\x85 sep\u2028\u2029 pair\U0001f600"
    for ascii_only in (True, False):
        line = json.dumps(record(target=text), ensure_ascii=ascii_only)
        assert parse(line.encode())["target"] == text


def test_integers_and_order_stay():
    line = '{"z": 1, "a": 1.0, "m": {"y": [0, -5, 18446744073709551616], "b": null}}'
    parsed = parse(line.encode())
    assert json.dumps(parsed) == line
    assert type(parsed["z"]) is int
    assert type(parsed["a"]) is float
