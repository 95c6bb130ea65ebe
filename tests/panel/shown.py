"""A panel that a cell shows, as its page has it: what its widgets say, what people press, and the places below."""

from typing import Any

from tests.panel.kernel import HANG_S, WIDGET, Cell, Kernel, Message


class Shown:
    """A panel that a cell shows, as the page has it."""

    def __init__(self, kernel: Kernel, cell: Cell):
        self.kernel, self.cell = kernel, cell
        [view] = cell.shown(WIDGET)
        self.box = kernel.models[view["model_id"]]
        self.controls, self.strip = (kernel.models[child.removeprefix("IPY_MODEL_")] for child in self.box.state["children"])
        self._seq = 0

    @property
    def status(self) -> Message:
        """The controls' status now."""
        return self.controls.state["status"]

    @property
    def values(self) -> Message:
        """The controls' values now."""
        return self.controls.state["values"]

    @property
    def phases(self) -> list[str]:
        """The phases that it went through, repeats left out."""
        phases = [update["status"]["phase"] for update in self.controls.updates if "status" in update]
        return [phase for at, phase in enumerate(phases) if at == 0 or phases[at - 1] != phase]

    @property
    def slots(self) -> list[dict[str, Any]]:
        """The places below the widgets."""
        return [output for output in self.cell.outputs if WIDGET not in output]

    def do(self, command: str, **fields: Any) -> int:
        """Press or turn something; its number."""
        self._seq += 1
        self.kernel.say(self.controls, {"do": command, "seq": self._seq, **fields})
        return self._seq

    def did(self, command: str, **fields: Any) -> None:
        """Press or turn something, and wait until it has been taken up."""
        seq = self.do(command, **fields)
        self.kernel.until(lambda: self.values["seq"] >= seq, f"the answer to {command}")

    def until(self, phase: str, guard_s: float = HANG_S) -> None:
        """Wait for a phase."""
        self.kernel.until(lambda: self.status["phase"] == phase, f"{phase}; it is {self.status}", guard_s)

    def moved(self, messages: int = 3) -> None:
        """Wait until the strip has been sent this many more messages."""
        before = len(self.strip.customs)
        self.kernel.until(lambda: len(self.strip.customs) >= before + messages, f"the strip; {self.status}")

    def ran(self, seconds: float) -> None:
        """Run for so long, to the end."""
        self.did("run_for", seconds=seconds)
        self.did("run")
        self.until("idle")
