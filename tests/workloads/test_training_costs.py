"""FLOP, bytes and launches of models that labkit has never seen, against sums done by hand."""

import copy

import pytest
import torch
from torch import nn

from labkit.errors import ExperimentError
from labkit.schedule import Cost
from labkit.workloads.batches import Batch, BatchForm
from labkit.workloads.models import ResidualCNN
from labkit.workloads.parts import Learning
from labkit.workloads.training_costs import TrainingCosts, without_values
from labkit.workloads.vision import _training_footprints
from tests.workloads.own import Choosy, Linear, sgd


def form_of(inputs: torch.Tensor, target: torch.Tensor) -> BatchForm:
    """Batches of items like these."""
    return BatchForm([0], lambda items: Batch(torch.stack([inputs] * len(items)), torch.stack([target] * len(items))))


def counted(model: nn.Module, inputs: torch.Tensor, loss=nn.functional.cross_entropy, optimizer=sgd) -> TrainingCosts:
    return TrainingCosts(Learning(model, loss, optimizer), form_of(inputs, torch.tensor(1)))


@pytest.mark.parametrize("size", [1, 4, 32])
def test_a_linear_layer_by_hand(size: int):
    costs = counted(Linear(), torch.zeros(10))
    assert costs("forward", size).flop == costs("backward", size).flop == 2 * size * 10 * 2, "nobody asks for the input's gradient"
    update = Cost(flop=0, bytes=4 * 22 * 3, launches=1, resident=4 * 22 * 2)
    assert costs("update", size) == update, "weights and gradients are read, weights written; both are there all the time"


def test_the_costs_are_those_of_the_model_that_labkit_ships():
    costs = counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32), optimizer=lambda each: torch.optim.SGD(each, lr=0.01, momentum=0.9))
    known = _training_footprints("small", 8, 4, 32)
    assert costs("forward", 4) == known["forward", 4]
    assert costs("backward", 4) == known["backward", 4]
    cleared = Cost(bytes=2 * 4 * 151_112, launches=1)
    assert costs("update", 4).bytes == known["update", 4].bytes - cleared.bytes, "gradients are dropped and not cleared"
    assert costs("update", 4).launches == known["update", 4].launches - cleared.launches


def test_the_users_module_is_left_as_it_is():
    model = nn.Sequential(nn.BatchNorm1d(10), Linear())
    model.eval()
    before = copy.deepcopy(model.state_dict())
    counted(model, torch.zeros(10))("forward", 8)
    assert not model.training and all(parameter.grad is None and not parameter.is_meta for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_copy_without_values_keeps_what_is_frozen_and_what_is_shared():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    model[0].bias.requires_grad_(False)
    made = without_values(model)
    assert made[0].weight is made[1].weight and made[0].weight.is_meta and made.training
    assert not made[0].bias.requires_grad and made[1].bias.requires_grad
    assert without_values(nn.functional.cross_entropy) is nn.functional.cross_entropy


class Sequence(nn.Module):
    """A transformer that makes its own positions and mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 2)
        self.mask = nn.Transformer.generate_square_subsequent_mask(6)

    def forward(self, words_BT: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(words_BT.shape[1]))
        return self.head(self.layer(self.words(words_BT) + places, src_mask=self.mask).mean(1))


def test_a_model_that_makes_tensors_of_its_own_is_counted():
    costs = counted(Sequence(), torch.zeros(6, dtype=torch.int64))
    tokens, wide, hidden = 3 * 6, 16, 32
    projections = 2 * tokens * (wide * 3 * wide + wide * wide + 2 * wide * hidden)
    attention = 2 * 2 * 3 * 6 * 6 * wide
    assert costs("forward", 3).flop == projections + attention + 2 * 3 * wide * 2


def test_tensors_of_the_loss_meet_tensors_without_values():
    weight = torch.tensor([1.0, 2.0])
    by_function = counted(Linear(), torch.zeros(10), loss=lambda output, target: nn.functional.cross_entropy(output, target, weight))
    by_module = counted(Linear(), torch.zeros(10), loss=nn.CrossEntropyLoss(weight))
    assert by_function("forward", 4) == by_module("forward", 4)


def test_recurrent_layers_are_counted():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.LSTM(10, 5, batch_first=True), nn.Linear(5, 2)

        def forward(self, steps_BTC: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(steps_BTC)[0][:, -1])

    costs = counted(Recurrent(), torch.zeros(3, 10))
    assert costs("forward", 4).flop == 2 * 4 * (3 * (10 * 20 + 5 * 20) + 5 * 2)


def test_weights_of_sixteen_bits_are_arithmetic_of_sixteen_bits():
    half = counted(Linear().to(torch.bfloat16), torch.zeros(10, dtype=torch.bfloat16))("forward", 4)
    full = counted(Linear(), torch.zeros(10))("forward", 4)
    assert (half.bits, full.bits) == (16, 32)
    assert half.flop == full.flop and half.bytes < full.bytes


def test_an_optimizer_with_a_state_is_counted_once_it_has_it_and_by_few_kernels():
    plain, adam = (counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32), optimizer=kind)("update", 4) for kind in (sgd, torch.optim.Adam))
    assert plain.launches == 1
    assert adam.bytes > 3 * plain.bytes
    one_by_one = counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32), optimizer=lambda each: torch.optim.SGD(each, foreach=False))
    assert one_by_one("update", 4).launches == 25, "what the user chose is kept"


def test_costs_grow_with_the_batch_and_the_update_does_not():
    costs = counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32))
    assert costs("forward", 8).flop == 2 * costs("forward", 4).flop
    assert costs("backward", 8).flop == 2 * costs("backward", 4).flop
    assert costs("update", 8) == costs("update", 4)
    assert costs("backward", 4) == counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32))("backward", 4), "whatever was counted before"
    assert costs("backward", 8) == counted(ResidualCNN("small", 8), torch.zeros(3, 32, 32))("backward", 8)


def test_control_flow_on_values_cannot_be_counted_and_says_so():
    with pytest.raises(ExperimentError, match=r"the model failed on its input, float32 \[4, 10\]: RuntimeError: .*meta tensors"):
        counted(Choosy(), torch.zeros(10))("forward", 4)
