"""The outputs of the panel's cell: the widgets, and below them one output for each table or figure, which is filled when there is something.

An output that was displayed with an id is replaced later by a message that names the id, from any thread and after the cell has ended. The
notebook keeps what it shows, so a saved notebook has its figures.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from labkit.panel.page import EMPTY, PLOTLY, SLOTS, Bundle


class Outputs:
    """The outputs of one panel, or of another widget with things that stand still below it.

    slots  their names, in order
    words  what stands in the place of the widgets where no widget can be shown
    """

    def __init__(self, slots: Sequence[str] = SLOTS, words: str = "the panel's controls: run this cell to have them here") -> None:
        self._slots, self._words = slots, words
        self._ids: dict[str, str] = {}
        self._kept: dict[str, Bundle] = {}
        self._number = count()

    def open(self, widget: Any) -> None:
        """Show the widgets and the places for figures, with what is in them already, in the cell that is being executed."""
        from IPython.display import display

        bundle, metadata = _bundle_of(widget)
        display({**bundle, "text/plain": self._words}, metadata=metadata, raw=True)
        self._ids = {slot: f"labkit-{uuid4().hex[:12]}-{next(self._number)}" for slot in self._slots}
        for slot in self._slots:
            display(self._kept.get(slot, EMPTY), raw=True, display_id=self._ids[slot])

    def put(self, slot: str, bundle: Bundle) -> None:
        """Show a bundle in its place. Safe from any thread."""
        from IPython.display import update_display

        before, self._kept[slot] = self._kept.get(slot, EMPTY), bundle
        place = self._ids.get(slot)
        if place is None:
            return
        if PLOTLY in before and PLOTLY in bundle:
            update_display(_gap(before), raw=True, display_id=place)
        update_display(bundle, raw=True, display_id=place)

    def show(self, bundle: Bundle) -> None:
        """Show a bundle once, here and now."""
        from IPython.display import display

        display(bundle, raw=True)

    def close(self) -> None:
        """Let the outputs be as they are: nothing changes them any more."""
        self._ids = {}


def _gap(figure: Bundle) -> Bundle:
    """An empty output as high as a figure. Between two figures it makes JupyterLab's plotly renderer draw the second one, which it
    does not where it has drawn before (plotly 7.1), and the page below does not jump."""
    height_px = int(figure[PLOTLY].get("layout", {}).get("height", 0))
    return {"text/html": f'<div style="height: {height_px}px"></div>', "text/plain": ""}


def _bundle_of(widget: Any) -> tuple[Bundle, Bundle]:
    """A widget as the front end takes it, and its metadata."""
    bundle = widget._repr_mimebundle_()
    return bundle if isinstance(bundle, tuple) else (bundle, {})
