"""Shards give back what came in: the same JSON, the same image bytes, by name in any order."""

import json
import random

import pytest

from adaptermill.errors import UserError
from adaptermill.rows import dataset
from adaptermill.rows.dataset import Images, Rows, image_sizes, iterate, open_sources, shard_paths
from adaptermill.rows.images import decode
from tests.rows.building import SHARED, Ingested, picture, record, write_episode


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    for number in range(12):
        name = f"task-{number:02d}"
        colors = {f"step_{n:03d}.png": picture(f"#{number:02x}{n:02x}00") for n in range(3)}
        lines = [record(name, n, note={"n": n, "list": [1, 2.0, None]}) for n in range(3)]
        write_episode(folder / "root", name, lines, colors)
    return Ingested(folder / "out", folder / "root", shard_mb=0.004)


def test_rows_by_id(made):
    rows, images = open_sources([made.folder])
    assert len(rows) == 36
    ids = [f"main/task-{number:02d}/{step}" for number in range(12) for step in range(3)]
    random.Random(0).shuffle(ids)
    for row_id, row in zip(ids, rows.get_many(ids), strict=True):
        assert row_id in rows
        assert row.row_id == row_id
        assert row.record == record(row.task_id, row.step, note=row.record["note"])
        assert list(row.record) == [*record(), "note"]
        assert images.size(row.images[0]) == (32, 24)
        assert decode(images.bytes(row.images[0])).size == (32, 24)


def test_few_files_are_open_and_few_groups_kept(made, monkeypatch):
    monkeypatch.setattr(dataset, "_KEPT_FILES", 2)
    monkeypatch.setattr(dataset, "_KEPT_GROUPS", 1)
    paths = shard_paths(made.folder, "shards")
    assert len(paths) > 3
    rows = Rows(paths)
    for _ in range(2):
        for row_id in rows._index.places:
            assert rows.get(row_id).row_id == row_id


def test_one_shard_in_order(made):
    for path in shard_paths(made.folder, "shards"):
        ids = [(row.task_id, row.step) for row in iterate(path)]
        assert ids == sorted(ids)
    path = shard_paths(made.folder, "images")[0]
    assert set(image_sizes(path).values()) == {(32, 24)}


def test_what_is_missing_is_said(made, tmp_path):
    rows, images = open_sources([made.folder])
    with pytest.raises(UserError, match="row main/nowhere/0"):
        rows.get("main/nowhere/0")
    with pytest.raises(UserError, match="image 0123"):
        images.bytes("0123")
    assert "main/nowhere/0" not in rows
    with pytest.raises(UserError, match="ingest it first"):
        open_sources([tmp_path])
    (tmp_path / "summary.json").write_text('{"shards": ["s-0123456789ab"]}')
    with pytest.raises(UserError, match="is missing"):
        open_sources([tmp_path])
    assert len(Rows([])) == 0
    assert not Images([])._index.places


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded episodes")
def test_recorded_episodes_come_back_key_by_key(tmp_path):
    root = SHARED / "replay"
    made = Ingested(tmp_path / "out", root, shard_mb=2, max_quarantined=0)
    rows, images = open_sources([made.folder])
    count = 0
    for path in sorted(root.glob("[!_]*/rows.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            if not line.strip():
                continue
            raw = json.loads(line)
            row = rows.get(f"main/{raw['task_id']}/{raw['step']}")
            # As text: keys in their order, integers as integers, nothing added.
            assert json.dumps(row.record) == json.dumps(raw)
            shown = [
                (path.parent / part["image_url"]["url"]).read_bytes()
                for message in raw["messages"]
                if not isinstance(message["content"], str)
                for part in message["content"]
                if part["type"] == "image_url"
            ]
            assert [images.bytes(sha256) for sha256 in row.images] == shown
            count += 1
    assert count == len(rows) == made.summary["rows"] == 953
    assert made.summary["quarantined"] == 0


def test_other_tools_open_the_shards(made):
    paths = [str(path) for path in shard_paths(made.folder, "shards")]
    shown = [str(path) for path in shard_paths(made.folder, "images")]
    import pandas

    assert sum(len(pandas.read_parquet(path)) for path in paths) == 36
    frame = pandas.read_parquet(shown[0])
    assert decode(frame["image"][0]["bytes"]).size == (32, 24)


def test_polars_opens_the_shards(made):
    polars = pytest.importorskip("polars")
    assert polars.read_parquet(shard_paths(made.folder, "shards")).height == 36
    images = polars.read_parquet(shard_paths(made.folder, "images"))
    assert decode(images["image"][0]["bytes"]).size == (32, 24)


def test_duckdb_opens_the_shards(made):
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql(f"select count(*) from '{made.folder}/shards/*.parquet'").fetchall() == [
        (36,)
    ]
    query = f"select image.bytes from '{made.folder}/images/*.parquet' limit 1"
    assert decode(duckdb.sql(query).fetchall()[0][0]).size == (32, 24)


def test_datasets_opens_the_shards(made, tmp_path):
    datasets = pytest.importorskip("datasets")
    for kind, count in (("shards", 36), ("images", None)):
        files = [str(path) for path in shard_paths(made.folder, kind)]
        table = datasets.load_dataset(
            "parquet", data_files=files, split="train", cache_dir=str(tmp_path)
        )
        assert count in (None, len(table))
    assert table.cast_column("image", datasets.Image())[0]["image"].size == (32, 24)
