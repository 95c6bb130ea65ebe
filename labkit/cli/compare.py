"""`labkit compare EXPERIMENT --a … --b …` measures two settings in turns; `labkit compare RUN RUN` holds one stored run against another."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from labkit import lab
from labkit.cli.flags import add_json, add_out, add_running, parser, settings
from labkit.cli.main import FAILED, INTERRUPTED, OK
from labkit.cli.words import print_json, progress_bar, run_json, say, say_device, say_notes, verdict_words
from labkit.errors import ExperimentError, StoreError
from labkit.experiments import experiments
from labkit.metrics.compare import Ratio
from labkit.metrics.gate import Judged, Rule, check_rule, judge_rule, metrics_of, read_rule
from labkit.metrics.sequential import Precision
from labkit.result import Run
from labkit.runner.job import Frame

NOT_IN_TURNS = "WEAK: the runs were not measured in turns, so the machine's mood is in the difference"


def main(arguments: list[str]) -> int:
    """Exit code 0 when both sides ran and no rule failed, 1 when one failed, 130 when interrupted."""
    flags = _flags()
    given = flags.parse_args(arguments)
    rules = [read_rule(text) for text in given.fail_on]
    if given.json and given.markdown == "-":
        raise ExperimentError("--json and --markdown - both want stdout: write the Markdown to a file")
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
    flags.add_argument("--markdown", metavar="FILE", help="write the comparison as Markdown; - prints it")
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
    good = both.a.record.status == both.b.record.status == "ok"
    judged = _judged(both.a, both.b, rules, both.comparison.ratios) if good else []
    if given.json:
        print_json({"a": run_json(both.a), "b": run_json(both.b), "comparison": both.comparison.as_dict(), "rules": _rules_json(judged)})
    else:
        for label, run in (("A", both.a), ("B", both.b)):
            say_notes(run)
            if run.record.status != "ok":
                say(f"labkit compare: side {label} {run.record.status}: {run.record.reason}")
        if good and both.a.record.knobs == both.b.record.knobs:
            say("note: A and B are the same setting: no difference should be shown")
        if good:
            _print(both.a, both.b, both.comparison.sentence, judged)
        for run in (both.a, both.b):
            if run.path is not None:
                print(f"saved in {run.path}")
    if good:
        _write(given, both.a, both.b, both.comparison.sentence, judged)
    statuses = {both.a.record.status, both.b.record.status}
    return FAILED if "failed" in statuses else INTERRUPTED if "cancelled" in statuses else _code(judged)


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
    judged = _judged(a, b, rules, {})
    sentence = _sentence(a, b)
    if given.json:
        print_json({"a": run_json(a), "b": run_json(b), "sentence": sentence, "rules": _rules_json(judged)})
    else:
        _print(a, b, sentence, judged)
    _write(given, a, b, sentence, judged)
    return _code(judged)


def _sentence(a: Run, b: Run) -> str:
    rates = [run.summary.throughput.value if run.summary is not None else None for run in (a, b)]
    weak = NOT_IN_TURNS if a.record.measured else "both are predictions"
    if not rates[0] or not rates[1]:
        return f"B against A: no throughput to compare ({weak})"
    return f"B against A, throughput: {rates[1] / rates[0]:.2f}× ({weak})"


# ---- both -------------------------------------------------------------------------------------------------


def _judged(a: Run, b: Run, rules: Sequence[Rule], ratios: dict[str, Ratio]) -> list[Judged]:
    if not rules:
        return []
    if a.summary is None or b.summary is None:
        raise ExperimentError("a run left no metrics: the rules cannot be applied")
    of_a, of_b = metrics_of(a.summary), metrics_of(b.summary)
    for rule in rules:
        check_rule(rule, of_a | of_b)
    return [judge_rule(rule, of_a.get(rule.metric), of_b.get(rule.metric), ratios.get(rule.metric)) for rule in rules]


def _print(a: Run, b: Run, sentence: str, judged: Sequence[Judged]) -> None:
    from labkit.report.table import as_text, side_by_side_table

    grades = [a.record.verdict.grade, b.record.verdict.grade]
    print(as_text(side_by_side_table([a.shown("A"), b.shown("B")], grades=grades)))
    print(f"\n{sentence}")
    for label, run in (("A", a), ("B", b)):
        print(f"{label}: {verdict_words(run)}")
    for each in judged:
        print(f"{each.result}: {each.words}")


def _write(given: Namespace, a: Run, b: Run, sentence: str, judged: Sequence[Judged]) -> None:
    from labkit.report.junit import junit_xml
    from labkit.report.markdown import comparison_markdown
    from labkit.report.table import side_by_side_table

    if given.markdown:
        verdicts = [("A", a.record.verdict), ("B", b.record.verdict)]
        text = comparison_markdown(sentence, side_by_side_table([a.shown("A"), b.shown("B")]), verdicts, judged)
        if given.markdown == "-":
            print(text)
        else:
            _to_file(given.markdown, text)
    if given.junit:
        _to_file(given.junit, junit_xml(judged, "compare"))


def _to_file(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {name}: {error.strerror or error}") from error


def _rules_json(judged: Sequence[Judged]) -> list[dict[str, object]]:
    return [{"rule": each.rule.text, "result": each.result, "change": each.change, "words": each.words} for each in judged]


def _code(judged: Sequence[Judged]) -> int:
    return FAILED if any(each.result == "failed" for each in judged) else OK
