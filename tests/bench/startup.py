"""Start-up: `labkit --help` against a bare interpreter, and what `import labkit` does not load."""

import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.bench.contender import ROOT
from tests.bench.measure import BenchError, Line, in_turns, progress, ratio_of

NAME = "startup"
TARGET = 6.0
HEAVY = ("torch", "plotly", "ipywidgets", "scipy")


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds = 3 if quick else 21
    script = Path(sys.executable).parent / "labkit"
    if not script.exists():
        raise BenchError(f"{script} is missing: install labkit into this environment")
    contenders = {
        "labkit --help": lambda: _seconds(str(script), "--help"),
        "python -c pass": lambda: _seconds(sys.executable, "-c", "pass"),
        "labkit --help again": lambda: _seconds(str(script), "--help"),
        "import labkit": lambda: _seconds(sys.executable, "-c", "import labkit"),
    }
    numbers = in_turns(contenders, rounds, progress)
    ours, bare = numbers["labkit --help"], numbers["python -c pass"]
    ratio = ratio_of(ours, bare)
    loaded = heavy_modules("import labkit")
    loaded_by_help = heavy_modules("import sys; sys.argv[1:] = ['--help']; from labkit.cli.main import main; main(sys.argv[1:])")
    print(f"  labkit --help: {1e3 * median(ours):.0f} ms, {ratio} times python -c pass ({1e3 * median(bare):.0f} ms); target ≤ {TARGET:g}")
    print(f"  import labkit loads, of {', '.join(HEAVY)}: {', '.join(loaded) or 'none'}; --help: {', '.join(loaded_by_help) or 'none'}")
    return Line(
        name=NAME,
        ours=1e3 * median(ours),
        peer=1e3 * median(bare),
        unit="ms",
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        aa_ratio=ratio_of(ours, numbers["labkit --help again"]).value,
        rounds=rounds,
        passed=ratio.value <= TARGET and not loaded,
        bound=f"labkit --help in at most {TARGET:g} times python -c pass; import labkit loads none of {', '.join(HEAVY)}",
        details={"import_ms": 1e3 * median(numbers["import labkit"]), "loaded": loaded, "loaded_by_help": loaded_by_help},
    )


def heavy_modules(code: str) -> list[str]:
    """Which of the heavy libraries a fresh interpreter has loaded after running `code`."""
    report = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise BenchError(f"{code!r} failed:\n{done.stderr[-2000:]}")
    return done.stderr.split()


def _seconds(*command: str) -> float:
    began = perf_counter()
    done = subprocess.run(command, capture_output=True, cwd=ROOT)
    took = perf_counter() - began
    if done.returncode:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")
    return took
