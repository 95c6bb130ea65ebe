"""Commands that run something, end to end, on the cpu and on a simulated machine, with a handful of worker starts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from labkit.data.locate import datasets_root

SMALL = ["--batch-size", "4", "--image-size", "32", "--warmup", "2"]


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}


def test_a_run_is_saved_shown_listed_exported_and_reported(labkit: Callable) -> None:
    before = children()
    ran = labkit("run", "pipeline", *SMALL, "--device", "cpu", "--steps", "24", "--prefetch", "1", "--pinned", "--json")
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert (record["status"], record["measured"], record["device"]) == ("ok", True, "cpu")
    assert record["metrics"]["throughput"]["n"] == 24
    assert any("pinned memory cannot act on cpu" in note for note in record["notes"]), "a knob that cannot act says so"

    shown = labkit("show", "last", "--json")
    assert json.loads(shown.out) == record
    text = labkit("show", record["id"][-4:]).out
    assert "measured on cpu" in text
    assert "energy per item: not known: " in text or "J/item (mean power" in text
    assert "cost per million items: not known: this machine has no file" in text
    assert "closed loop" in text and "24 completions counted; 2 warm-up steps excluded" in text
    [listed] = json.loads(labkit("list", "--json").out)["runs"]
    assert listed["id"] == record["id"]

    exported = json.loads(labkit("export", "last", "--json").out)
    events = json.loads(Path(exported["path"]).read_text())["traceEvents"]
    assert {event["name"] for event in events} >= {"forward", "backward", "update", "wait"}
    labkit("export", "last", "--format", "csv", "-o", "trace.csv")
    assert Path("trace.csv").read_text().startswith("op,name,lane")

    assert labkit("report", "last").code == 0
    assert "<html" in Path("report.html").read_text()
    assert children() <= before, "no process is left"


def test_a_prediction_says_simulated_everywhere(labkit: Callable) -> None:
    ran = labkit("predict", "pipeline", *SMALL[:4], "--on", "t4", "--steps", "50", "--json")
    assert ran.code == 0, ran.err
    [record] = json.loads(ran.out)["runs"]
    assert not record["measured"]
    assert "simulated" in record["device_label"]
    assert any("simulated" in reason for reason in record["verdict"]["reasons"])
    assert "simulated" in labkit("list").out
    shown = labkit("show", "last").out
    assert "J/item (mean power in the steady window ÷ throughput; predicted, an estimate" in shown
    assert "cost per million items: not known: the machine file has no price: add price_usd_per_hour" in shown


def test_a_sweep_goes_on_where_it_ended(labkit: Callable) -> None:
    words = ["sweep", "pipeline", *SMALL, "--device", "cpu", "--steps", "4", "--grid", "prefetch=0,1", "--json"]
    first = json.loads(labkit(*words).out)
    assert (len(first["runs"]), first["skipped"]) == (2, 0)
    second = json.loads(labkit(*words, "--grid", "workers=1,2").out)
    assert (len(second["runs"]), second["skipped"]) == (2, 2)


def test_a_sweep_of_a_server_tells_and_draws_which_settings_no_other_beats(labkit: Callable) -> None:
    words = ["sweep", "batching", "--grid", "rate=200,1600", "--grid", "max_batch=1,32", "--device", "simulated:l4", "--model", "fixed"]
    ended = labkit(*words, "--seconds", "2", "--html", "sweep.html")
    assert ended.code == 0, ended.err
    head, *front = ended.out[ended.out.index("Pareto front") :].splitlines()[:3]
    assert head == "Pareto front of throughput and p99 (simulated L4):"
    assert ["rate=1600.0, max_batch=32" in front[0], "rate=200.0, max_batch=32" in front[1]] == [True, True]
    page = Path("sweep.html").read_text()
    assert page.count("plotly-graph-div") == 4 and "Latency p99 against throughput" in page
    again = labkit(*words, "--seconds", "2")
    assert head in again.out, "those that were there already count as well"


def test_a_page_that_cannot_be_written_is_said_and_the_runs_are_there(labkit: Callable) -> None:
    words = ["sweep", "pipeline", *SMALL, "--device", "simulated:l4", "--steps", "4", "--grid", "prefetch=0,1"]
    ended = labkit(*words, "--html", "nowhere/sweep.html")
    assert ended.code != 0 and "cannot write nowhere/sweep.html: No such file" in ended.err
    assert "2 there already" in labkit(*words).out


def test_images_that_are_broken_are_counted_named_and_replaced(labkit: Callable) -> None:
    for name in ("cat", "coffee"):
        shutil.copytree(datasets_root() / "photos" / name, f"mine/{name}")
    whole = sorted(Path("mine/cat").glob("*.jpg"))[0]
    whole.write_bytes(whole.read_bytes()[:3000])
    Path("mine/cat/zzz.jpg").write_bytes(b"not an image")
    words = ["run", "pipeline", *SMALL, "--device", "cpu", "--steps", "12", "--data", "mine", "--json"]
    record = json.loads(labkit(*words).out)
    assert record["status"] == "ok"
    notes = "\n".join(record["notes"])
    assert "zzz.jpg" in notes
    assert f"1 images could not be decoded and were replaced by the next: {whole}" in notes


def test_a_side_that_fails_is_exit_code_1_whatever_became_of_the_other(labkit: Callable) -> None:
    Path("empty").mkdir()
    ended = labkit("compare", "pipeline", "--a", "data=empty", "--rounds", "2", "--steps", "2", "--device", "cpu", "--json")
    assert ended.code == 1
    both = json.loads(ended.out)
    assert both["a"]["status"] == "failed"
    assert both["b"]["reason"] == "not run: side A failed"


def test_an_empty_data_folder_name_is_refused_and_never_means_the_shipped_photos(labkit: Callable) -> None:
    record = json.loads(labkit("run", "pipeline", "--data=", "--device", "cpu", "--steps", "1", "--json").out)
    assert record["status"] == "failed"
    assert "data='' is not allowed" in record["reason"]


def test_no_data_is_a_failed_record_with_the_reason(labkit: Callable) -> None:
    Path("empty").mkdir()
    ended = labkit("run", "pipeline", "--data", "empty", "--device", "cpu", "--steps", "1", "--json")
    assert ended.code == 1
    record = json.loads(ended.out)
    assert record["status"] == "failed"
    assert "no class sub-folder with photos in empty" in record["reason"]
    assert record["verdict"]["grade"] == "INVALID"


@pytest.mark.parametrize(("moment_s", "sent"), [(0.2, signal.SIGINT), (1.5, signal.SIGINT), (4.0, signal.SIGINT), (4.0, signal.SIGTERM)])
def test_ctrl_c_and_a_request_to_end_leave_no_process_and_exit_code_130(tmp_path: Path, moment_s: float, sent: int) -> None:
    command = [sys.executable, "-m", "labkit", "run", "pipeline", "--device", "cpu", "--seconds", "600", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(moment_s)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), err  # -SIGINT: Python itself was still starting
    if out:
        assert json.loads(out)["status"] == "cancelled"
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def test_a_run_in_which_nothing_was_measured_says_so_and_is_exit_code_1(labkit: Callable) -> None:
    ended = labkit("run", "batching", "--model", "fixed", "--rate", "0.01", "--device", "simulated:l4", "--seconds", "1")
    assert ended.code == 1
    assert "INVALID: nothing was measured" in ended.out
