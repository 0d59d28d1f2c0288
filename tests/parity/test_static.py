"""Tables of token vectors: folders of model2vec by hand, and StaticEmbedding as it encodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.errors import DataError, IntegrityError
from bertwright.inference.model import load
from bertwright.text.tokenizer.tokenizer import load_tokenizer, make_tokenizer
from tests.raising import raises
from tests.small_bert import VOCABULARY

TEXTS = ["a b c.", "the é dog", "", "é", "a b c d e f g h i j k l m n o p", "[MASK] a"]
STATIC = "sentence_transformers.models.StaticEmbedding"
NORMALIZE = "sentence_transformers.models.Normalize"
V, H = len(VOCABULARY), 7


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def write_model2vec(
    folder: Path, config: dict[str, Any], normalize: bool = False, **tensors: torch.Tensor
) -> Path:
    """What model2vec 0.10 writes: modules.json names ".", and config.json no model_type."""
    folder.mkdir()
    make_tokenizer(VOCABULARY).save(folder)
    for name in ("tokenizer_config.json", "vocab.txt"):
        (folder / name).unlink()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    modules = [{"idx": 0, "name": "0", "path": ".", "type": STATIC}]
    if normalize:
        modules.append({"idx": 1, "name": "1", "path": "1_Normalize", "type": NORMALIZE})
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def by_hand(folder: Path, table: Any, most: int | None, normalize: bool) -> Any:
    """The mean of the rows of the first tokens, without special and unknown ones."""
    tokenizer = load_tokenizer(folder)
    rows = []
    for text in TEXTS:
        ids = [n for n in tokenizer.encode_bare_ids([text])[0][:most] if n != tokenizer.unk_id]
        row = np.asarray(table)[ids].mean(0) if ids else np.zeros(H)
        rows.append(row / max(np.linalg.norm(row), 1e-32) if normalize else row)
    return np.array(rows)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_of_model2vec(tmp_path: Path, normalize: bool) -> None:
    table, config = numbers(V, H), {"max_length": 5, "normalize": normalize}
    folder = write_model2vec(tmp_path / "m", config, normalize, embeddings=table)
    model = load(folder, device="cpu")
    expected = by_hand(folder, table, 5, normalize)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
    convert(folder, tmp_path / "again")
    whole = by_hand(folder, table, None, normalize)
    np.testing.assert_allclose(load(tmp_path / "again").embed(TEXTS), whole, atol=1e-6)


def test_a_quantized_vocabulary(tmp_path: Path) -> None:
    rows, weights = numbers(5, H), torch.rand(V, generator=torch.Generator().manual_seed(1))
    mapping = torch.arange(V) % 5
    tensors = {"embeddings": rows, "mapping": mapping, "weights": weights}
    folder = write_model2vec(tmp_path / "m", {"max_length": None}, **tensors)
    expected = by_hand(folder, rows[mapping] * weights[:, None], None, False)
    np.testing.assert_allclose(load(folder, device="cpu").embed(TEXTS), expected, atol=1e-6)
    save_file({**tensors, "mapping": mapping + 1}, folder / "model.safetensors")
    raises(IntegrityError, "mapping", load, folder)
    save_file({**tensors, "weights": weights[1:].clone()}, folder / "model.safetensors")
    raises(IntegrityError, "weights", load, folder)
    save_file({**tensors, "other": weights + 1}, folder / "model.safetensors")
    raises(DataError, "other", load, folder)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_a_folder_of_static_embedding(tmp_path: Path, nested: bool, normalize: bool) -> None:
    library = pytest.importorskip("sentence_transformers")
    tokenizers = pytest.importorskip("tokenizers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")

    make_tokenizer(VOCABULARY).save(tmp_path / "tokenizer")
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json"))
    if nested:
        backend.enable_truncation(5)
    static = modules.StaticEmbedding(backend, embedding_weights=numbers(V, H))
    parts = [static, modules.Normalize()] if normalize else [static]
    prompts = {"query": "the b ", "document": ""}
    written = library.SentenceTransformer(modules=parts, device="cpu", prompts=prompts)
    written.save(str(tmp_path / "st"))
    folder = tmp_path / "st"
    if nested:  # as before version 5
        (folder / "0_StaticEmbedding").mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            shutil.move(folder / name, folder / "0_StaticEmbedding" / name)
        listed = json.loads((folder / "modules.json").read_text())
        listed[0] |= {"path": "0_StaticEmbedding", "type": STATIC}
        (folder / "modules.json").write_text(json.dumps(listed))
    theirs, model = library.SentenceTransformer(str(folder), device="cpu"), load(folder, "cpu")
    np.testing.assert_allclose(model.embed(TEXTS), theirs.encode(TEXTS), atol=1e-6)
    found = model.embed(TEXTS, prompt_name="query")
    np.testing.assert_allclose(found, theirs.encode(TEXTS, prompt_name="query"), atol=1e-6)
    convert(folder, tmp_path / "again")
    again = load(tmp_path / "again", device="cpu").embed(TEXTS[:4], normalize=normalize)
    np.testing.assert_allclose(again, theirs.encode(TEXTS[:4]), atol=1e-6)
    rows = [(text, str(n % 2)) for n, text in enumerate(["a b", "c d", "e f", "g h"] * 3)]
    run = bertwright.finetune(
        "classification", model=folder, train=rows, out=tmp_path / "run", epochs=1.0, progress=False
    )
    assert len(load(tmp_path / "run", "cpu").predict(["a b"])) == len(run.model.predict(["a b"]))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    folder = write_model2vec(tmp_path / "m", {}, embeddings=numbers(V, H))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:40])
    (folder / "config.json").write_text('{"model_type": "model2vec"}')
    raises(IntegrityError, "model.safetensors", load, folder)
    (folder / "config.json").write_text("{")
    raises(DataError, "config.json", load, folder)
