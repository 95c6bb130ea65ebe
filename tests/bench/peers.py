"""The peers that labkit is measured against, in an environment of the benchmarks' own: `.venv-bench`.

It is made on first use. It sees the packages of the main environment (torch is not installed twice) and adds the peers,
in the versions that constraints.txt pins.
"""

import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from tests.bench.contender import ROOT
from tests.bench.measure import BenchError

FOLDER = ROOT / ".venv-bench"
PEERS = ("spdl-core", "grain", "simpy", "HolisticTraceAnalysis", "batched", "mosec", "litserve", "mlcommons-loadgen", "accelerate")
CONSTRAINTS = ROOT / "constraints.txt"


@cache
def peer_python() -> Path:
    """The interpreter of the peers' environment, which is made or completed if need be. Raises BenchError."""
    python = FOLDER / "bin" / "python"
    stamp = FOLDER / "ready"
    wanted = "\n".join([sys.executable, *PEERS, *_pins()])
    if not (stamp.is_file() and stamp.read_text() == wanted):
        _make(python)
        stamp.write_text(wanted)
    return python


def _make(python: Path) -> None:
    print(f"installing {', '.join(PEERS)} into {FOLDER.name} (once) …", file=sys.stderr)
    if not python.exists():
        _run(sys.executable, "-m", "venv", str(FOLDER))
    main = sysconfig.get_path("purelib")
    for library in (FOLDER / "lib").glob("python*/site-packages"):
        (library / "main-environment.pth").write_text(f"import site; site.addsitedir({main!r})\n")
    constraint = ["--constraint", str(CONSTRAINTS)] if CONSTRAINTS.is_file() else []
    _run(str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *constraint, *PEERS)


def _pins() -> list[str]:
    """The lines of constraints.txt that pin a peer, so that a new pin completes the environment again."""
    lines = CONSTRAINTS.read_text().splitlines() if CONSTRAINTS.is_file() else []
    return [line for line in lines if line.partition("==")[0] in PEERS]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise BenchError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
