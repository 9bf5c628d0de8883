"""Protects the report as a page: it opens by itself in a browser, its filters work, it says what is
missing, and what comes from rows is shown as text and runs nothing."""

import re

import pytest

from tests.browser import browser, visit  # noqa: F401
from tests.report.making import DRAG, TYPING, World, click, prompt, record, records

pytestmark = pytest.mark.slow
HOSTILE = (
    "</script><script>window.ran=1</script><img src=x onerror=window.ran=2>"
    "\"'><svg onload=window.ran=3>{{7*7}}&lt;b&gt; $\\frac{1}{2}$ \u202e<!--"
)
OWN = {"pooled": [DRAG, TYPING], "drag": [DRAG], "typing": [TYPING]}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return World(tmp_path_factory.mktemp("report"), records(), OWN).make()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_by_itself(browser, page, scheme):  # noqa: F811
    with visit(browser, page, color_scheme=scheme) as shown:
        assert shown.locator("h1").is_visible()
        for part in ("summary", "families", "differences", "training", "data", "pipeline"):
            assert shown.locator(f"#{part}").is_visible(), part
        assert shown.locator("#gallery .step").count() == 8
        dark = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
        # Nothing is wider than a laptop's window.
        assert shown.evaluate("document.documentElement.scrollWidth") <= 1366
        assert shown.locator("svg.figure").count() == 6
        shown.emulate_media(media="print")
        assert not shown.locator("nav").is_visible()
        assert shown.locator("#gallery .step").first.is_visible()


def test_it_says_who_beats_whom(browser, page):  # noqa: F811
    with visit(browser, page) as shown:
        said = shown.locator(".headline").inner_text()
        assert "All 2 specialists beat the base on their own families." in said
        assert "drag on Text entry; typing on Drag & gesture" in said
        assert "pooled beats the base over all its families." in said


def test_one_metric_is_shown_at_a_time(browser, page):  # noqa: F811
    with visit(browser, page) as shown:
        assert shown.locator("[data-metric]:visible").count() == 1
        shown.select_option("#metric", "step_success")
        visible = shown.locator("[data-metric]:visible")
        assert visible.count() == 1 and "right in all of it" in visible.inner_text()
        # A family without held-out rows is a column, with nothing in it.
        column = visible.locator("table.heat").last.locator("tbody tr").first.locator("td").nth(1)
        assert column.inner_text() == "–"


def test_the_filters_of_the_gallery(browser, page):  # noqa: F811
    with visit(browser, page) as shown:
        steps = shown.locator("#gallery .step:visible")
        shown.select_option("#by-family", DRAG)
        assert steps.count() == 4 and "4 of 8" in shown.locator("#shown").inner_text()
        shown.select_option("#by-adapter", "typing")
        answers = shown.locator(".answer[data-adapters]:visible")
        assert answers.count() == 4
        assert all("typing" in text for text in answers.all_inner_texts())
        assert shown.locator(".screen g[data-adapters]:visible").count() == 4
        shown.select_option("#by-verdict", "yes")
        assert steps.count() == 0 and shown.locator("#none").is_visible()
        shown.select_option("#by-family", TYPING)
        assert steps.count() == 4
        shown.select_option("#by-adapter", "base")
        assert steps.count() == 0
        shown.select_option("#by-verdict", "no")
        assert steps.count() == 4


def test_places_are_drawn_and_elements_shown_in_words(page):
    html = page.read_text("utf-8")
    drags = re.findall(r'class="mark (recorded|predicted)" d="M10 12L(\d+) (\d+)"', html)
    assert set(drags) == {
        ("recorded", "60", "30"),
        ("predicted", "20", "40"),
        ("predicted", "60", "30"),
    }
    assert re.search(r"\[1\]&lt;button&gt;Go \d&lt;/button&gt;", html)


