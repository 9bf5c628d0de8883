"""Every row is kept or dropped with one reason; families, shares and caps do what they say."""

import pytest

from adaptermill.errors import UserError
from adaptermill.fitsets.select import Selection, select
from tests.fitsets.building import DRAG, NAVIGATION, pool, row, rows, settings


def chosen(*given, **recipe) -> Selection:
    index = rows(*given)
    found = select(index, settings(**recipe))
    dropped = found.dropped_table()
    assert sorted([*found.kept["row_id"], *dropped["row_id"]]) == sorted(index["row_id"])
    return found


def kept(found: Selection, kind: str = "ce") -> list[str]:
    return [row_id.removeprefix("main/") for row_id in found.of_kind(kind)["row_id"]]


def reasons(found: Selection) -> dict[str, tuple[str, str]]:
    table = found.dropped_table()
    return {
        row_id.removeprefix("main/"): (stage, reason)
        for row_id, stage, reason, _ in table.itertuples(index=False)
    }


def test_own_families_are_ce_rows_and_the_others_the_pool():
    found = chosen(row("a"), row("b", family=NAVIGATION), row("c", family="planner"))
    assert (kept(found), kept(found, "anchor")) == (["a/0"], ["b/0"])
    assert reasons(found) == {"c/0": ("selection", "other_family")}


def test_beta_zero_has_no_pool():
    found = chosen(row("a"), *pool(3), beta=0)
    assert kept(found, "anchor") == []


@pytest.mark.parametrize(
    ("changes", "stage", "reason"),
    [
        ({"side": "validation"}, "split", "held_out"),
        ({"side": "test"}, "split", "test_side"),
        ({"side": "mixed"}, "split", "mixed_chain"),
        ({"untrainable": "injected"}, "selection", "injected"),
        ({"untrainable": "copied_prefix"}, "selection", "copied_prefix"),
        ({"untrainable": "weight_zero"}, "selection", "weight_zero"),
        ({"untrainable": "undesired"}, "selection", "undesired"),
        ({"unfit": "too_long", "unfit_detail": "9 tokens"}, "measure", "too_long"),
        ({"unfit": "template_prefix", "unfit_detail": "why"}, "measure", "template_prefix"),
    ],
)
@pytest.mark.parametrize("family", [DRAG, NAVIGATION])
def test_rows_that_no_adapter_trains_on(changes, stage, reason, family):
    found = chosen(row("a"), row("b", family=family, **changes), *pool(2))
    assert reasons(found) == {"b/0": (stage, reason)}
    detail = found.dropped_table().set_index("row_id")["detail"]["main/b/0"]
    assert detail == changes.get("unfit_detail")


def test_sources_variants_fraction_and_listed_episodes_hold_for_the_pool_too(tmp_path):
    listed = tmp_path / "listed"
    listed.write_text("\ufeffa\r\nwith a space\n\nn")
    given = [
        row(name, **{"family": family, "fraction_key": 0.1, **changes})
        for family, name in ((DRAG, "a"), (NAVIGATION, "n"))
        for changes in (
            {},
            {"step": 1, "source": "other"},
            {"step": 2, "variant": "chain"},
            {"step": 3, "fraction_key": 0.75},
            {"step": 4, "sources": [name, "elsewhere"]},
        )
    ]
    found = chosen(
        *given,
        row("with a space", sources=["with a space"], fraction_key=0.1),
        sources=["main"],
        exclude_variants=["chain"],
        fraction=0.75,
        episode_ids=str(listed),
    )
    assert (kept(found), kept(found, "anchor")) == (["a/0", "with a space/0"], ["n/0"])
    said = {row_id: reason for row_id, (_, reason) in reasons(found).items()}
    wanted = {1: "source", 2: "variant", 3: "fraction", 4: "not_listed"}
    assert said == {f"{name}/{k}": reason for name in "an" for k, reason in wanted.items()}


def test_episode_list_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match=r"episode_ids: .*missing.* one source per line"):
        chosen(row("a"), episode_ids=str(tmp_path / "missing"))


