"""Fit sets of messages by the real scripts: what is kept, what is left out and why, and counts."""

import copy
from collections import Counter

import pandas as pd
import pytest

from adaptermill.errors import UserError
from adaptermill.example.arithmetic import ROLES, draw_rollout, draw_rollouts
from adaptermill.fitsets.composition import DROPPED_SCHEMA, FITSET_SCHEMA
from adaptermill.rows.schema import digest
from adaptermill.splits import u
from tests.rows.building import SHARED
from tests.trajectories import reference
from tests.trajectories.building import Project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Twenty queries of four rollouts, some of them held out; tests only read it."""
    folder = tmp_path_factory.mktemp("mas")
    return Project(folder, *draw_rollouts(0, 20, 4), validation=0.2)


def accounted(project: Project, made: dict, name: str = "fitset") -> tuple[list, list]:
    """The lines kept and left out; every message is one or the other, as the counts say."""
    kept, dropped = (
        project.table(f"{name}/fitset.parquet"),
        project.table(f"{name}/dropped.parquet"),
    )
    everything = [row["row_id"] for row in project.table("rows.parquet")]
    if name == "fitset":
        ids = {row["row_id"] for row in kept}
        assert sorted([*ids, *(row["row_id"] for row in dropped)]) == sorted(everything)
        assert made["input"] == len(everything)
    assert made["input"] == sum(made["kept"].values()) + sum(made["dropped"].values())
    assert made["dropped"] == dict(sorted(Counter(row["reason"] for row in dropped).items()))
    for part in ("by_family", "by_op", "by_variant", "by_seat", "rewards"):
        assert sum(n for counts in made[part].values() for n in counts.values()) == len(kept)
    return kept, dropped


def rewards_of(project: Project) -> dict[str, float]:
    return {
        f"main/{line['query_id']}/run-rollouts-{number}": line["reward"]
        for number, line in enumerate(draw_rollouts(0, 20, 4), 1)
    }


def test_sft_takes_every_message_of_training_queries(project):
    made = project.fitset(drop_unclosed_think=False, dedup={"cap": 1000})
    kept, dropped = accounted(project, made)
    assert {row["reason"] for row in dropped} == {"held_out"}
    held = {row["row_id"].split("/")[1] for row in dropped}
    assert held and all(u(query_id) < 0.2 for query_id in held)
    assert all(u(row["query_id"]) >= 0.2 and row["kind"] == "ce" for row in kept)
    assert Counter(row["seat"] for row in kept) == dict.fromkeys(range(4), len(kept) // 4)
    rewards = rewards_of(project)
    messages = [
        {**row, "reward": rewards[row["row_id"].rpartition(".")[0]]}
        for row in kept
        # Every row's family is its seat's role, its step its place in the rollout.
        if (row["family"], row["step"]) == (ROLES[row["seat"]], row["seat"])
    ]
    assert len(messages) == len(kept)
    for row, message in zip(kept, messages, strict=True):
        assert row["reward"] == message["reward"]
        assert row["advantage"] == pytest.approx(reference.advantage(message, messages))
    plan = project.table("fitset/plan.parquet")
    assert {line["row_id"] for line in plan} == {row["row_id"] for row in kept}
    schema = {"fitset": FITSET_SCHEMA, "dropped": DROPPED_SCHEMA}
    for name, expected in schema.items():
        assert list(project.table(f"fitset/{name}.parquet")[0]) == expected.names


def test_the_default_cap_is_three_of_a_seat_with_one_visible_text(project):
    made = project.fitset()
    kept, dropped = accounted(project, made)
    texts = {row["row_id"]: row["target"] for row in project.ingested.table("shards")}
    counts = Counter((row["seat"], reference.visible(texts[row["row_id"]])) for row in kept)
    assert max(counts.values()) == 3
    repeated = {row["row_id"]: row["detail"] for row in dropped if row["reason"] == "duplicate"}
    assert repeated
    for row_id, stands_for in repeated.items():
        assert reference.visible(texts[row_id]) == reference.visible(texts[stands_for])
        assert stands_for not in repeated
    unclosed = [row["row_id"] for row in dropped if row["reason"] == "unclosed_think"]
    assert unclosed and not any("</think>" in texts[row_id] for row_id in unclosed)


def test_rsft_takes_right_rollouts(project):
    made = project.fitset(examples="rsft", tau=1.0)
    kept, dropped = accounted(project, made)
    assert {row["reward"] for row in kept} == {1.0}
    rewards = rewards_of(project)
    below = [row["row_id"] for row in dropped if row["reason"] == "below_tau"]
    assert below and all(rewards[row_id.rpartition(".")[0]] == 0 for row_id in below)
    # Advantages are those of all rollouts, not of the right ones alone.
    assert any(row["advantage"] > 0 for row in kept)


def test_seats(project):
    middle = project.fitset(adapt_roles="middle", seats=[2, 3])
    kept, _ = accounted(project, middle)
    assert {row["family"] for row in kept} == {"refiner"} and middle["dropped"]["seat"] > 0
    nonsink = project.fitset(adapt_roles="nonsink", dedup={"cap": 100})
    assert set(nonsink["by_seat"]["ce"]) == {"0", "1", "2"}
    with pytest.raises(UserError, match=r"no message is left(.|\n)*seat"):
        project.fitset(seats=[9])


def test_anchor_roles_make_the_pool(project):
    recipe = {"beta": 0.1, "anchor_ratio": 0.5, "anchor_families": ["planner"], "epochs": 1}
    made = project.fitset(recipe=recipe, seats=[3], dedup={"cap": 100})
    kept, _ = accounted(project, made)
    kinds = {(row["kind"], row["family"]) for row in kept}
    assert kinds == {("ce", "judger"), ("anchor", "planner")}
    assert made["kept"]["anchor"] == (made["kept"]["ce"] + 1) // 2


def test_lengths_are_limits_and_never_cuts(project):
    made = project.fitset(max_target_tokens=5, max_prompt_tokens=30, dedup={"cap": 100})
    kept, dropped = accounted(project, made)
    assert all(row["target_tokens"] <= 5 and row["prompt_tokens"] <= 30 for row in kept)
    details = {row["reason"]: row["detail"] for row in dropped}
    assert details["target_too_long"].endswith("tokens, max_target_tokens is 5")
    assert details["prompt_too_long"].endswith("tokens, max_prompt_tokens is 30")


def test_pass_band_windows_and_prescreen_have_their_reasons(project):
    band = project.fitset(pass_band=[0, 1])
    kept, dropped = accounted(project, band)
    by_query = pd.Series(rewards_of(project)).groupby(lambda name: name.split("/")[1]).mean()
    assert all(0 < by_query[row["query_id"]] < 1 for row in kept)
    assert any("pass rate" in (row["detail"] or "") for row in dropped)
    windows = {"train": [0, 0.5], "heldout": [0.5, 0.8], "evaluation": [0.8, 1], "n": 4}
    made = project.fitset(windows=windows)
    accounted(project, made)
    assert made["queries"] == 4
    assert {"heldout_window", "evaluation_window", "beyond_n"} <= set(made["dropped"])
    screened = project.fitset(prescreen={"pool": 10, "n": 6})
    accounted(project, screened)
    assert screened["prescreen"]["candidates"] == 10 and screened["queries"] == 6


def test_fractions_lists_and_limits_hold_for_queries_and_examples(project, tmp_path):
    half = project.fitset(recipe={"fraction": 0.5})
    kept, _ = accounted(project, half)
    assert all(u(f"frac:{row['query_id']}") < 0.5 for row in kept)
    listed = sorted({row["query_id"] for row in kept})[:2]
    (tmp_path / "queries.txt").write_text("\n".join(listed))
    made = project.fitset(recipe={"episode_ids": str(tmp_path / "queries.txt"), "limit": 5})
    kept, _ = accounted(project, made)
    assert {row["query_id"] for row in kept} <= set(listed) and len(kept) == 5


@pytest.mark.parametrize("pair_prompt", ["chosen", "same_only"])
def test_dpo_makes_pairs_of_one_group(project, pair_prompt):
    making = {"pair_prompt": pair_prompt, "max_pairs": 2, "dedup": {"cap": 1000}}
    made = project.fitset(examples="dpo", **making)
    kept, dropped = accounted(project, made)
    shards = {row["row_id"]: row for row in project.ingested.table("shards")}
    pairs: dict[str, dict] = {}
    for row in kept:
        pairs.setdefault(row["pair_id"], {})[row["kind"]] = row
    assert len(kept) == 2 * len(pairs) == 2 * made["pairs"]["kept"] > 0
    for pair in pairs.values():
        chosen, rejected = pair["chosen"], pair["rejected"]
        assert (chosen["query_id"], chosen["seat"]) == (rejected["query_id"], rejected["seat"])
        assert chosen["reward"] > rejected["reward"]
        prompt = shards[chosen["row_id"]]["prompt_hash"]
        if pair_prompt == "same_only":
            assert shards[rejected["row_id"]]["prompt_hash"] == prompt
        assert rejected["content_hash"] == digest(prompt, shards[rejected["row_id"]]["target"])
        assert rejected["prompt_tokens"] == chosen["prompt_tokens"]
        texts = [shards[row["row_id"]]["target"] for row in (chosen, rejected)]
        assert not reference.same_text(*texts)
    assert (
        max(
            Counter((p["chosen"]["query_id"], p["chosen"]["seat"]) for p in pairs.values()).values()
        )
        <= 2
    )
    counts = made["pairs"]
    assert counts["candidates"] == sum(counts.values()) - counts["candidates"]
    assert {row["reason"] for row in dropped} >= {"unpaired", "held_out"}
    assert project.table("fitset/plan.parquet") == []


def test_pairs_count_for_the_identity_of_a_set(project):
    def hashed(**making):
        return project.fitset(examples="dpo", **making)["hashes"]["fitset"]

    assert hashed(max_pairs=1) == hashed(max_pairs=1)
    assert len({hashed(max_pairs=1), hashed(max_pairs=2), hashed(pair_prompt="same_only")}) == 3
    assert hashed(max_pairs=2, recipe={"seed": 1}) != hashed(max_pairs=2)


def test_a_limit_and_a_cap_on_pairs(project):
    made = project.fitset(examples="dpo", dedup={"cap": 1}, recipe={"limit": 7})
    kept, _ = accounted(project, made)
    assert len(kept) == 14 and made["pairs"]["limit"] > 0 and made["pairs"]["duplicate"] > 0
    texts = {row["row_id"]: row["target"] for row in project.ingested.table("shards")}
    chosen = [(row["seat"], texts[row["row_id"]]) for row in kept if row["kind"] == "chosen"]
    assert len(set(chosen)) == 7


def test_an_sft_set_becomes_rsft_or_dpo_and_nothing_goes_back(project):
    making = {"dedup": {"cap": 1000}}
    project.fitset(examples="rsft", **making)
    direct = {row["row_id"] for row in project.table("fitset/fitset.parquet")}
    with pytest.raises(UserError, match="holds rsft examples; only an sft set"):
        project.convert("--to", "dpo")
    wanted = project.fitset(examples="dpo", max_pairs=2, **making)
    pairs = project.table("fitset/fitset.parquet")
    with pytest.raises(UserError, match="holds dpo examples"):
        project.convert("--to", "rsft")
    project.fitset(examples="sft", **making)
    made = project.convert("--to", "rsft")
    accounted(project, made, "converted")
    assert {row["row_id"] for row in project.table("converted/fitset.parquet")} == direct
    made = project.convert("--to", "dpo", "--max-pairs", 2, "--cap", 1000)
    accounted(project, made, "converted")
    assert project.table("converted/fitset.parquet") == pairs
    assert made["hashes"]["fitset"] == wanted["hashes"]["fitset"]
    with pytest.raises(SystemExit):
        project.convert("--to", "sft")


def with_reward(reward: float | None, line: dict) -> dict:
    return {**copy.deepcopy(line), "reward": reward}


def test_rewards_that_are_missing(tmp_path):
    lines = [draw_rollout(0, 3, number) for number in range(3)]
    none = Project(tmp_path / "none", *(with_reward(None, line) for line in lines))
    made = none.fitset()
    assert made["rewards"] == {"ce": {"none": made["kept"]["ce"]}}
    assert all(row["advantage"] is None for row in none.table("fitset/fitset.parquet"))
    for wants in ({"examples": "rsft"}, {"examples": "dpo"}, {"pass_band": [0, 1]}):
        with pytest.raises(UserError, match="needs rewards, and no rollout of its sources has one"):
            none.fitset(**wants)
    some = Project(tmp_path / "some", with_reward(None, lines[0]), with_reward(1.0, lines[1]))
    made = some.fitset(examples="rsft")
    assert made["dropped"]["no_reward"] == 4


def test_a_set_without_a_pair_is_refused_with_the_reasons(tmp_path):
    lines = [with_reward(1.0, draw_rollout(0, 3, number)) for number in range(3)]
    with pytest.raises(UserError, match=r"no pair is left(.|\n)*12  unpaired"):
        Project(tmp_path, *lines).fitset(examples="dpo", drop_unclosed_think=False)


def test_copies_of_a_rollout_count_once(tmp_path):
    lines = [draw_rollout(0, 1, 0), draw_rollout(0, 1, 1)]
    copied = Project(tmp_path, *lines, lines[0], {**lines[1], "seed": 5})
    made = copied.fitset(drop_unclosed_think=False, dedup={"cap": 1000})
    kept, dropped = accounted(copied, made)
    copies = [row for row in dropped if row["reason"] == "duplicate_rollout"]
    assert len(copies) == 4 and {row["detail"][-1] for row in copies} == {"1"}
    assert len(kept) == 12, "the same texts drawn with another seed are a rollout of their own"


def test_what_files_are_called_and_how_they_are_cut_changes_no_identity(tmp_path):
    lines = list(draw_rollouts(0, 12, 3))
    one = Project(tmp_path / "one", *lines).fitset(examples="rsft")
    other = Project(tmp_path / "other", *lines)
    run = tmp_path / "other" / "raw" / "run"
    run.rename(run.with_name("moved"))
    (tmp_path / "other" / "raw" / "moved" / "rollouts.jsonl").rename(
        tmp_path / "other" / "raw" / "moved" / "again.jsonl"
    )
    other.take(tmp_path / "other" / "raw", 0.0)
    assert other.fitset(examples="rsft")["hashes"] == one["hashes"]


@pytest.mark.skipif(not (SHARED / "trajectories").is_dir(), reason="no recorded rollouts here")
def test_recorded_rollouts(tmp_path):
    """Weak text, cut outputs, unclosed thoughts and missing rewards of a real small model."""
    project = Project(tmp_path, draw_rollout(0, 0, 0))
    project.take(SHARED / "trajectories", 0.1)
    made = project.fitset(drop_unclosed_think=False, dedup={"cap": 10_000})
    accounted(project, made)
    assert made["input"] == 4 * 342
    assert set(made["dropped"]) <= {"held_out"}
    assert made["rewards"]["ce"]["none"] > 0
    unclosed = project.fitset()["dropped"]["unclosed_think"]
    assert unclosed > 10
    rsft = project.fitset(examples="rsft")
    kept, _ = accounted(project, rsft)
    assert {row["reward"] for row in kept} == {1.0} and rsft["dropped"]["no_reward"] > 0
    dpo = project.fitset(examples="dpo", pass_band=[0, 1])
    kept, _ = accounted(project, dpo)
    assert {row["reward"] for row in kept if row["kind"] == "chosen"} == {1.0}
    # All planners of a query see one prompt; later seats only where those before said the same.
    same = project.fitset(examples="dpo", pass_band=[0, 1], pair_prompt="same_only")
    by_seat = same["by_seat"]["chosen"]
    assert by_seat["0"] > 0.9 * same["pairs"]["kept"] > 0
