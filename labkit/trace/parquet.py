"""A trace as one Parquet file and back. The columns are Parquet's; units, marks and the rest lie in its metadata.

Requests, where a run served any, are a second file beside it: they are as long as they are.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from labkit.errors import TraceError
from labkit.trace.trace import INT_COLUMNS, REQUEST_COLUMNS, Mark, Trace, UnitSpan, no_requests

VERSION = 1
_LATER_COLUMNS = {"first_token_ns": -1, "tokens": 0}
"""Columns of requests that older files do not have, and what stands for them."""


def write_parquet(trace: Trace, path: Path) -> None:
    """Write a trace. Raises OSError where the disk does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {name: pa.array(trace[name]) for name in INT_COLUMNS}
    arrays["name"] = pa.DictionaryArray.from_arrays(pa.array(trace["name"]), pa.array(trace.names, pa.string()))
    arrays["lane"] = pa.DictionaryArray.from_arrays(pa.array(trace["lane"]), pa.array(trace.lanes, pa.string()))
    arrays["deps"] = pa.LargeListArray.from_arrays(pa.array(trace.dep_offsets), pa.array(trace.dep_ids))
    rest = {
        "version": VERSION,
        "names": trace.names,
        "lanes": trace.lanes,
        "units": [asdict(span) for span in trace.units],
        "marks": [asdict(mark) for mark in trace.marks],
        "dropped": trace.dropped,
        "dropped_busy_ns": trace.dropped_busy_ns,
        "meta": trace.meta,
        "requests": len(trace.requests["request"]),
        "requests_dropped": [[answer, count] for answer, count in trace.requests_dropped.items()],
    }
    table = pa.table(arrays).replace_schema_metadata({"labkit": json.dumps(rest, allow_nan=False)})
    pq.write_table(table, path, compression="zstd")
    if rest["requests"]:
        pq.write_table(pa.table(trace.requests), requests_file(path), compression="zstd")


def requests_file(path: Path) -> Path:
    """Where the requests lie that belong to the trace at `path`: `trace.requests.parquet` beside `trace.parquet`."""
    return path.with_suffix(".requests.parquet")


def read_parquet(path: Path) -> Trace:
    """Read a trace. Raises TraceError: missing, not a trace, or written by a later version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
        rest = json.loads(table.schema.metadata[b"labkit"])
        if rest["version"] <= VERSION:
            return _trace_of(table, rest, _read_requests(path, rest.get("requests", 0)))
    except FileNotFoundError as error:
        raise TraceError(f"there is no trace at {error.filename or path}") from None
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"{path} is not a labkit trace: {type(error).__name__}: {error}") from error
    raise TraceError(f"{path} is of trace version {rest['version']}; this labkit reads up to {VERSION}")


def _read_requests(path: Path, count: int) -> dict[str, np.ndarray]:
    if not count:
        return no_requests()
    import pyarrow.parquet as pq

    with pq.ParquetFile(requests_file(path)) as file:
        table = file.read()
    if table.num_rows != count:
        raise ValueError(f"{requests_file(path).name} has {table.num_rows} requests; the trace says {count}")
    there = set(table.column_names)
    absent = {name: np.full(count, value) for name, value in _LATER_COLUMNS.items() if name not in there}
    return {name: absent[name] if name in absent else table[name].to_numpy().astype(np.int64) for name in REQUEST_COLUMNS}


def _trace_of(table: Any, rest: dict[str, Any], requests: dict[str, np.ndarray]) -> Trace:
    """The trace of an Arrow table and of what lay in its metadata."""
    deps = table["deps"].combine_chunks()
    columns = {name: table[name].to_numpy().astype(np.int64) for name in INT_COLUMNS}
    for column in ("name", "lane"):
        place = {name: code for code, name in enumerate(rest[column + "s"])}
        columns[column] = np.array([place[value] for value in table[column].to_pylist()], np.int32)
    return Trace(
        columns=columns,
        names=tuple(rest["names"]),
        lanes=tuple(rest["lanes"]),
        dep_ids=np.asarray(deps.flatten(), np.int64) if len(deps) else np.empty(0, np.int64),
        dep_offsets=np.asarray(deps.offsets, np.int64) if len(deps) else np.zeros(1, np.int64),
        units=tuple(UnitSpan(**span) for span in rest["units"]),
        marks=tuple(Mark(**mark) for mark in rest["marks"]),
        dropped=rest["dropped"],
        dropped_busy_ns=rest["dropped_busy_ns"],
        meta=rest["meta"],
        requests=requests,
        requests_dropped=dict(rest.get("requests_dropped", [])),
    )
