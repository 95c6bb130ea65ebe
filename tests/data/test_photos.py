"""An index of photos holds what can be read, counts and names what cannot, and refuses to be empty."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labkit.data import Photos
from labkit.errors import DataError


def save(path: Path, size_wh: tuple[int, int] = (6, 4)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size_wh, "red").save(path, "PNG" if path.suffix.lower() == ".png" else "JPEG")
    return path


def test_classes_and_photos_come_sorted_with_their_labels_and_sizes(tmp_path: Path):
    save(tmp_path / "dog" / "b.JPG", (30, 20))
    save(tmp_path / "dog" / "a.png", (5, 7))
    save(tmp_path / "cat" / "z.jpeg", (11, 13))
    photos = Photos.open(tmp_path)
    assert [path.name for path in photos.paths] == ["z.jpeg", "a.png", "b.JPG"]
    assert photos.class_names == ("cat", "dog")
    assert photos.labels.tolist() == [0, 1, 1]
    assert photos.sizes_wh.tolist() == [[11, 13], [5, 7], [30, 20]]
    assert (photos.labels.dtype, photos.sizes_wh.dtype) == (np.int64, np.int32)
    assert len(photos) == 3


def test_other_files_hidden_files_and_hidden_folders_are_passed_over(tmp_path: Path):
    save(tmp_path / "cat" / "a.jpg")
    save(tmp_path / "cat" / ".b.jpg")
    save(tmp_path / ".cache" / "c.jpg")
    (tmp_path / "cat" / "notes.txt").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "SHA256SUMS").touch()
    photos = Photos.open(tmp_path)
    assert (len(photos), photos.class_names, photos.broken) == (1, ("cat",), ())


def test_symbolic_links_to_folders_and_files_are_followed(tmp_path: Path):
    save(tmp_path / "elsewhere" / "a.jpg")
    (tmp_path / "set" / "cat").mkdir(parents=True)
    (tmp_path / "set" / "cat" / "link.jpg").symlink_to(tmp_path / "elsewhere" / "a.jpg")
    (tmp_path / "set" / "dog").symlink_to(tmp_path / "elsewhere")
    assert Photos.open(tmp_path / "set").labels.tolist() == [0, 1]


def test_broken_files_are_skipped_and_named_with_their_reason(tmp_path: Path):
    save(tmp_path / "cat" / "good.jpg")
    (tmp_path / "cat" / "empty.jpg").touch()
    (tmp_path / "cat" / "text.png").write_text("this is no picture")
    (tmp_path / "cat" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    photos = Photos.open(tmp_path)
    assert [path.name for path in photos.paths] == ["good.jpg"]
    assert photos.broken == (
        f"{tmp_path / 'cat' / 'empty.jpg'}: not a JPEG or PNG image",
        f"{tmp_path / 'cat' / 'gone.jpg'}: No such file or directory",
        f"{tmp_path / 'cat' / 'text.png'}: not a JPEG or PNG image",
    )


def test_a_class_whose_photos_are_all_broken_keeps_its_label(tmp_path: Path):
    (tmp_path / "ant").mkdir()
    (tmp_path / "ant" / "a.jpg").touch()
    save(tmp_path / "bee" / "b.jpg")
    photos = Photos.open(tmp_path)
    assert photos.class_names == ("ant", "bee")
    assert photos.labels.tolist() == [1]


def test_only_headers_are_read(tmp_path: Path):
    path = save(tmp_path / "cat" / "a.jpg", (640, 480))
    path.write_bytes(path.read_bytes()[:700])  # the pixels are cut off
    assert Photos.open(tmp_path).sizes_wh.tolist() == [[640, 480]]


def test_the_index_cannot_be_changed(tmp_path: Path):
    save(tmp_path / "cat" / "a.jpg")
    photos = Photos.open(tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        photos.labels[0] = 7
    with pytest.raises(AttributeError):
        photos.paths = ()  # type: ignore[misc]  # the very thing under test


def test_a_missing_folder_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"does not exist. Expected is <folder>/<class>/<photo>"):
        Photos.open(tmp_path / "none")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="is a file, not a folder of photos"):
        Photos.open(save(tmp_path / "a.jpg"))


def test_photos_without_class_folders_are_refused_with_counts(tmp_path: Path):
    save(tmp_path / "a.jpg")
    save(tmp_path / "b.jpg")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds 1 sub-folders, none with a photo, and 2 photos directly"):
        Photos.open(tmp_path)


def test_a_tree_of_broken_photos_is_refused_with_counts_and_the_first_reason(tmp_path: Path):
    for name in ("cat/a.jpg", "cat/b.jpg", "dog/c.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"2 class sub-folders hold 3 photo files.*a\.jpg: not a JPEG or PNG"):
        Photos.open(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every folder")
def test_an_unreadable_folder_is_refused(tmp_path: Path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o000)
    with pytest.raises(DataError, match="cannot list the folder"):
        Photos.open(locked)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(folder: Path):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=r"cannot list the folder .*: Permission denied. Make it readable."):
        Photos.open(tmp_path)
