"""Rows are signed by what their shards say, once, in any number of processes."""

import numpy as np
import pytest

from adaptermill.minhash import Signer
from adaptermill.rows.dataset import shard_paths
from adaptermill.signatures import sign_shards, texts_of
from tests.rows.building import Ingested, record, write_episode

HOW = {"ngram": 2, "permutations": 32}


@pytest.fixture
def paths(tmp_path):
    for name in ("a", "b", "c"):
        lines = [record(name, step, target=f"press key {step}") for step in range(3)]
        write_episode(tmp_path / "raw", name, lines)
    made = Ingested(tmp_path / "work", tmp_path / "raw", shard_mb=0.001)
    found = shard_paths(made.folder, "shards")
    assert len(found) > 1
    return found


def test_every_row_is_signed_by_its_messages_and_its_answer(paths):
    signed = sign_shards(paths, cache=None, **HOW)
    assert len(signed.row_ids) == 9
    sign = Signer(2, 32)
    row = signed.of(["main/b/2"])
    assert (row.prompts[0] == sign(["You drive a browser.", "Step 2 of b"])).all()
    assert (row.answers[0] == sign(["press key 2"])).all()
    assert (row.whole == np.minimum(row.prompts, row.answers)).all()


def test_texts_leave_pictures_out():
    assert list(texts_of(record()["messages"])) == ["You drive a browser.", "Step 0 of a"]


def test_rows_are_found_by_name_in_any_order(paths):
    signed = sign_shards(paths, cache=None, **HOW)
    backwards = signed.of(signed.row_ids[::-1])
    assert (backwards.prompts == signed.prompts[::-1]).all()
    with pytest.raises(KeyError, match="nowhere"):
        signed.of(["main/a/0", "nowhere"])


def test_what_was_signed_is_kept_by_shard(paths, tmp_path):
    cache = tmp_path / "cache"
    first = sign_shards(paths, cache=cache, processes=2, **HOW)
    kept = {path: path.stat().st_mtime_ns for path in cache.iterdir()}
    assert {path.name for path in kept} == {f"ingested__{path.name}" for path in paths}
    for path in paths:
        path.rename(path.with_suffix(".moved"))
    again = sign_shards(paths, cache=cache, **HOW)
    assert again.row_ids == first.row_ids
    assert (again.prompts == first.prompts).all() and (again.answers == first.answers).all()
    assert {path: path.stat().st_mtime_ns for path in cache.iterdir()} == kept


def test_signatures_of_other_settings_are_not_taken(paths, tmp_path):
    cache = tmp_path / "cache"
    sign_shards(paths, cache=cache, **HOW)
    wanted = sign_shards(paths, cache=None, ngram=3, permutations=16)
    found = sign_shards(paths, cache=cache, ngram=3, permutations=16)
    assert (found.prompts == wanted.prompts).all() and found.prompts.shape == (9, 16)


def test_no_shard_is_no_row():
    assert sign_shards([], cache=None, **HOW).prompts.shape == (0, 32)
