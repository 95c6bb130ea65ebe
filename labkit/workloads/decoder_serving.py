"""Prompts → tokens: a turn is a copy of what the host has planned, the prompts of those who join, one token for each of the others, and all
new tokens to the host.

The model is greedy and its weights are random: what is measured is the work. A sequence's tokens are the same whoever shares its turns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from labkit.schedule import Cost, Handle, Lane, Op, Request, Step
from labkit.workloads.buffers import Buffers
from labkit.workloads.decoder import DECODERS, CountedCache, Decoder, KeyValueCache
from labkit.workloads.footprint import footprint
from labkit.workloads.generating import LONGEST_MEDIANS, Asked, Going
from labkit.workloads.shape_costs import ShapeCosts
from labkit.workloads.workload import Workload

H2D, COMPUTE, D2H = Lane("h2d"), Lane("compute"), Lane("d2h")
PADDED_TO = 8
TOKEN_BYTES = 8
_STREAM = 1 << 16
_MOST_WARMED = 32


class DecoderServing(Workload):
    """A `GeneratingWorkload`.

    knobs  the cold ones: prompt_tokens, new_tokens, tail, model_size, seed, max_batch; where, the device it will run on: "cpu", "cuda:0",
           "simulated"
    """

    def __init__(self, knobs: Any, where: str):
        super().__init__()
        self._asked = Asked(knobs.prompt_tokens, knobs.new_tokens, knobs.tail, knobs.seed)
        self._device = torch.device(where if where != "simulated" else "meta")
        self._shape = DECODERS[knobs.model_size]
        self._positions = _padded(LONGEST_MEDIANS * (knobs.prompt_tokens + knobs.new_tokens))
        self._planned, self._told = Buffers(self._device), Buffers(self._device)
        self._prefill_costs, self._decode_costs = ShapeCosts(self._counted_prefill), ShapeCosts(self._counted_decode)
        self._text = np.random.default_rng(knobs.seed).integers(0, self._shape.vocabulary, _STREAM)
        if where != "simulated":
            torch.manual_seed(knobs.seed)
            self.model = Decoder(self._shape, self._positions).to(self._device).eval()
            self._cache = KeyValueCache(self._shape, self._positions, self._device)
            self._latest = torch.zeros(0, dtype=torch.int64, device=self._device)
            self._warm_up(min(knobs.max_batch, _MOST_WARMED))
        self.begin()

    def begin(self) -> None:
        """A new run starts: nothing generated."""
        super().begin()
        self._finished = self._generated = 0

    def length(self, request: Request) -> int:
        """The tokens of its prompt."""
        return self._asked.of(request.id)[0]

    def wanted(self, request: Request) -> int:
        """The tokens that shall be made for it."""
        return self._asked.of(request.id)[1]

    def turn(self, step: Step, slot: int, joining: Sequence[Going], going: Sequence[Going]) -> list[Op]:
        """Copy the plan, read the prompts of those who join, make a token for the others, tokens to the host."""
        plan = self._plan(joining, going)
        useful = sum(one.made < one.wanted for one in (*joining, *going))

        def copy() -> tuple[torch.Tensor, ...]:
            here = self._planned.host(slot, plan.shape, torch.int64, pinned=True)
            here.numpy()[:] = plan
            return (self._planned.on_device(slot, plan.shape, torch.int64).copy_(here, non_blocking=True),)

        ops = [self.op("copy", H2D, copy, Cost(bytes=plan.nbytes), step)]
        if joining:
            ops.append(self._prefill(step, joining))
        if going:
            ops.append(self._decode(step, len(joining), going))
        count = len(joining) + len(going)

        def to_host(made: tuple[torch.Tensor, ...]) -> torch.Tensor:
            tokens = self._told.host(slot, (count,), torch.int64, pinned=True)
            at = 0
            for part in made[1:]:
                tokens[at : at + len(part)].copy_(part, non_blocking=True)
                at += len(part)
            return tokens

        return [*ops, self.op("tokens", D2H, to_host, Cost(bytes=TOKEN_BYTES * count), step, items=useful)]

    def answered(self, step: Step, requests: Sequence[Request], tokens: Handle) -> None:
        """Counts them."""
        self._finished += len(requests)
        self._generated += sum(map(self.wanted, requests))

    def notes(self) -> list[str]:
        """What the model is."""
        return ["a toy decoder with random weights: the work is what counts, its tokens mean nothing"]

    def results(self) -> dict[str, Any]:
        """How many requests were answered, and with how many tokens."""
        return {"answered": self._finished, "generated": self._generated}

    # ---- a turn -------------------------------------------------------------------------------------------

    def _plan(self, joining: Sequence[Going], going: Sequence[Going]) -> np.ndarray:
        """What the device must know, int64: places and lengths of those who join and their padded prompts, places and positions of the others."""
        longest = _padded(max((one.prompt for one in joining), default=0))
        prompts = np.zeros((len(joining), longest), np.int64)
        for place, one in enumerate(joining):
            prompts[place, : one.prompt] = self._prompt(one.request, one.prompt)
        pairs = [[one.place for one in joining], [one.prompt for one in joining], prompts.ravel()]
        pairs += [[one.place for one in going], [_position(one) for one in going]]
        return np.concatenate([np.asarray(part, np.int64) for part in pairs])

    def _prompt(self, request: Request, length: int) -> np.ndarray:
        return np.take(self._text, np.arange(length) + 7919 * request.id, mode="wrap")

    def _prefill(self, step: Step, joining: Sequence[Going]) -> Op:
        count, longest = len(joining), _padded(max(one.prompt for one in joining))
        places = max(one.place for one in joining) + 1

        def run(made: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            places_N, lengths_N, rest = made[0][:count], made[0][count : 2 * count], made[0][2 * count :]
            self._reserve(places)
            tokens_NT = rest[: count * longest].view(count, longest)
            positions_NT = torch.arange(longest, device=self._device).expand(count, longest)
            with torch.inference_mode():
                logits = self.model(tokens_NT, positions_NT, places_N, self._cache, longest)
                first_N = logits[torch.arange(count, device=self._device), lengths_N - 1].argmax(dim=-1)
                self._latest[places_N] = first_N
            return *made, first_N

        return self.op("prefill", COMPUTE, run, self._prefill_costs.cost(count, longest), step)

    def _decode(self, step: Step, joined: int, going: Sequence[Going]) -> Op:
        count = len(going)
        reach = _padded(max(map(_position, going)) + 1)

        def run(made: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            places_N, positions_N = made[0][-2 * count : -count], made[0][-count:]
            with torch.inference_mode():
                tokens_N = self._latest[places_N]
                logits = self.model(tokens_N[:, None], positions_N[:, None], places_N, self._cache, reach)
                next_N = logits[:, 0].argmax(dim=-1)
                self._latest[places_N] = next_N
            return *made, next_N

        return self.op("decode", COMPUTE, run, self._decode_costs.cost(count, reach), step)

    def _reserve(self, places: int) -> None:
        self._cache.reserve(places)
        if len(self._latest) < places:
            self._latest = torch.cat([self._latest, self._latest.new_zeros(places - len(self._latest))])

    def _warm_up(self, places: int) -> None:
        """Make room, and a pass of each kind: the first take many times as long, and those who wait behind them as well."""
        self._reserve(places)
        places_N = torch.arange(places, device=self._device)
        with torch.inference_mode():
            for length in (PADDED_TO, 1):
                tokens_NT = torch.zeros(places, length, dtype=torch.int64, device=self._device)
                self.model(tokens_NT, tokens_NT, places_N, self._cache, PADDED_TO).argmax().item()

    # ---- costs --------------------------------------------------------------------------------------------

    def _counted_prefill(self, count: int, tokens: int) -> Cost:
        return self._counted(count, tokens, tokens)

    def _counted_decode(self, count: int, reach: int) -> Cost:
        return self._counted(count, 1, reach)

    def _counted(self, count: int, tokens: int, reach: int) -> Cost:
        with torch.device("meta"):
            model = Decoder(self._shape, self._positions).eval()
            numbers_NT, places_N = torch.empty(count, tokens, dtype=torch.int64), torch.empty(count, dtype=torch.int64)
        with torch.no_grad():
            return footprint(lambda: model(numbers_NT, numbers_NT, places_N, CountedCache(self._shape), reach).argmax(dim=-1))[0]


def _position(one: Going) -> int:
    """Where its latest token goes: behind its prompt and the tokens before that one."""
    return one.prompt + one.made - 1


def _padded(tokens: int) -> int:
    return -(-tokens // PADDED_TO) * PADDED_TO
