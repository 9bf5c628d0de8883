"""A judge before rollouts: asked once a rollout, its reward in the place of the recorded one."""

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from adaptermill.errors import UserError
from adaptermill.example.arithmetic import draw_rollouts
from adaptermill.judge_specs import judge_settings
from adaptermill.rows.dataset import open_sources
from adaptermill.trajectories.judging import rollout_examples
from adaptermill.trajectories.messages import read_messages
from scripts import judge
from tests.trajectories.building import Project, configured, fitset_settings

LINES = [{**line, "reward": 1.0} for line in draw_rollouts(0, 16, 3)]


class Judged(Project):
    """A project whose rollouts a judge is asked about. All were recorded as right."""

    def ask(self, **trajectories) -> dict:
        """The summary of the judge `truth` for the adapter with these settings."""
        config = configured({"judge": "truth"}, judges=JUDGES, **trajectories)
        made = judge_settings(config, "truth", "code", lambda name: self.settings(**trajectories))
        self.script(
            judge,
            *("--spec", self.spec(made), "--rows", self.folder / "rows.parquet"),
            *("--measures", self.folder / "measures.parquet", "--data", self.data),
            *("--base", "none.json", "--store", self.folder / "store"),
            *("--hash-cache", self.folder / "hashes", "--output", self.folder / "judged.parquet"),
            *("--summary", self.folder / "judged.json"),
        )
        self.configured_as = made["configured"]
        return json.loads((self.folder / "judged.json").read_text("utf-8"))

    def settings(self, **trajectories) -> dict:
        return fitset_settings({"judge": "truth"}, judges=JUDGES, **trajectories)

    def judged_fitset(self, **trajectories) -> dict:
        settings = self.settings(**trajectories)
        return self.make(
            {**settings, "judge_configured": self.configured_as},
            *("--judged", self.folder / "judged.parquet"),
        )


JUDGES = {"truth": {"kind": "outcome"}}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Judged:
    made = Judged(tmp_path_factory.mktemp("judged"), *LINES, validation=0.2)
    made.ask()
    return made


def test_a_rollout_is_judged_once_and_its_messages_share_the_verdict(project):
    table = pq.read_table(project.folder / "judged.parquet").to_pandas()
    rollouts = table["row_id"].str.rpartition(".")[0]
    assert (rollouts.value_counts() == 4).all()
    assert (table.groupby(rollouts)["reward"].nunique() == 1).all()
    assert set(table["verdict"]) == {"right", "wrong"}
    [stored] = (project.folder / "store").glob("*/verdicts.jsonl")
    asked = len(stored.read_text("utf-8").splitlines())
    contents = {(line["query"], line["final_text"]) for line in LINES}
    assert asked <= len(contents) and asked < rollouts.nunique() * 4
    held = {row["row_id"] for row in project.table("rows.parquet") if row["side"] != "train"}
    assert held and not held & set(table["row_id"])
    project.ask()
    assert len(stored.read_text("utf-8").splitlines()) == asked


def test_the_judge_s_reward_takes_the_place_of_the_recorded_one(project):
    """All rollouts were recorded as right: what is left out of rsft is the judge's doing."""
    made = project.judged_fitset(examples="rsft", drop_unclosed_think=False)
    kept = project.table("fitset/fitset.parquet")
    said = pq.read_table(project.folder / "judged.parquet").to_pandas().set_index("row_id")
    assert {row["reward"] for row in kept} == {1.0}
    assert all(said.loc[row["row_id"], "verdict"] == "right" for row in kept)
    assert {row["judge"] for row in kept} == set(said["judge"])
    assert made["dropped"]["below_tau"] == int((said["verdict"] == "wrong").sum())
    assert made["judge"]["fingerprint"] == kept[0]["judge"]
    recorded = project.fitset(examples="rsft", drop_unclosed_think=False)
    assert "below_tau" not in recorded["dropped"] and "judge" not in recorded


def test_pairs_are_made_of_the_judge_s_rewards(project):
    made = project.judged_fitset(examples="dpo", drop_unclosed_think=False)
    said = pq.read_table(project.folder / "judged.parquet").to_pandas().set_index("row_id")
    for row in project.table("fitset/fitset.parquet"):
        right = said.loc[row["row_id"], "verdict"] == "right"
        assert right == (row["kind"] == "chosen")
    assert made["pairs"]["kept"] > 0


def test_where_the_judge_could_not_say_is_no_example(tmp_path):
    lines = [{**line, "gold": None} if line["rollout"] == 0 else line for line in LINES]
    project = Judged(tmp_path, *lines)
    assert project.ask()["without_reward"] == 4 * 16
    made = project.judged_fitset(examples="sft", drop_unclosed_think=False)
    silent = [row for row in project.table("fitset/dropped.parquet") if row["stage"] == "judge"]
    assert Counter(row["reason"] for row in silent) == {
        "judge_silent": made["dropped"]["judge_silent"]
    }
    assert len(silent) == 4 * 16 and all("no_gold" in row["detail"] for row in silent)


def test_verdicts_of_other_settings_or_none_are_refused(project, tmp_path):
    settings = project.settings(examples="rsft")
    with pytest.raises(UserError, match=r"under other settings(.|\n)*results/judged/truth.parquet"):
        project.make(
            {**settings, "judge_configured": "other"},
            *("--judged", project.folder / "judged.parquet"),
        )
    with pytest.raises(UserError, match="no table of verdicts was given"):
        project.make({**settings, "judge_configured": "other"})
    half = tmp_path / "half.parquet"
    table = pq.read_table(project.folder / "judged.parquet")
    pq.write_table(table.slice(0, 4).replace_schema_metadata(table.schema.metadata), half)
    with pytest.raises(UserError, match="have no verdict of the judge 'truth'"):
        project.make({**settings, "judge_configured": project.configured_as}, *("--judged", half))


def test_gold_likelihood_sees_what_the_last_agent_saw(project):
    rows, _ = open_sources([project.data])
    wanted = read_messages([project.data])[["row_id", "rollout_id"]].head(8)
    shown = {
        kind: list(rollout_examples(wanted, rows, kind)) for kind in ("outcome", "gold_likelihood")
    }
    for plain, last in zip(*shown.values(), strict=True):
        line = next(line for line in LINES if plain.messages[0]["content"] == line["query"])
        assert plain.gold == last.gold == line["gold"] and plain.answer_type == "math"
        spoken = rows.get(f"{plain.row_id.rpartition('.')[0]}.3")
        assert (plain.output, last.output) == (spoken.target, spoken.target)
        assert last.messages == spoken.messages and len(plain.messages) == 1
        assert plain.content != last.content
    judged = {(each.messages[0]["content"], each.output) for each in shown["outcome"]}
    assert len({each.content for each in shown["outcome"]}) == len(judged)
