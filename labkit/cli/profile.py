"""`labkit profile TARGET`: what a model asks of the hardware, operator by operator, and where that lies on a machine's roofline."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

from labkit.cli.flags import add_json, parser, settings
from labkit.cli.main import OK
from labkit.cli.words import print_json, say
from labkit.device.machine import Machine, load_machine
from labkit.errors import ExperimentError, LabkitError, StoreError
from labkit.experiments.target import DTYPES, forms_of, said, target
from labkit.figures.numbers import grouped
from labkit.profile import Placed, TaskProfile, place, profile
from labkit.profile.roofline import sentence
from labkit.profile.task import MakeOptimizer
from labkit.units import format_bytes, significant

LISTED = 12
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")


def main(arguments: list[str]) -> int:
    """Exit code 0."""
    flags = parser("profile", "What a model asks of the hardware, operator by operator, and where that lies on a machine's roofline.")
    flags.add_argument("target", help="an experiment (its model), or module:factory, where factory() returns (model, inputs)")
    flags.add_argument("--on", default="h200", metavar="MACHINE", help="the machine whose roofline it is (default: h200); this: this machine, once calibrated")
    flags.add_argument("--train", action="store_true", help="with the backward pass")
    flags.add_argument("--optimizer", choices=OPTIMIZERS, metavar="NAME", help=f"a whole training step, with that of {', '.join(OPTIMIZERS)}; implies --train")
    flags.add_argument("--batch", type=int, help="items in a batch (default: the experiment's)")
    flags.add_argument("--dtype", default="float32", metavar="TYPE", help=f"{', '.join(DTYPES)} (default: float32)")
    flags.add_argument("--knobs", action="append", default=[], metavar="KNOB=V,…", help="knobs of the experiment: model, image_size")
    flags.add_argument("--html", metavar="FILE", help="write the roofline as a page")
    add_json(flags)
    given = flags.parse_args(arguments)
    machine = load_machine(given.on)
    model, inputs = target(given.target, settings(given.knobs), given.batch, given.dtype)
    try:
        found = profile(model, *inputs, train=given.train, optimizer=_optimizer(given.optimizer), name=given.target)
    except LabkitError:
        raise
    except Exception as error:  # the model is the user's code
        raise ExperimentError(f"the model of {given.target} failed on its inputs, {forms_of(inputs)}: {said(error)}") from error
    placed = place(found, machine)
    if given.html:
        _write(given.html, found, placed, machine)
    if given.json:
        print_json(_as_dict(found, placed, machine))
        return OK
    print("\n".join(_lines(found, placed, machine, given.optimizer)))
    if given.html:
        say(f"wrote {given.html}")
    return OK


def _optimizer(name: str | None) -> MakeOptimizer | None:
    if name is None:
        return None
    import torch

    momentum: MakeOptimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    makes: dict[str, MakeOptimizer] = {"sgd": partial(torch.optim.SGD, lr=0.1), "momentum": momentum, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return makes[name]


def _lines(found: TaskProfile, placed: tuple[Placed, ...], machine: Machine, optimizer: str | None) -> list[str]:
    state = f", the optimizer's state {format_bytes(found.state_bytes)}" if found.state_bytes else ""
    least = "at least " if found.unknown else ""
    chain = f"{found.parallelism:.2f}" if found.parallelism else "unknown"
    what = f"training step with {optimizer}" if optimizer else "forward and backward" if found.train else "forward"
    lines = [
        f"{found.name}, {what}: {least}{significant(found.flop / 1e9)} GFLOP, {format_bytes(found.bytes)} moved, "
        f"{grouped(found.calls)} operators",
        f"parameters {format_bytes(found.parameter_bytes)}, inputs {format_bytes(found.input_bytes)}{state}, at most {format_bytes(found.peak_bytes)} of tensors besides",
        f"parallelism {chain} (work ÷ longest chain); the longest chain has {grouped(found.span_calls)} operators",
        "",
        f"{'operator':<34}{'type':>9}{'calls':>7}{'GFLOP':>9}{'MB':>9}{'FLOP/B':>8}  {'access':<11}{'bound':<9}{'time':>10}",
    ]
    for each in placed[:LISTED]:
        op = each.op
        flop = "unknown" if op.unknown else significant(op.flop / 1e9)
        intensity = "–" if op.intensity is None else significant(op.intensity)
        time = "–" if each.time_ns is None else f"{significant(each.time_ns / 1e3)} µs"
        name = op.name if len(op.name) <= 33 else f"{op.name[:32]}…"
        lines.append(f"{name:<34}{op.dtype:>9}{op.calls:>7}{flop:>9}{significant(op.bytes / 1e6):>9}{intensity:>8}  {op.access:<11}{each.bound:<9}{time:>10}")
    if len(placed) > LISTED:
        lines.append(f"{len(placed) - LISTED} more operators")
    return [*lines, "", sentence(placed, machine)]


def _as_dict(found: TaskProfile, placed: tuple[Placed, ...], machine: Machine) -> dict[str, object]:
    ops = [asdict(each.op) | {"bound": each.bound, "time_ns": each.time_ns, "intensity": each.op.intensity} for each in placed]
    totals = {"flop": found.flop, "bytes": found.bytes, "calls": found.calls, "parallelism": found.parallelism, "unknown": list(found.unknown), "unknown_bytes_share": found.unknown_share}
    more = {name: getattr(found, name) for name in ("span_flop", "span_calls", "peak_bytes", "parameter_bytes", "input_bytes", "state_bytes", "train")}
    return {"target": found.name, "machine": machine.name, "predicted": True, "totals": totals | more, "ops": ops, "sentence": sentence(placed, machine)}


def _write(name: str, found: TaskProfile, placed: tuple[Placed, ...], machine: Machine) -> None:
    from labkit.figures.roofline import roofline

    try:
        Path(name).write_text(roofline(found, placed, machine).to_html(include_plotlyjs=True), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {name}: {error.strerror or error}") from error
