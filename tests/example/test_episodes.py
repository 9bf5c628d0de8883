"""The example's episodes: they do not depend on how many there are, and they say what they show."""

from __future__ import annotations

import io
import json
import re

import pytest
from PIL import Image, ImageColor

from adaptermill.example.episodes import AGENT, Episode, draw_episode, fill_up
from adaptermill.example.pages import BANNERS, BOX, FRAME, HEIGHT, KNOB, WIDTH, Page, square
from adaptermill.example.tasks import FAMILIES
from adaptermill.rows.images import decode

ACTIONS = {
    "click": {"index"},
    "input": {"index", "text"},
    "drag": {"start_x", "start_y", "end_x", "end_y"},
    "scroll": {"down", "pages", "index"},
    "select_dropdown": {"index", "text"},
    "send_keys": {"keys"},
    "navigate": {"url", "new_tab"},
    "read_file": {"file_name"},
    "write_file": {"file_name", "content"},
    "macro_done": {"summary"},
    "done": {"text", "success"},
}


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Six blocks: every kind of task comes at least once."""
    return [draw_episode(0, index) for index in range(60)]


def actions_of(row: dict) -> list[tuple[str, dict]]:
    target = json.loads(row["target"])
    assert set(target) == {"memory", "action"} and target["memory"]
    return [next(iter(action.items())) for action in target["action"]]


def prompt_of(row: dict) -> str:
    return row["messages"][1]["content"][0]["text"]


def seen(episode: Episode, step: int) -> Image.Image:
    """What the page's PNG holds, read as the pipeline reads it."""
    return decode(episode.pages[step].png())


def rows_with(episodes: list[Episode], op: str) -> list[tuple[Episode, dict]]:
    return [
        (episode, row)
        for episode in episodes
        for row in episode.rows
        if row["op"] == op and "inject" not in row
    ]


def test_an_episode_is_a_function_of_seed_and_index(episodes: list[Episode]) -> None:
    for index in (0, 8, 9, 59):
        assert draw_episode(0, index).files() == episodes[index].files()
    assert draw_episode(1, 0).files() != episodes[0].files()


def test_every_family_kind_and_variant_comes(episodes: list[Episode]) -> None:
    rows = [row for episode in episodes for row in episode.rows]
    assert {row["family"] for row in rows} == set(FAMILIES)
    assert {row["macro"] for row in rows} == {kind for kinds in FAMILIES.values() for kind in kinds}
    variants = [episode.described["variant"] for episode in episodes]
    assert [variants.count(name) for name in ("plain", "recovery", "chain")] == [42, 12, 6]
    names = [episode.task_id for episode in episodes]
    assert len(set(names)) == len(names)
    assert {row["op"] for row in rows} == set(ACTIONS)


def test_variants_are_named_as_the_splits_read_them(episodes: list[Episode]) -> None:
    plain = {e.task_id: e for e in episodes if e.described["variant"] == "plain"}
    for episode in episodes:
        described = episode.described
        assert described["agent"] == AGENT and described["n_steps"] == len(episode.rows)
        injected = [row["step"] for row in episode.rows if "inject" in row]
        copied = [row["step"] for row in episode.rows if row.get("aug_prefix")]
        if described["variant"] == "recovery":
            assert episode.task_id.removesuffix("~rec") in plain
            assert len(injected) == 1
            # What comes before the mistake is a copy of the plain episode.
            assert copied == list(range(injected[0]))
            original = plain[episode.task_id.removesuffix("~rec")]
            for step in copied:
                assert episode.rows[step]["target"] == original.rows[step]["target"]
                assert episode.rows[step]["messages"] == original.rows[step]["messages"]
        else:
            assert not injected and not copied
        if described["variant"] == "chain":
            assert episode.task_id.startswith("chain-")
            parts = described["parts"]
            assert len(set(parts)) == len(parts) >= 2 and set(parts) <= set(plain)
            assert [row["segment"]["task_id"] for row in episode.rows if "segment" in row]
            assert sum(row["op"] == "macro_done" for row in episode.rows) == len(parts)
        else:
            assert "parts" not in described
    assert any(row.get("aug_prefix") for episode in episodes for row in episode.rows)


