"""Another thread may end the host's wait: the next one where it does not wait just then, and no call is lost."""

import threading

from labkit.trace import KIND_WAIT
from tests.device.conftest import MS

HANG_GUARD_NS = 10_000 * MS


def test_a_host_that_waits_is_woken_from_another_thread(live_rig):
    device = live_rig.open()
    threading.Timer(0.02, device.wake).start()
    until = device.now() + HANG_GUARD_NS
    assert device.wait([], until=until) == [] and device.now() < until


def test_a_call_that_comes_before_the_wait_ends_it_and_only_it(live_rig):
    device = live_rig.open()
    device.wake()
    device.wake()
    until = device.now() + HANG_GUARD_NS
    assert device.wait([], until=until) == [] and device.now() < until
    soon = device.now() + 5 * MS
    device.wait([], until=soon)
    assert device.now() >= soon, "two calls before a wait are one"


def test_a_call_ends_a_wait_for_an_op_that_runs_on_and_its_row_names_no_op(live_rig):
    device = live_rig.open()
    go_on = threading.Event()
    handle = device.submit(live_rig.op("long", "workers", 0, do=go_on.wait))
    threading.Timer(0.02, device.wake).start()
    assert device.wait([handle]) == []
    go_on.set()
    assert device.wait([handle]) == [handle]
    device.close()
    trace = device.recorder.finish(device.now())
    assert trace["woke_by"][trace["kind"] == KIND_WAIT].tolist() == [-1, handle.id]


def test_a_call_during_a_blocking_op_is_kept_for_the_programs_own_wait(live_rig):
    device = live_rig.open()
    device.submit(live_rig.op("call", "workers", 0, do=device.wake, blocking=True))
    until = device.now() + HANG_GUARD_NS
    assert device.wait([], until=until) == [] and device.now() < until


def test_no_call_of_a_thousand_is_lost_however_it_falls(live_rig):
    device = live_rig.open()
    brought: list[int] = []
    taken = 0

    def bring() -> None:
        for number in range(1000):
            brought.append(number)
            device.wake()

    thread = threading.Thread(target=bring)
    thread.start()
    until = device.now() + HANG_GUARD_NS
    while taken < 1000 and device.now() < until:
        taken = len(brought)
        if taken < 1000:
            device.wait([], until=until)
    thread.join()
    assert taken == 1000


def test_a_call_that_comes_before_a_blocking_op_does_not_end_its_wait_but_the_programs_own(live_rig):
    device = live_rig.open()
    device.wake()
    device.submit(live_rig.op("load", "workers", 5 * MS, blocking=True))
    until = device.now() + HANG_GUARD_NS
    assert device.wait([], until=until) == [] and device.now() < until
