"""The command lines from ingested shards to fit sets and held-out rows, on real files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adaptermill.errors import UserError, run_command
from adaptermill.fitsets.composition import DROPPED_SCHEMA, FITSET_SCHEMA
from adaptermill.measurements import MEASURE_SCHEMA
from adaptermill.splits import u
from scripts import fitset, heldout, split
from tests.fitsets.building import DRAG, NAVIGATION, settings
from tests.rows.building import SHARED, Ingested, record, write_episode

EPISODE_COLUMNS = "task_id source variant sources families rows side group fraction_key"
FITSET_COLUMNS = (
    "row_id task_id step family op variant kind seat query_id pair_id reward advantage judge "
    "prompt_tokens target_tokens image_tokens content_hash"
)
SPLIT = {
    "validation_fraction": 0.3,
    "test_fraction": 0.0,
    "group_by": "source",
    "mixed_chains": "exclude",
    "allow_leaks": False,
    "families": {},
    "near_duplicates": {"threshold": 0.85, "ngram": 5, "permutations": 128, "report": True},
}
TRAINED = [name for name in (f"e{k}" for k in range(60)) if u(name) >= 0.3]
HELD = [name for name in (f"e{k}" for k in range(60)) if u(name) < 0.3]


def script(module: Any, *arguments: object) -> None:
    module.main([str(argument) for argument in arguments])


class Project:
    """A folder in which raw episodes go through the scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw = folder / "raw"

    def episode(self, task_id: str, steps: int = 3, described: Any = None, **changes: Any) -> None:
        """An episode of pages of its own; `changes` go to all of its rows."""
        lines = [record(task_id, step, **{"op": "click", **changes}) for step in range(steps)]
        write_episode(self.raw, task_id, lines, described=described)

    def spec(self, values: dict[str, Any]) -> Path:
        path = self.folder / "spec.json"
        path.write_text(json.dumps({"settings": values}))
        return path

    def split(self, *roots: Path, **changes: Any) -> None:
        data = Ingested(self.folder / "work", *(roots or [self.raw])).folder
        script(
            split,
            *("--spec", self.spec({**SPLIT, **changes}), "--data", data),
            *("--episodes", self.folder / "episodes.parquet"),
            *("--rows", self.folder / "rows.parquet"),
            *("--leaks", self.folder / "leaks.json"),
            *("--report-copy", self.folder / "copy.json"),
            *("--signatures", self.folder / "signatures", "--sides", self.folder / "sides.parquet"),
            *("--moves", self.folder / "moves.json"),
        )

    def measure(self, **lengths: int) -> None:
        """Says that every row is 100 tokens long, or as long as `lengths` say by task."""
        lines = [
            {
                "row_id": row["row_id"],
                "prompt_tokens": lengths.get(row["task_id"], 100) - 10,
                "target_tokens": 10,
                "image_tokens": 4,
                "has_action_key": True,
            }
            for row in self.table("rows.parquet")
        ]
        table = pa.Table.from_pylist(lines, schema=MEASURE_SCHEMA)
        pq.write_table(table, self.folder / "measures.parquet")

    def fitset(self, **recipe: Any) -> dict[str, Any]:
        script(
            fitset,
            *("--spec", self.spec(settings(**recipe)), *self.inputs()),
            *("--output-folder", self.folder / "fitset"),
            *("--data", self.folder / "work/ingested", "--signatures", self.folder / "signatures"),
        )
        return json.loads((self.folder / "fitset/composition.json").read_text())

    def heldout(self, max_tokens: int = 1000) -> dict[str, Any]:
        output, summary = self.folder / "heldout.parquet", self.folder / "heldout.json"
        spec = self.spec({"sides": ["validation"], "max_tokens": max_tokens})
        script(heldout, "--spec", spec, *self.inputs(), "--output", output, "--summary", summary)
        return json.loads(summary.read_text())

    def inputs(self) -> tuple[object, ...]:
        return (
            *("--rows", self.folder / "rows.parquet"),
            *("--measures", self.folder / "measures.parquet"),
        )

    def table(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / name).to_pylist()


@pytest.fixture
def project(tmp_path) -> Project:
    """Episodes of two families on both sides, a recovery, and a mixed chain; split and measured."""
    project = Project(tmp_path)
    for number, name in enumerate([*TRAINED[:6], *HELD[:2]]):
        project.episode(name, family=DRAG if number % 2 else NAVIGATION, macro=f"m{number}")
    project.episode(f"{TRAINED[0]}~rec", family=DRAG, inject="wrong_field")
    parts = {"task_id": "chain-0", "parts": [TRAINED[1], HELD[0]]}
    project.episode("chain-0", family=NAVIGATION, described=parts)
    project.split()
    project.measure()
    return project


