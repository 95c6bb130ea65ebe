"""The figures that explain: the waterfall, the virtual speed-ups, the mistakes."""

from labkit.figures import Shown, mistakes, mistakes_table, speedups, waterfall
from labkit.metrics.mistakes import mistakes as made_of
from labkit.metrics.waterfall import waterfall as fall_of
from labkit.metrics.whatif import SPEEDUPS, Replays
from tests.figures.shown_runs import WARMUP, shown


def test_the_bars_of_a_waterfall_begin_where_the_one_before_ended(a: Shown):
    fall = fall_of(a.trace, WARMUP)
    [bars] = waterfall(fall, a).data
    ends = [base + length for base, length in zip(bars.base, bars.x, strict=True)]
    assert bars.base[0] == 0 and bars.x[0] == 1
    assert list(bars.base[1:-1]) == ends[:-2]
    assert bars.base[-1] == 0 and abs(bars.x[-1] - fall.relative(fall.total_ns)) < 1e-12
    assert bars.y[-1] == "measured"


def test_a_waterfall_of_nothing_says_so(a: Shown):
    assert "no lane but the host" in waterfall(None, a).layout.annotations[0].text


def test_speed_ups_are_predictions_and_say_how_far_off_the_replay_is():
    run = shown("A", prefetch=2, steps=60)
    replays = Replays(run.trace, WARMUP)
    figure = speedups(replays.virtual_speedups(), run, 0.04)
    assert len(figure.data) == len(SPEEDUPS)
    assert all(bars.marker.pattern.shape == "/" for bars in figure.data), "hatched: predicted"
    assert "the replay as it was is off by 4.0 %" in figure.layout.title.text
    assert "all of compute" in figure.data[0].y


def test_every_wrong_number_says_invalid():
    run = shown("A", prefetch=2, steps=260)
    found = made_of(run.trace, WARMUP)
    figure, rows = mistakes(found, run), mistakes_table(found)
    assert [trace.name for trace in figure.data if trace.name] == ["right", "INVALID: what the mistake makes of it"]
    assert figure.layout.xaxis.type == "log"
    told = [row for row in rows[1:] if row[3] != "–"]
    assert len(told) >= 5 and all(row[3].startswith("INVALID: ") for row in told)
    assert all(row[5].startswith("not shown by this run: ") for row in rows[1:] if row[3] == "–")
