"""What these tests need besides the project: Chromium, playwright, a second ipykernel. Without it they are skipped.

`LABKIT_BROWSER=required` makes that a failure instead, as CI does. Chromium is `/usr/bin/chromium`, or what `$CHROMIUM`
names; no browser is ever downloaded.
"""

import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

CHROMIUM = Path(os.environ.get("CHROMIUM") or "/usr/bin/chromium")
OLD_IPYKERNEL = Path(sys.prefix) / "ipykernel6"  # `make` installs it there
OLD_PIN = Path(__file__).with_name("ipykernel6.txt")


@dataclass(frozen=True)
class Ipykernel:
    """One version of ipykernel; `folder` is where it lies besides the environment, None for the environment's own."""

    name: str
    folder: Path | None

    def missing(self) -> str | None:
        """Why it cannot be used, or None."""
        if self.folder is None or self.folder.is_dir():
            return None
        return f"no second ipykernel: pip install --no-deps --target {self.folder} --requirement {OLD_PIN}"

    def version(self) -> str:
        """The version that a kernel must report."""
        path = sys.path if self.folder is None else [str(self.folder)]
        return next(iter(importlib.metadata.distributions(name="ipykernel", path=path))).version


IPYKERNELS = (Ipykernel("ipykernel7", None), Ipykernel("ipykernel6", OLD_IPYKERNEL))
HERE = IPYKERNELS if os.environ.get("LABKIT_EVERY_IPYKERNEL") else IPYKERNELS[:1]
"""For tests of which a few run with both anyway; `LABKIT_EVERY_IPYKERNEL=1` runs all of them with both."""
# For a test whose answer does not depend on the kernel: it runs with the environment's own only.
one_ipykernel = pytest.mark.parametrize("ipykernel", IPYKERNELS[:1], ids=["ipykernel7"], indirect=True)


def missing_browser() -> str | None:
    """Why no page can be opened, or None."""
    if importlib.util.find_spec("playwright") is None:
        return "no playwright: pip install 'labkit[test]'"
    if not os.access(CHROMIUM, os.X_OK):
        return f"no Chromium at {CHROMIUM}: apt-get install chromium, or name one in $CHROMIUM"
    return None


def need(missing: str | None) -> None:
    """Skips the test where something is missing; fails it under `LABKIT_BROWSER=required`."""
    asked = os.environ.get("LABKIT_BROWSER", "")
    if asked not in ("", "required"):
        pytest.fail(f"LABKIT_BROWSER={asked!r}; allowed: required, or unset")
    if missing and asked == "required":
        pytest.fail(f"LABKIT_BROWSER=required, but {missing}")
    if missing:
        pytest.skip(missing)
