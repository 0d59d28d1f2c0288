"""Vectors: layers, poolings, windows and cuts, pairs, tokens, backends; each by its definition."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertwright.checkpoint.export.exported import Exported
from bertwright.config.vectors import VectorConfig, VectorPrecision
from bertwright.errors import ConfigError, DataError
from bertwright.inference.backends import agree
from bertwright.inference.backends import choice as backend_choice
from bertwright.inference.backends.int8 import Int8Product, Watched, has_int8
from bertwright.inference.backends.packed import PackedStack, Product
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.nn.products import has_bfloat16, rows_for

TEXTS = ["a b", "the quick.", "c d e f g h", "", "j", "fishing, fishing!", "a b"]
LONG = "a b c d e f g h i j k l m n o p q"  # 17 tokens in windows of 10: 8 and 9
BFLOAT16 = pytest.mark.skipif(not has_bfloat16(), reason="needs a processor with bfloat16 products")
INT8 = pytest.mark.skipif(not has_int8(), reason="needs a processor with 8-bit products")
LOW = [pytest.param("bf16", marks=BFLOAT16), pytest.param("int8", marks=INT8)]
CONFIG = VectorConfig((-1,))


def states(model_folder: Path, text: str | tuple[str, str]) -> np.ndarray:
    """`[L + 1, T, H]` by another way."""
    return load(model_folder, device="cpu").encode([text])[0].layers


POOLINGS = ["mean", "max", "mean-max", "weighted", "cls", "last", "mean-sqrt", "cls+last+mean-sqrt"]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_by_its_definition(embedder: Embedder, model_folder: Path, pooling: str) -> None:
    x = states(model_folder, TEXTS[1])[-1]
    places = np.arange(1, len(x) + 1)[:, None]
    right = {
        "cls": x[0],
        "mean": x.mean(0),
        "max": x.max(0),
        "mean-max": np.concatenate([x.mean(0), x.max(0)]),
        "last": x[-1],
        "mean-sqrt": x.sum(0) / np.sqrt(len(x)),
        "cls+last+mean-sqrt": np.concatenate([x[0], x[-1], x.sum(0) / np.sqrt(len(x))]),
        "weighted": (x * places).sum(0) / places.sum(),
    }[pooling]
    maker = embedder.with_config(replace(CONFIG, pooling=pooling))
    np.testing.assert_allclose(maker.embed(TEXTS)[1], right, atol=1e-5)
    assert maker.width == len(right)


def test_layers_are_concatenated_or_averaged(embedder: Embedder) -> None:
    texts = [*TEXTS, LONG]
    one, two = (embedder.with_config(VectorConfig((n,))).embed(texts) for n in (1, -1))
    both = embedder.with_config(VectorConfig((1, 3))).embed(texts)
    np.testing.assert_allclose(both, np.concatenate([one, two], 1), atol=1e-6)
    first_last = embedder.with_config(VectorConfig((1, 3), "first-last")).embed(texts)
    np.testing.assert_allclose(first_last, (one + two) / 2, atol=1e-6)


@settings(max_examples=25)
@given(
    texts=st.lists(st.text("abcdefg ", max_size=30), min_size=1, max_size=9),
    pooling=st.sampled_from(["cls", "mean", "max", "mean-max", "weighted", "first-last"]),
)
def test_a_vector_does_not_depend_on_its_neighbours(
    embedder: Embedder, texts: list[str], pooling: str
) -> None:
    maker = embedder.with_config(replace(CONFIG, pooling=pooling))
    alone = np.concatenate([maker.embed([text]) for text in texts])
    np.testing.assert_allclose(maker.embed(texts), alone, atol=1e-6)


def test_the_graph_stops_at_the_highest_layer(model_folder: Path) -> None:
    embedder = load(model_folder, device="cpu").embedder(VectorConfig((1,)))
    packed = embedder.backend.packed

    def never(*_: object) -> None:
        raise AssertionError("a layer above was computed")

    packed.layers[1:] = [never] * len(packed.layers[1:])
    assert embedder.embed(TEXTS).shape == (7, 24)
    with pytest.raises(AssertionError, match="above"):
        embedder.with_config(VectorConfig((1, 2))).embed(TEXTS)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_windows(embedder: Embedder, pooling: str) -> None:
    config = VectorConfig((0, 3), pooling)
    found = embedder.with_config(config).embed(["x", LONG, "y"])
    windows = [LONG[:15], LONG[16:]]  # 8 and 9 letters
    of_tokens = embedder.with_config(VectorConfig((0, 3), "none"))
    (tokens,) = of_tokens.embed_tokens([LONG])
    assert len(tokens.vectors) == 19
    x, y = (each.vectors.reshape(-1, 2, 24) for each in of_tokens.embed_tokens(windows))
    whole = np.concatenate([x, y])
    places = np.array([*range(1, 11), *range(9, 20)])[:, None, None]  # the second's count on from 8
    merged = {
        "cls": (x[0] + y[0]) / 2,
        "last": (x[-1] + y[-1]) / 2,
        "mean": whole.mean(0),
        "max": whole.max(0),
        "mean-sqrt": (x.sum(0) + y.sum(0)) / np.sqrt(len(whole)),
        "weighted": (whole * places).sum(0) / (55 + 8 * 11 + 66),
    }
    parts = pooling.replace("mean-max", "mean+max").split("+")
    right = np.concatenate([merged[part] for part in parts], 1)  # [2 layers, poolings H]
    np.testing.assert_allclose(found[1], right.reshape(-1), atol=1e-5)
    np.testing.assert_allclose(found[0], embedder.with_config(config).embed(["x"])[0], atol=1e-6)


def test_a_cut_is_counted(embedder: Embedder) -> None:
    maker = embedder.with_config(replace(CONFIG, truncate=True))
    found = maker.embed([LONG, "a"])
    np.testing.assert_allclose(found[0], embedder.embed([LONG[:19]])[0], atol=1e-6)
    assert (maker.truncated, maker.tokens_truncated) == (1, 7)


def test_pairs(embedder: Embedder, model_folder: Path) -> None:
    pair = ("a b", "c.")
    right = states(model_folder, pair)[-1].mean(0)
    found = embedder.embed([pair, "a b"])
    np.testing.assert_allclose(found[0], right, atol=1e-5)
    np.testing.assert_allclose(found[1], embedder.embed(["a b"])[0], atol=1e-6)
    with pytest.raises(DataError, match=r"has 20 tokens; .* 12"):
        embedder.embed([(LONG, "")])
    maker = embedder.with_config(replace(CONFIG, truncate=True))
    assert maker.embed([("a b c d e f", LONG)]).shape == (1, 24)
    assert maker.tokens_truncated == 14


def test_tokens_know_their_places(embedder: Embedder, model_folder: Path) -> None:
    (found,) = embedder.embed_tokens(["the fishing."])
    assert found.tokens[0] == "[CLS]"
    assert found.offsets[1] == (0, 3)
    np.testing.assert_allclose(found.vectors, states(model_folder, "the fishing.")[-1], atol=1e-5)
    cut = embedder.with_config(replace(CONFIG, truncate=True)).embed_tokens([LONG])[0]
    assert (len(cut.tokens), cut.tokens[-1]) == (12, "[SEP]")


def test_tokens_of_a_pair_that_is_cut(embedder: Embedder, model_folder: Path) -> None:
    maker = embedder.with_config(replace(CONFIG, truncate=True))
    pairs = [("a b c d e f", LONG), ("a b", "the c d e f g h i j")]
    cut, other = maker.embed_tokens(pairs)
    assert " ".join(cut.tokens) == "[CLS] a b c d [SEP] a b c d e [SEP]"
    letters = [(place, place + 1) for place in range(0, 10, 2)]
    assert cut.offsets == [(0, 0), *letters[:4], (0, 0), *letters, (0, 0)]
    assert " ".join(other.tokens) == "[CLS] a b [SEP] the c d e f g h [SEP]"
    right = states(model_folder, ("a b c d", "a b c d e"))[-1]
    np.testing.assert_allclose(cut.vectors, right, atol=1e-5)


@pytest.mark.parametrize("precision", LOW)
def test_a_lower_precision_is_near_and_says_how(
    model_folder: Path, embedder: Embedder, precision: VectorPrecision
) -> None:
    low = load(model_folder, device="cpu").embedder(CONFIG, precision=precision, sample=TEXTS)
    assert "least cosine" in low.notes[-1]
    a, b = low.embed(TEXTS), embedder.embed(TEXTS)
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert 0.99 <= cosines.min() < 1 - 1e-7


@BFLOAT16
def test_a_model_in_bfloat16_has_nothing_to_compare_with(model_folder: Path) -> None:
    model = load(model_folder, device="cpu", precision="bf16")
    assert model.embedder().backend.name == "torch bf16"
    for precision in ("fp32", "int8"):
        with pytest.raises(ConfigError, match="fp32"):
            model.embed(TEXTS, precision=precision)


@BFLOAT16
def test_embed_compares_a_precision_on_its_own_texts(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, samples = load(model_folder, device="cpu"), []
    least = agree.least_cosine

    def seen(vectors: Tensor, reference: Tensor) -> float:
        samples.append(len(vectors))
        return least(vectors, reference)

    monkeypatch.setattr(agree, "least_cosine", seen)
    exact, low = model.embed(TEXTS, -1), model.embed(TEXTS, -1, precision="bf16")
    again = model.embed(TEXTS[::-1], -1, precision="bf16")
    assert samples == [len(TEXTS)]  # once for a precision and a kind of vectors
    np.testing.assert_allclose(again[::-1], low, atol=1e-6)
    assert 0 < np.abs(exact - low).max() < 0.1


@BFLOAT16
def test_int8_looks_at_every_token_and_is_judged_by_those_that_are_read(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges of [CLS] alone would cut off what other tokens have, where those are read too."""
    rows: list[int] = []

    def make(
        packed: PackedStack, look: Callable[[], object], vectors: Callable[[], Tensor], _: Tensor
    ) -> list[str]:
        norm = packed.layers[-1].feed_forward_norm

        def counted(x: Tensor) -> Tensor:
            rows.append(len(x))
            return norm(x)

        monkeypatch.setattr(packed.layers[-1], "feed_forward_norm", counted)
        for ask in (look, vectors):
            ask()
        return []

    monkeypatch.setattr(backend_choice, "make_int8", make)
    monkeypatch.setattr(backend_choice, "other_texts", lambda tokenizer: [])
    config, texts = replace(CONFIG, pooling="cls"), ["a b c", "a b c d e f g h"]
    load(model_folder, device="cpu").embedder(config, precision="int8", sample=texts)
    assert rows[:2] == [rows_for(5 + 10), rows_for(2)]


