"""The counts that are stored and printed add up, and too many refused lines stop the run."""

import json

import pyarrow.parquet as pq
import pytest

from adaptermill.errors import UserError
from adaptermill.rows.summary import combine, readable, too_many
from scripts import summarize_ingest
from tests.rows.building import Ingested, picture, record, write_episode


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    for number in range(8):
        name = f"task-{number}"
        lines = [record(name, 0), record(name, 1, target=""), "", "{", record(name, 2)]
        write_episode(root, name, lines)
    write_episode(root, "odd~rec", files={"step_000.png": picture("red")})
    return root


def test_counts_add_up(root, tmp_path, capsys):
    made = Ingested(tmp_path / "out", root, shard_mb=0.003)
    summary = made.summary
    assert len(summary["shards"]) > 2
    assert summary["lines"] == 33
    assert summary["rows"] == 17 == len(made.table("shards"))
    assert summary["quarantined"] == 16 == len(made.quarantine) == sum(summary["reasons"].values())
    assert summary["reasons"] == {"empty_target": 8, "json_syntax": 8}
    assert summary["files"] == summary["episodes"] == 9
    assert summary["families"] == {"Navigation": 17}
    assert len(summary["per_file"]) == 9
    for counts in summary["per_file"].values():
        assert counts["lines"] == counts["rows"] + counts["quarantined"]
    assert summary["per_file"]["task-3/rows.jsonl"] == {"lines": 4, "rows": 2, "quarantined": 2}
    assert summary["variants"] == {"plain": 16, "recovery": 1}
    stored = len(made.table("images"))
    assert summary["images"] == 2
    assert summary["images_repeated_across_shards"] == stored - 2 > 0
    assert summary["bytes"] == sum(path.stat().st_size for path in root.rglob("*.*"))
    printed = capsys.readouterr().out
    assert "33 lines = 17 rows + 16 quarantined" in printed
    assert "8  json_syntax" in printed
    assert "2  of 4 lines (2 rows): task-3/rows.jsonl" in printed


def test_quarantine_names_files_that_can_be_opened(root, tmp_path):
    made = Ingested(tmp_path / "out", root)
    for line in made.quarantine:
        with open(line["file"], "rb") as handle:
            text = handle.read().split(b"\n")[line["line"] - 1]
        assert text.decode()[:200] == line["excerpt"]


@pytest.mark.parametrize(
    ("quarantined", "lines", "limit", "expected"),
    [
        (1, 100, 0.01, False),
        (2, 100, 0.01, True),
        (1, 100, 0, True),
        (0, 0, 0.01, False),
        (5, 5, 5, False),
        (6, 7, 5, True),
        (1, 1, 1, False),
        (2, 2, 1.0, True),
    ],
)
def test_the_limit_is_a_count_or_a_share(quarantined, lines, limit, expected):
    assert too_many(quarantined, lines, limit) is expected


def test_too_much_refused_stops_and_leaves_the_records(root, tmp_path):
    with pytest.raises(UserError, match=r"16 of 33 lines.*max_quarantined") as caught:
        Ingested(tmp_path / "out", root, max_quarantined=0.4)
    assert not (tmp_path / "out/ingested/summary.json").exists()
    kept = tmp_path / "out" / "quarantine.parquet"
    assert str(kept) in str(caught.value)
    assert pq.read_table(kept).num_rows == 16
    assert "empty_target 8, json_syntax 8" in str(caught.value)
    assert Ingested(tmp_path / "out", root, max_quarantined=16).made == []
    assert not kept.exists()


def test_a_damaged_shard_is_noticed(root, tmp_path):
    made = Ingested(tmp_path / "out", root)
    path = made.path("shards", made.names[0])
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(UserError, match="does not add up"):
        Ingested(tmp_path / "out", root)


def test_all_sources_together(root, tmp_path):
    first = Ingested(tmp_path / "out", root).summary
    second = {**first, "source": "other"}
    total = combine([first, second])
    assert (total["lines"], total["rows"], total["quarantined"]) == (66, 34, 32)
    assert total["reasons"] == {"empty_target": 16, "json_syntax": 16}
    assert total["files"] == 18
    assert list(total["sources"]) == ["main", "other"]
    assert total["sources"]["main"] == {k: v for k, v in first.items() if k != "per_file"}
    summary = tmp_path / "out/ingested/summary.json"
    output = tmp_path / "all.json"
    summarize_ingest.main(["--combine", str(summary), str(summary), "--output", str(output)])
    assert json.loads(output.read_text())["lines"] == 66


def test_a_clean_source_is_said_briefly(tmp_path):
    write_episode(tmp_path / "root", "a")
    summary = Ingested(tmp_path / "out", tmp_path / "root", max_quarantined=0).summary
    assert summary["reasons"] == {}
    assert "quarantined:" not in readable(summary)
