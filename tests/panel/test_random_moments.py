"""Whatever happens to a panel at whatever moment: it comes to rest, the next run works, and no process is left behind.

The actions and the moments are drawn from a seed; what was done before a failure is in its message.
"""

import os
import random
import signal
from pathlib import Path
from time import monotonic

import psutil
import pytest

from tests.browser.equipment import HERE, IPYKERNELS, Ipykernel, one_ipykernel
from tests.panel.kernel import Kernel, ended, started
from tests.panel.shown import Shown

REST_S = 30.0
LEFT = "[each.name for each in __import__('threading').enumerate() if each.name.startswith('labkit-') and each.name != 'labkit-spawner']"
"""Threads of labkit in a kernel, but for the one that starts workers and stays."""
PANEL = "panel = labkit.Panel('pipeline', device='simulated:t4', image_size=32, batch_size=4, out=None)\npanel"
MOMENTS = 45 // len(HERE)
"""With each ipykernel; three more at which the kernel ends, and two of loader processes."""


class Person:
    """Does something to a panel while it runs, or is about to.

    done  what was done so far, and when after Run
    """

    def __init__(self, kernel: Kernel, seed: int):
        self.kernel = kernel
        self.random = random.Random(seed)
        self.done: list[str] = []
        self.panel = Shown(kernel, kernel.execute(PANEL, cell="panel"))

    def act(self, action: str, within_s: float = 0.6) -> None:
        """Press Run, wait for a random while, and do it."""
        self.panel.did("run_for", seconds=None)
        self.panel.did("run")
        after_s = self.random.uniform(0.0, within_s)
        self.done.append(f"{action} {1000 * after_s:.0f} ms after Run")
        until = monotonic() + after_s
        self.kernel.until(lambda: monotonic() > until)
        getattr(self, action)()

    def stop(self) -> None:
        """Stop."""
        self.panel.did("stop")

    def stop_twice(self) -> None:
        """Stop, and at once again: the worker is killed."""
        self.panel.do("stop")
        self.panel.did("stop")

    def kill_the_worker(self) -> None:
        """As the system does when memory is short."""
        for child in self.kernel.children():
            child.kill()

    def interrupt(self) -> None:
        """The page's interrupt button."""
        self.kernel.interrupt()

    def turn(self) -> None:
        """A knob that acts on the next step."""
        self.panel.did("turn", knob="prefetch", value=self.random.randint(0, 8))

    def turn_cold(self) -> None:
        """A knob that needs another worker."""
        self.panel.did("turn", knob="image_size", value=self.random.choice([32, 48]))

    def change_the_machine(self) -> None:
        """Another simulated device."""
        self.panel.did("device", name=self.random.choice(["simulated:t4", "simulated:h200"]))

    def change_the_device(self) -> None:
        """One that measures."""
        self.panel.did("device", name="cpu")

    def preset(self) -> None:
        """Several knobs at once."""
        self.panel.did("preset", name=self.random.choice(["naive", "overlapped"]))

    def pin(self) -> None:
        """Keep what is seen as A."""
        self.panel.did("pin")

    def close(self) -> None:
        """Close it in code, and show it again."""
        self.kernel.execute("panel.close()")
        assert self.panel.controls.closed
        self.panel = Shown(self.kernel, self.kernel.execute("panel", cell="panel"))

    def execute_again(self) -> None:
        """Execute the cell again, which makes another panel."""
        self.panel = Shown(self.kernel, self.kernel.execute(PANEL, cell="panel"))

    def assert_it_rests(self) -> None:
        """It comes to rest and says that it can run again; only the end of its worker is an error."""
        panel = self.panel
        if panel.status["phase"] not in ("idle", "stopping"):  # a second Stop would kill the worker
            panel.did("stop")
        self.kernel.until(lambda: panel.status["phase"] == "idle", f"rest; {panel.status}; {self.done}", REST_S)
        assert panel.status["can"]["run"], self.done
        message = panel.status["message"]
        assert message is None or message["level"] == "info" or "SIGKILL" in message["words"], (message, self.done)

    def assert_it_runs(self) -> None:
        """The next run works."""
        self.panel.did("run_for", seconds=0.1)
        self.panel.did("run")
        self.kernel.until(lambda: self.panel.status["phase"] == "idle", f"the end; {self.panel.status}; {self.done}", 2 * REST_S)
        assert self.panel.status["message"] is None, (self.panel.status["message"], self.done)
        status, errors = self.kernel.value("(panel.result().record.status, panel.errors)")
        assert (status, errors, self.kernel.stray) == ("ok", [], ""), self.done


CHEAP = ["stop", "interrupt", "turn", "turn_cold", "change_the_machine", "preset", "pin"]
DEAR = ["close", "execute_again", "stop_twice", "kill_the_worker", "change_the_device"]
"""These cost a start of the worker. What only the worker feels is done with one ipykernel."""


def test_at_any_moment_it_comes_to_rest_and_runs_again(kernel: Kernel, ipykernel: Ipykernel):
    person = Person(kernel, seed=7)
    dear = DEAR if ipykernel == IPYKERNELS[0] else DEAR[:2]
    actions = [*dear, *(CHEAP * MOMENTS)[: MOMENTS - len(dear)]]
    person.random.shuffle(actions)
    for number, action in enumerate(actions):
        person.act(action)
        person.assert_it_rests()
        if action in DEAR or number % 4 == 0:
            person.assert_it_runs()
        person.panel.did("reset")
    workers = kernel.children()
    assert 1 <= len(workers) <= 2, "two are kept warm"
    kernel.execute("panel.close()")
    assert ended(workers)
    assert kernel.children() == []
    assert kernel.value(LEFT) == []


@pytest.mark.parametrize("end", ["restart", "shut down", "kill"])
def test_at_any_moment_a_kernel_that_ends_takes_every_process_with_it(ipykernel: Ipykernel, tmp_path: Path, end: str):
    with started(ipykernel, tmp_path) as kernel:
        person = Person(kernel, seed=["restart", "shut down", "kill"].index(end))
        person.act("turn", within_s=4.0)
        children = kernel.children()
        assert children
        if end == "restart":
            kernel.restart()
            assert ended(children)
            kernel.execute("import labkit")
            person.panel = Shown(kernel, kernel.execute(PANEL, cell="panel"))
            person.assert_it_runs()
            children = kernel.children()
        if end == "kill":
            kernel.kill()
        else:
            kernel.shut_down()
        assert ended(children)


@one_ipykernel
@pytest.mark.parametrize("victim", ["kernel", "worker"])
def test_loader_processes_end_with_the_kernel_and_with_the_worker(ipykernel: Ipykernel, tmp_path: Path, victim: str):
    source = "panel = labkit.Panel('pipeline', device='cpu', loader='processes', workers=2, image_size=32, batch_size=4, out=None)\npanel"
    with started(ipykernel, tmp_path) as kernel:
        panel = Shown(kernel, kernel.execute(source))
        panel.did("run")
        panel.until("running")
        panel.moved(5)
        children = kernel.children()
        assert len(children) >= 4, "the worker, a server, and two processes"
        if victim == "kernel":
            kernel.kill()
        else:
            os.kill(next(child.pid for child in children if child.ppid() == kernel.process.pid), signal.SIGKILL)
            panel.until("idle")
            assert "SIGKILL" in panel.status["message"]["words"]
        assert ended(children)


def test_a_process_that_lives_is_told_from_one_that_has_ended():
    me = psutil.Process()
    assert not ended([me], guard_s=0.2)
