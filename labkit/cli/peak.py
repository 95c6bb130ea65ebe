"""`labkit peak EXPERIMENT --slo p99:50ms`: the highest rate of requests that keeps a promise of latency."""

from dataclasses import asdict

from labkit.cli.flags import add_json, add_out, knob_values, parse_with_experiment, parser
from labkit.cli.main import FAILED, OK
from labkit.cli.words import print_json, say
from labkit.figures.numbers import count_text
from labkit.metrics.promise import Trial
from labkit.peaks import SECONDS, peak
from labkit.units import format_percent, format_time


def main(arguments: list[str]) -> int:
    """Exit code 0 where a rate was found, 1 where none was."""
    flags = parser("peak", "Search for the highest rate of requests at which a promise of latency is kept.")
    flags.add_argument("--slo", required=True, metavar="PROMISE", help="'p99:50ms': 99 %% of all requests are answered within 50 ms")
    flags.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N, simulated:MACHINE (default: auto)")
    flags.add_argument("--seconds", type=float, default=SECONDS, help=f"of each trial, longer where requests are rare (default: {SECONDS:g})")
    flags.add_argument("--precision", type=float, default=0.05, metavar="SHARE", help="how near the answer is to a rate that is too high (default: 0.05)")
    add_out(flags)
    add_json(flags)
    given = parse_with_experiment(flags, arguments, without=("slo", "replay"))
    found = peak(
        given.experiment, slo=given.slo, device=given.device, seconds=given.seconds, precision=given.precision, out=given.out,
        on_trial=lambda trial: say(_line(trial)), **knob_values(given),
    )  # fmt: skip
    if given.json:
        print_json(asdict(found))
    elif found.rate is None:
        unknown = found.trials and found.trials[-1].kept is None
        print(f"not known whether a rate keeps {found.promise.words}: give --seconds" if unknown else f"no rate keeps {found.promise.words}")
    else:
        near = "" if found.broken is None else f"; {count_text(found.broken)} requests/s are too many"
        print(f"{count_text(found.rate)} requests/s keep {found.promise.words}{near}")
    if not given.json:
        print(f"{found.verdict.grade}: {'; '.join(found.verdict.reasons)}")
    return OK if found.rate is not None and found.verdict.grade != "INVALID" else FAILED


def _line(trial: Trial) -> str:
    if trial.kept is None:
        return f"{count_text(trial.rate)} requests/s: {trial.reason}"
    within = format_percent(trial.within / trial.n)
    return (
        f"{count_text(trial.rate)} requests/s: {'kept' if trial.kept else 'broken'}, {within} in time, "
        f"{'no answer' if trial.latency_ns is None else format_time(trial.latency_ns)} at the percentile, median {format_time(trial.median_ns)}"
    )
