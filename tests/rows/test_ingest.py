"""Every line ends as exactly one row or one quarantine record, whatever is in it."""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from adaptermill.rows import ingest
from adaptermill.rows.readers.reader import Unit
from adaptermill.rows.schema import IMAGE_SCHEMA, QUARANTINE_SCHEMA, ROW_SCHEMA
from tests.rows.building import (
    IMAGE_LIMITS,
    Ingested,
    picture,
    record,
    with_url,
    write_episode,
)

GOOD = picture()


def one_line(tmp_path, line, files=None, **options):
    """What becomes of one line beside one good line (step 99)."""
    write_episode(tmp_path / "root", "a", [line, record(step=99)], files)
    made = Ingested(tmp_path / "out", tmp_path / "root", **options)
    rows = [row for row in made.table("shards") if row["step"] != 99]
    assert made.summary["lines"] == 2
    assert len(rows) + len(made.quarantine) == 1
    return rows, made.quarantine


def bomb():
    side = Image.new("1", (9000, 9000))
    buffer = io.BytesIO()
    side.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("reason", "line", "shown"),
    [
        ("json_syntax", '{"task_id": "a", "step"', None),
        ("not_an_object", "[]", None),
        ("missing_field", {"task_id": "a"}, None),
        ("wrong_type", record(step="0"), None),
        ("duplicate_key", '{"step": 0, "step": 0}', None),
        ("non_finite_number", '{"step": NaN}', None),
        ("lone_surrogate", '{"target": "\\ud800"}', None),
        ("not_utf8", b'{"target": "\xfe"}', None),
        ("empty_target", record(target=""), None),
        ("id_mismatch", record("b"), None),
        ("duplicate_row_id", record(step=99), None),
        ("image_missing", with_url("step_007.png"), None),
        ("image_missing", with_url("folder"), None),
        ("image_missing", with_url("x" * 5000), None),
        ("image_missing", with_url("nul\0.png"), None),
        ("image_truncated", with_url("shown.png"), GOOD[:-15]),
        ("image_truncated", with_url("shown.png"), b""),
        ("image_truncated", with_url("data:image/png;base64,iVBO*Rw0"), None),
        ("image_not_an_image", with_url("shown.png"), b"<html>not found</html>" * 9),
        ("image_not_an_image", with_url("data:text/plain,hello"), None),
        ("image_too_small", with_url("shown.png"), picture(size=(1, 1))),
        ("image_too_large", with_url("shown.png"), bomb()),
        ("image_aspect", with_url("shown.png"), picture(size=(8, 1800))),
        ("path_outside_episode", with_url("/etc/hostname"), None),
        ("path_outside_episode", with_url("../b/step_000.png"), None),
        ("path_outside_episode", with_url("../a-secret/step_000.png"), None),
        ("path_outside_episode", with_url("link.png"), None),
        ("path_outside_episode", with_url("linked/secret.png"), None),
        ("remote_url", with_url("https://example.org/step_000.png"), None),
        ("remote_url", with_url("file:///etc/hostname"), None),
    ],
)
def test_reasons(tmp_path, reason, line, shown):
    root = tmp_path / "root"
    write_episode(root, "a-secret")
    write_episode(tmp_path / "elsewhere", "x", files={"secret.png": GOOD})
    lines = [record(step=99), line]
    shown = GOOD if shown is None else shown
    folder = write_episode(root, "a", lines, {"step_000.png": GOOD, "shown.png": shown})
    (folder / "folder").mkdir()
    (folder / "link.png").symlink_to(tmp_path / "elsewhere/x/secret.png")
    (folder / "linked").symlink_to(tmp_path / "elsewhere/x")
    made = Ingested(tmp_path / "out", root)
    assert made.summary["reasons"] == {reason: 1}
    assert (made.summary["lines"], made.summary["rows"]) == (3, 2)
    found = made.quarantine[0]
    assert (found["source"], found["line"], found["reason"]) == ("main", 2, reason)
    assert found["file"] == str(folder / "rows.jsonl")
    raw = line if isinstance(line, bytes) else line if isinstance(line, str) else json.dumps(line)
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    assert found["excerpt"] == text[:200]
    assert found["message"]


