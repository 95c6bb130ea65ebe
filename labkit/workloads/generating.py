"""What a kernel that generates token by token asks of its workload, and how much each request asks for.

A request brings a prompt and wants so many tokens; both are known when it comes, so that the host can plan ahead of the device. (A real
server learns from an end token that a sequence is over, one turn later.)
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from labkit.schedule import Handle, Op, Request, Step

LONGEST_MEDIANS = 8
"""Nothing asked for is longer than so many medians."""
_BLOCK = 1_024


class Going(NamedTuple):
    """A sequence as a turn finds it: its request, its place in the cache, the length of its prompt, how many tokens it wants, and how
    many it has."""

    request: Request
    place: int
    prompt: int
    wanted: int
    made: int


class GeneratingWorkload(Protocol):
    """What a kernel that generates asks of its workload."""

    def length(self, request: Request) -> int:
        """The tokens of its prompt."""
        ...

    def wanted(self, request: Request) -> int:
        """The tokens that shall be made for it, 1 or more."""
        ...

    def turn(self, step: Step, slot: int, joining: Sequence[Going], going: Sequence[Going]) -> Sequence[Op]:
        """The ops that make one more token for each, each fed by the one before, in the host buffers of `slot`; the last brings the tokens
        to the host: those of `joining`, whose first they are, before those of `going`. Turns run in the order in which they are submitted."""
        ...

    def answered(self, step: Step, requests: Sequence[Request], tokens: Handle) -> None:
        """These requests have all their tokens, the last of them from this turn."""
        ...


class Asked:
    """Prompt lengths and wanted tokens by request number: log-normal, so that a few are many times as long as most.

    prompt, wanted  the medians, in tokens; tail  standard deviation of the logarithm (0: all alike); seed  same seed, same lengths
    """

    def __init__(self, prompt: int, wanted: int, tail: float, seed: int):
        self._medians, self._tail, self._seed = np.array([prompt, wanted]), tail, seed
        self._blocks: dict[int, list[list[int]]] = {}

    def of(self, number: int) -> tuple[int, int]:
        """The tokens of the prompt, and those wanted, of the request of this number."""
        block, place = divmod(number, _BLOCK)
        if block not in self._blocks:
            self._blocks = {block: self._drawn(block)}  # requests come in order: an older block is seldom asked for again
        prompt, wanted = self._blocks[block][place]
        return prompt, wanted

    def _drawn(self, block: int) -> list[list[int]]:
        factors = np.exp(self._tail * np.random.default_rng((self._seed, block)).standard_normal((_BLOCK, 2)))
        return np.clip(np.rint(self._medians * factors), 1, self._medians * LONGEST_MEDIANS).astype(int).tolist()
