"""Ops, lanes and costs: plain values that say what is asked, on any device."""


import pytest

from labkit.schedule import HOST, ROLES, Cost, Lane, Op
from labkit.schedule.cost import FREE


@pytest.mark.parametrize(
    ("lane", "text"), [(Lane("compute"), "compute"), (Lane("compute", 0), "compute"), (Lane("h2d", 1), "h2d1"), (HOST, "host")]
)
def test_a_lane_is_written_as_its_role_and_its_number_from_the_second_on(lane: Lane, text: str):
    assert str(lane) == f"{lane}" == text


def test_no_two_lanes_are_written_alike():
    lanes = [Lane(role, index) for role in ROLES for index in range(12)]
    assert len({str(lane) for lane in lanes}) == len(lanes)


def test_lanes_of_one_role_and_number_are_one_lane():
    assert {Lane("compute"): 1}[Lane("compute", 0)] == 1
    assert Lane("compute") != Lane("compute", 1)


def test_the_roles_of_lanes():
    assert ROLES == ("host", "workers", "h2d", "compute", "d2h", "disk", "net")


def test_a_cost_asks_for_nothing_but_one_launch_unless_it_says_so():
    assert Cost() == FREE
    assert (FREE.flop, FREE.bytes, FREE.jpeg_pixels, FREE.fixed_ns, FREE.launches, FREE.pageable) == (0, 0, 0, 0, 1, False)
    assert Cost(flop=5, bytes=3) == FREE._replace(flop=5, bytes=3)


def test_equal_costs_have_one_hash():
    assert len({Cost(flop=1), Cost(1), Cost(flop=2)}) == 2


def test_an_op_is_free_belongs_to_no_step_and_completes_no_items_unless_it_says_so():
    op = Op("decode", Lane("workers"), len)
    assert (op.cost, op.step, op.items, op.blocking, op.simulated_value) == (FREE, -1, 0, False, None)


def test_an_op_is_frozen():
    with pytest.raises(AttributeError):
        Op("decode", HOST, len).step = 3
