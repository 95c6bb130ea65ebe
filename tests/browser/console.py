"""What a page complained about: console errors and uncaught exceptions, without those that JupyterLab itself makes."""

import re
from dataclasses import dataclass

# Each with the reason why it says nothing about this project.
HARMLESS = (
    # The widget manager of a second page asks every comm of a running kernel, also those that ended with the first page.
    r"Comm not found for comm id",
    # JupyterLab's debugger asks a kernel for its state when a notebook opens; a tab that closes early leaves it unanswered.
    r"Could not restore the debugger state: Canceled future",
)


@dataclass(frozen=True)
class Complaint:
    """One error: `kind` is console or exception, `url` the script or resource that it names."""

    kind: str
    text: str
    url: str

    def matches(self, *patterns: str) -> bool:
        """Whether one of these regular expressions is found in its text."""
        return any(re.search(pattern, self.text) for pattern in patterns)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text} [{self.url}]"
