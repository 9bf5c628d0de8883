"""What moved between two builds is listed, and nothing else is."""

import pandas as pd

from adaptermill.moves import SHOWN, moves, readable, remember


def episodes(**sides: str) -> pd.DataFrame:
    lines = [
        {"source": "main", "task_id": name, "side": side, "group": f"g{side}"}
        for name, side in sides.items()
    ]
    return pd.DataFrame(lines)


def test_old_episodes_on_another_side_are_listed(tmp_path):
    path = tmp_path / "kept" / "sides.parquet"
    before = episodes(a="train", b="validation", gone="train")
    assert moves(path, before, "settings") == []
    remember(path, before, "settings")
    after = episodes(new="validation", b="train", a="train")
    [move] = moves(path, after, "settings")
    assert move == {
        "episode": "main/b",
        "from": "validation",
        "to": "train",
        "group_before": "gvalidation",
        "group": "gtrain",
    }
    assert "1 old episodes changed sides" in readable([move])
    assert "main/b: validation -> train (group gvalidation -> gtrain)" in readable([move])
    assert moves(path, before, "settings") == []


def test_other_settings_are_no_moves(tmp_path):
    remember(tmp_path / "sides", episodes(a="train"), "one")
    assert moves(tmp_path / "sides", episodes(a="validation"), "other") == []


def test_a_long_list_is_cut_and_an_empty_one_says_nothing():
    move = {"episode": "e", "from": "train", "to": "mixed", "group_before": "a", "group": "b"}
    assert readable([]) == ""
    assert readable([move] * (SHOWN + 3)).endswith("and 3 more")
