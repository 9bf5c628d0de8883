"""The report in the workflow: made with everything else, current, and in Snakemake's own."""

import re
import zipfile

import pytest

from adaptermill.report.flow import EDGES
from tests.workflow.running import SMALL, Workspace

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


def test_the_pipeline_that_is_drawn_is_the_one_that_runs(built):
    """But for what split and measure hand on as digests, which Snakemake does not draw."""
    drawn = built.run("--rulegraph", "mermaid-js", "--quiet").output
    names = dict(re.findall(r"(id\d+)\[(\w+)\]", drawn))
    below: dict[str, set[str]] = {}
    for above, under in re.findall(r"(id\d+) --> (id\d+)", drawn):
        below.setdefault(names[above], set()).add(names[under])

    def reached(rule: str) -> set[str]:
        found, todo = {rule}, [rule]
        while todo:
            new = below.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    edges = [edge for edge in EDGES if edge[0] != "split" and "measure" not in edge]
    assert len(edges) > 6
    assert all(under in reached(above) for above, under in edges), drawn


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
