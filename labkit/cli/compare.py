"""`labkit compare EXPERIMENT --a … --b …`: measure two settings in turns and say how they compare."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, parser, settings
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say, say_device, say_notes, verdict_words
from labkit.experiments import experiments
from labkit.runner.job import Frame


def main(arguments: list[str]) -> int:
    """Exit code 0 when both sides ran, 1 when one failed, 130 when interrupted."""
    flags = parser("compare", "Measure two settings in turns (A B, B A, …) and say how they compare, with an interval.")
    flags.add_argument("experiment", help=f"{', '.join(experiments())}; labkit list --experiments lists the knobs")
    flags.add_argument("--a", action="append", default=[], metavar="KNOB=V,…", help="knobs of side A, over the defaults")
    flags.add_argument("--b", action="append", default=[], metavar="KNOB=V,…", help="knobs of side B")
    flags.add_argument("--rounds", type=int, default=lab.DEFAULT_ROUNDS, help="how often each side runs (default: 5)")
    add_running(flags, lab.COMPARE_SECONDS)
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    with progress_bar(f"{given.experiment} A/B") as move:

        def on_frame(round_index: int, side: str, frame: Frame) -> None:
            done = 2 * round_index + (side == "B") + frame.share
            move(min(done / (2 * given.rounds), 1.0))

        both = lab.compare(
            given.experiment, a=settings(given.a), b=settings(given.b), device=given.device, seconds=given.seconds,
            steps=given.steps, rounds=given.rounds, warmup=given.warmup, out=given.out, on_frame=on_frame,
        )  # fmt: skip
    say_device(given.device, both.a)
    print_comparison(both, given.json)
    statuses = {both.a.record.status, both.b.record.status}
    return FAILED if "failed" in statuses else INTERRUPTED if "cancelled" in statuses else OK


def print_comparison(both: lab.Compared, as_json: bool) -> None:
    """The two sides as a table and the ratios in words, or all of it as one object."""
    from labkit.report.table import as_text, side_by_side_table

    if as_json:
        print_json({"a": run_json(both.a), "b": run_json(both.b), "comparison": both.comparison.as_dict()})
        return
    for label, run in (("A", both.a), ("B", both.b)):
        say_notes(run)
        if run.record.status != "ok":
            say(f"labkit compare: side {label} {run.record.status}: {run.record.reason}")
    if both.a.record.status == both.b.record.status == "ok":
        if both.a.record.knobs == both.b.record.knobs:
            say("note: A and B are the same setting: no difference should be shown")
        grades = [both.a.record.verdict.grade, both.b.record.verdict.grade]
        print(as_text(side_by_side_table([both.a.shown("A"), both.b.shown("B")], grades=grades)))
        print(f"\n{both.comparison.sentence}")
        for label, run in (("A", both.a), ("B", both.b)):
            print(f"{label}: {verdict_words(run)}")
    for run in (both.a, both.b):
        if run.path is not None:
            print(f"saved in {run.path}")
