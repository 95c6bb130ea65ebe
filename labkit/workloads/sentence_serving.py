"""Sentences → embeddings, one request a sentence: tokens, copy, forward, embeddings to the host.

The sentences of a batch are padded to the longest, in steps of eight tokens: the shorter ones beside it are paid for in full. How long
each is was counted when the workload was built; the batch's tokens are made anew, as a server must.
`tokenize_on` says who makes them: a worker beside the host program, or the program itself, which can then send nothing meanwhile.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labkit.data.sentences import Sentences
from labkit.schedule import HOST, Cost, Handle, Lane, Op, Request, Step
from labkit.workloads.buffers import Buffers
from labkit.workloads.encoder import MINILM, PADDING, EncoderShape, SentenceEncoder
from labkit.workloads.footprint import footprint
from labkit.workloads.minilm import minilm_encoder, minilm_tokenizer
from labkit.workloads.shape_costs import ShapeCosts
from labkit.workloads.tokens import LONGEST, HashedWords, Tokenizer
from labkit.workloads.workload import Workload

LANES = {"workers": Lane("workers"), "host": HOST}
H2D, COMPUTE, D2H = Lane("h2d"), Lane("compute"), Lane("d2h")
PADDED_TO = 8
NS_PER_TOKEN = 1_300
"""To make one token: tokenizers 0.23.3 over the shipped sentences, one core of an AMD EPYC (Zen 5) virtual machine, 2026-12-01."""
_WARMED_TOKENS = 16
_MOST_WARMED = 32


class SentenceServing(Workload):
    """A `ServingWorkload` over a file of sentences; a request's length is its tokens.

    lengths    int64 [n], the tokens of each sentence
    tokenizer  None on the simulated device, where no text is read
    encoder    makes the encoder, of `shape`; not called on the simulated device
    knobs      the cold ones: seed, max_batch; where, the device it will run on: "cpu", "cuda:0", "simulated"
    about      words for people about the model
    """

    def __init__(
        self, sentences: Sentences, lengths: np.ndarray, tokenizer: Tokenizer | None, encoder: Callable[[], SentenceEncoder],
        shape: EncoderShape, knobs: Any, where: str, about: Sequence[str] = (),
    ):  # fmt: skip
        super().__init__()
        self._sentences, self._lengths, self._tokenizer, self._shape = sentences, np.minimum(lengths, LONGEST), tokenizer, shape
        self._device = torch.device(where if where != "simulated" else "meta")
        self._seed, self._about = knobs.seed, list(about)
        self._sent, self._answers = Buffers(self._device), Buffers(self._device)
        self._costs = ShapeCosts(self._counted_cost)
        if where != "simulated":
            self.encoder = encoder().to(self._device).eval()
            self._warm_up(knobs.max_batch)
        self.begin()

    def begin(self) -> None:
        """A new run starts: the same order of sentences, nothing embedded."""
        super().begin()
        self._order = np.random.default_rng(self._seed).permutation(len(self._sentences))
        self._embedded = self._tokens = 0

    def length(self, request: Request) -> int:
        """The tokens of the sentence that is asked for."""
        return int(self._lengths[self._sentence(request)])

    def stages(self, step: Step, slot: int, requests: Sequence[tuple[Request, int]]) -> list[Op]:
        """Tokens on a worker or by the host, copy, forward, embeddings to the host."""
        texts = [self._sentences.texts[self._sentence(request)] for request, _ in requests]
        count, asked = len(requests), sum(length for _, length in requests)
        shape = (count, padded(max(length for _, length in requests)))
        kind = torch.int32

        def tokenize() -> torch.Tensor:
            tokens_NL = self._sent.host(slot, shape, kind, pinned=True)
            return fill(tokens_NL, [self._tokenizer.tokens(text) for text in texts])

        def copy(tokens_NL: torch.Tensor) -> torch.Tensor:
            there = self._sent.on_device(slot, shape, kind)
            return there.copy_(tokens_NL, non_blocking=True)

        def to_host(embeddings_NC: torch.Tensor) -> torch.Tensor:
            here = self._answers.host(slot, tuple(embeddings_NC.shape), embeddings_NC.dtype, pinned=True)
            return here.copy_(embeddings_NC, non_blocking=True)

        letters = sum(map(len, texts))
        return [
            self.op("tokenize", LANES[step.knobs.tokenize_on], tokenize, Cost(bytes=letters, fixed_ns=NS_PER_TOKEN * asked), step),
            self.op("copy", H2D, copy, Cost(bytes=shape[0] * shape[1] * kind.itemsize), step),
            self.op("forward", COMPUTE, self._forward, self._costs.cost(*shape), step),
            self.op("embeddings", D2H, to_host, Cost(bytes=count * self._shape.width * 4), step, items=count),
        ]

    def answered(self, step: Step, requests: Sequence[Request], answers: Handle) -> None:
        """Counts them."""
        self._embedded += len(requests)
        self._tokens += sum(map(self.length, requests))

    def notes(self) -> list[str]:
        """What the model is, and how many sentences are as long as it takes, or longer."""
        full = int((self._lengths == LONGEST).sum())
        cut = f"{full} of {len(self._sentences)} sentences fill the {LONGEST} tokens that the model reads; what is longer is cut"
        return [*self._about, *([cut] if full else [])]

    def results(self) -> dict[str, Any]:
        """How many sentences were embedded, and their tokens."""
        return {"embedded": self._embedded, "tokens": self._tokens}

    def _counted_cost(self, count: int, tokens: int) -> Cost:
        with torch.device("meta"):
            encoder = SentenceEncoder(self._shape).eval()
            tokens_NL = torch.empty(count, tokens, dtype=torch.int32)
        with torch.no_grad():
            return footprint(lambda: encoder(tokens_NL))[0]

    def _sentence(self, request: Request) -> int:
        return int(self._order[request.id % len(self._order)])

    def _forward(self, tokens_NL: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return self.encoder(tokens_NL)

    def _warm_up(self, max_batch: int) -> None:
        """A few sizes once: the first batches take many times as long, and those who wait behind them as well."""
        count = 1
        while count <= min(max_batch, _MOST_WARMED):
            self._forward(torch.ones(count, _WARMED_TOKENS, dtype=torch.int32, device=self._device)).sum().item()
            count *= 2


def padded(tokens: int) -> int:
    """The tokens of a batch whose longest sentence has so many."""
    return -(-tokens // PADDED_TO) * PADDED_TO


def fill(tokens_NL: torch.Tensor, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Write a row of tokens for each sentence, and padding behind it."""
    tokens_NL.fill_(PADDING)
    numbers = tokens_NL.numpy()
    for place, row in enumerate(rows):
        numbers[place, : len(row)] = row
    return tokens_NL


