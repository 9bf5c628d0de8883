"""Rows are measured in the base's tokens without pixels, and what cannot be trained on is said."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adaptermill.measure import measure_shard
from adaptermill.measurements import (
    MEASURE_SCHEMA,
    REFUSED_SCHEMA,
    common_prefix,
    prefix_of,
    with_prefix,
)
from adaptermill.models.base import load_processor
from adaptermill.models.encode import _MARKS, Encoder
from adaptermill.rows.dataset import open_sources
from adaptermill.rows.images import decode
from scripts import measure, merge_measures
from tests.rows.building import Ingested, picture, record, write_episode
from tests.tiny_base import make_tiny_base


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    ref = make_tiny_base(folder / "model")
    ref.write(folder / "base.json")
    return folder / "base.json", Encoder(load_processor(ref))


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Ingested:
    root = tmp_path_factory.mktemp("source")
    lines = [record("a", step) for step in range(3)]
    lines[2]["target"] = "no action at all"
    write_episode(root / "raw", "a", lines, {"step_000.png": picture(size=(96, 64))})
    write_episode(root / "raw", "b")
    return Ingested(root / "work", root / "raw")


def shard_of(ingested: Ingested):
    [name] = ingested.names
    return ingested.path("shards", name), ingested.path("images", name)


def test_counts_are_those_of_the_encoded_rows(base, ingested):
    encoder = base[1]
    table = measure_shard(*shard_of(ingested), encoder)
    assert table.schema.remove_metadata() == MEASURE_SCHEMA
    rows, images = open_sources([ingested.folder])
    for line in table.to_pylist():
        row = rows.get(line["row_id"])
        pictures = [decode(images.bytes(name)) for name in row.images]
        encoded = encoder.encode(row.messages, row.target, pictures)
        assert line["prompt_tokens"] == encoded.prompt_length
        assert line["target_tokens"] == len(encoded.targets)
        assert line["image_tokens"] == encoded.image_tokens > 0
        assert line["has_action_key"] == (row.step != 2)
        assert line["reason"] is None


def test_rows_that_cannot_be_encoded_are_marked_and_the_rest_measured(base, tmp_path):
    # Look-alikes of control tokens are cut at a rare character; here none is left for it.
    crowded = "".join(_MARKS)
    write_episode(tmp_path / "raw", "a", [record("a"), record("a", 1, target=crowded)])
    ingested = Ingested(tmp_path / "work", tmp_path / "raw")
    fine, refused = measure_shard(*shard_of(ingested), base[1]).to_pylist()
    assert fine["reason"] is None and fine["prompt_tokens"] > 0
    assert (refused["row_id"], refused["reason"]) == ("main/a/1", "template_prefix")
    assert "could mark a cut" in refused["detail"] and refused["prompt_tokens"] is None


def test_common_prefix_is_what_all_prompts_begin_with(base, ingested):
    encoder = base[1]
    prefix = prefix_of(measure_shard(*shard_of(ingested), encoder))
    rows, _ = open_sources([ingested.folder])
    prompts = []
    for step in range(3):
        row = rows.get(f"main/a/{step}")
        encoded = encoder.tokens(row.messages, None, [(96, 64)])
        prompts.append(encoded.input_ids.tolist())
    assert all(prompt[: len(prefix)] == prefix for prompt in prompts)
    assert len({tuple(prompt[: len(prefix) + 1]) for prompt in prompts}) > 1


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ([], []),
        ([[1, 2]], [1, 2]),
        ([[1, 2, 3], [1, 2, 4]], [1, 2]),
        ([[1, 2, 3], [1, 2]], [1, 2]),
        ([[1, 2], [1, 2, 3]], [1, 2]),
        ([[1], [2], [1]], []),
    ],
)
def test_common_prefix_of_any_prompts(prompts, expected):
    assert common_prefix(prompts) == expected


def test_scripts_measure_shards_and_add_them_up(base, ingested, tmp_path, capsys):
    rows, images = shard_of(ingested)
    names = ("one.parquet", "all.parquet", "s.json", "spec.json", "refused.parquet")
    shard, merged, summary, spec, refused = (tmp_path / name for name in names)
    arguments = ["--rows", rows, "--images", images, "--base", base[0], "--output", shard]
    measure.main([str(argument) for argument in arguments])
    nothing = tmp_path / "none.parquet"
    pq.write_table(with_prefix(MEASURE_SCHEMA.empty_table(), None), nothing)
    other = tmp_path / "other.parquet"
    lines = [{"row_id": "other/x/0", "reason": "template_prefix", "detail": "why"}]
    pq.write_table(with_prefix(pa.Table.from_pylist(lines, MEASURE_SCHEMA), None), other)
    counts = [
        line["prompt_tokens"] + line["target_tokens"] for line in pq.read_table(shard).to_pylist()
    ]
    spec.write_text(json.dumps({"settings": {"max_tokens": max(counts) - 1}}))
    arguments = ["--spec", spec, "--inputs", shard, nothing, other, "--output", merged]
    arguments += ["--summary", summary, "--quarantine", refused]
    merge_measures.main([str(argument) for argument in arguments])
    table = pq.read_table(merged).to_pylist()
    ids = ["main/a/0", "main/a/1", "main/a/2", "main/b/0", "other/x/0"]
    assert [line["row_id"] for line in table] == ids
    found = json.loads(summary.read_text())
    lengths = sorted(line["prompt_tokens"] for line in table[:4])
    main = found["prompt_tokens"]["main"]
    assert list(found["prompt_tokens"]) == ["main"]
    assert (main["rows"], main["max"]) == (4, lengths[-1])
    assert main["median"] == (lengths[1] + lengths[2]) // 2
    assert 0 < main["common_prefix"] < lengths[0]
    assert found["without_action_key"] == 1
    share = 4 * main["common_prefix"] / sum(lengths)
    assert main["common_prefix_share"] == pytest.approx(share, abs=1e-4)
    over = [
        line["row_id"] for line, count in zip(table, counts, strict=False) if count == max(counts)
    ]
    assert found["reasons"] == {"template_prefix": 1, "too_long": len(over)}
    assert "1 rows cannot be trained on: template_prefix" in capsys.readouterr().out
    left_out = pq.read_table(refused)
    assert left_out.schema == REFUSED_SCHEMA
    reasons = {line["row_id"]: (line["source"], line["reason"]) for line in left_out.to_pylist()}
    assert reasons == {
        "other/x/0": ("other", "template_prefix"),
        **dict.fromkeys(over, ("main", "too_long")),
    }
    limit = max(counts) - 1
    assert f"{max(counts)} tokens, base.max_tokens is {limit}" in left_out["detail"].to_pylist()
