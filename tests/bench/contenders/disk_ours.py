"""Ours: the offload kernel on the cpu device, nothing kept; and what bounds it: computing alone, reading alone."""

import sys
from time import perf_counter
from typing import Any

import torch

from labkit.device.cpu import CpuDevice
from labkit.experiments.offload import OffloadKnobs, prepare
from labkit.kernels.offload import offload
from labkit.schedule import Budget, Steps
from tests.bench.contender import serve
from tests.bench.contenders.disk_common import LAYERS, SEED, WARM_PASSES, WIDTH, batch, seconds_a_pass

STREAMED = {"device_budget": 0.0, "prefetch": 2, "slots": 3}


class Ours:
    """One prepared workload, run with some knobs or others."""

    def __init__(self) -> None:
        self._settings = {"layers": LAYERS, "width": WIDTH, "seed": SEED, "source": "disk", "batch_size": int(sys.argv[1])}
        self.workload: Any = prepare(OffloadKnobs.parse(self._settings), "cpu")
        self.result = 0.0

    def pass_s(self, passes: int, **knobs: Any) -> float:
        """The mean time of a pass, from the end of the last warm one to that of the last."""
        chosen = OffloadKnobs.parse({**self._settings, **knobs})
        device = CpuDevice()
        self.workload.begin()
        offload(device, self.workload, Steps(chosen, Budget(steps=passes, warmup=WARM_PASSES), device.now))
        device.close()
        trace = device.recorder.finish(device.now())
        ends = trace["end_ns"][trace["items"] > 0]
        return float(ends[-1] - ends[WARM_PASSES - 1]) / passes / 1e9

    def read_s(self, passes: int) -> float:
        """Reading all layers, one after another, and nothing else."""
        into = torch.empty(self.workload.results()["layer_bytes"], dtype=torch.uint8)
        began = perf_counter()
        for _ in range(passes):
            for layer in range(LAYERS):
                self.workload._store.read(layer, into, True)
        return (perf_counter() - began) / passes

    def compute_s(self, passes: int) -> float:
        """The layers held whole, without a device."""
        from labkit.workloads.layered_models import layer_of

        hidden = batch()
        layers = [layer_of("mlp", WIDTH, SEED, number) for number in range(LAYERS)]

        def one() -> torch.Tensor:
            passed = hidden
            for layer in layers:
                passed = layer(passed)
            return passed

        with torch.inference_mode():
            self.result = float(one().double().sum())
            return seconds_a_pass(one, passes)


def main() -> None:
    """What bounds it is measured in the same turn."""
    torch.set_num_threads(1)
    ours = Ours()
    ours.pass_s(2, **STREAMED)

    def turn(passes: int) -> dict[str, float]:
        told = {"pass_s": ours.pass_s(passes, **STREAMED), "read_s": ours.read_s(passes), "compute_s": ours.compute_s(passes)}
        return told | {"result": ours.result}

    serve(turn)


if __name__ == "__main__":
    main()
