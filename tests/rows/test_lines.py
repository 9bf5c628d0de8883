"""No line of a rows file is lost, split in two, or read without bound."""

import gzip
import json
import os

import pytest
import zstandard

from adaptermill.rows.readers import lines as lines_module
from adaptermill.rows.readers import streams
from adaptermill.rows.readers.lines import read_lines


def read(path):
    return [(line.number, line.data, line.reason) for line in read_lines(path, "a/rows.jsonl")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1}\n{"b":2}\n', [(1, b'{"a":1}'), (2, b'{"b":2}')]),
        (b'{"a":1}\n{"b":2}', [(1, b'{"a":1}'), (2, b'{"b":2}')]),
        (b'\xef\xbb\xbf{"a":1}\r\n\r\n  \n{"b":2}\r\n', [(1, b'{"a":1}'), (4, b'{"b":2}')]),
        ("x\u2028y\x85z\x0b\x0cw\n".encode(), [(1, "x\u2028y\x85z\x0b\x0cw".encode())]),
        (b"", []),
        (b"\n\n", []),
        (b"\xef\xbb\xbf", []),
        (b"a\rb\n", [(1, b"a\rb")]),
    ],
)
def test_lines_end_at_line_feeds_alone(tmp_path, data, expected):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(data)
    assert read(path) == [(number, line, None) for number, line in expected]


def test_lines_longer_than_a_block_are_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    long = b"x" * (3 * streams.BLOCK + 5)
    path.write_bytes(b"a\n" + long + b"\nb")
    assert read(path) == [(1, b"a", None), (2, long, None), (3, b"b", None)]


def test_too_long_a_line_is_refused_and_the_next_one_read(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(streams, "BLOCK", 64)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 5000 + b"\nshort\n" + b"y" * 1000 + b"\n" + b"z" * 1001)
    found = read(path)
    assert [(number, reason) for number, _, reason in found] == [
        (1, "line_too_long"),
        (2, None),
        (3, None),
        (4, "line_too_long"),
    ]
    assert found[1][1] == b"short"


def compressed(name, data):
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
def test_compressed_files_of_several_parts(tmp_path, name):
    first = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(20_000))
    path = tmp_path / name
    path.write_bytes(compressed(name, first) + compressed(name, b'{"n":20000}\n{"n":20001}'))
    found = read(path)
    assert [json.loads(data)["n"] for _, data, _ in found] == list(range(20_002))
    assert [number for number, _, _ in found] == list(range(1, 20_003))


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
def test_a_cut_file_gives_its_whole_lines_and_says_where_it_ends(tmp_path, name):
    data = b"".join(os.urandom(50).hex().encode() + b"\n" for _ in range(5000))
    whole = compressed(name, data)
    half = len(whole) // 2
    for cut, least in ((1, 3000), (5, 3000), (half, 1000), (len(whole) - 3, 0)):
        path = tmp_path / name
        path.write_bytes(whole[:-cut])
        found = read(path)
        assert [reason for _, _, reason in found[:-1]] == [None] * (len(found) - 1)
        assert found[-1][2] == "file_unreadable"
        assert len(found) > least
        lines = data.split(b"\n")
        assert [line for _, line, _ in found[:-1]] == lines[: len(found) - 1]


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
def test_garbage_is_not_a_crash(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"this was never compressed")
    assert [reason for _, _, reason in read(path)] == ["file_unreadable"]
    whole = bytearray(compressed(name, os.urandom(2000).hex().encode()))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(whole) + b"trailing")
    assert read(path)[-1][2] == "file_unreadable"