def test_targets_are_answers_to_their_prompts(episodes: list[Episode]) -> None:
    for episode in episodes:
        for step, row in enumerate(episode.rows):
            assert (row["task_id"], row["step"]) == (episode.task_id, step)
            prompt = prompt_of(row)
            listed = {int(index) for index in re.findall(r"^\[(\d+)\]<\w+", prompt, flags=re.M)}
            taken = actions_of(row)
            assert taken[0][0] == row["op"]
            for name, asked in taken:
                assert ACTIONS[name] <= set(asked) <= ACTIONS[name] | {"clear"}
                if "index" in asked:
                    assert asked["index"] in listed
            images = [part for part in row["messages"][1]["content"] if part["type"] != "text"]
            assert [image["image_url"]["url"] for image in images] == [f"step_{step:03d}.png"]


def test_the_files_hold_what_the_rows_name(episodes: list[Episode]) -> None:
    files = episodes[9].files()
    assert json.loads(files["episode.json"]) == episodes[9].described
    assert [json.loads(line) for line in files["rows.jsonl"].splitlines()] == episodes[9].rows
    pictures = {name for name in files if name.endswith(".png")}
    assert pictures == {f"step_{step:03d}.png" for step in range(len(episodes[9].rows))}
    assert all(Image.open(io.BytesIO(files[name])).size == (WIDTH, HEIGHT) for name in pictures)


def test_drags_begin_and_end_in_the_middle_of_what_the_screenshot_shows(
    episodes: list[Episode],
) -> None:
    checked = set()
    for episode, row in rows_with(episodes, "drag"):
        ((_, asked),) = actions_of(row)
        picture = seen(episode, row["step"])
        colour = {"drag-box": BOX, "use-slider": KNOB}[row["macro"]]
        rgb = ImageColor.getrgb(colour)
        places = [
            (x, y) for x in range(WIDTH) for y in range(HEIGHT) if picture.getpixel((x, y)) == rgb
        ]
        centre = [(min(axis) + max(axis) + 1) / 2 for axis in zip(*places, strict=True)]
        assert centre == [asked["start_x"], asked["start_y"]]
        if row["macro"] == "drag-box":
            end = (asked["end_x"], asked["end_y"])
            assert picture.getpixel((end[0] - 14, end[1])) == ImageColor.getrgb(FRAME)
            assert picture.getpixel((end[0] + 13, end[1])) == ImageColor.getrgb(FRAME)
        assert str(asked["start_x"]) not in prompt_of(row).split("<browser_state>")[1]
        checked.add(row["macro"])
    assert checked == {"drag-box", "use-slider"}


def test_only_the_screenshot_tells_which_colour_is_asked_for(episodes: list[Episode]) -> None:
    colours = {ImageColor.getrgb(colour): name for name, colour in BANNERS.items()}
    answers = set()
    for episode, row in rows_with(episodes, "click"):
        if row["macro"] != "press-colour":
            continue
        shown = colours[seen(episode, row["step"]).getpixel((WIDTH // 2, 10))]
        ((_, asked),) = actions_of(row)
        prompt = prompt_of(row)
        assert f"[{asked['index']}]<button>{shown}</button>" in prompt
        if not re.search(r"Clicked", prompt):
            # All colours are listed alike, so the text alone does not say which.
            assert all(prompt.count(name) == 1 for name in BANNERS)
        answers.add(shown)
    assert len(answers) >= 2


def test_counted_squares_are_in_the_picture(episodes: list[Episode]) -> None:
    for episode, row in rows_with(episodes, "click"):
        page = episode.pages[row["step"]]
        if row["macro"] != "count-shapes":
            continue
        shapes = [widget for widget in page.widgets if widget.look == "shape"]
        ((_, asked),) = actions_of(row)
        assert f"[{asked['index']}]<button>{len(shapes)}</button>" in prompt_of(row)


def test_a_changed_widget_changes_list_and_picture(episodes: list[Episode]) -> None:
    page = next(e.pages[0] for e in episodes if e.rows[0]["macro"] == "enter-text")
    first = page.widgets[0]
    changed = page.changed(first.index, value="Ada")
    assert changed.elements() == page.elements().replace(first.text, f"{first.text}: Ada", 1)
    assert changed.png() != page.png()


def test_filled_up_files_have_the_size_and_the_same_picture() -> None:
    png = Page(()).png()
    filled = fill_up(png, 50_000)
    assert len(filled) == 50_000 and filled == fill_up(png, 50_000)
    assert decode(filled).tobytes() == decode(png).tobytes()
    assert fill_up(png, 10) == png


def test_squares_are_as_large_as_asked() -> None:
    left, top, right, bottom = square(2, 1, 20)
    assert (right - left + 1, bottom - top + 1) == (20, 20)
