"""`python -m tests.bench [NAME …] [--quick]`: run the benchmarks, print what they say, append a line each to bench.jsonl."""

import argparse
import sys
from dataclasses import replace
from importlib import import_module
from time import perf_counter

from tests.bench.measure import (
    RESULTS,
    BenchError,
    Line,
    Meanwhile,
    append_line,
    machine_words,
    progress,
    verdict_words,
)

BUSY_CORES = 0.1
"""From here on a line says that the machine was not idle otherwise."""

MODULES = {
    "startup": "startup",
    "tracing": "tracing",
    "simulator": "simulator",
    "replay": "replay",
    "overlap": "overlap",
    "prediction-cpu": "prediction_cpu",
    "compare-aa": "compare_aa",
    "whatif-cpu": "whatif_cpu",
    "kineto": "kineto",
    "import-memory": "import_memory",
    "closed-forms": "closed_forms",
    "batcher-cost": "batcher_cost",
    "batcher-tail": "batcher_tail",
    "adaptive": "adaptive",
    "loadgen-lateness": "loadgen_lateness",
    "loadgen-mlperf": "loadgen_mlperf",
    "disk-stream": "disk_stream",
    "offload-prediction": "offload_prediction",
    "loader": "loader",
    "watching": "watching",
    "toggle": "toggle",
}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all; 1 if one failed or did not hold its bound, 2 for a wrong name."""
    options = _options(arguments)
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        print(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join(MODULES)}", file=sys.stderr)
        return 2
    print(f"on {machine_words()}{'; quick: too short to judge' if options.quick else ''}")
    passed = [_one(name, options.quick) for name in options.names or MODULES]
    return 0 if all(passed) else 1


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(MODULES)}; all without one")
    parser.add_argument("--quick", action="store_true", help="a smoke run: few short rounds, judged by nothing")
    return parser.parse_args(arguments)


def _one(name: str, quick: bool) -> bool:
    """Run one benchmark; False if it failed or did not hold its bound."""
    print(f"{name} …", flush=True)
    began, meanwhile = perf_counter(), Meanwhile()
    try:
        line: Line = import_module(f"tests.bench.{MODULES[name]}").run(quick)
    except BenchError as error:
        progress("")
        print(f"  could not be measured: {error}")
        return False
    others = meanwhile.others_cores()
    line = replace(line, passed=None if quick else line.passed, details={**line.details, "others_cores": round(others, 2)})
    append_line(line)
    progress("")
    print(f"  {verdict_words(line.passed)}: {line.bound}")
    print(f"  {_conditions(line, others)}; {perf_counter() - began:.0f} s → {RESULTS}", flush=True)
    return line.passed is not False


def _conditions(line: Line, others: float) -> str:
    aa = "" if line.aa_ratio is None else f"ours against ours {line.aa_ratio:.3g}, "
    busy = f"; others kept {others:.1f} cores busy: measure again when they are idle" if others > BUSY_CORES else ""
    return f"{aa}{line.rounds} rounds{busy}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
