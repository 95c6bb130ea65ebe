"""A file of rules is read strictly: what is wrong is named, with its place."""

import json
import tomllib
from pathlib import Path

import pytest

from labkit.errors import AlertError
from labkit.monitor.alerts import EXAMPLE, Rule, read_rules, rules_of

ROOT = Path(__file__).parents[2]
STALL = {"metric": "pipeline_stall", "when": "above", "warning": 10, "critical": 20, "unit": "%"}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "alerts.json"
    path.write_text(text, encoding="utf-8")
    return path


def of_alerts(*alerts: object) -> str:
    return json.dumps({"schema_version": 1, "alerts": alerts})


def test_the_rules_of_a_file_in_order(tmp_path: Path):
    power = {"metric": "gpu_power_w", "when": "below", "warning": 300.5, "critical": 100, "level": "critical"}
    rules = read_rules(written(tmp_path, of_alerts(STALL, power)))
    assert rules == (
        Rule("pipeline_stall", "above", 10, 20, "%", "warning"),
        Rule("gpu_power_w", "below", 300.5, 100, None, "critical"),
    )


def test_a_file_that_an_editor_began_with_a_byte_order_mark_is_read(tmp_path: Path):
    (tmp_path / "alerts.json").write_text(of_alerts(STALL), encoding="utf-8-sig")
    assert read_rules(tmp_path / "alerts.json") == (Rule("pipeline_stall", "above", 10, 20, "%", "warning"),)


def test_alerts_of_another_kind_are_refused():
    with pytest.raises(AlertError, match="alerts=123 is not allowed; give the path of a JSON file, or Rule objects"):
        rules_of(123)


def test_the_example_is_read_and_is_part_of_the_package():
    assert [rule.metric for rule in read_rules(EXAMPLE)][:2] == ["pipeline_stall", "gpu_utilization"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["labkit"]
    assert str(EXAMPLE.relative_to(ROOT / "labkit")) in patterns


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "an object with schema_version and alerts is expected, not a list"),
        ("5", "is expected, not 5"),
        ("{}", "schema_version and alerts are missing"),
        ('{"schema_version": 1}', "alerts is missing"),
        ('{"alerts": []}', "schema_version is missing"),
        ('{"schema_version": 2, "alerts": []}', "schema_version=2 is not known: this labkit reads 1"),
        ('{"schema_version": true, "alerts": []}', "schema_version=True is not known"),
        ('{"schema_version": "1", "alerts": []}', "schema_version='1' is not known"),
        ('{"schema_version": 1, "alerts": []}', "a list of one or more rules"),
        ('{"schema_version": 1, "alerts": {"metric": "overlap"}}', "a list of one or more rules"),
        ('{"schema_version": 1, "alerts": [], "colour": 1}', "there is no key 'colour'; allowed: schema_version, alerts"),
        (of_alerts(STALL, 7), "alert 2: an object is expected, not 7"),
        (of_alerts({**STALL, "limit": 3}), "alert 1: there is no key 'limit'; allowed: metric, when, warning, critical, unit, level"),
        (of_alerts({"metric": "overlap", "when": "below"}), "alert 1: warning and critical are missing"),
        (of_alerts({**STALL, "metric": "stall"}), "alert 1: there is no metric 'stall'; there are: throughput"),
        (of_alerts({**STALL, "critical": 5}), "alert 1: pipeline_stall: critical=5 and warning=10 are in the wrong order"),
        (of_alerts(STALL).replace("20", "NaN"), "NaN is not a finite number"),
        (of_alerts(STALL).replace("20", "-Infinity"), "-Infinity is not a finite number"),
        (of_alerts(STALL).replace("20", "1e999"), "alert 1: pipeline_stall: critical=inf is not allowed"),
        (of_alerts(STALL, STALL), "two rules say when pipeline_stall is bad above"),
        (of_alerts(STALL).replace('"warning": 10', '"warning": 10, "warning": 11'), "the key 'warning' is there twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, text: str, says: str):
    with pytest.raises(AlertError) as refused:
        read_rules(written(tmp_path, text))
    assert str(refused.value).startswith(f"alerts file {tmp_path / 'alerts.json'}: ")
    assert says in str(refused.value)


def test_a_file_that_is_not_there_is_refused_with_an_example(tmp_path: Path):
    with pytest.raises(AlertError, match=r"cannot be read: No such file or directory; an example is .*alerts\.json"):
        read_rules(tmp_path / "none.json")


def test_a_folder_bytes_and_no_name_are_refused(tmp_path: Path):
    with pytest.raises(AlertError, match="it cannot be read"):
        read_rules(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(AlertError, match="cannot be read as text"):
        read_rules(tmp_path / "bytes.json")
    with pytest.raises(AlertError, match="no file is named"):
        read_rules(" ")
    with pytest.raises(AlertError, match="cannot be read"):
        read_rules("a\0b")


def test_rules_may_be_given_as_they_are_as_a_file_or_not_at_all(tmp_path: Path):
    rule = Rule("overlap", "below", 0.5, 0.2)
    assert rules_of(None) == ()
    assert rules_of([rule]) == rules_of(iter([rule])) == (rule,)
    path = written(tmp_path, of_alerts(STALL))
    assert rules_of(path) == rules_of(str(path)) == (Rule(**STALL),)


def test_what_is_no_rule_and_two_of_the_same_are_refused():
    with pytest.raises(AlertError, match=r"alerts has \{'metric': 'overlap'\} in it"):
        rules_of([{"metric": "overlap"}])
    rule = Rule("overlap", "below", 0.5, 0.2)
    with pytest.raises(AlertError, match="two rules"):
        rules_of([rule, rule])
