"""An edit is noticed, a touched file is read once, and growth leaves the other shards alone."""

import os

import pytest

from adaptermill.errors import UserError
from adaptermill.hashing import HashCache
from adaptermill.rows.scan import scan, stat_digest
from tests.rows.building import IMAGE_LIMITS, picture, record, write_episode


def look(root, cache=None, shard_mb=256.0, code="code", family=None):
    ingest = {"source": "main", "format": "replay", "family": family, "image": IMAGE_LIMITS}
    settings = {
        "source": "main",
        "format": "replay",
        "paths": [str(root)],
        "shard_mb": shard_mb,
        "ingest_code": code,
        "ingest": ingest,
    }
    return scan(settings, HashCache(root / "no-cache") if cache is None else cache)


def names(manifest):
    return [shard["name"] for shard in manifest["shards"]]


def episodes(manifest):
    return [[content.unit.name for content in shard["contents"]] for shard in manifest["shards"]]


@pytest.fixture
def root(tmp_path):
    for number in range(30):
        write_episode(tmp_path / "root", f"task-{number:02d}")
    return tmp_path / "root"


def test_shards_hold_every_episode_once_within_the_limit(root):
    one = look(root)
    assert len(one["shards"]) == 1
    assert one["shards"][0]["name"].startswith("s-")
    limit = 3000
    many = look(root, shard_mb=limit / 1e6)
    assert len(many["shards"]) > 4
    flat = sorted(name for shard in episodes(many) for name in shard)
    assert flat == [f"task-{number:02d}" for number in range(30)]
    for shard in many["shards"]:
        assert shard["bytes"] <= limit or len(shard["contents"]) == 1
    assert sum(shard["bytes"] for shard in many["shards"]) == many["bytes"] == one["bytes"]


def test_one_large_episode_is_a_shard_of_its_own(root):
    folder = write_episode(root, "large")
    (folder / "video.bin").write_bytes(b"x" * 50_000)
    manifest = look(root, shard_mb=0.02)
    assert ["large"] in episodes(manifest)


def test_new_episodes_leave_other_shards_alone(root):
    before = look(root, shard_mb=0.003)
    write_episode(root, "newcomer")
    after = look(root, shard_mb=0.003)
    gone = set(names(before)) - set(names(after))
    assert len(gone) == 1
    new = [shard for shard in after["shards"] if shard["name"] not in names(before)]
    assert "newcomer" in [content.unit.name for shard in new for content in shard["contents"]]
    assert len(new) <= 2


@pytest.mark.parametrize(
    "edit",
    [
        lambda f: (f / "rows.jsonl").write_text('{"changed": 1}'),
        lambda f: (f / "step_000.png").write_bytes(picture("red")),
        lambda f: (f / "episode.json").unlink(),
        lambda f: (f / "step_001.png").write_bytes(picture()),
        lambda f: (f / "step_000.png").rename(f / "other.png"),
    ],
)
def test_an_edit_changes_its_shard_alone(root, edit):
    before = look(root, shard_mb=0.003)
    edit(root / "task-07")
    after = look(root, shard_mb=0.003)
    assert len(set(names(before)) - set(names(after))) == 1


def test_names_follow_settings_and_code(root):
    name = names(look(root))
    assert names(look(root)) == name
    assert names(look(root, code="other")) != name
    assert names(look(root, family="Navigation")) != name


def test_names_do_not_follow_the_place(root, tmp_path):
    name = names(look(root))
    root.rename(tmp_path / "moved")
    assert names(look(tmp_path / "moved")) == name


def test_a_file_is_read_again_only_when_its_stat_changed(root, tmp_path):
    path = tmp_path / "hashes"

    def scanned():
        cache = HashCache(path)
        manifest = look(root, cache)
        cache.save()
        return names(manifest), cache.hashed

    first, count = scanned()
    assert count == 90
    assert scanned() == (first, 0)
    rows = root / "task-03" / "rows.jsonl"
    os.utime(rows, ns=(1, 1))
    assert scanned() == (first, 1)
    assert scanned() == (first, 0)
    # An edit in place that keeps the size is seen by the time.
    text = rows.read_text()
    rows.write_text(text.replace("Navigation", "Navigatioo"))
    changed, count = scanned()
    assert changed != first
    assert count == 1
    rows.write_text(text)
    assert scanned() == (first, 1)


def test_work_cut_short_keeps_all_hashes(root, tmp_path):
    cache = HashCache(tmp_path / "hashes")
    look(root, cache)
    cache.save()
    cut = HashCache(tmp_path / "hashes")
    cut.save(forget=False)
    assert len(HashCache(tmp_path / "hashes")) == 90
    cut.save()
    assert len(HashCache(tmp_path / "hashes")) == 0


def test_the_digest_follows_size_time_and_names(root):
    seen = [stat_digest([str(root)], "replay")]
    assert stat_digest([str(root)], "replay") == seen[0]
    os.utime(root / "task-01" / "step_000.png", ns=(5, 5))
    seen.append(stat_digest([str(root)], "replay"))
    write_episode(root, "newcomer")
    seen.append(stat_digest([str(root)], "replay"))
    (root / "newcomer" / "step_000.png").rename(root / "newcomer" / "step_001.png")
    seen.append(stat_digest([str(root)], "replay"))
    assert len(set(seen)) == 4
    write_episode(root, "_tmp")
    assert stat_digest([str(root)], "replay") == seen[-1]
    stat_digest([str(root / "missing")], "replay")


def test_links_that_lead_back_up_do_no_harm(root):
    (root / "task-00" / "up").symlink_to(root)
    (root / "task-00" / "self").symlink_to(root / "task-00" / "self")
    assert look(root)["units"] == 30
    stat_digest([str(root)], "replay")


def test_linked_episodes_are_hashed_by_content(root, tmp_path):
    folder = write_episode(tmp_path / "elsewhere", "linked")
    (root / "linked").symlink_to(folder)
    before, digest = names(look(root)), stat_digest([str(root)], "replay")
    (folder / "rows.jsonl").write_text(str(record("linked", 5)))
    assert names(look(root)) != before
    assert stat_digest([str(root)], "replay") != digest


def test_odd_file_names_are_no_crash(root):
    try:
        (root / "task-00" / os.fsdecode(b"bad\xff.png")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    look(root)
    stat_digest([str(root)], "replay")


def test_a_missing_source_is_said(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        look(tmp_path / "missing")
