"""Text to tokens without a vocabulary."""

from labkit.workloads.tokens import BEGIN, END, LONGEST, HashedWords

WORDS = HashedWords(30_522)


def test_each_word_and_each_mark_is_a_token_between_the_two_ends():
    tokens = WORDS.tokens("We, the People.")
    assert len(tokens) == 2 + 5
    assert (tokens[0], tokens[-1]) == (BEGIN, END)


def test_a_word_has_the_same_token_everywhere_whatever_its_case():
    first, second = WORDS.tokens("the People"), WORDS.tokens("people, THE")
    assert first[1:3] == [second[3], second[1]]


def test_no_token_is_padding_or_outside_the_vocabulary():
    tokens = HashedWords(2_000).tokens(" ".join(f"word{n}" for n in range(200)))
    assert all(1_000 <= token < 2_000 for token in tokens[1:-1])


def test_a_long_text_is_cut_and_still_ends():
    tokens = WORDS.tokens("word " * 1_000)
    assert len(tokens) == LONGEST and tokens[-1] == END


def test_no_text_is_two_ends():
    assert WORDS.tokens("") == [BEGIN, END]
