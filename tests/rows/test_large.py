"""More than 2 GiB of screenshots in one shard come in with bounded memory, and come out again."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zlib

import pyarrow.parquet as pq
import pytest

from adaptermill.hashing import HashCache
from adaptermill.rows.dataset import Images
from adaptermill.rows.scan import scan
from adaptermill.rows.units import write_units
from tests.rows.building import IMAGE_LIMITS, picture, record
from tests.workflow.running import REPOSITORY

BLOB = 8_000_000
COUNT = 280
GIB = 1 << 30
# A process counts as its own the memory of the one that it was forked from; this one is small.
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def show(number):
    return {"type": "image_url", "image_url": {"url": f"{number}.png"}}


@pytest.mark.slow
def test_two_gib_of_images_in_one_shard(tmp_path):
    if shutil.disk_usage(tmp_path).free < 3 * COUNT * BLOB:
        pytest.skip("needs 7 GB of disk")
    folder = tmp_path / "root" / "a"
    folder.mkdir(parents=True)
    whole = picture()
    blob = chunk(b"noIe", bytes(BLOB))
    lines = []
    for number in range(COUNT):
        parts = [whole[:-12], blob, chunk(b"noIe", b"%d" % number), whole[-12:]]
        with open(folder / f"{number}.png", "wb") as file:
            file.writelines(parts)
        lines.append(record(step=number, messages=[{"role": "user", "content": [show(number)]}]))
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"source": "main", "format": "replay", "family": None, "image": IMAGE_LIMITS}
    scanned = {
        **{"source": "main", "format": "replay", "paths": [str(tmp_path / "root")]},
        **{"shard_mb": 256, "ingest_code": "", "ingest": settings},
    }
    manifest = scan(scanned, HashCache(tmp_path / "hashes"))
    units = tmp_path / "units.jsonl"
    [shard] = write_units(manifest, units)["shards"]
    (tmp_path / "spec.json").write_text(json.dumps({"settings": settings}))
    outputs = {kind: tmp_path / f"{kind}.parquet" for kind in ("rows", "images", "quarantine")}
    command = [sys.executable, str(REPOSITORY / "scripts" / "ingest.py")]
    command += ["--spec", str(tmp_path / "spec.json"), "--units", str(units)]
    command += ["--shard", shard["name"]]
    for kind, path in outputs.items():
        command += [f"--{kind}", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        **{"env": environment, "stdout": subprocess.PIPE, "text": True, "check": True},
    )
    assert int(process.stdout.split()[-1]) * 1024 < GIB
    assert outputs["images"].stat().st_size > 2 * GIB
    names = pq.read_table(outputs["images"], columns=["sha256"])["sha256"].to_pylist()
    assert len(set(names)) == COUNT
    images = Images([outputs["images"]])
    for number in (0, COUNT // 2, COUNT - 1):
        assert images.bytes(names[number]) == (folder / f"{number}.png").read_bytes()
    shutil.rmtree(tmp_path / "root")
    for path in outputs.values():
        path.unlink()
