"""How small an effect can be shown here: from this machine's calibration, and how to know it where there is none."""

from pathlib import Path

import pytest

from labkit.device.machine import Figure, Machine, this_machine_path, write_machine
from labkit.panel.turns import detectable_here


def test_the_smallest_effect_comes_from_the_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LABKIT_HOME", str(tmp_path))
    assert detectable_here() == "How small an effect can be shown here is not known: run labkit calibrate."
    write_machine(Machine("this", "this machine", "cpu", {"round_noise_share": Figure(0.02, "test")}), this_machine_path())
    assert detectable_here() == "5 rounds here show effects from 4.8 % up (labkit calibrate)."
