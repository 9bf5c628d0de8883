"""browser-use histories give the prompts that were recorded, as far as the files hold them."""

import json
import shutil

import pytest

from adaptermill.errors import UserError
from adaptermill.hashing import HashCache
from adaptermill.rows.readers.browser_use import BrowserUseReader
from adaptermill.rows.scan import stat_digest
from tests.rows.building import SHARED, Ingested, picture

READER = {"format": "browser_use", "families": {"constant": "Navigation"}, "system": None}
SAMPLES = SHARED / "history_sample"
# The system prompt is the first message of every recorded row; a history does not hold it.
DEFAULTS = {"clear": True, "new_tab": False, "files_to_display": []}


def step(number=1, **changes):
    output = {
        "evaluation_previous_goal": None,
        "memory": f"step {number} ü",
        "next_goal": None,
        "action": [{"click": {"index": number, "button": None}}, {"wait": {"seconds": 1}}],
    }
    return {
        "model_output": output,
        "result": [{"is_done": False}],
        "state": {"url": "http://x/", "screenshot_path": f"/tmp/run/step_{number}.png"},
        "metadata": {"step_number": number},
        "state_message": f"<user_request>{number}\n\nCurrent screenshot:",
        **changes,
    }


def write_history(path, *steps, shots=3):
    path.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, shots + 1):
        (path.parent / f"step_{number}.png").write_bytes(picture(f"#0000{number:02x}"))
    path.write_text(json.dumps({"history": list(steps)}))
    return path


def ingest(tmp_path, *paths, **options):
    reader = {**READER, **options.pop("reader", {})}
    return Ingested(tmp_path / "out", *paths, reader=reader, **options)


def without_defaults(target):
    """The recorded answer, without the parameters that a dump adds."""
    answer = json.loads(target)
    answer["action"] = [
        {
            name: {k: v for k, v in given.items() if DEFAULTS.get(k) != v}
            for name, given in action.items()
        }
        for action in answer["action"]
    ]
    return answer


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the recorded histories")
def test_recorded_histories_are_the_recorded_rows(tmp_path):
    made = ingest(tmp_path, SAMPLES, reader={"system": "prompt"}, max_quarantined=0)
    rows = {row["row_id"]: row for row in made.table("shards")}
    images = {image["sha256"]: image["image"]["bytes"] for image in made.table("images")}
    count = 0
    for folder in sorted(SAMPLES.iterdir()):
        episode = SHARED / "replay" / folder.name
        for line in (episode / "rows.jsonl").read_text(encoding="utf-8").splitlines():
            recorded = json.loads(line)
            row = rows[f"main/{recorded['task_id']}/{recorded['step']}"]
            system, user = json.loads(row["messages"])
            parts = recorded["messages"][-1]["content"]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            shown = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
            assert system == {"role": "system", "content": "prompt"}
            assert user["content"][0] == {"type": "text", "text": "\n".join(texts)}
            assert [images[sha256] for sha256 in row["images"]] == [
                (episode / name).read_bytes() for name in shown
            ]
            assert without_defaults(row["target"]) == without_defaults(recorded["target"])
            assert list(json.loads(row["target"])) == list(json.loads(recorded["target"]))
            assert row["op"] == recorded["op"]
            told = json.loads((episode / "episode.json").read_text(encoding="utf-8"))
            assert row["success"] == told["success"]
            count += 1
    assert count == len(rows) == made.summary["rows"] == 25
    assert made.summary["episodes"] == 3
    assert {row["variant"] for row in rows.values()} == {"plain", "recovery", "chain"}


def test_a_step(tmp_path):
    write_history(tmp_path / "runs" / "buy" / "history.json", step(1), step(2))
    made = ingest(tmp_path, tmp_path / "runs")
    row = made.table("shards")[0]
    assert (row["row_id"], row["op"], row["success"]) == ("main/buy/0", "click", None)
    assert row["target"] == (
        '{"memory": "step 1 ü", "action": [{"click": {"index": 1}}, {"wait": {"seconds": 1}}]}'
    )
    user = json.loads(row["messages"])[0]
    assert user["content"][1]["image_url"]["url"] == "step_1.png"
    kept = json.loads(row["fields"])["line"]
    assert kept == {name: value for name, value in step(1).items() if name != "state_message"}


def test_thinking_is_part_of_the_answer(tmp_path):
    output = {"thinking": "so", "memory": "m", "action": [{"done": {"text": "x", "success": True}}]}
    write_history(tmp_path / "buy.json", step(1, model_output=output))
    row = ingest(tmp_path, tmp_path / "buy.json").table("shards")[0]
    assert (row["target"], row["op"]) == (json.dumps(output), "done")


