"""Streaming layers in exact numbers on the virtual clock, and with what lies in each buffer looked at on threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import OpSkipped
from labkit.kernels.offload import offload
from labkit.schedule import Status
from tests.kernels.conftest import open_simulated
from tests.kernels.layered import (
    US,
    FakeLayers,
    distances,
    pass_ends,
    rows,
    run_on_threads,
    simulate,
    steps_of,
)

SLACK = 100  # more than all the verbs of a pass cost, at 1 ns each


def pace(copy_us: float, compute_us: float, layers: int = 8, **knobs: object) -> float:
    """The time of a pass in µs, once it has settled."""
    trace = simulate(FakeLayers(layers, copy_us, compute_us), steps_of(20, **{"device_budget": 0.0, **knobs}))
    steady = distances(pass_ends(trace))[5:-5]
    assert max(steady) - min(steady) <= SLACK
    return steady[0] / US


# ---- what the knobs do to the time of a pass -------------------------------------------------------------------


def test_without_prefetch_nothing_overlaps():
    assert pace(30, 50, prefetch=0) == pytest.approx(8 * (30 + 50), abs=0.1)


@pytest.mark.parametrize("prefetch", [1, 2, 5])
@pytest.mark.parametrize(("copy_us", "compute_us"), [(30, 50), (50, 30), (40, 40)])
def test_with_prefetch_a_pass_takes_the_longer_of_its_copies_and_its_layers(prefetch: int, copy_us: int, compute_us: int):
    assert pace(copy_us, compute_us, prefetch=prefetch, slots=prefetch + 1) == pytest.approx(8 * max(copy_us, compute_us), abs=0.1)


def test_one_buffer_allows_no_prefetch():
    assert pace(30, 50, prefetch=4, slots=1) == pytest.approx(8 * (30 + 50), abs=0.1)


def test_what_stays_is_not_fetched_and_the_rest_hides_behind_it():
    assert pace(50, 30, prefetch=8, slots=9, device_budget=0.5) == pytest.approx(8 * 30, abs=0.1), "4 × 50 is less than 8 × 30"
    assert pace(90, 30, prefetch=8, slots=9, device_budget=0.5) == pytest.approx(4 * 90, abs=0.1)


def test_all_on_the_device_is_fetched_once_and_for_all():
    layers = FakeLayers(6, 100, 20)
    trace = simulate(layers, steps_of(10, device_budget=1.0))
    assert [layer for layer, _ in layers.fetched] == list(range(6))
    assert distances(pass_ends(trace))[3:] == pytest.approx([6 * 20 * US] * 6, abs=SLACK)


def test_reading_copying_and_computing_go_on_at_once():
    trace = simulate(FakeLayers(8, 30, 40, read_us=70), steps_of(20, device_budget=0.0, prefetch=3, slots=4))
    assert distances(pass_ends(trace))[10] == pytest.approx(8 * 70 * US, abs=SLACK)
    trace = simulate(FakeLayers(8, 30, 40, read_us=70), steps_of(20, device_budget=0.0, prefetch=0))
    assert distances(pass_ends(trace))[10] == pytest.approx(8 * (70 + 30 + 40) * US, abs=SLACK)


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_a_fetch_begins_when_the_layer_before_the_present_one_is_computed_and_no_earlier(prefetch: int):
    trace = simulate(FakeLayers(6, 10, 50), steps_of(6, device_budget=0.0, prefetch=prefetch, slots=prefetch + 1))
    copies, computes = trace["start_ns"][rows(trace, "copy")], trace["end_ns"][rows(trace, "compute")]
    for position in range(prefetch + 1, len(computes)):
        assert copies[position] >= computes[position - prefetch - 1]


def test_the_next_pass_is_fetched_for_before_this_one_has_ended():
    trace = simulate(FakeLayers(4, 30, 50), steps_of(6, device_budget=0.0, prefetch=2, slots=3))
    first_copies = trace["start_ns"][rows(trace, "copy")][4::4]
    assert (first_copies[:5] < np.array(pass_ends(trace))[:5]).all()


# ---- buffers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prefetch", "slots"), [(0, 1), (1, 2), (2, 3), (5, 3), (1, 6)])
def test_no_more_buffers_are_used_than_there_may_be(prefetch: int, slots: int):
    layers = FakeLayers(6, 20, 20)
    simulate(layers, steps_of(10, device_budget=0.34, prefetch=prefetch, slots=slots))
    streaming = {place for _, place in layers.fetched if place >= 6}
    assert len(streaming) <= min(slots, prefetch + 1)
    assert {layer for layer, place in layers.fetched if place == layer} == {0, 1}, "what stays has a place of its own"


def test_a_buffer_is_filled_again_only_when_its_last_reader_is_done():
    trace = simulate(layers := FakeLayers(5, 5, 50), steps_of(8, device_budget=0.0, prefetch=3, slots=2))
    copies, computes = rows(trace, "copy"), rows(trace, "compute")
    last_read: dict[int, int] = {}
    for position, (_, place) in enumerate(layers.fetched[: len(computes)]):
        assert trace["start_ns"][copies[position]] >= last_read.get(place, 0)
        last_read[place] = int(trace["end_ns"][computes[position]])


def test_a_smaller_budget_lets_go_of_layers_and_a_larger_one_fetches_them_once():
    changes = {5: {"device_budget": 0.25}, 10: {"device_budget": 0.75}}
    layers = FakeLayers(8, 20, 20)
    simulate(layers, steps_of(15, changes, device_budget=0.5, prefetch=1, slots=2))
    assert sorted(layers.dropped) == [2, 3]
    kept = [layer for layer, place in layers.fetched if place < 8]
    assert sorted(kept) == [0, 1, 2, 2, 3, 3, 4, 5]


def test_fewer_buffers_are_let_go_of():
    layers = FakeLayers(6, 20, 20)
    simulate(layers, steps_of(12, {6: {"prefetch": 0, "slots": 1}}, device_budget=0.0, prefetch=4, slots=5))
    assert len(layers.dropped) == 4
    assert len(set(layers.dropped)) == 4


# ---- always --------------------------------------------------------------------------------------------------

TURNED = st.fixed_dictionaries(
    {},
    optional={
        "device_budget": st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]),
        "prefetch": st.integers(0, 9),
        "slots": st.integers(1, 7),
    },
)


@settings(max_examples=120, deadline=None)
@given(layers=st.integers(1, 7), changes=st.dictionaries(st.integers(0, 11), TURNED, max_size=6), reads=st.booleans())
def test_whatever_is_turned_every_layer_is_computed_in_order_and_the_buffers_are_bounded(layers, changes, reads):
    fake = FakeLayers(layers, 3, 2, read_us=1 if reads else None)
    trace = simulate(fake, steps_of(12, changes))
    assert (trace["status"] == Status.OK).all()
    assert len(rows(trace, "compute")) == 12 * layers
    assert len(fake.results) == 12
    most = max([3, *(turned["slots"] for turned in changes.values() if "slots" in turned)])
    assert len({place for _, place in fake.fetched if place >= layers} - set(fake.dropped)) <= most


@settings(max_examples=15, deadline=None)
@given(changes=st.dictionaries(st.integers(0, 7), TURNED, max_size=5), reads=st.booleans())
def test_on_threads_nobody_computes_with_another_layer_s_weights(changes, reads):
    fake = FakeLayers(5, 100, 100, read_us=50 if reads else None)
    run_on_threads(fake, steps_of(8, changes))
    assert fake.results == [tuple(range(5))] * 8


# ---- failures ------------------------------------------------------------------------------------------------


def test_a_copy_that_fails_ends_the_run_with_its_reason_and_hangs_nobody():
    device = open_simulated()
    with pytest.raises(OpSkipped, match=r"'leave' .* was skipped") as raised:
        offload(device, FakeLayers(4, 10, 10, fails=("copy", 7)), steps_of(5, device_budget=0.0))
    assert "copy failed" in repr(raised.value.cause)
    device.close()
