"""Lines of other formats become the same rows, or say why they are none."""

import json

import pytest

from tests.rows.building import Ingested, data_url, json_lines, picture

GOOD = picture()
ACTION = '{"memory": "m", "action": [{"click": {"index": 3}}]}'
ASSISTANT = {"role": "assistant", "content": ACTION}
USER = {"role": "user", "content": "look"}
SYSTEM = {"role": "system", "content": "drive"}


def shows(url, text="look"):
    image = {"type": "image_url", "image_url": {"url": url}}
    return {"role": "user", "content": [{"type": "text", "text": text}, image]}


def ingest(tmp_path, format, *lines, families=None, episode=None, files=None):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "chats.jsonl").write_bytes(json_lines(*lines))
    for name, data in (files or {"shown.png": GOOD}).items():
        (folder / name).write_bytes(data)
    families = families or {"constant": "Navigation"}
    reader = {"format": format, "families": families, "episode": episode}
    made = Ingested(tmp_path / "out", folder / "chats.jsonl", reader=reader)
    assert made.summary["lines"] == made.summary["rows"] + made.summary["quarantined"]
    return made


def one(tmp_path, format, line, **options):
    """The row that one line makes, with its JSON columns parsed, or its reason."""
    made = ingest(tmp_path, format, line, **options)
    assert made.summary["lines"] == 1
    if made.quarantine:
        assert made.quarantine[0]["message"]
        return made.quarantine[0]["reason"]
    row = made.table("shards")[0]
    return {**row, **{name: json.loads(row[name]) for name in ("messages", "fields")}}


def test_openai(tmp_path):
    tools = [{"type": "function", "function": {"name": "click"}}]
    first = {"role": "assistant", "content": "I look.", "weight": 0}
    line = {
        "messages": [SYSTEM, USER, first, shows(data_url(GOOD)), ASSISTANT],
        "tools": tools,
        "parallel_tool_calls": False,
    }
    row = one(tmp_path, "openai", line)
    assert (row["row_id"], row["step"], row["op"]) == ("main/chats-1/0", 0, "click")
    assert (row["family"], row["variant"], row["sources"]) == ("Navigation", "plain", ["chats-1"])
    assert row["target"] == ACTION
    assert row["trainable"]
    # A weight on an earlier turn says nothing about the answer.
    earlier = {"role": "assistant", "content": "I look."}
    shown = shows(f"sha256:{row['images'][0]}")
    assert row["messages"] == [SYSTEM, USER, earlier, shown]
    assert row["fields"]["line"] == {"tools": tools, "parallel_tool_calls": False}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({**ASSISTANT, "weight": 1}, None),
        ({**ASSISTANT, "weight": 0}, "weight_zero"),
        ({"role": "assistant", "content": [{"type": "text", "text": ACTION}]}, None),
    ],
)
def test_openai_answers(tmp_path, answer, expected):
    row = one(tmp_path, "openai", {"messages": [USER, answer]})
    assert (row["target"], row["trainable"]) == (ACTION, expected is None)
    assert row["untrainable"] == expected


@pytest.mark.parametrize(
    ("reason", "messages"),
    [
        ("missing_field", None),
        ("missing_field", []),
        ("missing_field", [ASSISTANT]),
        ("missing_field", [USER, {"role": "assistant"}]),
        ("wrong_type", "hello"),
        ("wrong_type", [USER, "hello"]),
        ("wrong_type", [{"role": "robot", "content": "x"}, ASSISTANT]),
        ("wrong_type", [USER, {**ASSISTANT, "weight": 0.5}]),
        ("wrong_type", [USER, {**ASSISTANT, "weight": True}]),
        ("wrong_type", [USER, {"role": "assistant", "content": None}]),
        ("no_answer", [SYSTEM, USER]),
        ("no_answer", [USER, ASSISTANT, USER]),
        ("empty_target", [USER, {"role": "assistant", "content": " "}]),
        ("unsupported", [USER, {"role": "assistant", "content": None, "tool_calls": [{}]}]),
        ("unsupported", [USER, {"role": "function", "content": "4"}, ASSISTANT]),
        ("unsupported", [USER, {"role": "assistant", "content": [{"type": "refusal"}]}]),
        ("remote_url", [shows("https://example.org/x.png"), ASSISTANT]),
        ("path_outside_episode", [shows("../x.png"), ASSISTANT]),
        ("image_missing", [shows("nowhere.png"), ASSISTANT]),
        ("image_not_an_image", [shows(data_url(b"<html>" * 20)), ASSISTANT]),
    ],
)
def test_openai_lines_that_are_no_rows(tmp_path, reason, messages):
    line = {} if messages is None else {"messages": messages}
    assert one(tmp_path, "openai", line) == reason


