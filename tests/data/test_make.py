"""A made set is whole or absent, balanced, and the same for the same seed."""

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from PIL import Image

from labkit.data import Photos, datasets_root, default_made_photos, make_photos
from labkit.errors import BrokenImage, DataError

SHIPPED = datasets_root() / "photos"
Usage = namedtuple("Usage", "total used free")


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.jpg")}


def test_the_classes_take_turns_and_the_bytes_are_counted(tmp_path: Path):
    total_bytes = make_photos(SHIPPED, tmp_path / "made", count=20)
    photos = Photos.open(tmp_path / "made")
    per_class = [int((photos.labels == label).sum()) for label in range(8)]
    assert photos.class_names == Photos.open(SHIPPED).class_names
    assert per_class == [3, 3, 3, 3, 2, 2, 2, 2]
    assert photos.broken == ()
    assert total_bytes == sum(path.stat().st_size for path in photos.paths)
    assert photos.sizes_wh.min() >= 256 and photos.sizes_wh.max() <= 1400


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_photos(SHIPPED, tmp_path / name, count=9, seed=seed)
    first, second, other = (content(tmp_path / name) for name in "abc")
    assert first == second
    assert first.keys() == other.keys()
    assert all(first[name] != other[name] for name in first)


def test_no_two_photos_are_the_same(tmp_path: Path):
    make_photos(SHIPPED, tmp_path / "made", count=96)
    assert len(set(content(tmp_path / "made").values())) == 96


def test_a_larger_count_only_adds(tmp_path: Path):
    make_photos(SHIPPED, tmp_path / "few", count=5)
    make_photos(SHIPPED, tmp_path / "many", count=12)
    assert content(tmp_path / "few").items() < content(tmp_path / "many").items()


def test_progress_is_told_after_each_photo(tmp_path: Path):
    told = []
    make_photos(SHIPPED, tmp_path / "made", count=4, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_missing_folders_above_the_target_are_made(tmp_path: Path):
    make_photos(SHIPPED, tmp_path / "a" / "b" / "made", count=1)
    assert len(Photos.open(tmp_path / "a" / "b" / "made")) == 1


def test_an_empty_target_is_used(tmp_path: Path):
    (tmp_path / "made").mkdir()
    make_photos(SHIPPED, tmp_path / "made", count=1)
    assert len(Photos.open(tmp_path / "made")) == 1


def test_others_may_read_what_was_made(tmp_path: Path):
    make_photos(SHIPPED, tmp_path / "made", count=1)
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_behind_by_an_interruption(tmp_path: Path, interruption: type[BaseException]):
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise interruption

    with pytest.raises(interruption):
        make_photos(SHIPPED, tmp_path / "made", count=500, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_ends_the_work_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written = []
    write_bytes = Path.write_bytes

    def count_and_write(path: Path, data: bytes) -> int:
        written.append(path)
        return write_bytes(path, data)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", count_and_write)
    with pytest.raises(KeyboardInterrupt):
        make_photos(SHIPPED, tmp_path / "made", count=500, progress=interrupt)
    assert 1 <= len(written) < 100


def test_nothing_is_left_behind_when_the_disk_fills_up_meanwhile(tmp_path: Path, monkeypatch):
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match=r"cannot write 20 photos to .*: No space left on device"):
        make_photos(SHIPPED, tmp_path / "made", count=20)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_source_photo_is_named_and_nothing_is_left_behind(tmp_path: Path):
    source = tmp_path / "source" / "cat"
    source.mkdir(parents=True)
    whole = (SHIPPED / "cat" / "cat-00000.jpg").read_bytes()
    (source / "a.jpg").write_bytes(whole)
    (source / "b.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BrokenImage, match=r"b\.jpg"):
        make_photos(tmp_path / "source", tmp_path / "out" / "made", count=40)
    assert not (tmp_path / "out" / "made").exists()


@pytest.mark.parametrize("count", [0, -5])
def test_a_count_that_is_not_positive_is_refused(tmp_path: Path, count: int):
    with pytest.raises(DataError, match=f"the count of photos to make is {count}, expected at least 1"):
        make_photos(SHIPPED, tmp_path / "made", count=count)


def test_a_target_that_is_not_empty_is_refused_and_kept(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(DataError, match="exists and is not an empty folder"):
        make_photos(SHIPPED, tmp_path, count=1)
    with pytest.raises(DataError, match="exists and is not an empty folder"):
        make_photos(SHIPPED, tmp_path / "mine.txt", count=1)
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_a_target_below_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot write 1 photos to .*file/made"):
        make_photos(SHIPPED, tmp_path / "file" / "made", count=1)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write to every folder")
def test_a_target_in_a_folder_without_write_permission_is_refused(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="Permission denied"):
        make_photos(SHIPPED, tmp_path / "made", count=1)


def test_a_full_disk_is_foreseen_and_the_need_and_the_room_are_named(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(2**30, 2**30 - 2**20, 2**20))
    with pytest.raises(DataError, match=r"2000 photos need about [\d.]+ MiB .* has 1 MiB free: make fewer"):
        make_photos(SHIPPED, tmp_path / "a" / "made", count=2000)
    assert list(tmp_path.iterdir()) == []


def test_the_estimate_covers_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    free_bytes = make_photos(SHIPPED, tmp_path / "made", count=64)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(2**40, 0, free_bytes))
    with pytest.raises(DataError, match="64 photos need about"):
        make_photos(SHIPPED, tmp_path / "again", count=64)


def test_an_empty_source_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="no class sub-folder with photos"):
        make_photos(tmp_path, tmp_path / "made", count=1)


def test_a_source_of_pngs_in_any_mode_serves(tmp_path: Path):
    (tmp_path / "source" / "grey").mkdir(parents=True)
    Image.linear_gradient("L").convert("P").save(tmp_path / "source" / "grey" / "a.png")
    make_photos(tmp_path / "source", tmp_path / "made", count=2)
    assert sorted(content(tmp_path / "made")) == ["grey/grey-00000.jpg", "grey/grey-00001.jpg"]


def test_the_default_target_is_in_the_users_cache_and_names_count_and_seed():
    target = default_made_photos(2000, seed=3)
    assert target.name == "photos-2000-3"
    assert target.parent.name in {"labkit", "Cache"}
