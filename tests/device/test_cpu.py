"""The cpu device shares out cores: too many for one thread are refused, too many in all are said."""


import pytest

from labkit.device import cpu
from labkit.device.cpu import CpuDevice
from labkit.errors import NotEnoughThreads
from labkit.schedule import Lane, Op
from labkit.trace import Recorder
from tests.threads import threads_left


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "available_cores", lambda: 4)


@pytest.fixture
def open_cpu():
    opened: list[CpuDevice] = []

    def open_one(**options) -> CpuDevice:
        opened.append(CpuDevice(**options))
        return opened[-1]

    yield open_one
    for device in opened:
        device.close()


def warnings_of(device: CpuDevice) -> list[str]:
    return device.recorder.meta.get("warnings", [])


@pytest.mark.parametrize("share", [5, 0, -1])
def test_a_thread_that_asks_for_more_cores_than_there_are_is_refused(share: int):
    with pytest.raises(
        NotEnoughThreads, match=f"lane 'compute' asks for {share} cores; this process may use 1 to 4"
    ):
        CpuDevice(shares={"compute": share})
    assert threads_left() == []


@pytest.mark.parametrize(
    ("widths", "shares"),
    [({}, {}), ({"workers": 3}, {}), ({"workers": 2}, {"compute": 2}), ({}, {"compute": 3})],
)
def test_as_many_busy_threads_as_cores_are_no_warning(open_cpu, widths, shares):
    assert warnings_of(open_cpu(widths=widths, shares=shares)) == []


@pytest.mark.parametrize(
    ("widths", "shares", "words"),
    [
        ({"workers": 4}, {}, "4 workers + 1 compute on 4 cores"),
        ({"workers": 2}, {"workers": 2}, "4 workers + 1 compute on 4 cores"),
        ({"workers": 1}, {"compute": 4}, "1 workers + 4 compute on 4 cores"),
    ],
)
def test_more_busy_threads_than_cores_are_a_warning_in_the_trace(open_cpu, widths, shares, words):
    (warning,) = warnings_of(open_cpu(widths=widths, shares=shares))
    assert warning == f"more busy threads than cores: {words}; they slow each other down"


def test_a_resize_warns_once_when_it_goes_past_the_cores(open_cpu):
    device = open_cpu(widths={"workers": 2})
    for width in (3, 6, 1, 6):
        device.resize("workers", width)
    assert [warning.split(": ")[1] for warning in warnings_of(device)] == [
        "6 workers + 1 compute on 4 cores; they slow each other down"
    ]


def test_each_lane_thread_computes_with_its_share_of_the_cores(open_cpu):
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    device = open_cpu(widths={"workers": 2}, shares={"compute": 3})
    handles = [
        device.submit(Op("ask", lane, torch.get_num_threads))
        for lane in (Lane("compute"), Lane("workers"), Lane("workers"), Lane("h2d"))
    ]
    for handle in handles:
        device.wait([handle])
    assert [handle.value for handle in handles] == [3, 1, 1, 1]
    torch.set_num_threads(before)


def test_it_says_what_it_is(open_cpu):
    device = open_cpu(recorder=Recorder(cap=10))
    assert device.recorder.cap == 10
    assert (device.name, device.kind) == ("cpu", "cpu")
    said = {"device": "cpu", "measured": True, "device_label": "CPU threads", "cores": 4}
    assert {name: device.recorder.meta[name] for name in said} == said
    assert device.label(Lane("compute")) == "compute thread (CPU)"
    assert device.label(Lane("workers")) == "worker thread (CPU)"
