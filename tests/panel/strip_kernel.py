"""A kernel's end of the strip for a page of the browser, and what the page draws."""

from time import monotonic
from typing import Any

from labkit.panel.strip import Flow
from tests.panel.strip_page import as_json, show

HANG_S = 30.0

_RECORDER = """
() => {
  window.drawn = [];
  const pen = CanvasRenderingContext2D.prototype, ran = {};
  for (const name of ["fillText", "fillRect", "drawImage", "putImageData", "clearRect"]) {
    ran[name] = pen[name];
    pen[name] = function (...given) {
      const start = this.textAlign === "right" ? -1 : this.textAlign === "center" ? -0.5 : 0;
      const wide = name === "fillText" ? this.measureText(given[0]).width : 0;
      if (name === "clearRect") window.drawn = [];
      window.drawn.push({ name, given: given.slice(1), words: given[0], x: given[1] + start * wide, y: given[2], wide, colour: this.fillStyle });
      return ran[name].apply(this, given);
    };
  }
}
"""


class Connected:
    """A kernel's end of the strip: what the page says goes to the flow, what the flow sends goes to the page."""

    def __init__(self, page: Any):
        self.page = page
        self.sent = 0
        self.heard: list[dict[str, Any]] = []
        self.flow = Flow(self._send, lambda: 0.0)

    def _send(self, header: dict[str, Any], buffers: list[bytes]) -> None:
        self.sent += 1
        self.page.evaluate("window.tell", as_json(header, buffers))

    def hear(self) -> None:
        """Pass on what the page has said since."""
        said = self.page.evaluate("window.sent.splice(0)")
        self.heard += said
        for message in said:
            self.flow.hear(message)

    def until(self, now_s: float, view: str = "#strip") -> None:
        """Until a view shows this time, and has said so."""
        give_up_s = monotonic() + HANG_S
        while float(data(self.page, "now", view) or "nan") != now_s:
            assert monotonic() < give_up_s, f"{view} shows {data(self.page, 'now', view)}, not {now_s}"
            self.hear()
            self.page.wait_for_timeout(10)
        self.hear()

    def until_answered(self) -> None:
        """Until the page has said that it has painted everything."""
        give_up_s = monotonic() + HANG_S
        while not any(message.get("ack") == self.sent for message in self.heard):
            assert monotonic() < give_up_s, f"{self.sent} messages were sent; the page said {self.heard[-3:]}"
            self.page.wait_for_timeout(20)
            self.hear()


def data(page: Any, name: str, view: str = "#strip") -> str:
    return page.locator(f"{view} .labkit-strip").get_attribute(f"data-{name}")


def show_recorded(page: Any, run: list[Any], width: int = 900, theme: str = "light") -> list[dict[str, Any]]:
    """Show a run; everything that was drawn in the last picture."""
    page.evaluate(_RECORDER)
    show(page, run, width, theme)
    return page.evaluate("window.drawn")
