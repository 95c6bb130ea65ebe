"""Copy engines on the simulated device: with one, both directions take turns. The link moves a byte in a nanosecond."""

from collections.abc import Callable
from random import Random

import pytest

from labkit.device.simulated import SimulatedDevice
from labkit.errors import MachineError
from labkit.schedule import Cost, Handle, Lane, Op

Open = Callable[..., SimulatedDevice]


def copy(role: str, size: int, index: int = 0) -> Op:
    return Op("copy", Lane(role, index), lambda: pytest.fail("it ran"), Cost(bytes=size))


def step(ns: int) -> Op:
    return Op("step", Lane("compute"), lambda: pytest.fail("it ran"), Cost(fixed_ns=ns))


def times(handle: Handle) -> tuple[int, int]:
    return handle.start_ns, handle.end_ns


@pytest.fixture
def gpu(make_machine) -> Open:
    return lambda **figures: SimulatedDevice(make_machine("cuda", **figures))


def test_with_one_engine_a_copy_waits_for_the_other_direction(gpu: Open):
    device = gpu(copy_engines=1)
    down, up = device.submit(copy("h2d", 1000)), device.submit(copy("d2h", 500))
    assert (times(down), times(up)) == ((1, 1001), (1001, 1501))


@pytest.mark.parametrize("figures", [{}, {"copy_engines": 2}, {"copy_engines": 3}])
def test_with_two_engines_or_an_unknown_number_both_directions_copy_at_once(gpu: Open, figures: dict[str, float]):
    device = gpu(**figures)
    down, up = device.submit(copy("h2d", 1000)), device.submit(copy("d2h", 500))
    assert (times(down), times(up)) == ((1, 1001), (2, 502))


def test_copies_that_take_turns_have_the_whole_link(gpu: Open):
    """What both directions keep while both copy matters only where they do."""
    ends = []
    for engines in (1, 2):
        device = gpu(copy_engines=engines, link_duplex_share=0.5)
        device.submit(copy("h2d", 1000))
        ends.append(device.submit(copy("d2h", 1000)).end_ns)
    assert ends == [2001, 2002]


def test_a_copy_shares_the_link_only_with_one_that_is_under_way(gpu: Open):
    """A log that waits for its step has not begun: the batch that is copied meanwhile has the link to itself."""
    device = gpu(link_duplex_share=0.5)
    log = device.submit(copy("d2h", 100), device.submit(step(5000)))
    before = device.submit(copy("h2d", 1000))
    at_once = device.submit(copy("h2d", 1000), device.submit(step(100)))
    assert times(log) == (5001, 5101)
    assert times(before) == (3, 1003), "the log is still to come"
    assert times(at_once) == (5101, 6101), "the log has just ended"
    device.wait([at_once])
    log = device.submit(copy("d2h", 1000))
    beside = device.submit(copy("h2d", 1000))
    assert (log.start_ns, times(beside)) == (6102, (6103, 8103)), "2000 ns at half its rate"


def test_a_copy_that_is_ready_goes_before_one_that_waits_for_its_step(gpu: Open):
    device = gpu(copy_engines=1)
    log = device.submit(copy("d2h", 100), device.submit(step(5000)))
    batch = device.submit(copy("h2d", 1000))
    assert (times(log), times(batch)) == ((5001, 5101), (3, 1003))


def test_a_copy_lets_those_through_that_come_due_meanwhile(gpu: Open):
    device = gpu(copy_engines=1)
    log = device.submit(copy("d2h", 100), device.submit(step(500)))
    batch, other = device.submit(copy("h2d", 1000)), device.submit(copy("h2d", 200, index=1))
    assert times(log) == (501, 601)
    assert times(batch) == (3, 1103), "1000 ns, and the 100 of the log"
    assert times(other) == (1103, 1303), "no time of the engine is left before"


def test_a_copy_that_is_ready_while_the_engine_is_busy_leaves_that_time_taken(gpu: Open):
    device = gpu(copy_engines=1)
    first = device.submit(copy("h2d", 400), device.submit(step(100)))
    late = device.submit(copy("d2h", 50), device.submit(step(100)))
    early = device.submit(copy("d2h", 300, index=1))
    assert (times(first), times(late)) == ((101, 501), (501, 551))
    assert times(early) == (5, 755), "96 ns before the first, the other 204 after the late one"


def test_copying_and_computing_overlap_on_one_engine_as_on_two(gpu: Open):
    """Copy 1000, step 1000, log 10, two batches ahead: the engine's 1010 ns set the pace, or the step's 1000."""

    def pace(engines: int) -> float:
        device = gpu(copy_engines=engines)
        logs: list[Handle] = []
        for _ in range(102):
            logs.append(device.submit(copy("d2h", 10), device.submit(step(1000), device.submit(copy("h2d", 1000)))))
            if len(logs) > 2:
                device.wait([logs[-3]])
        return (logs[101].end_ns - logs[1].end_ns) / 100

    assert pace(1) == pytest.approx(1010, abs=1)
    assert pace(2) == pytest.approx(1000, abs=1)


def test_the_only_engine_holds_up_no_other_lane(gpu: Open):
    device = gpu(copy_engines=1)
    device.submit(copy("h2d", 1000))
    assert times(device.submit(step(100))) == (2, 102)


@pytest.mark.parametrize("seed", range(30))
def test_one_engine_copies_one_byte_a_nanosecond_at_most_and_the_past_is_forgotten(gpu: Open, seed: int):
    """Whatever begins and ends within some time fits into it."""
    device, chance = gpu(copy_engines=1), Random(seed)
    copies: list[tuple[int, int, int]] = []
    for number in range(60):
        after = [device.submit(step(chance.randint(1, 300)))] if chance.random() < 0.4 else []
        size = chance.randint(1, 400)
        handle = device.submit(copy(chance.choice(["h2d", "d2h"]), size, number % 3), after=after)
        copies.append((*times(handle), size))
        assert handle.end_ns - handle.start_ns >= size
        if chance.random() < 0.3:
            device.wait([handle])
    for begin, *_ in copies:
        for _, end, _ in copies:
            assert sum(size for start, stop, size in copies if begin <= start and stop <= end) <= max(end - begin, 0)
    assert len(device._link._busy) < 50


@pytest.mark.parametrize("figures", [{"copy_engines": 1}, {"link_duplex_share": 0.7}])
def test_a_long_run_remembers_only_what_is_under_way(gpu: Open, figures: dict[str, float]):
    device = gpu(**figures)
    for _ in range(2000):
        device.wait([device.submit(copy("h2d", 100))])
    assert len(device._link._busy) + len(device._link._under_way["h2d"]) < 5


def test_less_than_one_engine_is_refused(gpu: Open):
    with pytest.raises(MachineError, match=r"machine 'test': copy_engines=0 is not allowed; allowed: 1 or more"):
        gpu(copy_engines=0)
