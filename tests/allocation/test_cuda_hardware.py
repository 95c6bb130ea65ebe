"""A share of a real GPU: what torch's allocator refuses, and what is read back."""

from pathlib import Path

import pytest

from labkit.allocation.gpu import COMPUTE, MEMORY, mps_absent
from labkit.allocation.hold import hold
from labkit.device.open import cuda_count
from tests.allocation.work import written

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not cuda_count()[0], reason=f"no CUDA GPU: {cuda_count()[1]}")]


def test_more_than_the_share_of_memory_is_refused_and_given_again_afterwards(tmp_path: Path):
    import torch

    eighth = torch.cuda.get_device_properties(0).total_memory // 8
    with hold(written(tmp_path, reservation={"gpu_memory": 0.0625}), "cuda:0") as holding:
        assert holding.ledger.lines[MEMORY].applied
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(eighth, dtype=torch.uint8, device="cuda:0")
    assert torch.empty(eighth, dtype=torch.uint8, device="cuda:0").numel() == eighth


def test_a_share_of_compute_is_applied_only_where_the_gpu_shows_it(tmp_path: Path):
    import os

    import torch

    with hold(written(tmp_path, reservation={"gpu_compute": 0.5}), "cuda:0") as holding:
        line = holding.ledger.lines[COMPUTE]
        assert line.words
        if mps_absent(os.environ):
            assert not line.applied
        elif line.applied:
            assert line.read_back == torch.cuda.get_device_properties(0).multi_processor_count
