"""`labkit import`: a profiler's file becomes a run that the other commands read."""

import hashlib
import json
from pathlib import Path

import pytest

KINETO = Path(__file__).parents[2] / "datasets/traces/kineto"


@pytest.mark.parametrize("name", sorted(path.name for path in KINETO.glob("*.json.gz")))
def test_each_real_trace_becomes_a_run_that_the_other_commands_read(labkit, name: str):
    ended = labkit("import", str(KINETO / name), "--json")
    assert ended.code == 0
    run = json.loads(ended.out)
    assert (run["experiment"], run["status"], run["measured"], run["verdict"]["grade"]) == ("imported", "ok", True, "WEAK")
    for words in (("show", "last"), ("list",), ("why", "last"), ("export", "last", "-o", "trace.json"), ("report", "last", "-o", "page.html")):
        again = labkit(*words)
        assert again.code == 0, again.err
    assert json.loads(Path("trace.json").read_text())["traceEvents"]
    assert "imported trace" in Path("page.html").read_text()


def test_the_record_says_which_file_it_was_and_that_how_it_was_measured_is_not_known(labkit):
    path = KINETO / "a100_alexnet.json.gz"
    run = json.loads(labkit("import", str(path), "--json").out)
    origin = run["provenance"]
    assert (origin["file"], origin["file_bytes"]) == (path.name, path.stat().st_size)
    assert origin["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert run["verdict"]["reasons"][0].startswith("imported: how it was measured")
    assert run["device_label"] == "NVIDIA A100-PG509-200 (imported trace)"


def test_it_prints_what_each_stream_was_idle_for_and_the_overlap(labkit):
    ended = labkit("import", str(KINETO / "nccl_rank0.json.gz"))
    lines = {line.split("  ")[0].split(" ")[0]: line for line in ended.out.splitlines() if line.strip()}
    assert lines["stream"].split("  ")[-1].strip() == "unexplained"
    assert "26 %" in lines["compute7"] and "56 %" in lines["compute7"]
    assert lines["any"].split("  ")[0] == "any of them" and "45 %" in lines["any"]
    assert "15 % of it beside computation" in lines["communication"]
    assert "imported: PyTorch profiler trace, a GPU, file nccl_rank0.json.gz" in ended.out.splitlines()[0]
    assert "the GPU's side is the bottleneck, not the host" in ended.out
    assert "–" not in ended.out, "what is absent is told with its reason, not as a row of dashes"
    assert "no synchronisation in the file" in ended.err


def test_json_has_the_streams_and_the_communication(labkit):
    run = json.loads(labkit("import", str(KINETO / "nccl_rank1.json.gz"), "--json").out)
    assert [stream["lane"] for stream in run["streams"]] == ["compute23", "compute7", "h2d25", "net203", "net84"]
    assert all(each["busy_ns"] + sum(each["idle_ns"].values()) == each["span_ns"] for each in run["streams"])
    assert run["communication"]["share"]["value"] == pytest.approx(0.1993, abs=1e-4)


@pytest.mark.parametrize(("content", "says"), [(b"", "not JSON, or cut off"), (b"{}", "no list of traceEvents"), (b"\x1f\x8bx", "cut off gzip")])
def test_a_file_that_is_no_trace_ends_with_a_reason_and_leaves_no_run(labkit, content: bytes, says: str):
    Path("bad.json").write_bytes(content)
    ended = labkit("import", "bad.json")
    assert ended.code == 1
    assert says in ended.err
    assert ended.out == ""
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


def test_a_file_that_is_not_there_is_said(labkit):
    ended = labkit("import", "nowhere.json")
    assert ended.code == 1
    assert "nowhere.json cannot be read: No such file" in ended.err


def test_why_does_not_call_the_host_s_time_its_program_where_the_file_does_not_say(labkit):
    labkit("import", str(KINETO / "nccl_rank0.json.gz"))
    told = labkit("why", "last").out
    assert told.count("host program, or a wait that is not in the file") == 3, "in the waterfall, on the critical path, and in what would help"
    assert "host program  " not in told
    assert "more stages, each with a smaller gain or none" in told
    labkit("import", str(KINETO / "a100_alexnet.json.gz"))
    told = labkit("why", "last").out
    assert "or a wait" not in told and "time in all" in told and "before the first op" not in told


def test_wrong_lists_what_it_shows_and_names_the_rest(labkit):
    labkit("import", str(KINETO / "nccl_rank0.json.gz"))
    told = labkit("wrong", "last").out
    assert "imported: PyTorch profiler trace" in told.splitlines()[0]
    assert "right    1.61 steps/s" in told and "items/s" not in told
    shown, absent = told.split("not shown by this run:")
    assert "–" not in shown and "closed loop: p99 needs 100 steps" in absent


def test_show_of_an_imported_run_is_what_its_import_printed(labkit):
    printed = labkit("import", str(KINETO / "nccl_rank0.json.gz")).out
    shown = labkit("show", "last").out
    assert shown.strip() == printed[: printed.index("saved in")].strip()
    assert "knobs" not in shown


def test_the_list_of_runs_names_the_file_and_counts_steps(labkit):
    labkit("import", str(KINETO / "nccl_rank0.json.gz"))
    listed = labkit("list").out
    assert "1.61 steps/s" in listed and "file=nccl_rank0.json.gz" in listed
    assert "items/s" not in listed and "measured on imported" not in listed


def test_without_two_steps_what_if_tells_how_long_the_whole_takes(labkit):
    labkit("import", str(KINETO / "a100_multi_stream.json.gz"))
    asked = labkit("whatif", "last", "--host", "0.5").out
    assert "measured as it was     19.5 ms" in asked and "predicted with it      9.84 ms, 1.99×" in asked