def trained_serving(file: Path, knobs: Any, where: str) -> SentenceServing:
    """Served by all-MiniLM-L6-v2. Raises DataError where a file cannot be used, or what is needed is not installed.

    A simulated device needs neither weights nor tokenizer where the file of lengths lies beside the sentences.
    """
    sentences = Sentences.open(file)
    if where == "simulated" and sentences.tokens is not None:
        return SentenceServing(sentences, sentences.tokens, None, minilm_encoder, MINILM, knobs, where)
    tokenizer = minilm_tokenizer()
    return SentenceServing(sentences, counted(sentences, tokenizer), tokenizer, minilm_encoder, MINILM, knobs, where)


def random_serving(file: Path, knobs: Any, where: str, shape: EncoderShape = MINILM) -> SentenceServing:
    """Served by an encoder of the same form whose weights are random. Raises DataError where the file cannot be used."""
    sentences, tokenizer = Sentences.open(file), HashedWords(shape.vocabulary)

    def encoder() -> SentenceEncoder:
        torch.manual_seed(knobs.seed)
        return SentenceEncoder(shape)

    about = ["the weights are random and words are hashed: the work is that of all-MiniLM-L6-v2, the embeddings mean nothing"]
    return SentenceServing(sentences, counted(sentences, tokenizer), tokenizer, encoder, shape, knobs, where, about)


def counted(sentences: Sentences, tokenizer: Tokenizer) -> np.ndarray:
    """The tokens of each sentence, int64 [n]."""
    return np.array([len(tokenizer.tokens(text)) for text in sentences.texts], np.int64)
