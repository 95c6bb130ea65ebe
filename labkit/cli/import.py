"""`labkit import FILE`: a trace of PyTorch's profiler as a run, for `show`, `why`, `whatif`, `report` and the figures."""

from labkit import lab
from labkit.cli.flags import add_json, add_out, parser
from labkit.cli.main import OK
from labkit.cli.run import print_run
from labkit.cli.words import print_json, run_json


def main(arguments: list[str]) -> int:
    """Exit code 0; 1 for a file of which nothing can be made."""
    flags = parser("import", "Read a trace of PyTorch's profiler (.json or .json.gz; CUDA, ROCm or CPU) and save it as a run.")
    flags.add_argument("file", help="what torch.profiler's export_chrome_trace or tensorboard_trace_handler wrote")
    add_out(flags)
    add_json(flags)
    given = flags.parse_args(arguments)
    run = lab.import_trace(given.file, given.out)
    if given.json:
        print_json(run_json(run))
        return OK
    print(f"{run.record.id}: {given.file}, {run.record.device_label}\n")
    print_run(run)
    return OK
