"""Rollouts come in message by message, and what is no rollout is refused with its reason."""

import copy
import gzip
import json
from collections import Counter

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptermill.example.arithmetic import draw_rollout
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.readers.trajectories import messages_of
from adaptermill.rows.records import Problem
from tests.rows.building import SHARED, Ingested, data_url, json_lines, picture

FORMAT = {"format": "trajectories"}


def rollout(number: int = 0, **changes) -> dict:
    return {**draw_rollout(0, 1, number), **changes}


def with_message(position: int = 2, **changes) -> dict:
    """A rollout one of whose messages is changed; a change to None takes the key away."""
    line = copy.deepcopy(rollout())
    message = line["messages_by_agent"][position]
    message.pop("prefill", None)
    for name, value in changes.items():
        if value is None:
            message.pop(name)
        else:
            message[name] = value
    return line


def without(name: str) -> dict:
    return {key: value for key, value in rollout().items() if key != name}


def ingest(folder, *lines, name: str = "run/rollouts.jsonl") -> Ingested:
    path = folder / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json_lines(*lines))
    made = Ingested(folder / "out", folder / "data", reader=FORMAT)
    assert made.summary["lines"] == made.summary["rows"] + made.summary["quarantined"]
    return made


def test_every_message_is_a_row_of_its_query(tmp_path):
    made = ingest(tmp_path, rollout(0), rollout(1))
    rows = made.table("shards")
    query_id = rollout()["query_id"]
    assert {row["task_id"] for row in rows} == {query_id}
    assert all(row["sources"] == [query_id] and row["variant"] == "plain" for row in rows)
    assert [row["row_id"] for row in rows][:5] == [
        *(f"main/{query_id}/run-rollouts-1.{step}" for step in range(4)),
        f"main/{query_id}/run-rollouts-2.0",
    ]
    assert [row["family"] for row in rows][:4] == ["planner", "critic", "refiner", "judger"]
    assert {row["op"] for row in rows} == {"math"}
    assert made.summary["episodes"] == 1 and made.summary["rows"] == 8


def test_a_row_gives_back_what_the_rollout_said(tmp_path):
    line = rollout(extra={"kept": [1, None]}) | {"reward": 0.25}
    line["messages_by_agent"][1]["seconds"] = 3
    ingest(tmp_path, line)
    rows, _ = open_sources([tmp_path / "out" / "ingested"])
    row = rows.get(f"main/{line['query_id']}/run-rollouts-1.1")
    message = line["messages_by_agent"][1]
    assert row.messages == message["prompt"] and row.target == message["output"]
    told = {name: value for name, value in line.items() if name != "messages_by_agent"}
    assert row.record["rollout"] == told
    assert (row.record["agent"], row.record["message"]) == (1, {"seconds": 3})


def test_what_was_given_of_an_output_belongs_to_the_prompt(tmp_path):
    line = with_message(output="<think>so</think> 4", prefill="<think>")
    ingest(tmp_path, line)
    rows, _ = open_sources([tmp_path / "out" / "ingested"])
    row = rows.get(f"main/{line['query_id']}/run-rollouts-1.2")
    assert row.target == "so</think> 4"
    given = {"role": "assistant", "content": "<think>", "prefill": True}
    assert row.messages == [*line["messages_by_agent"][2]["prompt"], given]


def test_an_agent_that_said_nothing_leaves_the_others(tmp_path):
    made = ingest(tmp_path, with_message(output="  \n"), with_message(output="x", prefill="x"))
    assert Counter(each["reason"] for each in made.quarantine) == {"empty_target": 2}
    assert made.summary["rows"] == 6


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("json_syntax", b'{"query_id": "q"'),
        ("not_an_object", [1]),
        ("duplicate_key", b'{"query_id": "a", "query_id": "b"}'),
        ("missing_field", without("query_id")),
        ("missing_field", without("query")),
        ("missing_field", without("answer_type")),
        ("missing_field", without("rollout")),
        ("missing_field", without("seed")),
        ("missing_field", without("messages_by_agent")),
        ("missing_field", rollout(query_id="")),
        ("missing_field", rollout(messages_by_agent=[])),
        ("missing_field", with_message(role=None)),
        ("missing_field", with_message(role="")),
        ("missing_field", with_message(agent=None)),
        ("missing_field", with_message(output=None)),
        ("missing_field", with_message(prompt=[])),
        ("missing_field", with_message(prompt=[{"role": "user"}])),
        ("wrong_type", rollout(query_id=["q"])),
        ("wrong_type", rollout(query=7)),
        ("wrong_type", rollout(rollout="first")),
        ("wrong_type", rollout(rollout=True)),
        ("wrong_type", rollout(answer_type="poetry")),
        ("wrong_type", rollout(answer_type=["math"])),
        ("wrong_type", rollout(system="parallel")),
        ("wrong_type", rollout(reward="1")),
        ("wrong_type", rollout(reward=True)),
        ("wrong_type", rollout(reward=1.5)),
        ("wrong_type", rollout(final_text=3)),
        ("wrong_type", rollout(messages_by_agent={"agent": 0})),
        ("wrong_type", rollout(messages_by_agent=["hello"])),
        ("wrong_type", with_message(agent=-1)),
        ("wrong_type", with_message(agent="0")),
        ("wrong_type", with_message(output=["a"])),
        ("wrong_type", with_message(prefill=1)),
        ("wrong_type", with_message(prompt=[{"role": "robot", "content": "x"}])),
        ("prefill_mismatch", with_message(output="so it is", prefill="<think>")),
        ("lone_surrogate", b'{"query_id": "\\ud800"}'),
        ("non_finite_number", b'{"reward": NaN}'),
    ],
)
def test_what_is_no_rollout_is_refused_as_one_line(tmp_path, reason, line):
    made = ingest(tmp_path, rollout(0), line)
    assert [each["reason"] for each in made.quarantine] == [reason]
    assert (made.quarantine[0]["line"], made.summary["rows"]) == (2, 4)
    assert made.quarantine[0]["file"].endswith("data/run/rollouts.jsonl")