def test_a_line_per_episode_with_the_columns_that_others_rely_on(project):
    lines = project.table("episodes.parquet")
    assert " ".join(lines[0]) == EPISODE_COLUMNS
    by_name = {line["task_id"]: line for line in lines}
    assert len(by_name) == len(lines) == 10
    chain = by_name["chain-0"]
    assert (chain["variant"], chain["side"], chain["rows"]) == ("chain", "mixed", 3)
    assert chain["sources"] == [TRAINED[1], HELD[0]]
    recovery = by_name[f"{TRAINED[0]}~rec"]
    assert (recovery["variant"], recovery["sources"]) == ("recovery", [TRAINED[0]])
    assert (recovery["families"], recovery["source"]) == ([DRAG], "main")
    assert {line["side"] for name, line in by_name.items() if name in TRAINED} == {"train"}
    assert {line["side"] for name, line in by_name.items() if name in HELD} == {"validation"}
    for line in lines:
        assert line["fraction_key"] == max(u(f"frac:{source}") for source in line["sources"])


def test_group_by_macro_and_renamed_families(project, capsys):
    project.split(group_by="macro", families={"Moving": [NAVIGATION, DRAG]})
    lines = {line["task_id"]: line for line in project.table("episodes.parquet")}
    assert lines[TRAINED[0]]["group"] == lines[f"{TRAINED[0]}~rec"]["group"] == "m0"
    assert lines["chain-0"]["group"] == "m1+m6"
    assert {family for line in lines.values() for family in line["families"]} == {"Moving"}
    assert {row["family"] for row in project.table("rows.parquet")} == {"Moving"}


def sides(project: Project) -> dict[str, str]:
    return {line["task_id"]: line["side"] for line in project.table("episodes.parquet")}


