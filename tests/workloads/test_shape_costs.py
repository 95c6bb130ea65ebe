"""Costs of any shape from five that were counted: exact, or it would not be the same work."""

from labkit.schedule import Cost
from labkit.workloads.shape_costs import ShapeCosts


def by_formula(n: int, t: int) -> Cost:
    return Cost(flop=n * t * 3_000_001 + n * t * t * 768, bytes=91_000_003 + 1_536 * t + 77 * n + n * t * 12_345 + n * t * t * 96, launches=149)


def test_a_few_shapes_give_every_other_one_to_the_last_byte():
    costs = ShapeCosts(by_formula)
    for n, t in [(1, 8), (1, 512), (3, 8), (64, 256), (4096, 512), (7, 1)]:
        assert costs.cost(n, t) == by_formula(n, t)


def test_everything_is_counted_at_once_and_nothing_while_requests_wait():
    asked: list[tuple[int, int]] = []
    costs = ShapeCosts(lambda n, t: asked.append((n, t)) or by_formula(n, t))
    assert len(asked) == len(set(asked)) == 3 + 5
    for n in range(1, 10):
        costs.cost(n, 16)
    assert len(asked) == 3 + 5


def test_a_single_sequence_is_counted_for_itself():
    costs = ShapeCosts(lambda n, t: Cost(bytes=10 * n * t + (n > 1) * 7, launches=68 if n > 1 else 56))
    assert costs.cost(1, 40) == Cost(bytes=400, launches=56)
    assert costs.cost(5, 40) == Cost(bytes=2_007, launches=68)