TURNS = [{"from": "human", "value": "<image>look"}, {"from": "gpt", "value": ACTION}]
CONTENT = [
    {"type": "image_url", "image_url": {"url": "shown.png"}},
    {"type": "text", "text": "look"},
]


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        (
            {"conversations": TURNS, "images": ["shown.png"]},
            [{"role": "user", "content": CONTENT}],
        ),
        (
            {"conversations": TURNS, "images": ["shown.png"], "system": "drive", "tools": "[]"},
            [SYSTEM, {"role": "user", "content": CONTENT}],
        ),
        (
            {"messages": [SYSTEM, USER, ASSISTANT], "images": []},
            [SYSTEM, USER],
        ),
        (
            {"conversations": TURNS[:1], "chosen": TURNS[1], "rejected": {}, "images": "shown.png"},
            [{"role": "user", "content": CONTENT}],
        ),
    ],
)
def test_sharegpt(tmp_path, line, messages):
    row = one(tmp_path, "sharegpt", line)
    assert row["messages"] == messages
    assert row["target"] == ACTION
    kept = {"tools", "rejected"} & set(line)
    assert row["fields"]["line"] == {name: line[name] for name in kept}


def test_sharegpt_marks_stand_where_the_images_do(tmp_path):
    turns = [
        {"from": "human", "value": "before <image> between\n<image>"},
        {"from": "gpt", "value": "yes"},
        {"from": "human", "value": "<image>"},
        {"from": "gpt", "value": "no"},
    ]
    files = {name: picture(color) for name, color in (("a.png", "red"), ("b.png", "tan"))}
    line = {"conversations": turns, "images": ["a.png", "b.png", "a.png"]}
    row = one(tmp_path, "sharegpt", line, files=files)
    kinds = [[p["type"] for p in m["content"]] for m in row["messages"] if m["role"] == "user"]
    assert kinds == [["text", "image_url", "text", "image_url"], ["image_url"]]
    assert len(row["images"]) == 3 and row["images"][0] == row["images"][2]
    assert (row["target"], row["op"]) == ("no", "answer")


def test_sharegpt_undesired_answers_are_not_trained_on(tmp_path):
    line = {"messages": [USER, ASSISTANT], "kto_tag": False}
    row = one(tmp_path, "sharegpt", line)
    assert (row["trainable"], row["untrainable"]) == (False, "undesired")


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("image_marks", {"images": []}),
        ("image_marks", {"images": None}),
        ("image_marks", {"images": ["shown.png", "shown.png"]}),
        ("image_marks", {"conversations": [TURNS[0], {"from": "gpt", "value": "<image>"}]}),
        ("image_missing", {"images": ["nowhere.png"]}),
        ("path_outside_episode", {"images": ["/etc/hostname"]}),
        ("wrong_type", {"images": [{"path": "shown.png"}]}),
        ("wrong_type", {"images": 3}),
        ("wrong_type", {"system": ["drive"]}),
        ("wrong_type", {"conversations": [{"from": "robot", "value": "x"}]}),
        ("missing_field", {"conversations": []}),
        ("missing_field", {"conversations": [{"from": "human"}]}),
        ("no_answer", {"conversations": TURNS[:1]}),
        ("unsupported", {"conversations": [*TURNS, {"from": "observation", "value": "4"}]}),
        ("unsupported", {"videos": ["a.mp4"]}),
        ("unsupported", {"conversations": [{"from": "system", "value": "x"}], "system": "y"}),
    ],
)
def test_sharegpt_lines_that_are_no_rows(tmp_path, reason, change):
    line = {"conversations": TURNS, "images": ["shown.png"], **change}
    assert one(tmp_path, "sharegpt", line) == reason


BARE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "look"}]}


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": [BARE], "completion": [ASSISTANT], "images": ["shown.png"]},
        {"prompt": [BARE], "completion": [ASSISTANT], "image": {"path": "shown.png"}},
        {"prompt": [USER], "completion": [ASSISTANT], "images": [{"path": "shown.png"}]},
        {"prompt": [BARE], "chosen": [ASSISTANT], "rejected": [USER], "images": ["shown.png"]},
        {"chosen": [BARE, ASSISTANT], "rejected": [BARE, USER], "images": ["shown.png"]},
        {"messages": [BARE, ASSISTANT], "images": ["shown.png"]},
        {"messages": [{"role": "user", "content": CONTENT}, ASSISTANT]},
    ],
)
def test_trl(tmp_path, line):
    row = one(tmp_path, "trl", line)
    assert row["messages"] == [{"role": "user", "content": CONTENT}]
    assert (row["target"], row["trainable"], len(row["images"])) == (ACTION, True, 1)
    assert ("rejected" in row["fields"]["line"]) == ("rejected" in line)


