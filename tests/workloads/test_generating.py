"""How much each request asks for: drawn from the seed, with a long tail, bounded."""

import numpy as np

from labkit.workloads.generating import Asked


def test_lengths_are_long_tailed_around_their_medians_and_bounded():
    asked = Asked(prompt=32, wanted=16, tail=1.0, seed=0)
    prompts, wanted = np.array([asked.of(number) for number in range(20_000)]).T
    assert (np.median(prompts), np.median(wanted)) == (32, 16)
    assert (prompts.max(), wanted.max()) == (256, 128)
    assert min(prompts.min(), wanted.min()) >= 1
    assert wanted.mean() > 1.4 * np.median(wanted)


def test_the_same_number_asks_for_the_same_whatever_was_asked_before():
    one, other = Asked(32, 16, 1.0, 3), Asked(32, 16, 1.0, 3)
    forwards = [one.of(number) for number in range(3_000)]
    assert [other.of(number) for number in reversed(range(3_000))] == forwards[::-1]
    assert [Asked(32, 16, 1.0, 4).of(number) for number in range(3_000)] != forwards


def test_without_a_tail_all_ask_for_the_median():
    asked = Asked(7, 9, 0.0, 0)
    assert {asked.of(number) for number in range(100)} == {(7, 9)}
