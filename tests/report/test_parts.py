"""Protects the parts of the report: what is said in words, which steps are shown, what is drawn."""

import json
import re
from xml.etree import ElementTree

import pytest

from adaptermill.report import figures
from adaptermill.report.assets import FOLDER, digest
from adaptermill.report.findings import about_adapters, headline, judged
from adaptermill.report.flow import EDGES, NODES, flow
from adaptermill.report.gallery import _sample, describe, element_line, task_of
from adaptermill.report.svg import standalone
from tests.workflow.running import REPOSITORY

PROMPT = """<user_request>
Pick   Malta.
</user_request>
Interactive elements:
|SHADOW(open)|*[1]<select id=options />
[12]<button />
\tSubmit
[2]<a />"""


def line(difference, low, high, weak=False, **changes):
    return {
        **{"adapter": "drag", "against": "base", "part": "own", "families": "Drag; Typing"},
        **{"family": "Drag", "metric": "nll", "rows": 9, "episodes": 5},
        **{"difference": difference, "low": low, "high": high, "weak": weak},
        **changes,
    }


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        (line(-1.0, -1.2, -0.8), "better"),
        (line(1.0, 0.8, 1.2), "worse"),
        (line(0.3, 0.1, 0.5, metric="step_success"), "better"),
        (line(-1.0, -1.2, 0.1), "unclear"),
        (line(-1.0, -1.2, -0.8, weak=True), "weak"),
        (line(-1.0, None, None), "weak"),
        (line(None, None, None), "unknown"),
    ],
)
def test_only_a_clear_interval_over_enough_episodes_is_a_finding(of, verdict):
    assert judged(of).verdict == verdict


def test_words_say_what_was_won_and_lost():
    summary = [
        line(-1.0, -1.2, -0.8),
        line(0.0, -0.1, 0.1, against="pooled"),
        line(0.4, 0.3, 0.5, part="others", families="Navigation; Forms"),
        line(0.02, 0.01, 0.03, part="others", families="Navigation; Forms", metric="anchor"),
    ]
    comparison = [
        line(-1.0, -1.2, -0.8),
        line(0.5, 0.3, 0.6, family="Navigation"),
        line(0.1, -0.3, 0.6, family="Forms"),
    ]
    (about,) = about_adapters(summary, comparison)
    assert about.own == ["Drag", "Typing"] and about.drift == "0.0200 [0.0100, 0.0300]"
    assert headline([about]) == [
        "drag beats the base on its own 2 families.",
        "None of 1 specialist beat the pooled adapter on its own 2 families.",
        "Against the base, something was lost elsewhere: drag on Navigation.",
    ]
    assert headline([]) == [
        "There is no adapter to say anything about: only the base was evaluated."
    ]


def test_the_line_of_an_element():
    assert element_line(PROMPT, 1) == "|SHADOW(open)|*[1]<select id=options />"
    assert element_line(PROMPT, 12) == "[12]<button /> Submit"
    assert element_line(PROMPT, 3) is None
    assert element_line(PROMPT, "1") is None
    assert task_of(PROMPT) == "Pick Malta."
    assert task_of("Task: scroll\nmore") == "scroll"


def test_an_answer_in_words_and_places():
    actions = [
        {"drag": {"start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4}},
        {"click": {"coordinate": [5, 6]}},
        {"click": {"index": 2, "bbox": [0, 0, 9, 9]}},
        {"wait": None},
    ]
    said = describe(json.dumps({"action": actions}), PROMPT)
    assert [mark.kind for mark in said.marks] == ["drag", "point", "box"]
    assert said.elements == ["[2]<a />"]
    assert said.text.splitlines()[-1] == "wait()"
    assert not describe("no JSON " * 400, PROMPT).readable
    assert "more characters" in describe("no JSON " * 400, PROMPT).text
    far = {"click": {"x": 1e300, "y": 1}}
    assert describe(json.dumps({"action": [far]}), PROMPT).marks == []


def test_the_sample_hardly_moves_when_rows_are_added():
    rows = [{"row_id": f"main/t/{n}", "family": "a" if n % 3 else "b"} for n in range(90)]
    chosen = _sample(rows, 5, 0)
    assert len(chosen) == 10 and chosen == _sample(rows[::-1], 5, 0)
    more = [*rows, {"row_id": "main/new/0", "family": "a"}]
    assert len(set(_sample(more, 5, 0)) - set(chosen)) <= 1
    assert set(chosen) != set(_sample(rows, 5, 1))


def test_names_in_figures_are_text():
    """Neither markup nor formulas nor control characters of a family's name reach the drawing."""
    name = "<b>$\\frac{1}{2}$ & \x00\x1b \"'"
    made = figures.differences([line(-1.0, -1.2, -0.8, family=name)], {"drag": [name]})
    root = ElementTree.fromstring(standalone(made))
    texts = "".join(root.itertext())
    assert "<b>$\\frac{" in texts and "<b>" not in re.sub(r"&lt;b>|&lt;b&gt;", "", made)
    assert figures.differences([line(-1.0, -1.2, -0.8, family=name)], {"drag": [name]}) == made
    for empty in (figures.heatmap([], {}), figures.training({}), figures.fitsets([])):
        ElementTree.fromstring(empty)


def test_the_drawing_of_the_pipeline_is_whole():
    names = {node.rule for node in NODES}
    assert {name for edge in EDGES for name in edge} == names
    rules = "".join(path.read_text("utf-8") for path in (REPOSITORY / "rules").glob("*.smk"))
    assert all(re.search(rf"^(rule|checkpoint) {name}:", rules, re.MULTILINE) for name in names)
    ElementTree.fromstring(flow({"base": "<model>"}))


def test_a_changed_template_is_a_changed_digest(tmp_path, monkeypatch):
    from adaptermill.report import assets

    before = digest()
    for path in FOLDER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(assets, "FOLDER", tmp_path)
    assert digest() == before
    (tmp_path / "report.css").write_text("body {}")
    assert digest() != before