def test_trl_labels(tmp_path):
    line = {"prompt": [USER], "completion": [ASSISTANT], "label": False}
    row = one(tmp_path, "trl", line)
    assert (row["trainable"], row["untrainable"]) == (False, "undesired")
    assert row["fields"]["line"] == {"label": False}


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("not_conversational", {"prompt": "Two and two", "completion": " is four"}),
        ("not_conversational", {"prompt": [USER], "completion": "four"}),
        ("missing_field", {"prompt": [USER]}),
        ("missing_field", {"text": "language modelling"}),
        ("no_answer", {"prompt": [USER], "completion": [USER]}),
        ("image_marks", {"prompt": [BARE], "completion": [ASSISTANT]}),
        ("image_marks", {"prompt": [BARE], "completion": [ASSISTANT], "images": ["a", "b"]}),
        ("image_marks", {"prompt": [SYSTEM], "completion": [ASSISTANT], "images": ["a"]}),
        ("unsupported", {"prompt": [BARE], "completion": [ASSISTANT], "images": [{"bytes": "x"}]}),
        ("wrong_type", {"prompt": [BARE], "completion": [ASSISTANT], "images": [None]}),
        ("wrong_type", {"prompt": [BARE], "completion": [ASSISTANT], "images": {"path": "x"}}),
    ],
)
def test_trl_lines_that_are_no_rows(tmp_path, reason, line):
    assert one(tmp_path, "trl", line) == reason


@pytest.mark.parametrize(
    ("families", "line", "expected"),
    [
        ({"constant": "A"}, {}, "A"),
        ({"column": "skill"}, {"skill": "B"}, "B"),
        ({"column": "skill"}, {}, "missing_field"),
        ({"column": "skill"}, {"skill": 3}, "wrong_type"),
        ({"column": "skill"}, {"skill": ""}, "missing_field"),
        ({"ops": {"click": "C"}}, {}, "C"),
        ({"ops": {"drag": "D"}}, {"op": "drag"}, "D"),
        ({"ops": {"drag": "D"}}, {}, "no_family"),
    ],
)
def test_families(tmp_path, families, line, expected):
    line = {"messages": [USER, ASSISTANT], **line}
    found = one(tmp_path, "openai", line, families=families)
    assert (found if isinstance(found, str) else found["family"]) == expected


@pytest.mark.parametrize(
    ("column", "line", "sources", "variant"),
    [
        (None, {}, ["chats-1"], "plain"),
        (None, {"id": 17}, ["17"], "plain"),
        (None, {"id": "x", "conversation_id": "talk~2"}, ["talk"], "plain"),
        (None, {"task_id": "click-s01~rec", "id": 1}, ["click-s01"], "recovery"),
        ("thread", {"id": "x", "thread": 4}, ["4"], "plain"),
    ],
)
def test_what_holds_lines_together(tmp_path, column, line, sources, variant):
    line = {"messages": [USER, ASSISTANT], **line}
    row = one(tmp_path, "openai", line, episode=column)
    assert (row["sources"], row["variant"]) == (sources, variant)
    assert row["row_id"] == "main/chats-1/0"


@pytest.mark.parametrize(
    ("line", "reason"), [({}, "missing_field"), ({"thread": ["a"]}, "wrong_type")]
)
def test_a_configured_episode_is_wanted(tmp_path, line, reason):
    line = {"messages": [USER, ASSISTANT], **line}
    assert one(tmp_path, "openai", line, episode="thread") == reason


def test_marks_of_recorded_rows_are_kept(tmp_path):
    line = {"messages": [USER, ASSISTANT], "macro": "tabs", "inject": "wrong click"}
    row = one(tmp_path, "openai", line)
    assert (row["macro"], row["trainable"]) == ("tabs", False)


def test_ids_never_collide(tmp_path):
    line = {"messages": [USER, ASSISTANT], "id": "same", "task_id": "same", "step": 1}
    made = ingest(tmp_path, "openai", line, line, "", line)
    assert [row["row_id"] for row in made.table("shards")] == [
        "main/chats-1/0",
        "main/chats-2/0",
        "main/chats-4/0",
    ]
    assert made.summary["episodes"] == 3
