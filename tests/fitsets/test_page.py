"""The page of examples in a real browser: it shows what became of the rows, filters them, loads
nothing, and whatever a row says stays text."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from adaptermill.errors import UserError
from scripts import show_examples
from tests.browser import visit
from tests.fitsets.building import DRAG, NAVIGATION
from tests.fitsets.test_scripts import HELD, TRAINED, Project

EVIL = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"><svg onload='window.hacked = 1'>",
    "</pre></article></script><script>window.hacked = 1</script><!--",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.hacked=1",
    "\u202e\u2028\u0000 end",
]


def build(folder: Path) -> Project:
    """A fit set of two families with rows left out in several ways, one of them a copy."""
    project = Project(folder)
    for number, name in enumerate([*TRAINED[:6], *HELD[:2]]):
        project.episode(name, 2, family=DRAG if number % 2 else NAVIGATION)
    same = {"messages": [{"role": "user", "content": "The same page"}], "target": "{}"}
    project.episode(TRAINED[6], 1, family=DRAG, **same)
    project.episode(TRAINED[7], 1, family=DRAG, **same)
    return project


def hostile(project: Project) -> Project:
    """Rows that hold markup wherever a row can hold text."""
    evil = "\n".join(EVIL)
    names = [name for name in EVIL if "/" not in name and "\0" not in name]
    for name in [*names, TRAINED[8]]:
        messages = [{"role": "system", "content": evil}, {"role": "user", "content": evil}]
        changes = {"messages": messages, "op": EVIL[1], "family": DRAG}
        project.episode(name, 1, **changes, target=evil + name)
    project.episode(TRAINED[9], 1, family=EVIL[0], op=EVIL[1])
    return project


def shown(project: Project, *options: object) -> Path:
    """Splits, chooses and shows; returns the page."""
    project.split(validation_fraction=0.3)
    project.measure()
    project.fitset()
    output = project.folder / "page.html"
    arguments = [project.folder / "fitset", "--data", project.folder / "work" / "ingested"]
    show_examples.main([str(each) for each in (*arguments, "--output", output, *options)])
    return output


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    return shown(build(tmp_path_factory.mktemp("plain")))


@pytest.fixture
def page(browser, plain) -> Iterator[Any]:
    """The page, open; what it logs, throws or asks for fails the test."""
    with visit(browser, plain) as opened:
        yield opened


def visible(page: Any) -> int:
    return page.locator("article:visible").count()


def count(page: Any) -> str:
    return page.locator("#count").text_content()


def test_every_row_is_there_with_its_picture_prompt_target_and_end(page):
    assert visible(page) == 18
    assert count(page) == "18 of 18"
    article = page.locator("article", has_text=f"main/{TRAINED[1]}/1").first
    said = article.inner_text()
    for text in ("kept: ce", DRAG, f"Step 1 of {TRAINED[1]}", '"click": {"index": 3}'):
        assert text in said
    picture = article.locator("img")
    assert picture.evaluate("image => image.complete && image.naturalWidth") == 32
    assert article.locator("details pre").first.text_content() == "You drive a browser."
    held = page.locator("article", has_text=f"main/{HELD[0]}/0")
    assert "left out: held_out" in held.inner_text()


def test_filters_show_what_fits_and_only_that(page):
    page.select_option("[name=status]", "dropped")
    dropped = visible(page)
    assert page.locator("article[data-status=kept]:visible").count() == 0 < dropped
    page.select_option("[name=reason]", "held_out")
    assert (visible(page), count(page)) == (4, "4 of 18")
    page.select_option("[name=family]", DRAG)
    assert visible(page) == 2
    page.fill("[name=text]", f"STEP 1 of {HELD[1]}")
    assert visible(page) == 1
    page.fill("[name=text]", "no row says this")
    assert (visible(page), page.locator("#none").is_visible()) == (0, True)
    page.click("[type=reset]")
    page.wait_for_function("document.querySelector('#count').textContent === '18 of 18'")
    page.click(".group[data-reason=ce]")
    assert page.locator("article[data-status=kept][data-reason=ce]:visible").count()
    assert visible(page) == page.locator("article[data-reason=ce]").count()
    # A kind of kept rows and the status of the others cannot both hold: the later choice wins.
    page.select_option("[name=status]", "dropped")
    assert visible(page) == dropped
    page.click(".group[data-reason=ce]")
    page.click(".group[data-reason=ce]")
    assert visible(page) == 18


def test_a_copy_leads_to_what_it_repeats_even_where_that_is_filtered_away(page):
    page.click(".group[data-reason=duplicate]")
    copy = page.locator("article:visible")
    assert copy.count() == 1
    link = copy.locator("a")
    assert link.inner_text() == f"main/{TRAINED[6]}/0"
    link.click()
    target = page.locator("article:target")
    assert target.is_visible() and f"main/{TRAINED[6]}/0" in target.inner_text()


def test_a_picture_can_be_made_larger(page):
    picture = page.locator("article .picture").first
    small = picture.bounding_box()["width"]
    picture.click()
    assert picture.get_attribute("aria-pressed") == "true"
    assert picture.bounding_box()["width"] > small


def test_it_is_readable_in_light_and_dark(browser, plain):
    def contrast(page, selector: str) -> float:
        return page.evaluate(
            """selector => {
              const luminance = (colour) => {
                const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
                  const share = part / 255;
                  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
              };
              const element = document.querySelector(selector);
              let behind = element;
              while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") {
                behind = behind.parentElement;
              }
              const text = luminance(getComputedStyle(element).color);
              const back = luminance(getComputedStyle(behind).backgroundColor);
              return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
            }""",
            selector,
        )

    backgrounds = set()
    selectors = ["h1", ".badge.kept", ".badge.dropped", "dt", "pre", "h3", "summary", ".id"]
    for scheme in ("light", "dark"):
        with visit(browser, plain, color_scheme=scheme) as page:
            for selector in selectors:
                assert contrast(page, selector) >= 4.5, (scheme, selector)
            body = "getComputedStyle(document.body).backgroundColor"
            backgrounds.add(page.evaluate(body))
    assert len(backgrounds) == 2


def test_hostile_rows_are_shown_as_text_and_run_nothing(browser, tmp_path):
    path = shown(hostile(build(tmp_path)))
    with visit(browser, path) as page:
        page.wait_for_timeout(200)
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == page.locator("style").count() == 1
        assert page.locator("svg, iframe, object, [onerror], [onload]").count() == 0
        pictures = page.locator("img[src^='data:image/webp']").count()
        assert page.locator("img").count() == pictures
        article = page.locator("article", has_text=f"main/{TRAINED[8]}/0").first
        target = article.locator(".target").text_content()
        for text in EVIL[:6]:
            assert text in target
            assert text in article.locator(".prompt").text_content()
        # The filters work with such names too.
        page.select_option("[name=family]", EVIL[0])
        assert visible(page) == 1


def test_even_markup_that_gets_in_runs_nothing(browser, plain, tmp_path):
    html = plain.read_text(encoding="utf-8")
    bad = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    path = tmp_path / "bad.html"
    path.write_text(html.replace("<main>", f"<main>{bad}"), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert visible(page) == 18
    context.close()


class Links(HTMLParser):
    """Whatever an attribute of the page leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        names = ("src", "href", "srcset", "action", "poster", "data")
        self.found += [value for name, value in attributes if name in names]


def test_the_page_leads_nowhere_else_and_is_the_same_every_time(plain, tmp_path):
    links = Links()
    links.feed(plain.read_text(encoding="utf-8"))
    assert links.found and all(link.startswith(("data:", "#")) for link in links.found)
    again = shown(build(tmp_path))
    assert again.read_bytes() == plain.read_bytes()


def test_each_limits_the_rows_of_every_kind_and_reason(tmp_path, capsys):
    project = build(tmp_path)
    text = shown(project, "--each", "1").read_text(encoding="utf-8")
    # One of each, and what the copy repeats.
    assert text.count("<article") in (4, 5)
    assert "1 shown" in text and " of 18 rows" in capsys.readouterr().out
    assert f">main/{TRAINED[6]}/0</bdi></a>" in text


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(UserError, match=r"fitset\.parquet is missing.*results/fitsets/drag"):
        show_examples.main([str(tmp_path)])
    with pytest.raises(UserError, match="--each 0"):
        show_examples.main([str(tmp_path), "--each", "0"])
    project = build(tmp_path)
    shown(project)
    with pytest.raises(UserError, match="no ingested source"):
        show_examples.main([str(project.folder / "fitset")])
