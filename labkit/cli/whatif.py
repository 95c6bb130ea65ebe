"""`labkit whatif RUN …`: what a change would do to a run. A stage faster, a lane wider: its trace replayed. A knob: the simulated device,
from the run's op times, and with --measure the measurement beside it."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser, settings
from labkit.cli.main import FAILED, OK
from labkit.cli.words import print_json, say
from labkit.errors import ExperimentError
from labkit.knobs.coerce import coerce
from labkit.metrics.whatif import Change
from labkit.units import ABSENT, format_percent, format_time
from labkit.whatif import ROUNDS, Answer, by_knobs, by_replay, measured


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
    answer = by_knobs(run, knobs) if knobs else by_replay(run, change)
    if given.measure:
        say("measuring both settings in turns …")
        answer = measured(run, knobs, answer)
    if given.json:
        print_json(answer.as_dict())
    else:
        print("\n".join(_lines(answer)))
    return FAILED if answer.failed else OK


def _lines(answer: Answer) -> list[str]:
    lines = [
        f"{answer.id}: {answer.change}",
        f"  {answer.source + ' as it was':22} {answer.said(answer.measured)}",
        f"  predicted with it      {answer.said(answer.predicted)}, {answer.ratio:.2f}×  ({answer.how})",
        f"  the model as it was    off by {format_percent(abs(answer.error_as_it_was))} of what was {answer.source}",
    ]
    if answer.busiest is not None:
        lane, share = answer.busiest
        lines.insert(3, f"  the busiest lane then  {lane}, {format_percent(share)} of the time")
    if answer.bound is not None:
        lines.insert(2, f"  bound                  {answer.said(answer.bound)}: if everything overlapped")
    if answer.p99_ns is not None:
        was, now, then = (ABSENT if ns is None else format_time(ns) for ns in answer.p99_ns)
        lines.append(f"  p99 of the latency     {was} {answer.source}; predicted {now} as it was, {then} with it")
    if answer.residual is not None:
        lines.append(f"  measured with it       {answer.measured_ratio:.2f}× ({answer.low:.2f} to {answer.high:.2f})")
        lines.append(f"  residual               {answer.residual_words}: predicted ÷ measured − 1")
        lines += [f"  weak                   {reason}" for reason in answer.weak]
    elif answer.failed:
        lines.append(f"  not measured: {answer.sentence}")
    return lines