@INT8
def test_int8_names_the_precision_that_is_faster(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_faster in (True, False):
        monkeypatch.setattr(backend_choice, "bfloat16_is_faster", lambda found=is_faster: found)
        notes = load(model_folder, device="cpu").embedder(CONFIG, precision="int8").notes
        assert any("--precision bf16" in note for note in notes) == is_faster


@INT8
def test_int8_takes_what_gelu_gives() -> None:
    """Numbers near zero, and a few columns that are far larger."""
    chance = torch.Generator().manual_seed(0)
    spread = torch.ones(64)
    spread[::16] = 30.0
    x = torch.nn.functional.gelu(torch.randn(500, 64, generator=chance) * spread).bfloat16()
    weight = torch.randn(32, 64, generator=chance).bfloat16()
    product = Product(weight, torch.randn(32, generator=chance).bfloat16())
    seen = Watched(product)
    seen.see(x)
    right = product(x).float()
    error = Int8Product(product, seen.low, seen.high)(x).float() - right
    assert error.square().sum() / right.square().sum() < 1.4e-4


@pytest.mark.parametrize("precision", ["fp32", *LOW])
def test_copies_give_the_same(model_folder: Path, precision: VectorPrecision) -> None:
    embedder = load(model_folder, device="cpu").embedder(CONFIG, precision=precision)
    for copied in (copy.deepcopy(embedder), pickle.loads(pickle.dumps(embedder))):
        np.testing.assert_array_equal(copied.embed(TEXTS), embedder.embed(TEXTS))
        assert copied.notes == embedder.notes


@pytest.mark.parametrize("threads", [1, 2])
def test_many_batches_share_the_cores(model_folder: Path, threads: int) -> None:
    texts = [" ".join("abcdefghij"[: 1 + n % 10]) for n in range(50)]
    embedder = load(model_folder, device="cpu").embedder(CONFIG)
    right = embedder.embed(texts)  # one batch
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        embedder.backend.batch_tokens = 16
        np.testing.assert_allclose(embedder.embed(texts), right, atol=1e-6)
        assert torch.get_num_threads() == threads
        embedder.backend.packed = None
        with pytest.raises(AttributeError):  # a thread's error is the caller's
            embedder.embed(texts)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@BFLOAT16
def test_vectors_that_differ_are_refused(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agree, "LEAST_COSINE", 1.1)
    with pytest.raises(ConfigError, match="other vectors than float32"):
        load(model_folder, device="cpu").embedder(CONFIG, precision="bf16")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "onnx"}, "--exported DIR"),
        ({"exported": "nowhere"}, "--backend onnx or --backend openvino"),
        ({"backend": "tpu"}, "torch, onnx, openvino"),
        ({"precision": "int4"}, "fp32, bf16, int8"),
        ({"config": VectorConfig((9,))}, "layer 9"),
    ],
)
def test_what_cannot_be_loaded(model_folder: Path, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(model_folder).embedder(**{"config": CONFIG, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "sum"}, "'sum'.*cls"),
        ({"layers": ()}, "layers"),
        ({"layers": ("-1",)}, "layers.*whole numbers"),
        ({"max_length": 2}, "max_length.*2.*3"),
        ({"pooling": "cls+none"}, "pooling.*cls"),
        ({"prompt": None}, "prompt.*None"),
        ({"dimensions": 1.5}, r"dimensions.*1\.5"),
    ],
)
def test_configurations_that_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        VectorConfig(**{"layers": (-1,), **options})


