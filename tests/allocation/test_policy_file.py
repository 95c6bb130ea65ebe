"""Policy files: what they may say, and every file that cannot be used, with the words that say why."""

from pathlib import Path

import pytest

from labkit.allocation.policy_file import LARGEST_BYTES, policy_of, read_policy, shipped_policies
from labkit.errors import DataError

WHOLE = """
reservation: {gpu_memory: 0.5, gpu_compute: 1, cores: [0, 1], cache_ways: 4}
scaling:
  - {resource: gpu_compute, by: utilization, high: 0.8, low: 0.3}
  - {resource: cores, high: 16, low: 2, step: 0.25, minimum: 0.25, maximum: 0.75, period_ms: 50, cooldown_ms: 200}
priority:
  classes: [{name: urgent, level: 2}, {name: bulk, level: 0}]
  ageing_ms: 500
"""


def rule(**changed: object) -> str:
    return "scaling: [{" + ", ".join(f"{key}: {value}" for key, value in ({"resource": "cores", "high": 8, "low": 1} | changed).items()) + "}]"


def test_a_whole_policy_is_read(tmp_path: Path):
    path = tmp_path / "whole.yaml"
    path.write_text(WHOLE)
    named = read_policy(str(path))
    assert named.name == "whole"
    assert named.policy.reservation.wanted == {"gpu_memory": 0.5, "gpu_compute": 1.0, "cores": [0, 1], "cache_ways": 4}
    assert [(each.resource, each.by, each.period_ms) for each in named.policy.scaling] == [("gpu_compute", "utilization", 100.0), ("cores", "queue", 50.0)]
    assert named.policy.priority is not None and named.policy.priority.classes[0].level == 2


def test_the_shipped_policies_are_read_by_name_with_and_without_the_ending():
    assert shipped_policies() == ["elastic", "half", "urgent_first"]
    assert all(read_policy(name) == read_policy(f"{name}.yaml") for name in shipped_policies())


