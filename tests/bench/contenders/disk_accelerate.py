"""Hugging Face accelerate: `disk_offload` of the same layers, executed on the CPU."""

import tempfile

import torch
from accelerate import disk_offload
from torch import nn

from labkit.workloads.layered_models import layer_of
from tests.bench.contender import serve
from tests.bench.contenders.disk_common import LAYERS, SEED, WIDTH, batch, seconds_a_pass


def main() -> None:
    """Its files lie where ours does."""
    torch.set_num_threads(1)
    hidden = batch()
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        model = nn.Sequential(*(layer_of("mlp", WIDTH, SEED, number) for number in range(LAYERS))).eval()
        disk_offload(model, folder, execution_device=torch.device("cpu"))
        serve(lambda passes: {"pass_s": seconds_a_pass(lambda: model(hidden), passes), "result": float(model(hidden).double().sum())})


if __name__ == "__main__":
    main()