def test_an_image_file_beyond_any_within_the_limits_is_not_read(tmp_path):
    large = GOOD + b"\0" * 1_100_000
    _, found = one_line(
        tmp_path, with_url("x.png"), {"x.png": large, "step_000.png": GOOD}, max_pixels=1000
    )
    assert found[0]["reason"] == "image_too_large"


def test_a_cut_compressed_file_is_said(tmp_path):
    folder = write_episode(tmp_path / "root", "a", [record(step=n) for n in range(200)])
    data = gzip.compress((folder / "rows.jsonl").read_bytes())
    (folder / "rows.jsonl").unlink()
    (folder / "rows.jsonl.gz").write_bytes(data[: len(data) // 2])
    made = Ingested(tmp_path / "out", tmp_path / "root")
    assert made.summary["reasons"] == {"file_unreadable": 1}
    assert 0 < made.summary["rows"] == made.summary["lines"] - 1


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\n\n  \n"),
        lambda data: data.rstrip(b"\n"),
    ],
    ids=["bom", "crlf", "blank lines", "no last line feed"],
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_harmless_spellings_give_the_same_rows(tmp_path, change, suffix):
    text = "sep\u2028\u2029\x85 feed\x0b\x0c <|im_end|><|image_pad|><video> nul\0 \U0001f600"
    rows = [record(step=0, target=text), record(step=1, unknown={"b": 1, "a": [None, 2.5]})]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    folder = write_episode(tmp_path / "plain", "a", lines)
    plain = Ingested(tmp_path / "out1", tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "other")
    data = change((folder / "rows.jsonl").read_bytes())
    path = tmp_path / "other" / "a" / "rows.jsonl"
    path.unlink()
    packed = {"": lambda x: x, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
    path.with_name(f"rows.jsonl{suffix}").write_bytes(packed[suffix](data))
    other = Ingested(tmp_path / "out2", tmp_path / "other")
    assert other.summary["quarantined"] == 0
    assert other.table("shards") == plain.table("shards")
    assert [row["target"] for row in plain.table("shards")] == [text, rows[1]["target"]]


def test_columns(tmp_path):
    parts = ["click-s01", "drag-s02"]
    described = {"success": False, "parts": parts, "site": "shop", "extra": [1, None]}
    lines = [
        record("chain-1", 0, macro="tabs", inject="wrong click"),
        record("chain-1", 1, aug_prefix=True),
        record("chain-1", 2, family=None, inject=None, aug_prefix=False),
    ]
    write_episode(tmp_path / "root", "chain-1", lines, described=described)
    write_episode(tmp_path / "root", "b~rec", described="{broken")
    made = Ingested(tmp_path / "out", tmp_path / "root", family="Text entry")
    rows = {row["row_id"]: row for row in made.table("shards")}
    first = rows["main/chain-1/0"]
    assert first["variant"] == "chain"
    assert first["sources"] == parts
    assert (first["success"], first["site"], first["macro"]) == (False, "shop", "tabs")
    assert json.loads(first["episode"]) == described
    assert [rows[f"main/chain-1/{n}"]["trainable"] for n in range(3)] == [False, False, True]
    said = [rows[f"main/chain-1/{n}"]["untrainable"] for n in range(3)]
    assert said == ["injected", "copied_prefix", None]
    assert first["family"] == "Navigation"
    assert rows["main/chain-1/2"]["family"] == "Text entry"
    assert json.loads(rows["main/chain-1/2"]["fields"])["family"] is None
    plain = rows["main/b~rec/0"]
    assert (plain["variant"], plain["sources"]) == ("recovery", ["b"])
    assert (plain["success"], plain["episode"]) == (None, None)
    assert made.summary["episodes_without_metadata"] == 1
    assert made.summary["families"] == {"Navigation": 3, "Text entry": 1}


def test_schemas_are_the_written_ones(tmp_path):
    write_episode(tmp_path / "root", "a")
    made = Ingested(tmp_path / "out", tmp_path / "root")
    name = made.names[0]
    schemas = {"shards": ROW_SCHEMA, "images": IMAGE_SCHEMA, "quarantine": QUARANTINE_SCHEMA}
    for kind, schema in schemas.items():
        assert pq.read_schema(made.path(kind, name)).remove_metadata() == schema
    image = pq.read_schema(made.path("images", name)).field("image").type
    assert image.field("bytes").type == pa.large_binary()


def test_each_picture_is_stored_once_as_it_came(tmp_path):
    url = "data:image/png;base64," + base64.b64encode(GOOD).decode()
    lines = [
        record(step=0),
        record(step=1),
        with_url("copy.png") | {"step": 2},
        with_url(url) | {"step": 3},
        with_url("red.png") | {"step": 4},
        with_url(url.replace("data:image", "DATA:image")) | {"step": 5},
    ]
    red = picture("red", format="JPEG")
    files = {"step_000.png": GOOD, "copy.png": GOOD, "red.png": red, "unused.png": picture("tan")}
    write_episode(tmp_path / "root", "a", lines, files)
    made = Ingested(tmp_path / "out", tmp_path / "root")
    images = made.table("images")
    assert [image["image"]["bytes"] for image in images] == [GOOD, red]
    rows = made.table("shards")
    assert [row["images"] for row in rows[:4]] == [[images[0]["sha256"]]] * 4
    assert rows[5]["images"] == rows[3]["images"]
    # Where a picture lies does not matter to what is trained on.
    same = [row["content_hash"] for row in (rows[2], rows[3])]
    assert same[0] == same[1] != rows[4]["content_hash"]
    assert rows[2]["text_hash"] == rows[4]["text_hash"]


def test_an_image_that_changed_since_the_scan_gets_its_own_hash(tmp_path):
    folder = write_episode(tmp_path / "root", "a")
    unit = Unit("a", folder.parent)
    path = folder / "step_000.png"
    status = path.stat()
    said = "0" * 64
    known = {"step_000.png": (status.st_size, status.st_mtime_ns, said)}
    outputs = [tmp_path / name for name in ("rows", "images", "quarantine")]
    configured = {"source": "main", "format": "replay", "family": None, "image": IMAGE_LIMITS}

    def stored():
        with ingest.ShardWriter(configured, *outputs) as writer:
            writer.add_unit(unit, known)
        return pq.read_table(outputs[1])["sha256"].to_pylist()

    assert stored() == [said]  # as it was: not hashed again
    os.utime(path, ns=(5, 5))
    assert stored() == [hashlib.sha256(GOOD).hexdigest()]
    red = picture("red")
    path.write_bytes(red)
    assert stored() == [hashlib.sha256(red).hexdigest()]


def test_row_groups_are_small_and_images_of_refused_rows_stay_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ingest, "IMAGE_GROUP_BYTES", 3000)
    monkeypatch.setattr(ingest, "ROW_GROUP_BYTES", 3000)
    lines = [with_url(f"{n}.bmp") | {"step": n} for n in range(20)]
    lines.append(with_url("refused.bmp") | {"step": 0})
    files = {f"{n}.bmp": picture(f"#0000{n:02x}", format="BMP") for n in range(20)}
    write_episode(tmp_path / "root", "a", lines, {**files, "refused.bmp": picture("tan")})
    made = Ingested(tmp_path / "out", tmp_path / "root")
    name = made.names[0]
    assert made.summary["images"] == 20
    for kind in ("shards", "images"):
        assert pq.ParquetFile(made.path(kind, name)).num_row_groups > 1


def mixed_root(root, names):
    for name in names:
        lines = [record(name, 0), "{broken", record(name, 1, target="x\u2028"), record(name, 0)]
        write_episode(root, name, lines, {"step_000.png": picture(f"#00{hash_byte(name)}00")})


def hash_byte(name):
    return f"{sum(name.encode()) % 256:02x}"


def test_bytes_do_not_depend_on_order_place_or_run(tmp_path):
    names = [f"task-{n}" for n in range(12)]
    mixed_root(tmp_path / "one", names)
    mixed_root(tmp_path / "deep" / "two", names[::-1])
    first = Ingested(tmp_path / "out1", tmp_path / "one", shard_mb=0.003)
    second = Ingested(tmp_path / "out2", tmp_path / "deep" / "two", shard_mb=0.003)
    assert len(first.names) > 2
    assert first.files() == second.files()


def test_only_shards_whose_episodes_changed_are_made_again(tmp_path):
    root = tmp_path / "root"
    mixed_root(root, [f"task-{n}" for n in range(20)])
    first = Ingested(tmp_path / "out", root, shard_mb=0.003)
    times = {name: first.path("shards", name).stat().st_mtime_ns for name in first.names}
    write_episode(root, "newcomer")
    second = Ingested(tmp_path / "out", root, shard_mb=0.003)
    assert 1 <= len(second.made) <= 2
    kept = set(first.names) & set(second.names)
    assert len(kept) == len(first.names) - 1
    for name in kept:
        assert second.path("shards", name).stat().st_mtime_ns == times[name]
    # What the source no longer has is gone from the disk.
    on_disk = {path.stem for path in (second.folder / "shards").glob("*.parquet")}
    assert on_disk == set(second.names)
    assert second.summary["rows"] == first.summary["rows"] + 1


def test_overlaid_roots(tmp_path):
    mixed_root(tmp_path / "v4", ["a", "b"])
    write_episode(tmp_path / "rs", "b", [record("b", 7)])
    made = Ingested(tmp_path / "out", tmp_path / "v4", tmp_path / "rs", tmp_path / "rs")
    assert made.summary["replaced"] == 1
    assert sorted(row["row_id"] for row in made.table("shards")) == [
        "main/a/0",
        "main/a/1",
        "main/b/7",
    ]


@pytest.fixture(scope="module")
def writer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    write_episode(folder, "a")
    return folder


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
places = st.sampled_from(
    [
        ("task_id",), ("step",), ("family",), ("op",), ("target",), ("inject",), ("new",),
        ("messages",), ("messages", 0), ("messages", 1), ("messages", 0, "role"),
        ("messages", 1, "content"), ("messages", 1, "content", 0), ("messages", 1, "content", 1),
        ("messages", 1, "content", 1, "type"), ("messages", 1, "content", 1, "image_url"),
        ("messages", 1, "content", 1, "image_url", "url"),
    ]
)  # fmt: skip


def mutated(changes, cut):
    made = record()
    for place, value in changes:
        node = made
        for name in place[:-1]:
            try:
                node = node[name]
            except (KeyError, IndexError, TypeError):
                break
        else:
            if isinstance(node, (dict, list)):
                try:
                    node[place[-1]] = value
                except (IndexError, TypeError):
                    continue
    return json.dumps(made).encode()[: None if cut is None else -cut]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.builds(
                mutated,
                st.lists(st.tuples(places, values), max_size=3),
                st.none() | st.integers(1, 40),
            ),
            st.binary(max_size=30).filter(lambda line: b"\n" not in line),
        ),
        max_size=6,
    )
)
def test_any_line_is_a_row_or_has_a_reason(writer_folder, lines):
    folder = writer_folder / "a"
    (folder / "rows.jsonl").write_bytes(b"\n".join(lines))
    paths = [writer_folder / name for name in ("rows", "images", "quarantine")]
    configured = {"source": "main", "format": "replay", "family": None, "image": IMAGE_LIMITS}
    with ingest.ShardWriter(configured, *paths) as writer:
        writer.add_unit(Unit("a", folder.parent))
    rows, _, quarantine = (pq.read_table(path) for path in paths)
    data = b"\n".join(lines).removeprefix(b"\xef\xbb\xbf")
    assert rows.num_rows + quarantine.num_rows == sum(
        1 for line in data.split(b"\n") if line.strip()
    )
    assert writer.totals().rows == rows.num_rows
    numbers = Counter(quarantine["line"].to_pylist())
    assert all(count == 1 for count in numbers.values())
    for row in rows.to_pylist():
        json.loads(row["fields"])
        json.loads(row["messages"])