def test_drop_done_takes_the_last_done_step_and_leaves_macro_done():
    steps = ["done", "click", "macro_done", "done"]
    given = [row("a", step, op=op) for step, op in enumerate(steps)]
    other = [row("a", 0, source="other", row_id="other/a/0", op="done")]
    found = chosen(*given, *other, *pool(1, op="done"), row("b"), drop_done=True)
    assert kept(found) == ["a/0", "a/1", "a/2", "b/0"]
    assert set(reasons(found)) == {"a/3", "other/a/0", "pool0/0"}
    assert len(chosen(*given, drop_done=False).kept) == 4


def test_drop_done_without_any_done_step():
    assert kept(chosen(row("a"), drop_done=True)) == ["a/0"]


@pytest.mark.parametrize(
    ("key", "left"),
    [
        ("prompt+target+images", ["a/0", "b/0", "c/0", "d/0"]),
        ("prompt+target", ["a/0", "c/0", "d/0"]),
        ("target", ["a/0", "d/0"]),
    ],
)
def test_duplicates_by_each_key(key, left):
    same = {"text_hash": "t", "target_hash": "y"}
    given = [
        row("a", **same),
        row("b", image="other", **same),
        row("c", target_hash="y"),
        row("d"),
        row("e", **same),
    ]
    found = chosen(*given, dedup={"key": key})
    assert kept(found) == left
    detail = found.dropped_table().set_index("row_id")["detail"]
    assert detail["main/e/0"] == "main/a/0"


def test_cap_keeps_that_many_of_each_kind():
    same = {"target_hash": "y"}
    given = [row(f"a{k}", **same) for k in range(4)] + pool(4, **same)
    found = chosen(*given, dedup={"key": "target", "cap": 3})
    assert kept(found) == ["a0/0", "a1/0", "a2/0"]
    assert kept(found, "anchor") == ["pool0/0", "pool1/0", "pool2/0"]


def test_limit_draws_ce_rows_by_seed_alone():
    given = [row(f"a{k}") for k in range(30)]
    first = kept(chosen(*given, *pool(5), limit=10))
    assert len(first) == 10
    assert len(kept(chosen(*given, *pool(5), limit=10), "anchor")) == 5
    assert kept(chosen(*reversed(given), limit=10)) == first[::-1]
    assert kept(chosen(*given, limit=10, seed=1)) != first
    assert set(first) < set(kept(chosen(*given, limit=20)))
    assert len(kept(chosen(*given, limit=100))) == 30


def test_pool_rows_with_prompt_and_answer_of_a_ce_row_are_dropped():
    said = {"text_hash": "t", "target_hash": "y"}
    found = chosen(row("a", **said), *pool(30), row("b", family=NAVIGATION, image="x", **said))
    assert reasons(found) == {"b/0": ("anchor", "twin_of_ce_row")}
    assert found.dropped_table()["detail"].tolist() == ["main/a/0"]


def test_too_many_such_rows_are_an_error_that_shows_them():
    given = [row("a", text_hash="t", target_hash="y"), *pool(18)]
    twin = row("b", family=NAVIGATION, text_hash="t", target_hash="y")
    with pytest.raises(UserError, match=r"1 of 19 anchor rows(.|\n)*main/b/0 = main/a/0"):
        chosen(*given, twin)
    assert len(kept(chosen(*given, pool(19)[-1], twin), "anchor")) == 19


@pytest.mark.parametrize("setting", ["families", "anchor_families"])
def test_a_family_that_no_row_has_is_an_error_that_lists_those_there_are(setting):
    with pytest.raises(UserError) as refused:
        chosen(row("a"), row("b"), *pool(1), **{setting: ["Draging", DRAG]})
    said = str(refused.value)
    assert f"adapters.drag.{setting}: no row has the family 'Draging'" in said
    assert "2  Drag & gesture" in said and "1  Navigation" in said


def test_nothing_left_says_what_removed_how_many():
    given = [row("a", side="validation"), row("b", variant="chain"), row("c", variant="chain")]
    with pytest.raises(UserError) as refused:
        chosen(*given, *pool(3), exclude_variants=["chain"])
    said = str(refused.value)
    assert "no row is left to train on. Of 3 rows of its families" in said
    assert "2  variant (recipe.exclude_variants)" in said and "other_family" not in said
    assert "1  held_out (split.validation_fraction)" in said


def test_all_families_of_data_that_has_none_of_the_seven():
    with pytest.raises(UserError, match=r"no row has a family of its own(.|\n)*1  planner"):
        chosen(row("a", family="planner"), families="all", anchor_families=[])