WRONG = {
    "empty": ("", "is empty"),
    "only a comment": ("# nothing\n", "is empty"),
    "a list": ("[1, 2]", "holds a list"),
    "a word": ("half", "holds a str"),
    "asks for nothing": ("reservation: {}", "asks for nothing; give at least one of: reservation, scaling, priority"),
    "not YAML": ("reservation: {gpu_memory: 0.5", "cannot be read as YAML"),
    "a tag that runs code": ("!!python/object/apply:os.getcwd []", "cannot be read as YAML"),
    "a tier that there is not": ("reservations: {cores: 1}", "unknown key 'reservations'.*did you mean 'reservation'"),
    "a key that there is not": ("reservation: {gpu_memry: 0.5}", r"unknown key 'reservation\.gpu_memry'=0\.5; there are: gpu_memory, .*did you mean 'gpu_memory'"),
    "a key of a rule that there is not": (rule(highh=3), r"unknown key 'scaling\[1\]\.highh'.*did you mean 'high'"),
    "a key that is no text": ("{1: 2}", "unknown key|is not allowed"),
    "a share of 0": ("reservation: {gpu_memory: 0}", r"reservation\.gpu_memory=0 is not allowed; allowed: a share: more than 0, at most 1"),
    "a share of 1.5": ("reservation: {gpu_compute: 1.5}", r"reservation\.gpu_compute=1\.5 is not allowed"),
    "a negative share": ("reservation: {gpu_compute: -0.5}", r"gpu_compute=-0\.5 is not allowed"),
    "not a number": ("reservation: {gpu_memory: .nan}", "gpu_memory=nan is not allowed"),
    "infinite": ("reservation: {gpu_memory: .inf}", "gpu_memory=inf is not allowed"),
    "a share in words": ("reservation: {gpu_memory: half}", "gpu_memory='half' is not allowed"),
    "a share that is true": ("reservation: {gpu_memory: true}", "gpu_memory=True is not allowed"),
    "no cores": ("reservation: {cores: 0}", r"reservation\.cores=0 is not allowed; allowed: how many cores"),
    "half a core": ("reservation: {cores: 1.5}", r"reservation\.cores=1\.5 is not allowed"),
    "an empty list of cores": ("reservation: {cores: []}", r"reservation\.cores=\[\] is not allowed"),
    "a core twice": ("reservation: {cores: [1, 1]}", r"cores=\[1, 1\] is not allowed.*each once"),
    "a negative core": ("reservation: {cores: [-1]}", r"cores=\[-1\] is not allowed"),
    "a core in words": ("reservation: {cores: [one]}", r"cores.*is not allowed; allowed: how many cores"),
    "no ways": ("reservation: {cache_ways: 0}", "cache_ways=0 is not allowed"),
    "minimum above maximum": (rule(minimum=0.9, maximum=0.5), r"scaling\[1\]: minimum=0\.9 is more than maximum=0\.5"),
    "thresholds that meet": (rule(low=8), r"scaling\[1\]: low=8 is not below high=8"),
    "thresholds crossed": (rule(low=9), "low=9 is not below high=8"),
    "more than all of the time": (rule(by="utilization"), "high=8 is not allowed by utilization"),
    "a step of 0": (rule(step=0), r"scaling\[1\]\.step=0 is not allowed"),
    "a period of 0": (rule(period_ms=0), r"period_ms=0 is not allowed; allowed: 1 to 3,600,000 ms"),
    "no threshold": ("scaling: [{resource: cores, low: 1}]", r"'scaling\[1\]\.high' is missing"),
    "scaling what cannot move": (rule(resource="gpu_memory"), "resource='gpu_memory' is not allowed; allowed: gpu_compute or cores"),
    "two rules for one": ("scaling: [{resource: cores, high: 2, low: 1}, {resource: cores, high: 3, low: 1}]", "cores has 2 rules; allowed: one"),
    "no classes": ("priority: {classes: []}", r"priority\.classes=\[\] is not allowed"),
    "a class twice": ("priority: {classes: [{name: a, level: 1}, {name: a, level: 2}]}", "the name 'a' is there 2 times"),
    "a level too high": ("priority: {classes: [{name: a, level: 2000}]}", r"priority\.classes\[1\]\.level=2000 is not allowed"),
    "ageing of 0": ("priority: {classes: [{name: a, level: 1}], ageing_ms: 0}", r"priority\.ageing_ms=0 is not allowed"),
    "a tier twice": ("reservation: {cores: 1}\nreservation: {cores: 2}", "the key 'reservation' is there twice"),
    "a key twice": ("reservation: {cores: 1, cores: 2}", "the key 'cores' is there twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_with_the_file_and_what_is_wrong(name: str, tmp_path: Path):
    text, complaint = WRONG[name]
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=complaint) as error:
        read_policy(str(path))
    assert "wrong.yaml" in str(error.value) and len(str(error.value)) < 500


def test_what_is_no_text_file_is_refused(tmp_path: Path):
    binary, large = tmp_path / "binary.yaml", tmp_path / "large.yaml"
    binary.write_bytes(bytes(range(256)))
    large.write_text("#" * (LARGEST_BYTES + 1))
    deep = tmp_path / "deep.yaml"
    deep.write_text("[" * 20_000)
    for path, complaint in ((binary, "cannot be read as YAML"), (tmp_path, "directory"), (large, "at most 65,536"), (deep, "cannot be read as YAML")):
        with pytest.raises(DataError, match=complaint):
            read_policy(str(path))


def test_a_name_that_there_is_not_is_told_with_those_that_there_are():
    with pytest.raises(DataError, match=r"no such file.*there are: elastic, half, urgent_first; did you mean 'half'"):
        read_policy("halff")
    with pytest.raises(DataError, match="there is no such file"):
        read_policy("nowhere/at/all.yaml")
    for impossible in ("a\0b", "x" * 5000):
        with pytest.raises(DataError, match=r"no such file|cannot be read"):
            read_policy(impossible)


def test_plain_data_is_read_as_a_file_is():
    assert policy_of({"reservation": {"cores": 2}}, "here").reservation.cores == 2
