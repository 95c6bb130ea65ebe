"""The passport: the smallest effect that rounds here can show, and figures that no prediction needs."""

import numpy as np
import pytest

from labkit.cli.calibrate import detectable_words
from labkit.device.cost_model import CostModel
from labkit.device.machine import Figure, Machine, load_machine
from labkit.metrics.compare import ratio_interval
from labkit.runner.probe_passport import detectable, passport_probes, resolution
from labkit.schedule import Cost


def test_four_of_five_comparisons_show_the_smallest_effect_that_is_told():
    noise, n = 0.03, 5
    effect = detectable(noise, n)
    chance = np.random.default_rng(5)
    shown = 0
    for _ in range(2000):
        a, b = chance.lognormal(0, noise, (2, n))
        ratio = ratio_interval(a.tolist(), (b * (1 + effect)).tolist())
        shown += ratio.low is not None and ratio.low > 1
    assert shown / 2000 == pytest.approx(0.8, abs=0.05)


def test_more_rounds_show_less_and_more_noise_hides_more():
    assert detectable(0.02, 20) < detectable(0.02, 5) < detectable(0.05, 5)


def test_it_is_told_in_words_and_absent_where_the_noise_is_not_known():
    machine = Machine("this", "this machine", "cpu", {"round_noise_share": Figure(0.02, "test")})
    assert detectable_words(machine) == "Measured in turns here, 5 rounds show effects from 4.8 % up, 10 rounds from 2.9 % up."
    assert detectable_words(load_machine("h200")) is None


def test_the_smallest_step_of_the_clock_is_a_step():
    assert 1 <= resolution(0.0)["clock_resolution_ns"] < 1_000_000


def test_every_probe_says_how_it_measures():
    assert all(len(probe.how.split()) >= 3 and probe.words for probe in passport_probes())


def test_no_figure_of_the_passport_changes_a_prediction():
    base = load_machine("t4")
    more = base.with_figures("test", host_bf16_flop_per_s=1.0, host_fp16_flop_per_s=1.0, thread_scaling_share=0.1, round_noise_share=0.5, clock_resolution_ns=9.0)
    cost = Cost(flop=10**9, bytes=10**6)
    for role in ("compute", "workers", "h2d"):
        assert CostModel(more).duration_ns("op", role, cost) == CostModel(base).duration_ns("op", role, cost)