@pytest.mark.parametrize("query_id", ["chain-1", "q~rec", "a/b", "x~1", 12])
def test_a_query_s_name_says_nothing_but_its_name(tmp_path, query_id):
    made = ingest(tmp_path, rollout(query_id=query_id))
    row = made.table("shards")[0]
    assert (row["variant"], row["sources"], row["task_id"]) == (
        "plain",
        [str(query_id)],
        str(query_id),
    )


def test_runs_with_files_of_one_name_and_compressed_ones(tmp_path):
    data = tmp_path / "data"
    lines = [json_lines(rollout(number)) for number in range(3)]
    for folder in ("a", "b", "_failed"):
        (data / folder).mkdir(parents=True)
    (data / "a" / "rollouts.jsonl").write_bytes(lines[0])
    (data / "b" / "rollouts.jsonl").write_bytes(b"broken\n")
    (data / "b" / "more.jsonl.gz").write_bytes(gzip.compress(lines[1]))
    (data / "b" / "cut.jsonl.zst").write_bytes(zstandard.compress(lines[2] * 40)[:-5])
    (data / "b" / "settings.json").write_text("{}")
    (data / "_failed" / "rollouts.jsonl").write_bytes(lines[0])
    made = Ingested(tmp_path / "out", data, reader=FORMAT)
    files = made.summary["per_file"]
    assert set(files) == {
        *("a/rollouts.jsonl", "b/rollouts.jsonl", "b/more.jsonl.gz", "b/cut.jsonl.zst")
    }
    assert files["a/rollouts.jsonl"]["rows"] == files["b/more.jsonl.gz"]["rows"] == 4
    reasons = {each["file"]: each["reason"] for each in made.quarantine}
    assert reasons[str(data / "b" / "rollouts.jsonl")] == "json_syntax"
    assert reasons[str(data / "b" / "cut.jsonl.zst")] == "file_unreadable"


def test_pictures_in_prompts(tmp_path):
    shown = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "seen.png"}},
    ]
    (tmp_path / "data" / "run").mkdir(parents=True)
    (tmp_path / "data" / "run" / "seen.png").write_bytes(picture())
    lost = [{"type": "image_url", "image_url": {"url": "lost.png"}}]
    told = [{"type": "image_url", "image_url": {"url": data_url(picture("red"))}}]
    lines = [
        with_message(prompt=[{"role": "user", "content": content}])
        for content in (shown, lost, told)
    ]
    made = ingest(tmp_path, *lines)
    assert [each["reason"] for each in made.quarantine] == ["image_missing"]
    assert made.summary["images"] == 2 and made.summary["rows"] == 11


def test_shards_do_not_change_what_is_in_them(tmp_path):
    data = tmp_path / "data" / "run"
    data.mkdir(parents=True)
    lines = [draw_rollout(0, query, number) for query in range(30) for number in range(4)]
    (data / "rollouts.jsonl").write_bytes(json_lines(*lines))
    one = Ingested(tmp_path / "one", data, reader=FORMAT)
    many = Ingested(tmp_path / "many", data, reader=FORMAT, shard_mb=0.02)
    assert len(many.names) > 3

    def rows(made: Ingested) -> list:
        return sorted(made.table("shards"), key=lambda row: row["row_id"])

    assert rows(one) == rows(many)


@pytest.mark.skipif(not (SHARED / "trajectories").is_dir(), reason="no recorded rollouts here")
def test_recorded_rollouts_are_all_read(tmp_path):
    made = Ingested(tmp_path, SHARED / "trajectories", reader=FORMAT)
    summary = made.summary
    assert (summary["rows"], summary["quarantined"], summary["episodes"]) == (4 * 342, 0, 57)
    assert {file: counts["rows"] // 4 for file, counts in summary["per_file"].items()} == {
        "trajectories/choice.jsonl": 78,
        "trajectories/exact.jsonl": 108,
        "trajectories/math.jsonl": 108,
        "trajectories/safety.jsonl": 48,
    }
    given = 0
    for path in sorted((SHARED / "trajectories").glob("*.jsonl")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            line = json.loads(text)
            for record, message in zip(messages_of(line), line["messages_by_agent"], strict=True):
                last = record["messages"][-1]
                begun = last["content"] if last.get("prefill") else ""
                assert begun + record["target"] == message["output"], (path, number)
                given += begun == "<think>"
    assert given == 30


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
PLACES = ["query_id", "query", "answer_type", "rollout", "seed", "system", "reward", "final_text"]
PLACES += ["gold", "messages_by_agent", "agent", "role", "prompt", "output", "prefill"]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_no_value_anywhere_stops_the_reader(place, value):
    """Whatever stands where: the rollout is read, or there is a reason."""
    line = copy.deepcopy(rollout())
    (line if place in line or place == "gold" else line["messages_by_agent"][0])[place] = value
    try:
        assert len(messages_of(line)) == len(line["messages_by_agent"])
    except Problem as problem:
        assert problem.message
