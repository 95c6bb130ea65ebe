"""Training of a user's own: items of a map-style data set → any model, loss and optimizer, by the stages of the pipeline.

What runs on the host side is one op on a worker, "load": the items of the step, put together, and brought into pinned memory where
there is a GPU. Costs are counted without values (`training_costs.py`); what an item takes is timed (`sample.py`).
"""

import pickle
from itertools import islice
from typing import Any

import torch

from labkit.errors import ExperimentError
from labkit.schedule import HOST, Cost, Elsewhere, Op, Step
from labkit.units import format_time
from labkit.workloads.batches import Batch, BatchBuffers
from labkit.workloads.parts import Learning, Loading, Packed
from labkit.workloads.process_loader import ProcessLoader
from labkit.workloads.sample import ITEMS, sample_of
from labkit.workloads.training import COMPUTE, H2D, WORKERS, Training, epochs
from labkit.workloads.training_costs import TrainingCosts

NOT_COUNTED = Cost()


class UserTraining(Training):
    """A `TrainingWorkload` over a user's parts.

    packed  the parts, as they travelled; knobs, the cold ones: loader, seed, and workers where processes load; where, the device
    it will run on: "cpu", "cuda:0", "simulated". Raises DataError, ExperimentError where the parts do not work, or cannot be
    counted for a simulated device
    """

    frees_gradients = True

    def __init__(self, packed: Packed, knobs: Any, where: str):
        self._loading: Loading = pickle.loads(packed.loading)
        self._sample = sample_of(self._loading)
        self._form = self._sample.form
        self._items = len(self._loading.dataset)
        self._seed = knobs.seed
        self._load_lane = HOST if knobs.loader == "inline" else WORKERS
        self._real = where != "simulated"
        torch.manual_seed(knobs.seed)
        learning: Learning = pickle.loads(packed.learning)
        self._uncounted = ""
        self._processes: ProcessLoader | None = None
        if self._real:
            self._build(learning.made(), torch.device(where), knobs.batch_size)
            if knobs.loader == "processes":
                self._processes = ProcessLoader(self._loading.batch, knobs.workers)
        else:
            self._costs = _counted_for_prediction(learning, self._loading, self._form, knobs.batch_size)
        self.begin()

    def _build(self, learning: Learning, device: torch.device, size: int) -> None:
        """The model on its device, its optimizer, its costs as far as they can be counted, and room for batches."""
        learning.model.train()
        self._costs = self._counted(learning, size)
        self._learning = learning
        learning.model.to(device)
        if isinstance(learning.loss, torch.nn.Module):
            learning.loss.to(device)
        self.optimizer = learning.optimizer_of(learning.model)
        self._buffers = BatchBuffers(device)

    def begin(self) -> None:
        """A new run starts: the order of items from the beginning, no losses read. Weights are kept."""
        super().begin()
        self._order = epochs(self._items, self._seed)
        if self._processes is not None and self._processes.failed:
            self._processes.close()
            self._processes = ProcessLoader(self._loading.batch, self._processes.workers)

    def close(self) -> None:
        """End the loader's processes."""
        if self._processes is not None:
            self._processes.close()

    # ---- stages -------------------------------------------------------------------------------------------

    def load(self, step: Step, slot: int) -> Op:
        """The items of the step, put together on the host."""
        size, pinned = step.knobs.batch_size, step.knobs.pinned
        chosen = list(islice(self._order, size))

        def kept(batch: Batch) -> Batch:
            return self._buffers.pinned(batch, slot) if pinned else batch

        def run() -> Batch:
            return kept(self._loading.batch(chosen))

        def run_elsewhere() -> Elsewhere:
            work = processes.make(chosen)
            return work._replace(value=kept(work.value))

        processes = self._processes
        if processes is not None:
            processes.check_workers(step.knobs.workers)
        cost = Cost(bytes=self._form.bytes(size), fixed_ns=size * self._sample.item_ns)
        return self.op("load", self._load_lane, run if processes is None else run_elsewhere, cost, step)

    def copy(self, step: Step, slot: int) -> Op:
        """Every tensor of the batch into the device buffers of `slot`."""
        knobs = step.knobs
        non_blocking = knobs.non_blocking
        cost = Cost(bytes=self._form.bytes(knobs.batch_size), pageable=not knobs.pinned)

        def run(batch: Batch) -> Batch:
            return self._buffers.on_device(batch, slot, non_blocking)

        lane = H2D if knobs.copy_stream == "own" else COMPUTE
        return self.op("copy", lane, run, cost, step, blocking=not non_blocking)

    def prepare(self, step: Step) -> list[Op]:
        """Nothing: items come as the model takes them."""
        return []

    def loss_of(self, prepared: Batch) -> torch.Tensor:
        """What the user's loss says of the model's output."""
        return self._learning.loss_of(prepared)

    def stage_cost(self, stage: str, size: int) -> Cost:
        """Counted; all zero on a measuring device where it cannot be, which a note says."""
        if self._costs is None:
            return NOT_COUNTED
        try:
            return self._costs(stage, size)
        except Exception:  # a batch size that the model cannot take: a measuring device says so when it runs it
            if self._real:
                return NOT_COUNTED
            raise

    # ---- what is said about it ----------------------------------------------------------------------------

    def notes(self) -> list[str]:
        """Where the costs come from that nothing declares."""
        notes = []
        if not self._real:
            each = format_time(self._sample.item_ns)
            notes.append(f"load: {each} an item, timed on this host when the workload was prepared")
        if self._uncounted:
            notes.append(f"forward, backward and update: FLOP and bytes could not be counted ({self._uncounted})")
        return notes

    # ---- inside -------------------------------------------------------------------------------------------

    def _counted(self, learning: Learning, size: int) -> TrainingCosts | None:
        """The costs; None where they cannot be counted, which is no reason not to measure."""
        try:
            costs = TrainingCosts(learning, self._form)
            costs("forward", size)
            return costs
        except Exception as error:  # whatever a user's model raises without values
            self._uncounted = str(error) or type(error).__name__
            return None


def _counted_for_prediction(learning: Learning, loading: Loading, form: Any, size: int) -> TrainingCosts:
    """The costs of a model that is never built. Raises ExperimentError: it fails on its data, or it cannot be counted."""
    try:
        costs = TrainingCosts(_made_without_values(learning), form)
        costs("forward", size)
        return costs
    except Exception as error:  # whatever a user's model raises without values
        _try_for_real(learning.made(), loading, size)
        raise ExperimentError(
            f"this model cannot be predicted: on tensors that have shapes and no values {error}. What depends on values (an if on "
            "a tensor, .item(), a mask that selects) cannot be counted beforehand; device='cpu' and device='cuda' measure it"
        ) from error


def _made_without_values(learning: Learning) -> Learning:
    """A function's model without memory where that works, so that one larger than this host can be predicted."""
    if isinstance(learning.model, torch.nn.Module):
        return learning
    try:
        with torch.device("meta"):
            return learning.made()
    except ExperimentError:
        return learning.made()


def _try_for_real(learning: Learning, loading: Loading, size: int) -> None:
    """One step of the model on a few items. Raises ExperimentError where it fails with values, too."""
    learning.optimizer_of(learning.model)
    total = len(loading.dataset)
    learning.loss_of(loading.batch(index % total for index in range(min(size, ITEMS))))
