"""A text file as sentences, one a line; and, where a file of the same name ending in `.tokens` lies beside it, how long each is.

The lengths are there so that a run can be predicted without the tokenizer that measured them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit.errors import DataError

TOKENS_SUFFIX = ".tokens"
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class Sentences:
    """The sentences of one file, in its order, without empty lines.

    tokens  int64 [n], the WordPiece tokens of each as BERT's uncased vocabulary counts them, its two marks included; None where
            no file says so
    """

    file: Path
    texts: tuple[str, ...]
    tokens: np.ndarray | None

    def __len__(self) -> int:
        return len(self.texts)

    @staticmethod
    def open(file: Path) -> "Sentences":
        """Read a text file. Raises DataError where it cannot be read, is not UTF-8, is over 64 MiB, or holds no sentence, and
        where the lengths beside it are not those of its lines."""
        texts = tuple(line for line in map(str.strip, _lines(file, "sentences")) if line)
        if not texts:
            raise DataError(f"there is no sentence in {file}: one a line is needed")
        lengths = file.with_suffix(TOKENS_SUFFIX)
        return Sentences(file, texts, _tokens(lengths, len(texts)) if lengths != file and lengths.is_file() else None)


def _lines(file: Path, what: str) -> list[str]:
    try:
        if file.is_file() and file.stat().st_size > MOST_BYTES:
            raise DataError(f"the {what} {file} are larger than {MOST_BYTES // 2**20} MiB: cut the file")
        return file.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise DataError(f"cannot read the {what} {file}: {error.strerror or error}. Needed is a text file, one sentence a line") from error
    except UnicodeDecodeError as error:
        raise DataError(f"the {what} {file} are not UTF-8 text: {error.reason} at byte {error.start}. Save the file as UTF-8") from error


def _tokens(file: Path, count: int) -> np.ndarray:
    words = [line.strip() for line in _lines(file, "lengths") if line.strip()]
    wrong = next((number for number, word in enumerate(words, 1) if not (word.isascii() and word.isdigit() and 0 < int(word) < 2**31)), None)
    if wrong is not None:
        raise DataError(f"line {wrong} of {file} is {words[wrong - 1]!r}; allowed: a whole number of tokens, 1 or more")
    if len(words) != count:
        raise DataError(f"{file} has {len(words)} lengths for {count} sentences: write one a line, or remove it")
    tokens = np.array(words, np.int64)
    tokens.setflags(write=False)
    return tokens
