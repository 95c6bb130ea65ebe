"""What it takes to import a large profiler trace: peak memory against the size of the file, and events a second.

The file is made here, shaped like those of PyTorch: for each kernel an operator with its shapes, a launch, a kernel with its grid, two arrows
of a flow. It is read as plain text and as gzip, once with a name that is not ASCII, and once made as dense as a file with launches can be:
nothing but what the import reads, in a hundred bytes an event. Each reading has a process of its own; the size is that of the text, also for
gzip. Events of 60 bytes, without a launch, thread or stream, which no profiler writes, take 12 times their text: that is not judged.
"""

import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.contender import Contender
from tests.bench.measure import Line, median_interval, progress, table

NAME = "import-memory"
TARGET = 10.0
FILE_BYTES = 100_000_000
QUICK_BYTES = 10_000_000
_MODULE = "tests.bench.contenders.import_file"
_KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, float)"


def run(quick: bool = False) -> Line:
    """Measure, and say how it went."""
    rounds, size = (1, QUICK_BYTES) if quick else (3, FILE_BYTES)
    with tempfile.TemporaryDirectory(prefix="bench-import-") as folder:
        files, events = _files(Path(folder), size)
        read = {name: [_read(path) for _ in range(rounds)] for name, path in files.items()}
        bytes_of = {name: _text_bytes(path) for name, path in files.items()}
    shares = {name: [each["peak_bytes"] / bytes_of[name] for each in found] for name, found in read.items()}
    whole = {name: max(each["peak_with_summary_bytes"] for each in found) / bytes_of[name] for name, found in read.items()}
    rates = {name: median(events[name] / each["seconds"] for each in found) for name, found in read.items()}
    rows = [
        [name, f"{bytes_of[name] / 1e6:.0f} MB", f"{max(shares[name]):.2f} ×", f"{whole[name]:.2f} ×", f"{rates[name]:,.0f}", f"{read[name][0]['rows']:,}"]
        for name in files
    ]
    print(table(["file", "text", "peak ÷ text", "with its summary", "events/s", "rows"], rows))
    worst = max(shares, key=lambda name: max(shares[name]))
    low, high = median_interval(shares[worst])
    return Line(
        name=NAME,
        ours=max(shares[worst]),
        peer=None,
        unit="peak memory ÷ size of the text",
        ratio=median(shares[worst]),
        low=low,
        high=high,
        aa_ratio=None,
        rounds=rounds,
        passed=max(shares[worst]) <= TARGET,
        bound=f"peak memory of read_kineto <= {TARGET:.0f} times a text of {size / 1e6:.0f} MB, for {', '.join(files)}",
        details={"peak_shares": {name: max(found) for name, found in shares.items()}, "with_summary": whole, "events_per_s": rates, "events": events},
    )


def write_trace(path: Path, size: int, kernel: str = _KERNEL, events_of: Callable[[int, str], list[dict[str, Any]]] | None = None) -> int:
    """Write a trace of about `size` bytes of text; how many events it has."""
    count = events = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"made"}],"traceEvents":[\n')
        while file.tell() < size:
            made = (events_of or kernel_events)(count, kernel)
            file.write((",\n" if count else "") + ",\n".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in made))
            count, events = count + 1, events + len(made)
        file.write("\n]}\n")
    return events


def dense_events(number: int, kernel: str) -> list[dict[str, Any]]:
    """A launch and its kernel with nothing but what is read."""
    link = {"correlation": number}
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "c", "pid": 1, "tid": 1, "ts": 10 * number, "dur": 1, "args": link}
    return [launch, {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10 * number + 2, "dur": 5, "args": {"stream": 7, **link}}]


def kernel_events(number: int, kernel: str) -> list[dict[str, Any]]:
    """An operator, its launch, its kernel, and the arrow between them, as PyTorch writes them; 100 µs a kernel."""
    ts, link = 1_700_000_000_000_000.125 + 100 * number, {"External id": number, "correlation": number}
    shapes = {"Input Dims": [[32, 256, 56, 56], [256], []], "Input type": ["float", "float", "Scalar"], "Sequence number": number}
    on_gpu = {"queued": 0, "device": 0, "context": 1, "stream": 7 + number % 3, "registers per thread": 32, "shared memory": 0}
    on_gpu |= {"blocks per SM": 5.925926, "warps per SM": 23.703703, "grid": [512, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 37}
    return [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add_", "pid": 100, "tid": 100, "ts": ts, "dur": 20.5, "args": {"External id": number, **shapes}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": ts + 3, "dur": 6.25, "args": {**link, "cbid": 211}},
        {"ph": "s", "id": number, "pid": 100, "tid": 100, "ts": ts + 3, "cat": "ac2g", "name": "ac2g"},
        {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": on_gpu["stream"], "ts": ts + 15, "dur": 80.75, "args": {**link, **on_gpu}},
        {"ph": "f", "id": number, "pid": 0, "tid": on_gpu["stream"], "ts": ts + 15, "cat": "ac2g", "name": "ac2g", "bp": "e"},
    ]


def _files(folder: Path, size: int) -> tuple[dict[str, Path], dict[str, int]]:
    progress("making the files")
    plain, packed, foreign, dense = (folder / name for name in ("plain.json", "packed.json.gz", "foreign.json", "dense.json"))
    events = {"plain": write_trace(plain, size), "not ASCII": write_trace(foreign, size, f"{_KERNEL} 🚀"), "dense": write_trace(dense, size, events_of=dense_events)}
    events["gzip"] = events["plain"]
    with plain.open("rb") as text, gzip.open(packed, "wb", compresslevel=1) as file:
        shutil.copyfileobj(text, file)
    return {"plain": plain, "gzip": packed, "not ASCII": foreign, "dense": dense}, events


def _read(path: Path) -> dict[str, Any]:
    progress(f"reading {path.name}")
    with Contender(sys.executable, _MODULE, str(path)) as reader:
        return reader.go(0)


def _text_bytes(path: Path) -> int:
    if path.suffix != ".gz":
        return path.stat().st_size
    with gzip.open(path) as file:
        return file.seek(0, 2)
