"""Long files are cut into runs that keep every line once, whatever is added or broken."""

import gzip
import json
import os
import random

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptermill.errors import UserError
from adaptermill.hashing import HashCache
from adaptermill.rows.readers import READERS, arrays, lines, streams
from adaptermill.rows.readers.jsonl import JsonlReader
from adaptermill.rows.readers.openai import OpenaiReader
from adaptermill.rows.readers.reader import Unit
from adaptermill.rows.scan import stat_digest
from tests.rows.building import Ingested, json_lines, picture

READER = {"format": "openai", "families": {"constant": "Navigation"}, "episode": None}
SHAREGPT = {**READER, "format": "sharegpt"}
PACKED = {"": lambda x: x, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}


def chat(number, length=200):
    text = random.Random(number).randbytes(length // 2).hex()
    answer = {"role": "assistant", "content": f"answer {number}"}
    return {"messages": [{"role": "user", "content": text}, answer]}


def chats(count):
    return [chat(number) for number in range(count)]


def ingest(tmp_path, *paths, reader=READER, **options):
    return Ingested(tmp_path / "out", *paths, reader=reader, **options)


def answers(made):
    """Row id -> target, of all shards."""
    return {row["row_id"]: row["target"] for row in made.table("shards")}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_every_line_is_read_once_however_it_is_cut(tmp_path, kind, suffix):
    count = 300
    data = json_lines(*chats(count))
    if kind == "json":
        data = json.dumps(chats(count), indent=1).encode()
    path = tmp_path / f"train.{kind}{suffix}"
    path.write_bytes(PACKED[suffix](data))
    made = ingest(tmp_path, path, shard_mb=0.02)
    assert len(made.names) > 3
    assert made.manifest["units"] > 10
    expected = {f"main/train-{n + 1}/0": f"answer {n}" for n in range(count)}
    assert answers(made) == expected
    assert made.summary["lines"] == made.summary["episodes"] == count
    assert made.summary["files"] == 1
    assert made.summary["per_file"] == {
        path.name: {"lines": count, "rows": count, "quarantined": 0}
    }
    for shard in made.manifest["shards"]:
        assert shard["bytes"] <= 20_000 or shard["units"] == 1


def test_added_lines_leave_other_shards_alone(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_bytes(json_lines(*chats(400)))
    first = ingest(tmp_path, path, shard_mb=0.02)
    path.write_bytes(json_lines(*chats(410)))
    second = ingest(tmp_path, path, shard_mb=0.02)
    kept = set(first.names) & set(second.names)
    assert len(first.names) > 5
    assert len(first.names) - len(kept) <= 2
    assert len(second.made) <= 3
    assert len(answers(second)) == 410


def test_an_edited_line_changes_few_shards(tmp_path):
    path = tmp_path / "train.jsonl"
    made = chats(400)
    path.write_bytes(json_lines(*made))
    first = ingest(tmp_path, path, shard_mb=0.02)
    made[200] = chat(9999, length=300)
    path.write_bytes(json_lines(*made))
    second = ingest(tmp_path, path, shard_mb=0.02)
    assert len(second.made) <= 3 < len(first.names)


def test_the_same_lines_give_the_same_bytes_from_elsewhere(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "train.jsonl").write_bytes(json_lines(*chats(100)))
    first = Ingested(tmp_path / "out1", tmp_path / "one", reader=READER, shard_mb=0.01)
    second = Ingested(
        tmp_path / "out2", tmp_path / "two" / "train.jsonl", reader=READER, shard_mb=0.01
    )
    assert first.files() == second.files()


def test_refused_lines_are_named_where_they_stand(tmp_path):
    path = tmp_path / "train.jsonl"
    good = json_lines(*chats(50))
    path.write_bytes(good + b"\n{broken\n" + good + b"[1]")
    made = ingest(tmp_path, path, shard_mb=0.005)
    found = [(line["file"], line["line"], line["reason"]) for line in made.quarantine]
    assert sorted(found) == [
        (str(path), 52, "json_syntax"),
        (str(path), 103, "not_an_object"),
    ]
    text = path.read_bytes().split(b"\n")
    assert text[51] == b"{broken"
    assert made.summary["lines"] == 102


def show(number):
    turns = [
        {"from": "human", "value": f"<image>look {number}"},
        {"from": "gpt", "value": f"answer {number}"},
    ]
    return {"conversations": turns, "images": [f"images/{number}.png"]}


def test_an_edited_image_is_noticed_and_changes_its_shard_alone(tmp_path):
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    for number in range(40):
        (folder / "images" / f"{number}.png").write_bytes(picture(f"#00{number:02x}00"))
    path = folder / "train.jsonl"
    path.write_bytes(json_lines(*[show(number) for number in range(40)]))
    options = {"reader": SHAREGPT, "shard_mb": 0.002}
    first = ingest(tmp_path, path, **options)
    assert len(first.names) > 3
    cache = tmp_path / "out" / "hashes"

    def digest():
        return stat_digest([str(path)], "sharegpt", cache)

    before = digest()
    assert digest() == before == stat_digest([str(path)], "sharegpt")
    (folder / "images" / "7.png").write_bytes(picture("red"))
    changed = digest()
    assert changed != before
    second = ingest(tmp_path, path, **options, files=changed)
    assert len(second.made) == 1
    # Once it has been looked at, nothing is to be done again.
    assert digest() == changed
    (folder / "images" / "9.png").unlink()
    gone = digest()
    assert gone not in (before, changed)
    third = ingest(tmp_path, path, **options, files=gone)
    assert third.summary["reasons"] == {"image_missing": 1}
    assert digest() == gone
    (folder / "images" / "9.png").write_bytes(picture("tan"))
    assert digest() != gone
    assert ingest(tmp_path, path, **options, files=digest()).summary["quarantined"] == 0
    os.utime(path, ns=(1, 1))
    assert digest() not in (before, changed, gone)


def test_a_file_is_read_again_only_when_its_stat_changed(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_bytes(json_lines(*chats(20)))
    for count in (1, 0):
        cache = HashCache(tmp_path / "hashes")
        OpenaiReader.find([str(path)], 1e6, cache)
        assert cache.hashed == count
        cache.save()
    cache = HashCache(tmp_path / "hashes")
    OpenaiReader.find([str(path)], 2e6, cache)
    assert cache.hashed == 1  # other cuts are wanted


def test_files_outside_are_never_looked_at(tmp_path):
    (tmp_path / "secret.png").write_bytes(picture())
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    path = folder / "train.jsonl"
    lines = [{**show(0), "images": [url]} for url in ("../secret.png", "link.png", "/etc/hostname")]
    path.write_bytes(json_lines(*lines))
    made = ingest(tmp_path, path, reader=SHAREGPT)
    assert made.summary["reasons"] == {"path_outside_episode": 3}
    assert len(HashCache(tmp_path / "out" / "hashes")) == 1


def test_which_files_are_taken(tmp_path):
    for name in ("b.jsonl", "a.json", "c.jsonl.gz", "_d.jsonl", "notes.md", ".e.jsonl"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "f.jsonl").write_bytes(b"")

    def names(*paths):
        return [file.name for file in JsonlReader.files([str(tmp_path / path) for path in paths])]

    assert names("") == ["a.json", "b.jsonl", "c.jsonl.gz"]
    assert names("b.jsonl", "", "b.jsonl") == ["b.jsonl", "a.json", "c.jsonl.gz"]
    assert names("*/*.jsonl") == ["f.jsonl"]
    with pytest.raises(UserError, match=r"no file to read at .*nowhere"):
        names("nowhere*")
    (tmp_path / "below" / "b.json").write_bytes(b"")
    with pytest.raises(UserError, match=r"b\.jsonl and .*b\.json would both .*rename"):
        names("", "below")
    with pytest.raises(UserError, match="no line in"):
        OpenaiReader.find([str(tmp_path / "b.jsonl")], 1e6, HashCache(tmp_path / "hashes"))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_compressed_file_gives_its_whole_lines(tmp_path, suffix):
    data = PACKED[suffix](json_lines(*[chat(n, 2000) for n in range(300)]))
    path = tmp_path / f"train.jsonl{suffix}"
    for kept in (len(data) // 2, len(data) - 3, 5, 0):
        path.write_bytes(data[:kept])
        if suffix == ".gz" and kept == 0:
            continue  # an empty file unfolds to nothing
        if kept == 0:
            with pytest.raises(UserError, match="no line"):
                ingest(tmp_path, path)
            continue
        made = ingest(tmp_path, path, shard_mb=0.05)
        assert made.summary["reasons"] == {"file_unreadable": 1}
        assert made.summary["rows"] == made.summary["lines"] - 1
        assert set(answers(made).values()) == {f"answer {n}" for n in range(made.summary["rows"])}


def elements(data, block=7, **options):
    blocks = (data[k : k + block] for k in range(0, len(data), block))
    return list(arrays.split(blocks, **options))


@pytest.mark.parametrize(
    ("data", "expected", "reason"),
    [
        ("[]", [], None),
        (' [ {"a": "]},\\"["} ,\n[1, [2]] ] \n', ['{"a": "]},\\"["}', "[1, [2]]"], None),
        ('["x,y", 3 ]', ['"x,y"', "3"], None),
        ('[{"a": 1}', ['{"a": 1}'], "json_syntax"),
        ('[{"a": 1},', ['{"a": 1}', ""], "json_syntax"),
        ('[{"a": "', ['{"a": "'], "json_syntax"),
        ("[1] 2", ["1", "2"], "json_syntax"),
        ("[1, 2,]", ["1", "2", ""], "json_syntax"),
    ],
)
def test_elements_of_arrays(data, expected, reason):
    for block in (1, 7, 1000):
        found = elements(data.encode(), block)
        assert [piece.data.decode() for piece in found] == expected
        assert {piece.reason for piece in found[:-1]} <= {None}
        assert (found[-1].reason if found else None) == reason


def test_an_element_without_end_is_not_read_into_memory(monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    found = elements(b'[1, "' + b"x" * 1000 + b'", 2]')
    assert [piece.reason for piece in found] == [None, "line_too_long"]


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(nested, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_any_array_is_told_apart(values, block, indent, ascii_only):
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    found = elements(data, block)
    assert [json.loads(piece.data) for piece in found] == values
    # What is read from between two elements on is the rest of them.
    start = 0
    for number, piece in enumerate(found[:-1], 1):
        start += piece.size
        rest = elements(data[start:], block, inside=True)
        assert [json.loads(piece.data) for piece in rest] == values[number:]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_break_an_array(data):
    pieces = elements(b"[" + data)
    assert sum(piece.size for piece in pieces) <= len(data) + 1


@pytest.fixture(scope="module")
def fuzz_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["openai", "sharegpt", "trl"]),
    st.lists(
        st.dictionaries(
            st.sampled_from(["messages", "conversations", "prompt", "completion", "images", "id"]),
            st.lists(
                st.dictionaries(
                    st.sampled_from(["role", "content", "from", "value", "type", "image"]),
                    st.sampled_from(["user", "assistant", "gpt", "human", "<image>", "image"])
                    | nested,
                )
            )
            | nested,
        )
        .map(json.dumps)
        .map(str.encode)
        | st.binary(max_size=20).filter(lambda line: b"\n" not in line),
        max_size=5,
    ),
)
def test_any_line_is_a_row_or_has_a_reason(fuzz_folder, format, given_lines):
    path = fuzz_folder / "train.jsonl"
    path.write_bytes(b"\n".join([b"[]", *given_lines]))
    made = Ingested(fuzz_folder, path, reader={**READER, "format": format}, shard_mb=0.0001)
    data = path.read_bytes()
    assert made.summary["lines"] == sum(1 for line in data.split(b"\n") if line.strip())
    assert made.summary["lines"] == made.summary["rows"] + len(made.quarantine)


def test_ranges_of_compressed_files_in_any_order(tmp_path):
    data = random.Random(0).randbytes(50_000).hex().encode()
    ranges = streams.Ranges()
    for suffix, pack in PACKED.items():
        path = tmp_path / f"x{suffix}"
        path.write_bytes(pack(data))
        for start, end in [(0, 10), (10, 70_000), (90_000, None), (5, 6), (7, 7), (6, 99_999)]:
            assert b"".join(ranges.read(path, start, end)) == data[start:end]


def test_every_format_is_read_by_one_file():
    modules = {reader.__module__.rsplit(".", 1)[1] for reader in READERS.values()}
    assert modules == set(READERS)
    assert Unit.from_json(Unit("a", streams.Path("b"), "c", 1, 2, 3).as_json()).line == 3
