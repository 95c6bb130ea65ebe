"""`labkit import FILE`: a trace of PyTorch's profiler as a run, for `show`, `why`, `whatif`, `report` and the figures."""

from dataclasses import asdict

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.imported import imported_lines
from labkit.cli.main import OK
from labkit.cli.words import print_json, run_json, say_notes
from labkit.metrics.gpu_idle import communication_overlap, gpu_idle


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 for a file of which nothing can be made."""
    flags = parser("import", "Read a trace of PyTorch's profiler (.json or .json.gz; CUDA, ROCm or CPU) and save it as a run.")
    flags.add_argument("file", help="what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.import_trace(given.file, given.out)
    assert run.trace is not None
    streams, overlap = gpu_idle(run.trace), communication_overlap(run.trace)
    if given.json:
        print_json({**run_json(run), "streams": [asdict(stream) for stream in streams], "communication": asdict(overlap)})
        return OK
    say_notes(run)
    print("\n".join(imported_lines(run)))
    print(f"saved in {run.path}")
    return OK
