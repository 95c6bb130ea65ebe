"""`labkit compare EXPERIMENT --a … --b …` measures two settings in turns; `labkit compare RUN RUN` holds one stored run against another."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, parser, settings
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say, say_device, say_notes, verdict_words
from labkit.errors import ExperimentError, StoreError
from labkit.experiments import experiments
from labkit.metrics.compare import Ratio
from labkit.metrics.gate import Judged, Rule, check_before, check_rule, judge_rule, metrics_of, read_rule
from labkit.metrics.sequential import Precision
from labkit.result import Run
from labkit.runner.job import Frame

NOT_IN_TURNS = "WEAK: the runs were not measured in turns, so the machine's mood is in the difference"
NO_ROUNDS = "WEAK: measured in turns, but the rounds are not stored with the runs, so there is no interval"
NO_INTERVAL = Ratio(None, None, None, 0, "no round alone has enough samples for it")


def main(arguments: list[str]) -> int:
    """Exit code 0 when both sides ran and no rule failed, 1 when one failed, 130 when interrupted."""
    flags = _flags()
    given = flags.parse_args(arguments)
    rules = [read_rule(text) for text in given.fail_on]
    if given.json and given.markdown == "-":
        raise ExperimentError("--json and --markdown - both want stdout: write the Markdown to a file")
    if given.junit and not rules:
        raise ExperimentError("--junit writes the rules, and there is none: give --fail-on 'throughput:-5%', or leave --junit out")
    for name in (given.markdown, given.junit):
        if name and not Path(name).parent.is_dir():
            raise StoreError(f"cannot write {name}: there is no folder {Path(name).parent}")
    check_before(rules)
    if len(given.names) == 2:
        return _stored(given, rules)
    if len(given.names) > 2:
        raise ExperimentError(f"compare takes one experiment or two runs, not {len(given.names)} names: {', '.join(given.names)}")
    return _measured(given, rules)


def _flags() -> ArgumentParser:
    flags = parser(
        "compare",
        "Measure two settings in turns (A B, B A, …) until the interval of their ratio is narrow enough, and say how they compare. "
        "With two stored runs: hold the second against the first.",
    )
    flags.add_argument("names", nargs="+", metavar="EXPERIMENT | RUN RUN", help=f"{', '.join(experiments())}; or two runs, as labkit show takes them")
    flags.add_argument("--a", action="append", default=[], metavar="KNOB=V,…", help="knobs of side A, over the defaults")
    flags.add_argument("--b", action="append", default=[], metavar="KNOB=V,…", help="knobs of side B")
    flags.add_argument("--rounds", type=int, help="how often each side runs (default: until the interval is narrow enough)")
    flags.add_argument("--precision", default="5%", metavar="P%", help="how far the interval may reach to either side (default: 5%%)")
    flags.add_argument("--budget", type=float, default=Precision.budget_s, metavar="S", help="no round begins after so many seconds (default: 60)")
    flags.add_argument("--fail-on", action="append", default=[], metavar="METRIC:±P%", help="exit code 1 where B is worse by more: 'throughput:-5%%', 'p99:+10%%'")
    flags.add_argument("--markdown", metavar="FILE", help="write the comparison as Markdown; - prints it instead of the table")
    flags.add_argument("--junit", metavar="FILE", help="write the rules as JUnit XML")
    add_running(flags, lab.COMPARE_SECONDS)
    add_out(flags)
    add_json(flags)
    return flags


# ---- measured in turns ------------------------------------------------------------------------------------


def _measured(given: Namespace, rules: Sequence[Rule]) -> int:
    [name] = given.names
    began_s, precision = monotonic(), _share(given.precision)
    with progress_bar(f"{name} A/B") as move:

        def on_frame(round_index: int, side: str, frame: Frame) -> None:
            made = 2 * round_index + (side == "B") + frame.share
            share = made / (2 * given.rounds) if given.rounds else max((monotonic() - began_s) / given.budget, made / (2 * lab.MOST_ROUNDS))
            move(min(share, 1.0))

        both = lab.compare(
            name, a=settings(given.a), b=settings(given.b), device=given.device, seconds=given.seconds, steps=given.steps, rounds=given.rounds,
            precision=precision, budget_s=given.budget, warmup=given.warmup, out=given.out, on_frame=on_frame,
        )  # fmt: skip
    say_device(given.device, both.a)
    runs = (both.a, both.b)
    good = all(run.record.status == "ok" for run in runs)
    judged = _judged(both.a, both.b, rules, both.comparison.ratios) if good else []
    if given.json:
        print_json({"a": run_json(both.a), "b": run_json(both.b), "comparison": both.comparison.as_dict(), "rules": _rules_json(judged)})
    else:
        _say_sides(runs)
    if good:
        _tell(given, both.a, both.b, both.comparison.sentence, judged, both.comparison.ratios)
    for run in runs:
        if run.path is not None and not given.json:
            (say if given.markdown == "-" else print)(f"saved in {run.path}")
    statuses = {run.record.status for run in runs}
    rate = both.comparison.ratios.get("throughput")
    nothing = good and (rate is None or rate.value is None)
    return FAILED if "failed" in statuses or nothing else INTERRUPTED if "cancelled" in statuses else _code(judged)


def _say_sides(runs: Sequence[Run]) -> None:
    """Notes and failures, on stderr."""
    for label, run in zip("AB", runs, strict=True):
        say_notes(run)
        if run.record.status != "ok":
            say(f"labkit compare: side {label} {run.record.status}: {run.record.reason}")
    if all(run.record.status == "ok" for run in runs) and runs[0].record.knobs == runs[1].record.knobs:
        say("note: A and B are the same setting: no difference should be shown")


def _share(text: str) -> float:
    """`5%` or `0.05`. Raises ExperimentError."""
    try:
        return float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        raise ExperimentError(f"--precision {text!r} is not allowed; allowed: a share such as 5% or 0.05") from None


# ---- two stored runs --------------------------------------------------------------------------------------


def _stored(given: Namespace, rules: Sequence[Rule]) -> int:
    a, b = (lab.stored_run(name, given.out).checked() for name in given.names)
    if given.a or given.b:
        raise ExperimentError("--a and --b give the knobs of an experiment; two stored runs have theirs")
    if a.record.measured != b.record.measured:
        raise ExperimentError(f"{a.record.id} and {b.record.id}: one was measured and the other is a prediction; their ratio would say nothing")
    for what, one, other in (("experiments", a.record.experiment, b.record.experiment), ("devices", a.record.device, b.record.device)):
        if rules and one != other:
            raise ExperimentError(f"{a.record.id} and {b.record.id} are of different {what}, {one} and {other}: a rule on their ratio would say nothing")
    judged = _judged(a, b, rules)
    sentence = _sentence(a, b)
    if given.json:
        print_json({"a": run_json(a), "b": run_json(b), "sentence": sentence, "rules": _rules_json(judged)})
    _tell(given, a, b, sentence, judged)
    return _code(judged)


def _sentence(a: Run, b: Run) -> str:
    """The headline of two stored runs; without a number where one of them is no result."""
    invalid = _invalid(a, b)
    if invalid is not None:
        return f"no comparison: {invalid}"
    rates = [run.summary.throughput.value if run.summary is not None else None for run in (a, b)]
    doubts = [(NO_ROUNDS if _in_turns(a, b) else NOT_IN_TURNS) if a.record.measured else "both are predictions"]
    if a.record.experiment != b.record.experiment:
        doubts.append(f"they are different experiments: {a.record.experiment} and {b.record.experiment}")
    if a.record.device != b.record.device:
        doubts.append(f"they ran on different devices: {a.record.device} and {b.record.device}")
    if not rates[0] or not rates[1]:
        return f"B against A: no throughput to compare ({'; '.join(doubts)})"
    return f"B against A, throughput: {rates[1] / rates[0]:.2f}× ({'; '.join(doubts)})"


def _in_turns(a: Run, b: Run) -> bool:
    """Whether they are two sides of one comparison: begun together, each with the letter of its side at the end of its id."""
    sides = [re.search(r"-([a-h])$", run.record.id) for run in (a, b)]
    together = a.record.started_at == b.record.started_at and a.record.experiment == b.record.experiment
    return together and all(sides) and a.record.id != b.record.id and all("in turns with the other side" in " ".join(run.record.verdict.reasons) for run in (a, b))


# ---- both -------------------------------------------------------------------------------------------------


def _judged(a: Run, b: Run, rules: Sequence[Rule], ratios: Mapping[str, Ratio] | None = None) -> list[Judged]:
    """What became of the rules.

    ratios  where both were measured in turns; None where they were not
    """
    if not rules:
        return []
    if a.summary is None or b.summary is None:
        raise ExperimentError("a run left no metrics: the rules cannot be applied")
    of_a, of_b = metrics_of(a.summary), metrics_of(b.summary)
    for rule in rules:
        check_rule(rule, of_a | of_b)
    invalid = _invalid(a, b)
    if invalid is not None:
        return [Judged(rule, "failed", None, f"{rule.metric} cannot be judged: {invalid}") for rule in rules]
    intervals = {rule.metric: None if ratios is None else ratios.get(rule.metric, NO_INTERVAL) for rule in rules}
    return [judge_rule(rule, of_a.get(rule.metric), of_b.get(rule.metric), intervals[rule.metric]) for rule in rules]


def _invalid(a: Run, b: Run) -> str | None:
    """Which side is no result, and why."""
    for label, run in (("A", a), ("B", b)):
        if run.record.verdict.grade == "INVALID":
            return f"side {label} is {verdict_words(run)}"
    return None


def _tell(given: Namespace, a: Run, b: Run, sentence: str, judged: Sequence[Judged], ratios: Mapping[str, Ratio] | None = None) -> None:
    """The table, the sentence, the verdicts and the rules: on the terminal and in the files that were asked for."""
    if given.json and not given.markdown and not given.junit:
        return
    from labkit.report.changes import with_changes
    from labkit.report.junit import junit_xml
    from labkit.report.markdown import comparison_markdown
    from labkit.report.table import as_text, side_by_side_table

    shown = [a.shown("A"), b.shown("B")]
    grades = [run.record.verdict.grade for run in (a, b)]
    rows = with_changes(side_by_side_table(shown, grades=grades), shown[0].summary, shown[1].summary, ratios)
    if given.markdown:
        verdicts = [("A", a.record.verdict), ("B", b.record.verdict)]
        _to(given.markdown, comparison_markdown(sentence, rows, verdicts, judged))
    if given.junit:
        _to(given.junit, junit_xml(judged, "compare"))
    if given.json or given.markdown == "-":
        return
    print(as_text(rows))
    print(f"\n{sentence}")
    for label, run in (("A", a), ("B", b)):
        print(f"{label}: {verdict_words(run)}")
    for each in judged:
        print(f"{each.result}: {each.words}")


def _to(name: str, text: str) -> None:
    """Into the file, or on stdout where its name is `-`."""
    if name == "-":
        print(text, end="")
        return
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {name}: {error.strerror or error}") from error


def _rules_json(judged: Sequence[Judged]) -> list[dict[str, object]]:
    return [{"rule": each.rule.text, "result": each.result, "change": each.change, "words": each.words} for each in judged]


def _code(judged: Sequence[Judged]) -> int:
    return FAILED if any(each.result == "failed" for each in judged) else OK
