"""What must hold for any data: nothing is lost, and only what rows say decides what is learned."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as trial
from hypothesis import strategies as st

from adaptermill.errors import UserError
from adaptermill.fitsets.plan import make_plan
from adaptermill.fitsets.select import Selection, select
from adaptermill.splits import SIDES, in_fraction
from tests.fitsets.building import DRAG, NAVIGATION, row, rows, settings
from tests.fitsets.test_scripts import HELD, TRAINED, Project

REPOSITORY = Path(__file__).resolve().parents[2]
FAMILIES = [DRAG, NAVIGATION, "Text entry", "planner"]


def told_apart(values: dict) -> dict:
    """Prompts of different families differ, but for one."""
    text = values["text_hash"]
    return {**values, "text_hash": text if text == "t0" else f"{values['family']} {text}"}


some_rows = st.lists(
    st.fixed_dictionaries(
        {
            "family": st.sampled_from(FAMILIES),
            "side": st.sampled_from([*SIDES, "train", "train"]),
            "variant": st.sampled_from(["plain", "recovery", "chain"]),
            "op": st.sampled_from(["click", "done", "macro_done"]),
            "untrainable": st.sampled_from([None, None, None, "injected", "weight_zero"]),
            "unfit": st.sampled_from([None, None, None, "too_long"]),
            "text_hash": st.sampled_from([f"t{k}" for k in range(8)]),
            "target_hash": st.sampled_from(["y", "z"]),
            "image": st.sampled_from(["i", "j"]),
            "fraction_key": st.sampled_from([0.1, 0.4, 0.9]),
        }
    ),
    min_size=1,
    max_size=25,
).map(
    lambda drawn: [
        *(row(f"e{k // 3:02}", k % 3, **each) for k, each in enumerate(map(told_apart, drawn))),
        # Rows that no recipe leaves out, and a pool in which few are copies.
        *(row(f"good{k}", family=DRAG, fraction_key=0.1) for k in range(2)),
        *(row(f"other{k}", family=NAVIGATION, fraction_key=0.1) for k in range(2)),
        *(row(f"pool{k:02}", family="Text entry", fraction_key=0.1) for k in range(20)),
    ]
)
recipes = st.fixed_dictionaries(
    {
        "beta": st.sampled_from([0, 0.1]),
        "fraction": st.sampled_from([0.25, 0.5, 1.0]),
        "exclude_variants": st.sampled_from([[], ["chain"], ["recovery", "chain"]]),
        "drop_done": st.booleans(),
        "limit": st.sampled_from([None, 2, 5]),
        "seed": st.integers(0, 3),
        "families": st.sampled_from([[DRAG], [DRAG, NAVIGATION]]),
    }
)
some = trial(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


def chosen(given_rows: list[dict], recipe: dict) -> Selection:
    """The selection; data whose pool holds too many copies is not of use."""
    try:
        return select(rows(*given_rows), settings(**recipe))
    except UserError as error:
        assert "are copies of its own rows" in str(error)
        assume(False)
        raise


def learned(found: Selection, recipe: dict) -> list[tuple[int, int, str, str]]:
    """The plan by what its rows say: (epoch, position, kind, content)."""
    ce, pool = found.contents("ce"), found.contents("anchor")
    how = {"seed": recipe["seed"], "epochs": 2, "anchor_ratio": 0.5, "batch_rows": 8}
    says = {**ce, **pool}
    return [
        (line.epoch, line.position, line.kind, says[line.row_id])
        for line in make_plan(ce, pool, **how)
    ]


@some
@given(some_rows, recipes)
def test_every_row_is_kept_or_left_out_once_and_for_a_reason_that_holds(given_rows, recipe):
    found = chosen(given_rows, recipe)
    dropped = found.dropped_table()
    both = [*found.kept["row_id"], *dropped["row_id"]]
    assert sorted(both) == sorted(each["row_id"] for each in given_rows)
    assert dropped["reason"].notna().all() and dropped["stage"].notna().all()
    kept = found.kept.to_dict("records")
    anchors = set(settings(**recipe)["anchor_families"])
    for each in kept:
        assert each["side"] == "train" and pd.isna(each["untrainable"]) and pd.isna(each["unfit"])
        assert in_fraction(each["fraction_key"], recipe["fraction"])
        assert each["variant"] not in recipe["exclude_variants"]
        own = each["family"] in recipe["families"]
        assert each["kind"] == ("ce" if own else "anchor") and (own or each["family"] in anchors)
    said = [(each["kind"], each["content_hash"]) for each in kept]
    assert len(said) == len(set(said))
    pool, ce = (
        {(e["text_hash"], e["target_hash"]) for e in kept if e["kind"] == kind}
        for kind in ("anchor", "ce")
    )
    assert not pool & ce
    assert recipe["limit"] is None or len(found.of_kind("ce")) <= recipe["limit"]


@some
@given(some_rows, recipes, st.randoms(use_true_random=False))
def test_neither_order_nor_names_decide_what_is_learned(given_rows, recipe, randomness):
    before = learned(chosen(given_rows, recipe), recipe)
    names = sorted({each["task_id"] for each in given_rows})
    others = [f"renamed-{k}" for k in range(len(names))]
    randomness.shuffle(others)
    new = dict(zip(names, others, strict=True))
    moved = []
    for each in given_rows:
        task = new[each["task_id"]]
        moved.append({**each, "task_id": task, "row_id": f"main/{task}/{each['step']}"})
    randomness.shuffle(moved)
    assert learned(chosen(moved, recipe), recipe) == before


@some
@given(some_rows, recipes, st.sampled_from([(0.25, 0.5), (0.25, 1.0), (0.5, 1.0)]))
def test_a_smaller_fraction_has_a_part_of_the_rows(given_rows, recipe, fractions):
    recipe = {**recipe, "limit": None}
    small, large = (
        chosen(given_rows, {**recipe, "fraction": fraction}).contents("ce")
        for fraction in fractions
    )
    # By content, since of equal rows another copy may stay.
    assert set(small.values()) <= set(large.values())


def built(folder: Path, names: list[str], shard_mb: float, hash_seed: str) -> dict[str, object]:
    """Splits and fit set of the same episodes, in a process of its own."""
    project = Project(folder)
    for name in names:
        lines = {"family": DRAG if int(name[1:]) % 2 else NAVIGATION, "macro": f"m{name}"}
        project.episode(name, 2, **lines)
    code = (
        "import sys, pathlib\n"
        "from tests.fitsets.test_scripts import Project\n"
        "from tests.rows import building\n"
        f"building.Ingested.__init__.__kwdefaults__['shard_mb'] = {shard_mb}\n"
        "project = Project(pathlib.Path(sys.argv[1]))\n"
        "project.split(group_by='near_duplicates')\n"
        "project.measure()\n"
        "project.fitset(limit=5, dedup={'near': {'threshold': 0.9}})\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    tables = ("episodes", "fitset/fitset", "fitset/dropped", "fitset/plan")
    made = {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in tables}
    return {**made, "leaks": json.loads((folder / "leaks.json").read_text())}


def test_the_order_of_files_shards_and_processes_do_not_matter(tmp_path):
    names = [*TRAINED[:6], *HELD[:3]]
    shuffled = random.Random(1).sample(names, len(names))
    one = built(tmp_path / "one", names, 256, "1")
    other = built(tmp_path / "other", shuffled, 0.001, "2")
    assert one == other
    assert {line["side"] for line in one["episodes"]} == {"train", "validation"}
    assert one["fitset/plan"]
