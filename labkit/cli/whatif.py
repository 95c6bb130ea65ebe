"""`labkit whatif RUN …`: what a change would do to a run. A stage faster, a lane wider: its trace replayed. A knob: the simulated device,
from the run's op times, and with --measure the measurement beside it."""

from typing import Any

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser, settings
from labkit.cli.main import FAILED, OK
from labkit.cli.words import print_json, say
from labkit.errors import ExperimentError, RunFailed
from labkit.knobs.coerce import coerce
from labkit.metrics.waterfall import waterfall
from labkit.metrics.whatif import Change, Replays
from labkit.result import Compared, Run
from labkit.units import format_percent, significant

ROUNDS = 5


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 where what should be measured failed."""
    flags = parser("whatif", "What a change would do to a run, predicted from its trace; with --measure, beside the measurement.")
    flags.add_argument("run", help='a run\'s id, the start or end of one, its folder, or "last"')
    flags.add_argument("--scale", action="append", default=[], metavar="STAGE=F", help="an op or a lane takes F times as long; 0.5 is twice as fast, 0 no time")
    flags.add_argument("--width", action="append", default=[], metavar="LANE=N", help="a lane has N units")
    flags.add_argument("--host", default="1", metavar="F", help="the host's own program, launches included, takes F times as long")
    flags.add_argument("--knob", action="append", default=[], metavar="KNOB=V,…", help="other knobs: simulated on this machine from the run's op times")
    flags.add_argument("--measure", action="store_true", help=f"with --knob: also measure it, in turns with the run's setting, {ROUNDS} rounds")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.stored_run(given.run, given.out).checked()
    knobs = settings(given.knob)
    change = Change(
        {name: coerce(f"--scale {name}", value, float) for name, value in settings(given.scale).items()},
        {name: coerce(f"--width {name}", value, int) for name, value in settings(given.width).items()},
        coerce("--host", given.host, float),
    )
    if given.measure and not knobs:
        raise ExperimentError("--measure needs --knob: a stage cannot be made faster by asking, a knob can be turned")
    if knobs and change != Change():
        raise ExperimentError("--knob changes the program, --scale, --width and --host replay it as it was: ask for one at a time")
    answer = _by_knobs(run, knobs, given.measure) if knobs else _by_replay(run, change)
    if given.json:
        print_json(answer)
    else:
        print("\n".join(_lines(answer)))
    return FAILED if answer.get("failed") else OK


def _by_replay(run: Run, change: Change) -> dict[str, Any]:
    if run.trace is None:
        raise RunFailed(f"run {run.record.id} has no trace to replay")
    replays = Replays(run.trace, run.record.budget["warmup"])
    told = replays.ask(change)
    return {
        "id": run.record.id, "change": change.words, "how": "its trace, replayed", "unit": replays.unit, "measured_items_per_s": replays.measured_items_per_s,
        "bound_items_per_s": _bound(run, replays.measured_items_per_s), "predicted_items_per_s": told.items_per_s, "predicted_ratio": told.ratio,
        "error_as_it_was": replays.error,
    }  # fmt: skip


def _by_knobs(run: Run, changed: dict[str, str], measure: bool) -> dict[str, Any]:
    record = run.record
    if record.experiment == "imported":
        raise ExperimentError(f"run {record.id} is an imported trace: it has no knobs; ask with --scale, --width or --host")
    if not record.measured:
        raise ExperimentError(f"run {record.id} is a prediction: its op times cannot predict other settings")
    mine, theirs = dict(record.knobs), {**record.knobs, **changed}
    now = lab.predict(record.experiment, on="this", costs=run, **mine).checked()
    then = lab.predict(record.experiment, on="this", costs=run, **theirs).checked()
    measured, was, will = _rate(run), _rate(now), _rate(then)
    answer = {
        "id": record.id, "change": ", ".join(f"{name}={value}" for name, value in changed.items()),
        "how": "the simulated device, from the run's op times", "unit": "items/s", "measured_items_per_s": measured,
        "bound_items_per_s": _bound(then, will), "predicted_items_per_s": will, "predicted_ratio": will / was,
        "error_as_it_was": was / measured - 1,
    }  # fmt: skip
    if measure:
        say("measuring both settings in turns …")
        answer |= _measured(lab.compare(record.experiment, a=mine, b=theirs, device=record.device, rounds=ROUNDS), will / was)
    return answer


def _measured(both: Compared, predicted: float) -> dict[str, Any]:
    ratio = both.comparison.ratios.get("throughput")
    if ratio is None or ratio.value is None or ratio.low is None or ratio.high is None:
        return {"failed": True, "sentence": both.comparison.sentence}
    return {
        "measured_ratio": ratio.value, "low": ratio.low, "high": ratio.high, "residual": predicted / ratio.value - 1,
        "sentence": both.comparison.sentence,
    }  # fmt: skip


def _lines(answer: dict[str, Any]) -> list[str]:
    lines = [
        f"{answer['id']}: {answer['change']}",
        f"  measured as it was     {significant(answer['measured_items_per_s'])} {answer['unit']}",
        f"  predicted with it      {significant(answer['predicted_items_per_s'])} {answer['unit']}, {answer['predicted_ratio']:.2f}×  ({answer['how']})",
        f"  the model as it was    off by {format_percent(abs(answer['error_as_it_was']))} of the measurement",
    ]
    if answer["bound_items_per_s"] is not None:
        lines.insert(2, f"  bound                  {significant(answer['bound_items_per_s'])} {answer['unit']}: if everything overlapped")
    if "residual" in answer:
        lines.append(f"  measured with it       {answer['measured_ratio']:.2f}× ({answer['low']:.2f} to {answer['high']:.2f})")
        lines.append(f"  residual               {100 * answer['residual']:+.1f} %: predicted ÷ measured − 1")
    elif answer.get("failed"):
        lines.append(f"  not measured: {answer['sentence']}")
    return lines


def _rate(run: Run) -> float:
    value = run.summary.throughput.value if run.summary is not None else None
    if not value:
        raise RunFailed(f"run {run.record.id} has no throughput")
    return value


def _bound(run: Run, items_per_s: float) -> float | None:
    """What the busiest lane would allow, if everything overlapped."""
    fall = waterfall(run.trace, run.record.budget["warmup"]) if run.trace is not None else None
    return None if fall is None else items_per_s * fall.total_ns / fall.ideal_ns
