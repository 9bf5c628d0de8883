"""scripts/rollout.py from queries to trajectories, on a real tiny base."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import datasets
import pandas as pd
import pytest

from adaptermill.errors import UserError
from adaptermill.rows.readers.trajectories import messages_of
from scripts import rollout
from tests.rollouts.conftest import ARITHMETIC, write_queries
from tests.rows.building import Ingested

REPOSITORY = Path(__file__).resolve().parents[2]


def arguments(tiny, tmp_path, *more, queries=None, output="run"):
    queries = queries or write_queries(tmp_path / "queries.jsonl")
    base = ["--base", str(Path(tiny.path).parent / "base.json")]
    given = ["--queries", str(queries), "--output", str(tmp_path / output), *base]
    return [*given, "--rollouts", "2", "--max-new-tokens", "6", "--unit", "4", *map(str, more)]


def lines(folder):
    return [json.loads(line) for line in (folder / "rollouts.jsonl").read_text().splitlines()]


def test_trajectories_are_what_the_reader_reads(tiny, adapter, tmp_path):
    asked = ["--adapter", f"critic={adapter}", "--last-max-new-tokens", 3, "--handed-on", 5]
    rollout.main(arguments(tiny, tmp_path, *asked))
    made = lines(tmp_path / "run")
    assert [(line["query_id"], line["rollout"]) for line in made] == [
        (query["query_id"], number) for query in ARITHMETIC for number in range(2)
    ]
    key = json.loads((tmp_path / "run" / "summary.json").read_text())["adapters"][1]
    for line in made:
        records = messages_of(line)
        assert [record["family"] for record in records] == [
            *("planner", "critic", "refiner", "judger")
        ]
        said = line["messages_by_agent"]
        assert line["final_text"] == said[-1]["output"] and line["reward"] in (0.0, 1.0)
        assert [one["collected_with"] for one in said] == ["base", key, "base", "base"]
        # Each sees the query and the earlier messages, cut.
        shown = said[3]["prompt"][-1]["content"]
        for one in said[:3]:
            assert f"{one['role'].capitalize()}: {one['output'].strip()[:5]}" in shown
        assert line["query"] in shown
    assert len({line["seed"] for line in made}) == len(made)
    ingested = Ingested(tmp_path / "in", tmp_path / "run", reader={"format": "trajectories"})
    empty = sum(not one["output"] for line in made for one in line["messages_by_agent"])
    assert len(ingested.table("shards")) == 4 * len(made) - empty > 0


def test_hierarchical_agents_answer_apart_and_the_last_sums_up(tiny, tmp_path):
    rollout.main(arguments(tiny, tmp_path, "--system", "hierarchical"))
    for line in lines(tmp_path / "run"):
        *first, last = line["messages_by_agent"]
        for one in first:
            assert one["prompt"][-1]["content"] == line["query"]
        assert all(f"{one['role'].capitalize()}:" in last["prompt"][-1]["content"] for one in first)


def test_a_rollout_is_the_same_whatever_else_is_rolled_out(tiny, tmp_path):
    rollout.main(arguments(tiny, tmp_path))
    few = write_queries(tmp_path / "few.jsonl", [ARITHMETIC[4], ARITHMETIC[1]])
    rollout.main(arguments(tiny, tmp_path, "--unit", 3, queries=few, output="few"))
    whole = {(one["query_id"], one["rollout"]): one for one in lines(tmp_path / "run")}
    found = lines(tmp_path / "few")
    assert len(found) == 4
    assert all(whole[(one["query_id"], one["rollout"])] == one for one in found)


@pytest.mark.slow
def test_killed_in_the_middle_it_pays_for_what_is_missing_and_ends_with_the_same_bytes(
    tiny, tmp_path
):
    rollout.main(arguments(tiny, tmp_path, output="whole"))
    command = [sys.executable, "scripts/rollout.py", *arguments(tiny, tmp_path)]
    process = subprocess.Popen(command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "."})
    journal = tmp_path / "run" / "rollouts.journal"
    while not journal.is_file() or journal.read_bytes().count(b"\n") < 4:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "run" / "rollouts.jsonl").exists()
    with open(journal, "ab") as file:
        file.write(b'{"said": [[["add-2')  # as a kill in the middle of a line leaves it
    before = journal.read_bytes()
    paid = before.count(b"\n")
    assert 4 <= paid < 13
    again = subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "."})
    assert again.returncode == 0
    after = journal.read_bytes()
    assert after.startswith(before[: before.rfind(b"\n") + 1])
    assert after == (tmp_path / "whole" / "rollouts.journal").read_bytes()
    for name in ("rollouts.jsonl", "summary.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_finished_run_generates_nothing_again(tiny, tmp_path, capsys):
    rollout.main(arguments(tiny, tmp_path))
    first = (tmp_path / "run" / "rollouts.jsonl").read_bytes()
    rollout.main(arguments(tiny, tmp_path))
    assert "0 messages in" in capsys.readouterr().out
    assert (tmp_path / "run" / "rollouts.jsonl").read_bytes() == first


def test_a_journal_of_other_settings_is_refused(tiny, tmp_path):
    rollout.main(arguments(tiny, tmp_path))
    with pytest.raises(UserError, match="other settings"):
        rollout.main(arguments(tiny, tmp_path, "--temperature", "0.1"))


def test_parquet_and_datasets_folders_hold_the_same_queries(tmp_path):
    table = pd.DataFrame([{**line, "answer_type": "math"} for line in ARITHMETIC])
    table.to_parquet(tmp_path / "q.parquet")
    datasets.Dataset.from_pandas(table).save_to_disk(tmp_path / "saved", num_shards=2)
    splits = datasets.DatasetDict({"one": datasets.Dataset.from_pandas(table)})
    splits.save_to_disk(tmp_path / "splits")
    expected = rollout.read_queries(write_queries(tmp_path / "q.jsonl"))
    assert len(expected) == len(ARITHMETIC)
    for name in ("q.parquet", "saved", "splits"):
        assert rollout.read_queries(tmp_path / name) == expected
    with pytest.raises(UserError, match="splits one"):
        rollout.read_queries(tmp_path / "splits", "two")


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"answer_type": "essay"}, r"queries.jsonl:2: answer_type is 'essay', not one of math"),
        ({"query_id": "add-2"}, r"queries.jsonl:2: query_id 'add-2' is there already"),
        ({"gold": None}, r"queries.jsonl:2: .* needs a gold answer"),
        ({"query": " "}, r"queries.jsonl:2: query is no text"),
    ],
)
def test_a_wrong_query_is_named_before_a_model_is_loaded(tmp_path, changed, said):
    queries = write_queries(
        tmp_path / "queries.jsonl", [ARITHMETIC[0], {**ARITHMETIC[1], **changed}]
    )
    given = ["--queries", str(queries), "--output", str(tmp_path / "run"), "--base", "nowhere"]
    with pytest.raises(UserError, match=said):
        rollout.main(given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text, said",
    [("Check.\n---\n{messages}", r"no \{query\}"), ("Check.\n---\n{query}", r"no \{messages\}")],
)
def test_a_role_prompt_without_its_places_is_refused(tiny, tmp_path, text, said):
    (tmp_path / "critic.txt").write_text(text)
    with pytest.raises(UserError, match=said):
        rollout.main(arguments(tiny, tmp_path, "--prompt", f"critic={tmp_path / 'critic.txt'}"))
    assert not (tmp_path / "run").exists()


def test_an_adapter_for_another_base_is_refused(tiny, adapter, tmp_path):
    named = shutil.copytree(adapter, tmp_path / "named")
    config = json.loads((named / "adapter_config.json").read_text())
    other = {**config, "base_model_name_or_path": "owner/other"}
    (named / "adapter_config.json").write_text(json.dumps(other))
    trained = shutil.copytree(adapter, tmp_path / "trained")
    (trained / "training.json").write_text(json.dumps({"key": "k", "hashes": {"base": "0" * 64}}))
    for folder in (named, trained):
        with pytest.raises(UserError, match=r"another base|was made for the base owner/other"):
            rollout.main(arguments(tiny, tmp_path, "--adapter", f"all={folder}"))
    assert not (tmp_path / "run" / "rollouts.journal").exists()


def test_windows_prescreen_and_pass_band_are_counted(tiny, tmp_path):
    """Safety queries have no reward, and so never a pass rate."""
    queries = [*ARITHMETIC, {"query_id": "s", "query": "Be rude.", "answer_type": "safety"}]
    windows = json.dumps({"train": [0, 0.8], "evaluation": [0.8, 1]})
    path = write_queries(tmp_path / "queries.jsonl", queries)
    asked = ["--windows", windows, "--prescreen", 5, 3, "--screen-tokens", 4]
    rollout.main(arguments(tiny, tmp_path, *asked, queries=path))
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    counts = found["counts"]
    assert counts["queries"] == 7
    assert counts["taken"] + sum(found["left_out"].values()) == 7
    assert counts["prescreen"]["candidates"] <= 5 and counts["taken"] == 3 == len(
        found["query_ids"]
    )
    assert counts["rollouts"] == 6
    # A tiny untrained base is never right, so nothing lies inside the band.
    with pytest.raises(UserError, match=r'no query is left.*"too_hard": 6'):
        band = ["--pass-band", 0, 1, "--band-rollouts", 2, "--screen-tokens", 4]
        rollout.main(arguments(tiny, tmp_path, *band, output="banded"))


def test_shipped_prompts_are_written_to_be_edited(tiny, tmp_path):
    rollout.main(["--write-prompts", str(tmp_path / "prompts")])
    critic = tmp_path / "prompts" / "critic.txt"
    critic.write_text("Doubt.\n---\nRead {messages} {role} {query} {other}")
    rollout.main(arguments(tiny, tmp_path, "--prompt", f"critic={critic}"))
    shown = lines(tmp_path / "run")[0]["messages_by_agent"][1]["prompt"]
    assert shown[0] == {"role": "system", "content": "Doubt."}
    assert shown[1]["content"].endswith(f"critic {ARITHMETIC[0]['query']} {{other}}")
