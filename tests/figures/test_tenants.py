"""What each tenant got, as a figure: shares beside weights, both latencies, and who starved in words."""

import pytest

from labkit.figures import tenants
from labkit.figures.shown import Shown
from labkit.metrics.summary import summarize
from tests.kernels.shared import flood, serve_tenants, tenant


def shown(label: str, share: str, measured: bool = False) -> Shown:
    those = [tenant("A", 3, slo_ms=60.0, batchable_with=frozenset("A")), tenant("B", 1, batchable_with=frozenset("B"))]
    run = serve_tenants(those, flood([40, 40], until_ms=300), share=share)
    return Shown(label, "simulated L4", measured, summarize(run.trace), run.trace)


def test_each_tenant_has_its_share_beside_its_share_by_weight():
    figure = tenants([shown("A", "fifo"), shown("B", "wfq")])
    first, second = (trace for trace in figure.data if trace.type == "bar" and trace.showlegend)
    entitled = next(trace for trace in figure.data if trace.name == "share by weight")
    assert list(first.x) == ["A", "B"] and list(entitled.y) == [75, 25]
    assert sum(first.y) == pytest.approx(100) and second.y[0] > first.y[0] + 10
    assert "B: fairness 0.99" in figure.layout.title.text or "B: fairness 1.00" in figure.layout.title.text


def test_a_prediction_is_hatched_and_open():
    measured, predicted = (tenants([shown("A", "wfq", measured)]) for measured in (True, False))
    assert measured.data[0].marker.pattern.shape is None and predicted.data[0].marker.pattern.shape == "/"
    assert [trace.marker.symbol for trace in predicted.data if trace.type == "scatter"][:2] == ["circle-open", "diamond-open"]


def test_without_tenants_it_says_so():
    assert tenants([]).layout.annotations[-1].text == "no run has several tenants"
