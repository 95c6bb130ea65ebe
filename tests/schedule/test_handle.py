"""A handle's value is legal once wait has returned it; an op that did not succeed raises when it is read."""

import pytest

from labkit.errors import ContractError, OpCancelled, OpFailed, OpSkipped
from labkit.schedule import Handle, Status


def ended(status: Status, error: BaseException | None = None) -> Handle:
    handle = Handle(7, "decode")
    handle.status, handle.error, handle.seen = status, error, True
    handle._value = "pixels"
    return handle


def test_a_new_handle_is_pending_and_knows_no_times():
    handle = Handle(7, "decode")
    assert (handle.id, handle.name, handle.status, handle.done, handle.seen) == (7, "decode", Status.PENDING, False, False)
    assert (handle.start_ns, handle.end_ns) == (-1, -1)


@pytest.mark.parametrize("status", list(Status))
def test_a_value_read_before_wait_returned_the_handle_is_the_kernel_s_mistake(status: Status):
    handle = ended(status)
    handle.seen = False
    with pytest.raises(ContractError) as mistake:
        _ = handle.value
    assert str(mistake.value) == (
        "the value of 'decode' (op 7) was read before wait() returned its handle; wait for the handle first"
    )
    assert not handle.reported


def test_the_value_of_an_op_that_ended_well():
    assert ended(Status.OK).value == "pixels"


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED, Status.SKIPPED, Status.CANCELLED])
def test_everything_but_pending_is_done(status: Status):
    assert ended(status).done


def test_a_failed_op_raises_its_cause_and_counts_as_reported():
    cause = ValueError("bad pixels")
    handle = ended(Status.FAILED, cause)
    with pytest.raises(OpFailed) as failure:
        _ = handle.value
    assert str(failure.value) == "'decode' (op 7) failed: ValueError('bad pixels')"
    assert failure.value.cause is cause and failure.value.__cause__ is cause
    assert type(failure.value) is OpFailed
    assert handle.reported


def test_a_skipped_op_raises_what_broke_the_chain():
    cause = ValueError("bad pixels")
    with pytest.raises(OpSkipped, match=r"'decode' \(op 7\) was skipped: something it depended on did not succeed") as failure:
        _ = ended(Status.SKIPPED, cause).value
    assert failure.value.cause is cause


def test_a_cancelled_op_says_that_it_never_started():
    with pytest.raises(OpCancelled, match=r"'decode' \(op 7\) was cancelled before it started") as failure:
        _ = ended(Status.CANCELLED).value
    assert failure.value.cause is None


def test_skipped_and_cancelled_can_be_caught_as_failed():
    for status in (Status.FAILED, Status.SKIPPED, Status.CANCELLED):
        with pytest.raises(OpFailed):
            _ = ended(status).value


def test_a_value_may_be_read_again():
    failed = ended(Status.FAILED, ValueError("x"))
    for _ in range(2):
        with pytest.raises(OpFailed):
            _ = failed.value
    fine = ended(Status.OK)
    assert fine.value is fine.value


def test_a_handle_says_what_it_is():
    assert repr(ended(Status.SKIPPED)) == "<Handle 7 decode skipped>"


def test_a_handle_carries_no_attribute_but_its_own():
    with pytest.raises(AttributeError):
        Handle(0, "x").dependencies = []