@pytest.mark.parametrize(
    ("path", "shown"),
    [("C:\\Users\\me\\step_1.png", 1), ("step_2.png", 1), ("/a/b/step_3.png", 1), (None, 0)],
)
def test_screenshots_lie_beside_the_file(tmp_path, path, shown):
    write_history(tmp_path / "data" / "buy.json", step(1, state={"screenshot_path": path}))
    row = ingest(tmp_path, tmp_path / "data").table("shards")[0]
    assert len(row["images"]) == shown
    content = json.loads(row["messages"])[0]["content"]
    assert isinstance(content, str) == (not shown)


@pytest.mark.parametrize(
    ("reason", "changed"),
    [
        ("no_answer", {"model_output": None}),
        ("no_answer", {"model_output": {"memory": "m", "action": []}}),
        ("wrong_type", {"model_output": "click"}),
        ("wrong_type", {"state_message": 3}),
        ("wrong_type", {"state": {"screenshot_path": 3}}),
        ("image_missing", {"state": {"screenshot_path": "/tmp/step_9.png"}}),
        ("path_outside_episode", {"state": {"screenshot_path": "/tmp/.."}}),
    ],
)
def test_steps_that_are_no_rows(tmp_path, reason, changed):
    path = write_history(tmp_path / "data" / "buy.json", step(1), step(2, **changed), step(3))
    made = ingest(tmp_path, tmp_path / "data")
    assert made.summary["rows"] == 2
    found = made.quarantine[0]
    assert (found["file"], found["line"], found["reason"]) == (str(path), 2, reason)


def test_an_old_file_without_state_messages_is_said(tmp_path):
    old = {name: value for name, value in step().items() if name != "state_message"}
    write_history(tmp_path / "data" / "buy.json", old)
    made = ingest(tmp_path, tmp_path / "data")
    assert made.summary["reasons"] == {"missing_field": 1}
    assert "state_message" in made.quarantine[0]["message"]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("json_syntax", '{"history": ['),
        ("not_an_object", "[]"),
        ("missing_field", "{}"),
        ("missing_field", '{"history": []}'),
        ("wrong_type", '{"history": {}}'),
        ("wrong_type", '{"history": [1]}'),
        ("non_finite_number", '{"history": [{"x": NaN}]}'),
    ],
)
def test_files_that_are_no_histories(tmp_path, reason, text):
    write_history(tmp_path / "data" / "good.json", step(1))
    (tmp_path / "data" / "bad.json").write_text(text)
    made = ingest(tmp_path, tmp_path / "data")
    assert made.summary["reasons"] == {reason: 1}
    assert (made.summary["lines"], made.summary["rows"]) == (2, 1)
    assert made.summary["episodes_without_metadata"] == 1


def test_names_of_episodes(tmp_path):
    root = tmp_path / "runs"
    for name in ("buy/history.json", "sell.json", "rent/AgentHistory.json", "_tmp/history.json"):
        write_history(root / name, step(1))
    units = BrowserUseReader.episodes([str(root)])
    assert [unit.name for unit in units] == ["buy", "rent", "sell"]
    assert [unit.file for unit in units] == [
        "buy/history.json",
        "rent/AgentHistory.json",
        "sell.json",
    ]
    write_history(root / "more" / "sell.json", step(1))
    with pytest.raises(UserError, match=r"both named 'sell'; rename one"):
        BrowserUseReader.episodes([str(root)])
    with pytest.raises(UserError, match="no file to read"):
        BrowserUseReader.episodes([str(tmp_path / "nowhere")])


def test_an_edited_screenshot_is_noticed(tmp_path):
    root = tmp_path / "runs"
    for number in range(30):
        write_history(root / f"task-{number}" / "history.json", step(1), step(2))
    first = ingest(tmp_path, root, shard_mb=0.005)
    assert len(first.names) > 3
    cache = tmp_path / "out" / "hashes"
    before = stat_digest([str(root)], "browser_use", cache)
    assert before == stat_digest([str(root)], "browser_use")
    (root / "task-7" / "step_2.png").write_bytes(picture("red"))
    (root / "task-7" / "unused.png").write_bytes(picture("red"))
    assert stat_digest([str(root)], "browser_use", cache) != before
    assert len(ingest(tmp_path, root, shard_mb=0.005).made) == 1


def test_shards_do_not_depend_on_the_place(tmp_path):
    for number in range(5):
        write_history(tmp_path / "runs" / f"task-{number}" / "history.json", step(1), step(2))
    first = Ingested(tmp_path / "out1", tmp_path / "runs", reader=READER, shard_mb=0.005)
    shutil.move(tmp_path / "runs", tmp_path / "deep" / "moved")
    pattern = tmp_path / "deep" / "moved" / "*" / "history.json"
    second = Ingested(tmp_path / "out2", pattern, reader=READER, shard_mb=0.005)
    assert first.files() == second.files()


def test_a_file_in_the_working_directory(tmp_path, monkeypatch):
    write_history(tmp_path / "history.json", step(1))
    monkeypatch.chdir(tmp_path)
    units = BrowserUseReader.find(["history.json"], 1e6, HashCache(tmp_path / "hashes"))
    assert units.contents[0].unit.name == tmp_path.name
