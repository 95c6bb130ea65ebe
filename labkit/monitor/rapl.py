"""The energy of the processor packages, by RAPL counters: of everybody on the machine, not of one process.

The kernel lets only root read them where it has been hardened (CVE-2020-8694), and virtual machines seldom have them.
A counter wraps around after minutes to hours (`max_energy_range_uj`); read twice a second, no turn is missed.
"""

from dataclasses import dataclass
from pathlib import Path

from labkit.monitor.sensors import Reading

POWERCAP = Path("/sys/class/powercap")
UNIT = "J"
NAME = "cpu_energy_j"

NO_RAPL = f"no sensor: there is no RAPL counter here ({POWERCAP})"


@dataclass(slots=True)
class _Package:
    """One counter: where it is, when it wraps around, and what it said last."""

    file: Path
    range_uj: int
    last_uj: int

    def advance_uj(self) -> int:
        """What was added since the last question."""
        now = int(self.file.read_text())
        added = now - self.last_uj
        self.last_uj = now
        return added if added >= 0 else added + self.range_uj


class RaplSensor:
    """`cpu_energy_j`: joules of all processor packages since the sensor was opened."""

    name = "rapl"

    def __init__(self) -> None:
        self._total_uj = 0
        self._packages: list[_Package] = []
        self._failure = self._open()

    def read(self) -> list[Reading]:
        """The one reading. Once a counter has failed it stays absent: what it missed nobody knows."""
        if not self._failure:
            try:
                self._total_uj += sum(package.advance_uj() for package in self._packages)
            except (OSError, ValueError) as error:
                self._failure = f"a RAPL counter can no longer be read: {error}"
        if self._failure:
            return [Reading(NAME, None, UNIT, self._failure)]
        return [Reading(NAME, self._total_uj / 1e6, UNIT)]

    def close(self) -> None:
        """Nothing is held."""

    def _open(self) -> str:
        """Find the packages; why there is none to read, or ""."""
        by_name: dict[str, _Package] = {}
        try:
            for folder in sorted(POWERCAP.iterdir(), key=lambda each: ("mmio" in each.name, each.name)):
                name = _text(folder / "name")
                if name.startswith("package") and name not in by_name:  # the same package may be shown twice, as …-mmio
                    file = folder / "energy_uj"
                    by_name[name] = _Package(file, int((folder / "max_energy_range_uj").read_text()), int(file.read_text()))
        except FileNotFoundError:
            return NO_RAPL
        except PermissionError as error:
            return f"no sensor: no RAPL counter can be read here, needs root ({error.filename})"
        except (OSError, ValueError) as error:
            return f"no sensor: no RAPL counter can be read here: {error}"
        self._packages = list(by_name.values())
        return "" if by_name else NO_RAPL


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (FileNotFoundError, NotADirectoryError):  # a folder that is no counter
        return ""