def words(topic: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": " ".join(f"{topic}{k}" for k in range(60))}]


def test_near_duplicates_lie_on_one_side_and_what_they_move_is_said(tmp_path, capsys):
    project = Project(tmp_path)
    near = {"threshold": 0.4, "ngram": 3, "permutations": 128, "report": True}
    how = {"group_by": "near_duplicates", "near_duplicates": near}
    held, *_, other = sorted(HELD)
    trained, copy = [name for name in TRAINED if name > held][:2]
    project.episode(held, 1, messages=words("x"))
    project.episode(trained, 1, messages=words("y"))
    project.split(**how)
    assert sides(project) == {held: "validation", trained: "train"}
    # A copy with another answer, under a name that would have trained.
    project.episode(copy, 1, messages=words("y"), target="another answer")
    project.split(**how)
    assert sides(project)[copy] == sides(project)[trained] == "train"
    assert json.loads((tmp_path / "moves.json").read_text()) == []
    bridge = words("x")[0]["content"] + " " + words("y")[0]["content"]
    project.episode(other, 1, messages=[{"role": "user", "content": bridge}])
    capsys.readouterr()
    project.split(**how)
    groups = {line["group"] for line in project.table("episodes.parquet")}
    assert groups == {min(held, other, trained, copy)} and len(set(sides(project).values())) == 1
    moved = json.loads((tmp_path / "moves.json").read_text())
    assert {move["episode"] for move in moved} == {f"main/{trained}", f"main/{copy}"}
    said = capsys.readouterr().out
    assert "2 old episodes changed sides" in said and f"main/{trained}: train -> validation" in said
    assert "1 groups of near-duplicate episodes" in said


def test_near_rows_across_the_split_are_reported_and_do_not_stop_the_build(project, capsys):
    near = {"messages": words("x"), "family": DRAG}
    project.episode(TRAINED[7], 1, **near)
    project.episode(HELD[3], 1, **near, target="another answer")
    project.split()
    report = json.loads((project.folder / "leaks.json").read_text())["near_duplicates"]
    assert (report["threshold"], report["ngram"], report["permutations"]) == (0.85, 5, 128)
    [example] = report["compared"]["text_and_screenshot"]["examples"]
    assert (example["heldout"], example["train"]) == (f"main/{HELD[3]}/0", f"main/{TRAINED[7]}/0")
    assert "1 others near by text and screenshot" in capsys.readouterr().out
    project.split(near_duplicates={**SPLIT["near_duplicates"], "report": False})
    assert "near_duplicates" not in json.loads((project.folder / "leaks.json").read_text())


def test_group_by_any_key_of_rows_or_episodes(tmp_path):
    project = Project(tmp_path)
    project.episode("a", 1, app="mail", described={"team": "red", "n": 3})
    project.episode("b", 1, app="mail", described={"team": "blue", "n": 3})
    project.episode("c", 1, described={"team": "red"})
    for column, groups in {
        "app": ["mail", "mail", "c"],
        "team": ["red", "blue", "red"],
        "n": ["3", "3", "c"],
        "family": ["Navigation"] * 3,
    }.items():
        project.split(group_by=column)
        assert [line["group"] for line in project.table("episodes.parquet")] == groups
    assert "group_value" not in project.table("rows.parquet")[0]
    with pytest.raises(UserError) as refused:
        project.split(group_by="aps")
    assert "under 'aps'" in str(refused.value) and " app" in str(refused.value)
    assert "team" in str(refused.value)


def test_an_exact_copy_across_the_split_fails_the_build_and_leaves_its_report(project, capsys):
    twin = {"messages": [{"role": "user", "content": "the same page"}], "target": "{}"}
    project.episode(TRAINED[7], 1, family=DRAG, **twin)
    project.episode(HELD[3], 1, family=DRAG, **twin)
    with pytest.raises(UserError) as refused:
        project.split()
    said = str(refused.value)
    assert f"main/{HELD[3]}/0 = main/{TRAINED[7]}/0" in said
    assert "split.allow_leaks: true" in said and "split.group_by" in said
    assert str(project.folder / "copy.json") in said
    found = json.loads((project.folder / "copy.json").read_text())["duplicates"]
    assert found["text_and_screenshot"]["heldout_rows"] == 1
    project.split(allow_leaks=True)
    assert json.loads((project.folder / "leaks.json").read_text())["duplicates"] == found


def test_a_source_without_a_row_is_refused(tmp_path):
    project = Project(tmp_path)
    write_episode(project.raw, "a", ["not json"])
    with pytest.raises(UserError, match=r"no row came in from .*ingested"):
        project.split()


def test_fit_set_is_whole_counts_add_up_and_the_plan_is_its_rows(project):
    made = project.fitset()
    kept = project.table("fitset/fitset.parquet")
    dropped = project.table("fitset/dropped.parquet")
    plan = project.table("fitset/plan.parquet")
    everything = [row["row_id"] for row in project.table("rows.parquet")]
    assert pq.read_schema(project.folder / "fitset/fitset.parquet") == FITSET_SCHEMA
    assert pq.read_schema(project.folder / "fitset/dropped.parquet") == DROPPED_SCHEMA
    assert " ".join(kept[0]) == FITSET_COLUMNS
    assert sorted(row["row_id"] for row in [*kept, *dropped]) == sorted(everything)
    assert made["input"] == sum(made["kept"].values()) + sum(made["dropped"].values())
    assert made["kept"]["ce"] == 9 == sum(made["by_family"]["ce"].values())
    made["dropped"].pop("not_drawn", None)
    assert made["dropped"] == {"held_out": 6, "injected": 3, "mixed_chain": 3}
    assert {row["row_id"] for row in kept} == {line["row_id"] for line in plan}
    kinds = {row["row_id"]: row["kind"] for row in kept}
    assert all(kinds[line["row_id"]] == line["kind"] for line in plan)
    assert {row["family"] for row in kept if row["kind"] == "ce"} == {DRAG}
    assert made["plan"] == {"rows": 3 * (9 + 5), "epochs": 3, "steps": 6}


def test_near_duplicates_are_left_out_when_asked(project):
    words_of_a_page = words("x")
    for name, end in ((TRAINED[7], "a"), (TRAINED[8], "b")):
        said = [{"role": "user", "content": words_of_a_page[0]["content"] + end}]
        project.episode(name, 1, family=DRAG, messages=said)
    project.split()
    project.measure()
    assert "near_duplicate" not in project.fitset()["dropped"]
    near = {"threshold": 0.8, "ngram": 3, "permutations": 64}
    made = project.fitset(dedup={"near": near}, beta=0)
    assert made["dropped"]["near_duplicate"] >= 1
    detail = {
        line["row_id"]: line["detail"]
        for line in project.table("fitset/dropped.parquet")
        if line["reason"] == "near_duplicate"
    }
    first, second = sorted((TRAINED[7], TRAINED[8]))
    assert detail[f"main/{second}/0"] == f"main/{first}/0"
    assert "left out: near_duplicate" in (project.folder / "fitset/composition.md").read_text()


def test_rows_over_the_limit_are_dropped_and_said_to_be(project):
    project.measure(**{TRAINED[1]: 1001, TRAINED[3]: 1000, HELD[0]: 1001})
    assert project.fitset()["dropped"]["too_long"] == 3
    detail = {
        line["row_id"]: line["detail"]
        for line in project.table("fitset/dropped.parquet")
        if line["reason"] == "too_long"
    }
    assert detail[f"main/{TRAINED[1]}/0"] == "1001 tokens, base.max_tokens is 1000"
    found = project.heldout()
    assert (found["rows"], found["left_out"]) == (3, {"too_long": 3})


@pytest.mark.parametrize(("name", "build"), [(TRAINED[8], "fitset"), (HELD[5], "heldout")])
def test_rows_that_were_not_measured_are_an_error(project, name, build):
    project.episode(name, family=DRAG)
    project.split()
    with pytest.raises(UserError, match=rf"3 of \d+ rows were not measured, main/{name}/0"):
        getattr(project, build)()


def test_an_empty_plan_is_refused(project):
    with pytest.raises(UserError, match=r"adapters\.drag: 0\.01 epochs of 9 rows"):
        project.fitset(epochs=0.01)


def test_missing_anchor_rows_are_said(project, capsys):
    project.fitset(anchor_families=[DRAG])
    assert "no anchor row" in capsys.readouterr().out


def hashes(project: Project, **recipe: Any) -> dict[str, str]:
    project.measure()
    return project.fitset(**recipe)["hashes"]


def test_hashes_change_with_what_is_trained_on_and_with_nothing_else(project):
    before = hashes(project)
    assert hashes(project) == before
    assert hashes(project, rank=64) == before  # training's own settings are keyed elsewhere
    assert hashes(project, seed=1)["plan"] != before["plan"]
    fewer = hashes(project, limit=8)
    assert fewer["fitset"] != before["fitset"] and fewer["plan"] != before["plan"]
    assert hashes(project, epochs=1)["plan"] != before["plan"]
    project.episode(HELD[4], family=DRAG)
    project.episode("bad", family=DRAG, target="")
    project.split()
    assert hashes(project) == before, "a held-out episode and one that is all quarantined"
    project.episode(TRAINED[9], family=DRAG)
    project.split()
    assert hashes(project)["fitset"] != before["fitset"]


@pytest.mark.parametrize("name", ["0-copy", "zz-copy"])
def test_a_copied_episode_changes_no_hash_wherever_it_sorts(project, name):
    assert u(name) >= 0.3
    before = hashes(project, limit=8)
    content = (project.raw / TRAINED[1] / "rows.jsonl").read_text()
    lines = content.replace(f'"task_id": "{TRAINED[1]}"', f'"task_id": "{name}"').split("\n")
    write_episode(project.raw, name, [line for line in lines if line])
    project.split()
    assert hashes(project, limit=8) == before
    assert project.fitset()["dropped"]["duplicate"] == 3


def test_held_out_rows_and_their_digest(project):
    found = project.heldout()
    lines = project.table("heldout.parquet")
    assert [line["row_id"] for line in lines] == sorted(
        f"main/{name}/{step}" for name in HELD[:2] for step in range(3)
    )
    assert (found["rows"], found["episodes"], found["left_out"]) == (6, 2, {})
    assert found["families"] == {
        DRAG: {"rows": 3, "episodes": 1},
        NAVIGATION: {"rows": 3, "episodes": 1},
    }
    project.episode(TRAINED[9], family=DRAG)
    project.split()
    project.measure()
    assert project.heldout()["digest"] == found["digest"]
    project.episode(HELD[4], family=DRAG)
    project.split()
    project.measure()
    assert project.heldout()["digest"] != found["digest"]
    project.split(families={"Moving": [NAVIGATION]})
    project.measure()
    assert "Moving" in project.heldout()["families"]


def test_nothing_held_out_is_said(project, capsys):
    project.split(validation_fraction=0.0)
    project.measure()
    assert project.heldout()["rows"] == 0
    assert "nothing is held out" in capsys.readouterr().out


def test_user_errors_end_with_status_2(project, capsys):
    spec = project.spec(settings(families=["Nowhere"]))
    arguments = ["--spec", spec, *project.inputs(), "--output-folder", project.folder / "fitset"]
    status = run_command(lambda _: script(fitset, *arguments))
    assert status == 2
    assert "no row has the family 'Nowhere'" in capsys.readouterr().err


@pytest.mark.skipif(not (SHARED / "replay").is_dir(), reason="no recorded episodes here")
def test_recorded_episodes(tmp_path):
    project = Project(tmp_path)
    project.split(SHARED / "replay", validation_fraction=0.05)
    leaks = json.loads((tmp_path / "leaks.json").read_text())
    assert {twins["heldout_rows"] for twins in leaks["duplicates"].values()} == {0}
    episodes = project.table("episodes.parquet")
    rows = project.table("rows.parquet")
    assert sum(line["rows"] for line in episodes) == len(rows)
    held = {source for e in episodes if e["side"] == "validation" for source in e["sources"]}
    trained = {source for e in episodes if e["side"] == "train" for source in e["sources"]}
    assert held and not held & trained
    project.measure()
    made = project.fitset(drop_done=True, exclude_variants=["chain"])
    assert made["input"] == len(rows)
    assert made["dropped"]["done_step"] > 0 and made["dropped"]["variant"] > 0
    assert set(made["by_variant"]["ce"]) == {"plain", "recovery"}
    assert project.heldout()["rows"] > 0
