"""Which folders are episodes, and what overlaid roots come to."""

import os

import pytest

from adaptermill.errors import UserError
from adaptermill.rows.readers.reader import Unit
from adaptermill.rows.readers.replay import ReplayReader
from tests.rows.building import write_episode


def found(*paths):
    units, *counts = ReplayReader.episodes([str(path) for path in paths])
    return [str(unit.folder) for unit in units], counts


def test_later_roots_replace_whole_episodes(tmp_path):
    for root, names in (("one", "abc"), ("two", "bd"), ("three", "b")):
        for name in names:
            write_episode(tmp_path / root, name)
    folders, result = found(tmp_path / "one", tmp_path / "two", tmp_path / "three")
    expected = ["one/a", "three/b", "one/c", "two/d"]
    assert folders == [str(tmp_path / name) for name in expected]
    assert result[0] == 2


def test_a_root_given_twice_counts_once(tmp_path):
    write_episode(tmp_path / "one", "a")
    write_episode(tmp_path / "two", "a")
    one, two = tmp_path / "one", tmp_path / "two"
    folders, result = found(one, one, f"{one}/")
    assert len(folders) == 1
    assert result[0] == 0
    folders, result = found(one, two, one)
    assert folders == [str(one / "a")]
    assert result[0] == 1


def test_globs_are_sorted_and_plain_names_win(tmp_path):
    write_episode(tmp_path / "run1", "a")
    write_episode(tmp_path / "run2", "a")
    write_episode(tmp_path / "run[1]", "b")
    assert found(tmp_path / "run?")[0] == [str(tmp_path / "run2" / "a")]
    assert found(tmp_path / "run[1]")[0] == [str(tmp_path / "run[1]" / "b")]


def test_what_is_no_episode(tmp_path):
    root = tmp_path / "root"
    write_episode(root, "a")
    write_episode(root, "_failed")
    (root / "README.md").write_text("notes")
    (root / "empty").mkdir()
    write_episode(tmp_path / "elsewhere", "linked")
    (root / "linked").symlink_to(tmp_path / "elsewhere" / "linked")
    (root / "broken").symlink_to(tmp_path / "nowhere")
    (root / "loop").symlink_to(root / "loop")
    folders, result = found(root)
    assert folders == [str(root / "a"), str(root / "linked")]
    assert result[1] == 1


def test_errors_name_the_path_and_the_layout(tmp_path):
    with pytest.raises(UserError, match=r"no folder .*missing; .*rows\.jsonl"):
        found(tmp_path / "missing")
    with pytest.raises(UserError, match="no folder"):
        found(tmp_path / "missing*")
    (tmp_path / "root" / "_tmp").mkdir(parents=True)
    with pytest.raises(UserError, match=r"no episode in .*root; .*rows\.jsonl"):
        found(tmp_path / "root")


def test_a_name_that_is_no_utf8_is_said(tmp_path):
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/bad\xff")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    with pytest.raises(UserError, match="rename"):
        found(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\ud800", '{"a": NaN}', '{"a": "\\ud800"}'])
def test_a_broken_description_is_none(tmp_path, text):
    folder = write_episode(tmp_path, "a")
    (folder / "episode.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    reader = ReplayReader({"family": None})
    assert reader.describe(Unit("a", tmp_path)) is None