def test_pooling_none_is_for_tokens(embedder: Embedder) -> None:
    assert len(embedder.embed_tokens("a b")) == 1  # one text is no list of letters
    with pytest.raises(ConfigError, match="embed_tokens"):
        embedder.with_config(replace(CONFIG, pooling="none")).embed(["a"])


@pytest.fixture
def exports(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders named `RUNTIME-PRECISION` are exports of the model, without a file."""
    runner = load(model_folder, device="cpu").runner

    def opened(folder: Path, threads: int | None = None) -> Exported:
        def session(feed: dict[str, np.ndarray]) -> list[np.ndarray]:
            lengths = feed["attention_mask"].sum(1)
            ids = [row[:length] for row, length in zip(feed["input_ids"], lengths, strict=True)]
            found = np.zeros((*feed["input_ids"].shape, 24), np.float32)
            for rows, encoded in runner.run(ids):
                for place, row in enumerate(rows):
                    start = encoded.sequences.offsets[place]
                    found[row, : lengths[row]] = encoded.last[start : start + lengths[row]]
            return [found + moved if "near" in folder.name else found]

        moved = np.random.default_rng(0).normal(size=24) / 20  # as by some steps of training
        runtime, stored, *_ = folder.name.split("-")
        outputs, int8 = {"last_hidden_state": True}, stored == "int8"
        return Exported(folder, runtime, int8, None, None, outputs, (3,), 12, session)

    monkeypatch.setattr(backend_choice, "open_exported", opened)


@pytest.mark.usefixtures("exports")
@pytest.mark.parametrize(
    ("backend", "precision", "exported", "message"),
    [
        ("onnx", "fp32", "onnx-int8", "int8.*fp32.*--precision"),
        ("onnx", "int8", "onnx-float32", "fp32.*int8"),
        ("openvino", "fp32", "onnx-float32", "onnx.*openvino"),
        ("onnx", "fp32", "onnx-float32-near", r"cosine 0\.99"),
    ],
)
def test_an_export_that_is_refused(
    model_folder: Path, backend: str, precision: str, exported: str, message: str
) -> None:
    """Of another kind, or of a neighbour of the model."""
    model = load(model_folder)
    with pytest.raises(ConfigError, match=message):
        model.embedder(CONFIG, backend=backend, precision=precision, exported=exported)


@pytest.mark.usefixtures("exports")
def test_an_export_that_fits(model_folder: Path, embedder: Embedder) -> None:
    found = load(model_folder).embedder(CONFIG, backend="onnx", exported="onnx-float32")
    assert found.backend.name == "onnx fp32"
    np.testing.assert_allclose(found.embed(TEXTS), embedder.embed(TEXTS), atol=1e-5)


def test_a_processor_without_bfloat16(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_choice, "has_bfloat16", lambda: False)
    for precision in ("bf16", "int8"):
        with pytest.raises(ConfigError, match="bfloat16"):
            load(model_folder, device="cpu").embedder(CONFIG, precision=precision)
