"""The ring of slots: as many as are held at once, one kept spare, each guarded by the last uses of its buffers."""

from labkit.kernels.slots import Slots
from labkit.schedule import Handle

COPY, BACKWARD = Handle(0, "copy"), Handle(1, "backward")


def test_the_first_slots_are_new_and_wait_for_nobody():
    slots = Slots()
    taken = [slots.take() for _ in range(3)]
    assert [slot.number for slot in taken] == [0, 1, 2]
    assert all(slot.copied == () and slot.read == () for slot in taken)
    assert slots.made == 3


def test_a_slot_that_was_given_back_is_guarded_by_its_last_uses():
    slots = Slots()
    first, second = slots.take(), slots.take()
    slots.give_back(first, COPY, BACKWARD)
    slots.give_back(second, COPY, BACKWARD)
    again = slots.take()
    assert again is first
    assert (again.copied, again.read) == ((COPY,), (BACKWARD,))


def test_the_slot_that_was_given_back_last_is_kept_spare():
    slots = Slots()
    slots.give_back(slots.take(), COPY, BACKWARD)
    assert slots.take().number == 1, "the only free slot is the spare one"


def test_slots_come_round_in_the_order_in_which_they_were_given_back():
    slots = Slots()
    taken = [slots.take() for _ in range(4)]
    for place in (2, 0, 3, 1):
        slots.give_back(taken[place], COPY, BACKWARD)
    assert [slots.take().number for _ in range(4)] == [2, 0, 3, 4]


def test_one_slot_held_at_a_time_needs_two():
    slots = Slots()
    for _ in range(50):
        slots.give_back(slots.take(), COPY, BACKWARD)
    assert slots.made == 2
