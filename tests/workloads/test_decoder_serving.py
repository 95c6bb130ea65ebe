"""The toy decoder as a serving workload: the same tokens whoever shares the turns, and costs of what each turn does."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labkit.schedule import Op, Request, Step
from labkit.workloads.decoder import DECODERS, CountedCache, Decoder, KeyValueCache
from labkit.workloads.decoder_serving import DecoderServing
from labkit.workloads.footprint import footprint
from labkit.workloads.generating import Going


def knobs(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"prompt_tokens": 6, "new_tokens": 5, "tail": 1.0, "seed": 0, "max_batch": 4, "model_size": "small", **values})


STEP = Step(0, None)


def run(ops: list[Op]) -> list[int]:
    value: tuple[Any, ...] = ()
    for op in ops:
        value = (op.run(*value),)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return value[0].tolist()


class Driver:
    """Turns by hand: who joins is said, who is on the way goes on, whoever has its tokens leaves."""

    def __init__(self, workload: DecoderServing):
        self.workload = workload
        self.going: list[Going] = []
        self.tokens: dict[int, list[int]] = {}

    def turn(self, *joining: tuple[int, int]) -> list[int]:
        """A turn that these (request, place) join; the requests that got a token."""
        new = [Going(Request(number, 0), place, *self.asked(number), 0) for number, place in joining]
        members = [*new, *self.going]
        for one, token in zip(members, run(self.workload.turn(STEP, 0, new, self.going)), strict=True):
            self.tokens.setdefault(one.request.id, []).append(token)
        self.going = [after for one in members if (after := one._replace(made=one.made + 1)).made < one.wanted]
        return [one.request.id for one in members]

    def asked(self, number: int) -> tuple[int, int]:
        return self.workload.length(Request(number, 0)), self.workload.wanted(Request(number, 0))

    def to_the_end(self) -> None:
        while self.going:
            self.turn()


@pytest.fixture(scope="module")
def workload() -> DecoderServing:
    return DecoderServing(knobs(), "cpu")


@pytest.fixture(scope="module")
def alone(workload: DecoderServing) -> dict[int, list[int]]:
    """The tokens of ten requests, one request at a time."""
    driver = Driver(workload)
    for number in range(10):
        driver.turn((number, 0))
        driver.to_the_end()
    return driver.tokens


def test_each_request_gets_as_many_tokens_as_it_wants(workload: DecoderServing, alone: dict[int, list[int]]):
    assert {number: len(tokens) for number, tokens in alone.items()} == {number: workload.wanted(Request(number, 0)) for number in range(10)}
    assert len({len(tokens) for tokens in alone.values()}) > 4, "they are of different lengths"
    assert len({tuple(tokens) for tokens in alone.values()}) == 10
    assert all(len(set(tokens)) > 1 for tokens in alone.values() if len(tokens) > 3), "the model does not say one word again and again"


@torch.inference_mode()
def test_the_tokens_are_those_of_reading_the_whole_text_anew_each_time(workload: DecoderServing, alone: dict[int, list[int]]):
    for number in range(10):
        request = Request(number, 0)
        text = workload._prompt(request, workload.length(request)).tolist()
        for token in alone[number]:
            cache = KeyValueCache(DECODERS["small"], len(text), torch.device("cpu"))
            cache.reserve(1)
            logits = workload.model(torch.tensor([text]), torch.arange(len(text))[None], torch.tensor([0]), cache, len(text))
            assert logits[0, -1].argmax().item() == token
            text.append(token)


def test_the_tokens_are_the_same_when_all_join_at_once(workload: DecoderServing, alone: dict[int, list[int]]):
    driver = Driver(workload)
    driver.turn(*((number, 9 - number) for number in range(10)))
    driver.to_the_end()
    assert driver.tokens == alone


def test_the_tokens_are_the_same_when_they_join_and_leave_between_turns_and_places_are_used_again(workload: DecoderServing, alone: dict[int, list[int]]):
    driver, waiting = Driver(workload), list(range(10))
    while waiting or driver.going:
        taken = {one.place for one in driver.going}
        free = [place for place in range(3) if place not in taken][:1]  # one more in each turn, three at once
        driver.turn(*((waiting.pop(0), place) for place in free if waiting))
    assert driver.tokens == alone


def test_a_sequence_that_goes_on_beyond_what_it_wants_does_not_disturb_the_others(workload: DecoderServing, alone: dict[int, list[int]]):
    driver = Driver(workload)
    members = [Going(Request(number, 0), number, *driver.asked(number), 0) for number in range(4)]
    made = [run(workload.turn(STEP, 0, members, []))]
    for turn in range(1, max(one.wanted for one in members)):
        made.append(run(workload.turn(STEP, 0, [], [one._replace(made=turn) for one in members])))
    for place, one in enumerate(members):
        assert [tokens[place] for tokens in made][: one.wanted] == alone[one.request.id]


def test_places_beyond_the_batch_that_was_foreseen_are_made(alone: dict[int, list[int]]):
    driver = Driver(DecoderServing(knobs(max_batch=1), "cpu"))
    driver.turn((3, 0))
    driver.turn((5, 7))
    driver.to_the_end()
    assert driver.tokens == {3: alone[3], 5: alone[5]}


@pytest.fixture(scope="module")
def simulated() -> DecoderServing:
    return DecoderServing(knobs(prompt_tokens=32, new_tokens=32), "simulated")


def going(number: int, made: int, wanted: int = 20, prompt: int = 30) -> Going:
    return Going(Request(number, 0), number, prompt, wanted, made)


def test_a_turn_does_only_what_there_is_to_do(simulated: DecoderServing):
    def names(joining: list[Going], others: list[Going]) -> list[str]:
        return [op.name for op in simulated.turn(STEP, 0, joining, others)]

    assert names([going(0, 0)], []) == ["copy", "prefill", "tokens"]
    assert names([], [going(0, 1)]) == ["copy", "decode", "tokens"]
    assert names([going(0, 0)], [going(1, 1)]) == ["copy", "prefill", "decode", "tokens"]


def test_tokens_that_nobody_wants_are_not_counted(simulated: DecoderServing):
    *_, tokens = simulated.turn(STEP, 0, [], [going(0, 19), going(1, 20), going(2, 40)])
    assert (tokens.items, tokens.cost.bytes) == (1, 3 * 8)


@pytest.mark.parametrize(("count", "longest"), [(1, 40), (5, 24)])
def test_a_turn_is_billed_for_prompts_and_past_as_they_are_padded(simulated: DecoderServing, count: int, longest: int):
    shape = DECODERS["small"]

    def counted(tokens: int, reach: int) -> Any:
        with torch.device("meta"):
            model, numbers = Decoder(shape, 512), torch.empty(count, tokens, dtype=torch.int64)
            places = torch.empty(count, dtype=torch.int64)
        with torch.no_grad():
            return footprint(lambda: model(numbers, numbers, places, CountedCache(shape), reach).argmax(dim=-1))[0]

    members = [going(number, 0, prompt=longest - number) for number in range(count)]
    copy, prefill, _ = simulated.turn(STEP, 0, members, [])
    assert prefill.cost == counted(longest, longest)
    assert copy.cost.bytes == 8 * count * (2 + longest)
    members = [one._replace(made=1 + one.request.id) for one in members]
    _, decode, _ = simulated.turn(STEP, 0, [], members)
    assert decode.cost == counted(1, longest + 8), "the next position is the first of another eight"


def test_what_was_generated_is_counted_and_a_new_run_begins_anew(simulated: DecoderServing):
    simulated.begin()
    requests = [Request(0, 0), Request(1, 0)]
    simulated.answered(STEP, requests, None)
    assert simulated.results() == {"answered": 2, "generated": sum(map(simulated.wanted, requests))}
    simulated.begin()
    assert simulated.results() == {"answered": 0, "generated": 0}


@pytest.mark.cuda
def test_a_gpu_makes_as_many_tokens_and_shares_its_turns_without_changing_them():
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false: there is no CUDA GPU here")
    together, apart = Driver(DecoderServing(knobs(), "cuda:0")), Driver(DecoderServing(knobs(), "cuda:0"))
    together.turn(*((number, number) for number in range(4)))
    together.to_the_end()
    for number in range(4):
        apart.turn((number, 0))
        apart.to_the_end()
    assert together.tokens == apart.tokens
