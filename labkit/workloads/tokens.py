"""Text to tokens: WordPiece as the packaged model wants it, or words hashed to numbers, for which nothing need be installed."""

import re
import zlib
from pathlib import Path
from typing import Protocol

BEGIN, END = 101, 102
LONGEST = 256
"""Tokens of a sentence at most; what is longer is cut, as the makers of all-MiniLM-L6-v2 do."""

_FIRST_WORD = 1_000
_WORD = re.compile(r"\w+|[^\w\s]")


class Tokenizer(Protocol):
    """Numbers for a text; never 0, which is padding."""

    def tokens(self, text: str) -> list[int]:
        """BEGIN, the tokens of the text, END; `LONGEST` at most."""
        ...


class WordPiece:
    """The tokens of a `tokenizer.json`. Needs the package `tokenizers`; lets other threads run while it works."""

    def __init__(self, file: Path):
        from tokenizers import Tokenizer as Pieces

        self._pieces = Pieces.from_file(str(file))
        self._pieces.no_padding()  # the file of the packaged model pads everything to 128
        self._pieces.enable_truncation(LONGEST)
        self._pieces.encode_special_tokens = True  # "[PAD]" in a sentence is five letters and two brackets

    def tokens(self, text: str) -> list[int]:
        """BEGIN, the tokens of the text, END; `LONGEST` at most."""
        return self._pieces.encode(text).ids


class HashedWords:
    """A number for each word and each mark, made of its letters: as many tokens as words, and no vocabulary."""

    def __init__(self, vocabulary: int):
        self._room = vocabulary - _FIRST_WORD

    def tokens(self, text: str) -> list[int]:
        """BEGIN, one token for each word or mark, END; `LONGEST` at most."""
        words = _WORD.findall(text.lower())[: LONGEST - 2]
        return [BEGIN, *(_FIRST_WORD + zlib.crc32(word.encode()) % self._room for word in words), END]
