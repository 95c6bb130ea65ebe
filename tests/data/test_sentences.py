"""A text file becomes sentences, with or without their lengths beside it; what cannot be read is refused with its fault."""

from pathlib import Path

import pytest

from labkit.data import datasets_root, read_catalog
from labkit.data.sentences import Sentences
from labkit.errors import DataError

SHIPPED = datasets_root() / "text" / "sentences.txt"


def test_the_shipped_sentences_are_of_very_different_lengths_and_none_is_there_twice():
    sentences = Sentences.open(SHIPPED)
    assert len(sentences) == len(set(sentences.texts)) == 206
    words = [len(text.split()) for text in sentences.texts]
    assert (min(words), max(words)) == (2, 428)
    assert (sentences.tokens.min(), sentences.tokens.max(), sentences.tokens.sum()) == (6, 522, 10_691)
    assert sentences.texts[0] == "Beautiful is better than ugly."
    assert sentences.texts[6] == "Readability counts."


def test_no_sentence_has_fewer_tokens_than_words_and_its_two_marks():
    sentences = Sentences.open(SHIPPED)
    assert all(tokens >= len(text.split()) + 2 for text, tokens in zip(sentences.texts, sentences.tokens, strict=True))


def test_every_source_of_the_text_is_in_the_public_domain_and_checked():
    collection = read_catalog(datasets_root())["text"]
    assert [source.name for source in collection.sources] == ["zen", "declaration", "constitution"]
    assert {source.licence for source in collection.sources} == {"public domain"}
    assert all(len(source.sha256) == 64 for source in collection.sources)
    listed = [line.split("  ")[1] for line in collection.checksums.read_text().splitlines()]
    assert len(listed) == collection.count
    assert sorted(listed) == sorted(path.name for path in collection.folder.iterdir() if path.name != "SHA256SUMS")
    assert sum(path.stat().st_size for path in collection.folder.iterdir()) < 200_000


def test_empty_lines_and_a_byte_order_mark_are_passed_over(tmp_path: Path):
    file = tmp_path / "mine.txt"
    file.write_bytes("\ufeffOne.\r\n\r\n  Two, and\u2028more. \n".encode())
    sentences = Sentences.open(file)
    assert sentences.texts == ("One.", "Two, and\u2028more.")
    assert sentences.tokens is None


def test_lengths_beside_the_text_are_read(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("One.\nTwo.\n")
    (tmp_path / "mine.tokens").write_text("4\n5\n")
    assert Sentences.open(tmp_path / "mine.txt").tokens.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("lengths", "complaint"),
    [
        ("4\n", "has 1 lengths for 2 sentences"),
        ("4\nfive\n", "line 2 of .* is 'five'"),
        ("0\n4\n", "line 1 of .* is '0'"),
        ("4\n-5\n", "line 2"),
        ("4\n99999999999\n", "line 2"),
        ("4\n²\n", "line 2"),
    ],
)
def test_lengths_that_are_not_those_of_the_lines_are_refused(tmp_path: Path, lengths: str, complaint: str):
    (tmp_path / "mine.txt").write_text("One.\nTwo.\n")
    (tmp_path / "mine.tokens").write_text(lengths)
    with pytest.raises(DataError, match=complaint):
        Sentences.open(tmp_path / "mine.txt")


@pytest.mark.parametrize(("content", "complaint"), [(b"", "no sentence"), (b" \n\n", "no sentence"), (b"caf\xe9\n", "not UTF-8")])
def test_a_file_without_sentences_is_refused(tmp_path: Path, content: bytes, complaint: str):
    file = tmp_path / "mine.txt"
    file.write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        Sentences.open(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match="No such file"):
        Sentences.open(tmp_path / "none.txt")
    with pytest.raises(DataError, match="directory"):
        Sentences.open(tmp_path)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path):
    file = tmp_path / "large.txt"
    with file.open("wb") as sparse:
        sparse.truncate(64 * 2**20 + 1)
    with pytest.raises(DataError, match="larger than 64 MiB"):
        Sentences.open(file)
