"""The catalog says what is shipped, and its checksums tell when a file is not."""

import hashlib
from pathlib import Path

import pytest

from labkit.data import Photos, datasets_root, read_catalog, verify
from labkit.errors import DataError

CATALOG = """
[letters]
description = "two letters"
folder = "letters"
count = 2
licences = ["CC0-1.0"]
checksums = "letters/SHA256SUMS"
made = "by hand"
[[letters.sources]]
name = "a"
title = "the letter a"
author = "nobody"
licence = "CC0-1.0"
package = "none"
sha256 = "none"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    letters = tmp_path / "letters"
    letters.mkdir()
    for letter in "ab":
        (letters / letter).write_text(letter)
    sums = [f"{hashlib.sha256(letter.encode()).hexdigest()}  {letter}\n" for letter in "ab"]
    (letters / "SHA256SUMS").write_text("".join(sums))
    (tmp_path / "catalog.toml").write_text(CATALOG)
    return tmp_path


def test_every_shipped_file_is_whole():
    assert verify(datasets_root()) == []


def test_the_shipped_photos_are_the_80_that_the_catalog_counts_and_no_others():
    root = datasets_root()
    collection = read_catalog(root)["photos"]
    listed = [line.split("  ")[1] for line in collection.checksums.read_text().splitlines()]
    photos = Photos.open(collection.folder)
    assert collection.count == len(photos) == 80
    assert [path.relative_to(collection.folder).as_posix() for path in photos.paths] == listed
    assert photos.broken == ()


def test_each_class_has_one_source_with_an_author_and_a_licence():
    collection = read_catalog(datasets_root())["photos"]
    assert tuple(source.name for source in collection.sources) == Photos.open(collection.folder).class_names
    for source in collection.sources:
        assert source.author
        assert source.licence in {"CC0-1.0", "public domain", "CC-BY-2.0"}
        assert len(source.sha256) == 64


def test_the_shipped_traces_are_those_that_the_catalog_names_unchanged_from_their_source():
    collection = read_catalog(datasets_root())["kineto"]
    listed = dict(reversed(line.split("  ")) for line in collection.checksums.read_text().splitlines())
    files = sorted(path.name for path in collection.folder.glob("*.json.gz"))
    assert files == sorted(listed) == sorted(f"{source.name}.json.gz" for source in collection.sources)
    assert collection.count == len(files) == 6
    assert {f"{source.name}.json.gz": source.sha256 for source in collection.sources} == listed


def test_the_licence_of_the_traces_lies_beside_them():
    collection = read_catalog(datasets_root())["kineto"]
    licence = (collection.folder / "LICENSE").read_text()
    assert collection.licences == ("MIT",) and {source.licence for source in collection.sources} == {"MIT"}
    assert "Permission is hereby granted, free of charge" in licence
    assert all(source.author in licence for source in collection.sources)


def test_every_collection_counts_what_its_list_of_checksums_holds():
    for collection in read_catalog(datasets_root()).values():
        assert collection.count == len(collection.checksums.read_text().splitlines()), collection.name


def test_what_needs_attribution_is_attributed_in_the_readme():
    root = datasets_root()
    readme = (root / "README.md").read_text(encoding="utf-8")
    owed = [source for source in read_catalog(root)["photos"].sources if source.licence == "CC-BY-2.0"]
    assert [source.author for source in owed] == ["vultilion", "danielbuechele"]
    for source in owed:
        assert source.author in readme
        assert source.page is not None and source.page in readme


def test_a_collection_has_its_folder_and_checksums_under_the_root(root: Path):
    letters = read_catalog(root)["letters"]
    assert letters.folder == root / "letters"
    assert letters.checksums == root / "letters" / "SHA256SUMS"
    assert letters.sources[0].page is None


def test_whole_files_verify(root: Path):
    assert verify(root) == []


def test_a_changed_and_a_missing_file_are_both_named(root: Path):
    (root / "letters" / "a").write_text("A")
    (root / "letters" / "b").unlink()
    assert verify(root) == ["letters/a", "letters/b"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[letters", "not valid TOML"),
        (CATALOG.replace("count = 2", ""), r"lacks 'count' in its table \[letters\]"),
        (CATALOG.replace('author = "nobody"', ""), "lacks 'author'"),
        ("letters = 3", "wrong type"),
    ],
)
def test_a_malformed_catalog_is_refused_with_its_fault(root: Path, content: str, complaint: str):
    (root / "catalog.toml").write_text(content)
    with pytest.raises(DataError, match=complaint):
        read_catalog(root)


def test_a_missing_catalog_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="cannot read the catalog"):
        read_catalog(tmp_path)


def test_a_missing_list_of_checksums_is_refused(root: Path):
    (root / "letters" / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match="cannot read the checksums"):
        verify(root)


def test_a_malformed_line_of_checksums_is_refused_with_its_number(root: Path):
    (root / "letters" / "SHA256SUMS").write_text("0123  a\n")
    with pytest.raises(DataError, match="line 1 of"):
        verify(root)
