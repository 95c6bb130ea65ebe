"""The mean cost of each kind of op that a workload has handed out, so that measured times can be scaled to other costs."""

from labkit.schedule import Cost


class CostLedger:
    """Running sums by op name."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def add(self, name: str, cost: Cost) -> None:
        """Count one op."""
        sums = self._sums.get(name)
        if sums is None:
            sums = self._sums[name] = [0, 0, 0, 0, 0, 0]
        sums[0] += 1
        sums[1] += cost.flop
        sums[2] += cost.bytes
        sums[3] += cost.jpeg_pixels
        sums[4] += cost.fixed_ns
        sums[5] += cost.launches

    def means(self) -> dict[str, Cost]:
        """Op name → the mean of its costs, rounded."""
        return {
            name: Cost(*(round(total / count) for total in totals)) for name, (count, *totals) in self._sums.items()
        }
