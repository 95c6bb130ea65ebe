"""What became of the requests of a run that serves: latency from when each was due, goodput, what was turned away.

Latency is counted from the *intended* arrival. A server that stands still for a second makes every request of that second late, whoever was
able to send it (G. Tene, "How NOT to measure latency", on coordinated omission). Requests that got no answer have no latency: they are counted,
and goodput, which counts only what kept the promise, falls.

Counted are the requests that were due after the warm-up; the balance is of all of them.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from labkit.metrics.fairness import Fairness, fairness
from labkit.metrics.metric import Metric
from labkit.metrics.percentiles import percentile, percentile_name
from labkit.metrics.window import Window
from labkit.schedule import Answer
from labkit.trace import Trace
from labkit.units import NS_PER_S

QUANTILES = (0.5, 0.95, 0.99, 0.999)
LATE_QUANTILES = (0.5, 0.99)

_LATENCY = "time from when a request was due to its answer, of those served"
_WAITING = "time from when a request was due to its batch being sent, of those served"
_FIRST_TOKEN = "time from when a request was due to its first token, of those served"
_PER_TOKEN = "time from the first token to the answer ÷ the tokens after the first, of those served with two or more"
_LATE = "time from when a request was due to the host taking it in"


@dataclass(frozen=True)
class RequestSummary:
    """The numbers of a run's requests.

    answers     answer in words → how many, of all requests that were sent; they add up to `sent`
    latency     by `mean`, `p50`, `p95`, `p99`, `p99.9`, in ns; waiting, the part of it before its batch was sent, likewise
    goodput     requests that were served within their SLO, per second
    offered     requests that were due, per second
    unserved    share of the requests that were due and not served
    batch_size  mean number of requests in a batch; batch_sizes: size → batches
    padding     share of the padded length that nobody asked for
    in_system   mean number of requests in the system at a time
    lateness    of the load generator, by `p50` and `p99`, in ns
    first_token, per_token  of requests that are answered in tokens: from when each was due to its first, and from there to the last, for each
                further token; like latency, {} where none was made
    fairness    of a server with several tenants: each of them, and how evenly service was shared; None without
    """

    sent: int
    answers: dict[str, int]
    latency: dict[str, Metric]
    waiting: dict[str, Metric]
    goodput: Metric
    offered: Metric
    unserved: Metric
    batch_size: Metric
    batch_sizes: dict[int, int]
    padding: Metric
    in_system: Metric
    lateness: dict[str, Metric]
    first_token: dict[str, Metric] = field(default_factory=dict)
    per_token: dict[str, Metric] = field(default_factory=dict)
    fairness: Fairness | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data: strict JSON can hold it."""
        return asdict(self) | {"batch_sizes": {str(size): count for size, count in self.batch_sizes.items()}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "RequestSummary":
        """What `as_dict` was called on."""
        known = {"first_token": {}, "per_token": {}} | {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        for name in ("goodput", "offered", "unserved", "batch_size", "padding", "in_system"):
            known[name] = Metric(**data[name])
        for name in ("latency", "waiting", "lateness", "first_token", "per_token"):
            known[name] = {key: Metric(**metric) for key, metric in data[name].items()}
        if data.get("fairness") is not None:
            known["fairness"] = Fairness.from_dict(data["fairness"])
        known["batch_sizes"] = {int(size): count for size, count in data["batch_sizes"].items()}
        return cls(**known)

    def metrics(self) -> dict[str, Metric]:
        """All of them by the name that tables and rules give them."""
        named = {f"latency {name}": metric for name, metric in self.latency.items()}
        named |= {f"first token {name}": metric for name, metric in self.first_token.items()}
        named |= {f"per output token {name}": metric for name, metric in self.per_token.items()}
        named |= {f"waiting {name}": metric for name, metric in self.waiting.items()}
        named |= {metric.name: metric for metric in (self.goodput, self.offered, self.unserved, self.batch_size, self.padding, self.in_system)}
        named |= {} if self.fairness is None else self.fairness.metrics()
        return named | {f"lateness {name}": metric for name, metric in self.lateness.items()}


@dataclass(frozen=True, eq=False)
class Counted:
    """The requests of one run that count, as columns of `Trace.requests`, and for how long they came.

    all_answers  answer → how many, of all requests
    fairness     of the run, where it has tenants
    """

    columns: dict[str, np.ndarray]
    span_ns: int
    all_answers: dict[int, int]
    fairness: Fairness | None = None


def counted_requests(trace: Trace, window: Window, warmup_steps: int) -> Counted:
    """Those that were due in the window; all of them where there was no warm-up, or where the window is the whole run."""
    columns = trace.requests
    due, answers = columns["due_ns"], dict(trace.requests_dropped)
    for answer, count in zip(*np.unique(columns["answer"], return_counts=True), strict=True):
        answers[int(answer)] = answers.get(int(answer), 0) + int(count)
    since = window.start_ns if window.steady and warmup_steps else -1
    inside = due >= since
    last = int(due[inside].max()) if inside.any() else since
    first = max(since, int(due[inside].min())) if since < 0 and inside.any() else since
    counted = {name: column[inside] for name, column in columns.items()}
    return Counted(counted, max(last - first, 0), answers, fairness(trace, counted, max(last - first, 0)))


def request_summary(rounds: Sequence[Counted]) -> RequestSummary | None:
    """The numbers of one run, or of several rounds of one setting, whose requests are pooled; None where none served any."""
    if not any(part.all_answers for part in rounds):
        return None
    columns = {name: np.concatenate([part.columns[name] for part in rounds]) for name in rounds[0].columns}
    answers = {answer: sum(part.all_answers.get(answer, 0) for part in rounds) for answer in Answer}
    span_ns = sum(part.span_ns for part in rounds)
    served = columns["answer"] == Answer.SERVED
    due, done = columns["due_ns"], columns["done_ns"]
    latency_ns = (done - due)[served]
    kept = _kept_promise(columns, served)
    batches = _batches(rounds)
    return RequestSummary(
        sent=sum(answers.values()),
        answers={answer.name.lower(): answers[answer] for answer in Answer},
        latency=_times(latency_ns, "latency", _LATENCY, QUANTILES),
        waiting=_times((columns["first_ns"] - due)[served], "waiting", _WAITING, QUANTILES),
        goodput=_rate("goodput", kept, span_ns, "requests served within their SLO ÷ the time in which they were due", "higher", "no SLO was promised"),
        offered=_rate("offered load", len(due), span_ns, "requests that were due ÷ the time in which they were due", None, ""),
        unserved=_share("unserved", int((~served).sum()), len(due), "requests that were rejected, expired, failed or cancelled ÷ all"),
        batch_size=_mean("batch size", batches, "requests", "mean number of requests in a batch that was served", None),
        batch_sizes={int(size): int(count) for size, count in zip(*np.unique(batches, return_counts=True), strict=True)},
        padding=_padding(rounds),
        in_system=_in_system(int((done - due).sum()), span_ns, len(due)),
        lateness=_times(columns["admitted_ns"] - due, "lateness", _LATE, LATE_QUANTILES),
        fairness=rounds[-1].fairness,
        **_tokens(columns, served),
    )


def _tokens(columns: dict[str, np.ndarray], served: np.ndarray) -> dict[str, dict[str, Metric]]:
    """How long the first token took, and each further one; nothing where no answer is made of tokens."""
    made = served & (columns["tokens"] > 0)
    if not made.any():
        return {}
    several = made & (columns["tokens"] > 1)
    after_ns = (columns["done_ns"] - columns["first_token_ns"])[several] / (columns["tokens"][several] - 1)
    return {
        "first_token": _times((columns["first_token_ns"] - columns["due_ns"])[made], "first token", _FIRST_TOKEN, QUANTILES),
        "per_token": _times(after_ns, "per output token", _PER_TOKEN, QUANTILES),
    }


def _kept_promise(columns: dict[str, np.ndarray], served: np.ndarray) -> int | None:
    """How many were served within their SLO; None where nothing was promised."""
    promised = columns["slo_ns"] > 0
    if not promised.any():
        return None
    return int((served & promised & (columns["done_ns"] - columns["due_ns"] <= columns["slo_ns"])).sum())


def _batches(rounds: Sequence[Counted]) -> np.ndarray:
    """The size of each batch that was served, int64."""
    sizes = [np.unique(part.columns["step"][part.columns["answer"] == Answer.SERVED], return_counts=True)[1] for part in rounds]
    return np.concatenate(sizes).astype(np.int64)


def _padding(rounds: Sequence[Counted]) -> Metric:
    asked = padded = 0
    for part in rounds:
        sent = part.columns["step"] >= 0
        lengths = part.columns["length"][sent]
        _, batch, sizes = np.unique(part.columns["step"][sent], return_inverse=True, return_counts=True)
        longest = np.zeros(len(sizes), np.int64)
        np.maximum.at(longest, batch, lengths)
        asked, padded = asked + int(lengths.sum()), padded + int((longest * sizes).sum())
    share = 1 - asked / padded if padded else None
    definition = "share of the padded length of all batches that no request asked for"
    return Metric("padding", share, "share", padded, definition, "lower", None if padded else "no batch was sent")


def _in_system(sojourn_ns: int, span_ns: int, n: int) -> Metric:
    """Little's law: the mean number in the system is the arrival rate times the mean time in it (J. Little, "A proof for the queuing
    formula L = λW", Operations Research 9(3), 1961)."""
    definition = "mean number of requests in the system, by Little's law"
    value = sojourn_ns / span_ns if span_ns else None
    return Metric("in system", value, "requests", n, definition, "lower", None if span_ns else "fewer than two requests were due")


def _times(samples: np.ndarray, name: str, definition: str, quantiles: Sequence[float]) -> dict[str, Metric]:
    times = {"mean": _mean(f"{name} mean", samples, "ns", f"mean {definition}", "lower")}
    for q in quantiles:
        word = percentile_name(q)
        times[word] = percentile(samples, q, name=f"{name} {word}", definition=f"{word} of the {definition}")
    return times


def _mean(name: str, samples: np.ndarray, unit: str, definition: str, better: Any) -> Metric:
    value = float(samples.mean()) if len(samples) else None
    return Metric(name, value, unit, len(samples), definition, better, None if len(samples) else "there is none to take the mean of")


def _rate(name: str, count: int | None, span_ns: int, definition: str, better: Any, nothing: str) -> Metric:
    reason = nothing if count is None else None if span_ns else "fewer than two requests were due"
    value = None if reason is not None or count is None else count * NS_PER_S / span_ns
    return Metric(name, value, "requests/s", count or 0, definition, better, reason)


def _share(name: str, count: int, of: int, definition: str) -> Metric:
    return Metric(name, count / of if of else None, "share", of, definition, "lower", None if of else "no request was due in the window")