def test_hostile_text_is_shown_and_runs_nothing(browser, tmp_path):  # noqa: F811
    """Markup in prompts, answers, families, names of episodes and the base's name."""
    rows = []
    for number in range(6):
        text = f"Task: {HOSTILE}\n[1]<b onclick='window.ran=4'>{HOSTILE}"
        said = {"messages": prompt(text), "family": HOSTILE, "op": HOSTILE}
        name = f"task <img src=x onerror=window.ran=5> {number}"
        rows.append(record(name, 0, target=click(1), **said))
        rows.append(record(name, 1, target=HOSTILE, **said))
    world = World(tmp_path, rows, {"pooled": [HOSTILE]}, families=[HOSTILE], base_name=HOSTILE)
    with visit(browser, world.make()) as shown:
        shown.wait_for_timeout(300)
        assert shown.evaluate("window.ran") is None
        assert shown.locator("img[src='x']").count() == 0
        assert shown.locator("script").count() == 1
        assert shown.locator("[onerror], [onload], [onclick]").count() == 0
        places = ("header", ".task", ".where", ".recorded pre", ".element", "#families thead th")
        for where in places:
            text = shown.locator(where, has_text="window.ran=1")
            assert "<script>window.ran=1</script>" in text.first.text_content(), where
        assert "49" not in shown.locator(".task >> nth=0").text_content()
        shown.select_option("#by-family", index=1)
        assert shown.locator(".step:visible").count() == 4


def test_without_generated_answers_it_says_so(browser, tmp_path):  # noqa: F811
    with visit(browser, World(tmp_path, records(), OWN, generated=False).make()) as shown:
        assert "No answers were generated" in shown.locator("#gallery").inner_text()
        assert "step_success" not in shown.locator("#metric").inner_text()
        shown.select_option("#by-adapter", "drag")
        shown.select_option("#by-verdict", "yes")
        steps = shown.locator(".step:visible")
        assert steps.count() == 4 and "NLL" in steps.first.inner_text()


def test_one_adapter_without_a_log(browser, tmp_path):  # noqa: F811
    with visit(browser, World(tmp_path, records(), {"drag": [DRAG]}, logs=False).make()) as shown:
        assert "drag beats the base on Drag & gesture." in shown.locator(".headline").inner_text()
        assert "against pooled" not in shown.locator("#summary").inner_text()
        training = shown.locator("#training").inner_html()
        assert "No adapter has a training log." in training
        assert "No adapter was evaluated after an earlier epoch." in training


def test_nothing_held_out(browser, tmp_path):  # noqa: F811
    world = World(tmp_path, records(1), {"drag": [DRAG]})
    world.rows = []
    with visit(browser, world.make()) as shown:
        assert "no held-out rows" in shown.locator("header").inner_text()
        assert "No row is held out" in shown.locator("#gallery").inner_text()


def test_the_test_side_stands_apart(browser, tmp_path):  # noqa: F811
    world = World(tmp_path, records(20), OWN, sides=("validation", "test"))
    with visit(browser, world.make()) as shown:
        assert "20 held-out rows of 10 episodes" in shown.locator("header").inner_text()
        assert "The test side" in shown.locator("#differences").inner_text()
        assert "better" in shown.locator("#differences table").first.inner_text()
    names = {path.name for path in (tmp_path / "tables").glob("*.csv")}
    assert {"evaluation_test.csv", "comparison_test.csv", "summary_test.csv"} < names


def test_replicates_are_shown_as_mean_and_spread(browser, tmp_path):  # noqa: F811
    own = {"drag": [DRAG], "drag_seed_1": [DRAG]}
    world = World(tmp_path, records(), own, replicates=[list(own)])
    with visit(browser, world.make()) as shown:
        said = shown.locator("#differences").inner_text()
        assert "drag, drag_seed_1" in said and "± 0" in said


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    world = World(tmp_path, records(), OWN)
    first = world.make("one.html").read_bytes()
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    assert world.make("two.html").read_bytes() == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()} == drawn
