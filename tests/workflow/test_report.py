"""The report in the workflow: made with everything else, current, and in Snakemake's own."""

import re
import zipfile

import pytest

from adaptermill.pipeline import Pipeline
from adaptermill.report.flow import EDGES
from tests.workflow.running import REPOSITORY, SMALL, Workspace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("report"), SMALL)
    run = workspace.run()
    assert run.jobs["report"] == 1, run
    return workspace


def test_everything_makes_the_report(built):
    html = built.path("results/report.html").read_text("utf-8")
    assert "What the adapters learned" in html and "No answers were generated" in html
    assert len(html) < 3_000_000
    assert built.path("results/figures/differences.svg").is_file()
    text = built.path("results/tables/summary.md").read_text("utf-8")
    assert "own (Drag & gesture)" in text


def test_nothing_is_made_again_and_what_changed_is(built):
    assert not built.run().jobs
    built.configure({"evaluation": {"tolerance": 0.03}})
    run = built.run()
    assert run.jobs["report"] == run.jobs["tables"] == 1 and not run.jobs["evaluate"], run
    built.path("results/report.html").unlink()
    assert built.run("results/report.html").jobs == {"report": 1}


def test_the_pipeline_that_is_drawn_is_the_one_that_runs(built, monkeypatch):
    """By Snakemake's drawing, and by what stages hand on as records and digests, which it omits.

    Snakemake forgets `measure` once it is done: there its merging stands for it, below `scan`.
    """
    drawn = built.run("--rulegraph", "mermaid-js", "--quiet").output
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", drawn))
    below: dict[str, set[str]] = {}
    for above, under in re.findall(r"(id\d+) --> (id\d+)", drawn):
        below.setdefault(names[above], set()).add(names[under])
    monkeypatch.chdir(built.folder)
    stages = Pipeline(built.settings, None, REPOSITORY, writes=False).stages()
    makers = {file: each.stage for each in stages for file in (str(each.record), *each.keeps)}
    makers["results/base/base.json"] = "base"
    for stage in stages:
        for file in makers.keys() & set(stage.above):
            below.setdefault(makers[file], set()).add(stage.stage)

    def reached(rule: str) -> set[str]:
        found, todo = {rule}, [rule]
        while todo:
            new = below.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    drawn_as = {"measure": "merge_measures"}
    edges = [(drawn_as.get(above, above), drawn_as.get(under, under)) for above, under in EDGES]
    edges[edges.index(("ingest", "merge_measures"))] = ("scan", "merge_measures")
    missing = [edge for edge in edges if edge[1] not in reached(edge[0])]
    assert not missing, (missing, below)


def test_snakemake_s_own_report_has_the_same_tables_and_figures(built):
    built.run("--report", "report.zip")
    with zipfile.ZipFile(built.path("report.zip")) as packed:
        names = " ".join(packed.namelist())
        pages = [name for name in packed.namelist() if "/data/" not in name]
        said = "".join(packed.read(name).decode("utf-8", "ignore") for name in pages)
    assert "report.html" in names and "evaluation.csv" in names
    for part in ("summary.csv", "differences.svg", "training.svg", "report.html"):
        assert part in said, part
    assert "95 % bootstrap" in said
