"""What a few items tell: which are taken, how long one takes, by a clock of the test's own."""

from typing import Any

import pytest
import torch

from labkit.errors import DataError
from labkit.workloads.parts import Loading
from labkit.workloads.sample import sample_of


class Clocked:
    """Items that take as long as `took_ns` says, by its own clock."""

    def __init__(self, *took_ns: int, total: int = 100):
        self.took_ns, self.total = took_ns, total
        self.now_ns = 0
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        self.now_ns += self.took_ns[len(self.asked) % len(self.took_ns)]
        self.asked.append(index)
        return torch.zeros(2), 1

    def clock(self) -> int:
        return self.now_ns


def test_eight_items_spread_over_the_data_are_timed_after_one_that_is_not():
    data = Clocked(9_000, *[100, 200, 300, 400, 500, 600, 700, 800])
    assert sample_of(Loading(data, None), data.clock).item_ns == 450
    assert data.asked == [0, 0, 12, 25, 37, 50, 62, 75, 87]


def test_one_slow_item_does_not_count_for_all():
    data = Clocked(100, 100, 100, 1_000_000)
    assert sample_of(Loading(data, None), data.clock).item_ns == 100


@pytest.mark.parametrize(("total", "asked"), [(1, [0, 0]), (3, [0, 0, 1, 2])])
def test_of_few_items_each_is_taken(total: int, asked: list[int]):
    data = Clocked(100, total=total)
    assert sample_of(Loading(data, None), data.clock).item_ns == 100
    assert data.asked == asked


def test_of_slow_items_no_more_are_taken_than_two_seconds_hold():
    data = Clocked(1_500_000_000)
    assert sample_of(Loading(data, None), data.clock).item_ns == 1_500_000_000
    assert len(data.asked) == 3


def test_an_own_collate_is_shared_among_its_items():
    def collate(items: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        data.now_ns += 80
        return torch.stack([item for item, _ in items]), torch.tensor([target for _, target in items])

    data = Clocked(100)
    assert sample_of(Loading(data, collate), data.clock).item_ns == 100 + 80 // 8


def test_an_item_that_cannot_be_had_is_named_with_its_reason():
    class Broken(Clocked):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index) if index < 30 else {}["no key"]

    with pytest.raises(DataError, match=r"dataset\[37\] failed: KeyError: 'no key'"):
        sample_of(Loading(Broken(1), None))
