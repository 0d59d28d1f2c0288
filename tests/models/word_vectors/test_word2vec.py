"""word2vec: its step is the gradient of the formula, its draws have the distributions they name."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import logsigmoid

from bertwright.checkpoint import checkpoint
from bertwright.data.build import build_shards
from bertwright.data.shards import open_shards
from bertwright.errors import ConfigError, DataError, MissingExtra
from bertwright.models.catalogue import make_run
from bertwright.models.word_vectors import corpus
from bertwright.models.word_vectors.config import Word2VecRun
from bertwright.models.word_vectors.corpus import (
    alias_table,
    count_words,
    huffman_codes,
    keep_probabilities,
    read_chunk,
)
from bertwright.recipes.pretrain import pretrain
from bertwright.report.read import METRICS
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from bertwright.train.log import read_records
from tests.small_runs import SPECIAL, build_data, newest, tensors

V, H, RATE = 7, 5, 0.1
COUNTS = np.array([0, 5, 9, 2, 4, 3, 1])


def config(data: Path, out: Path, **over: Any) -> Word2VecRun:
    given = {"data": str(data), "out": str(out), "device": "cpu", "precision": "fp32", **over}
    return make_run(Word2VecRun, {"workers": 1, **given})


def predictions(text: list[int], cbow: bool) -> list[tuple[list[int], int]]:
    """(context, predicted word) with a window of one word."""
    found = []
    for i, word in enumerate(text):
        context = [text[j] for j in (i - 1, i + 1) if 0 <= j < len(text)]
        found += [(context, word)] if cbow else [([each], word) for each in context]
    return found


@pytest.mark.parametrize("cbow", [False, True])
@pytest.mark.parametrize("hierarchical", [False, True])
def test_a_step_is_the_gradient_of_the_formula(cbow: bool, hierarchical: bool) -> None:
    kernels = pytest.importorskip("bertwright.models.word_vectors.kernels")
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(V, H, generator=generator)
    outputs = torch.randn(V - hierarchical, H, generator=generator)
    text, noise = [2, 4, 1, 5, 2], 3  # one word alone is sampled
    starts, nodes, branches = huffman_codes(COUNTS)
    ours, theirs = [x.clone().numpy() for x in (inputs, outputs)]
    loss, count = kernels.train_context_words(
        np.array(text, np.int32),
        np.array([len(text)]),
        ours,
        theirs,
        np.arange(V + 1),
        np.arange(V, dtype=np.int32),
        np.ones(V, np.float32),
        alias_table(np.eye(V)[noise]),
        (starts, nodes, branches),
        *(cbow, 1, 0 if hierarchical else 1, (RATE, RATE), np.uint64(5)),
    )

    def loss_of(x: Tensor, o: Tensor, context: list[int], word: int) -> Tensor:
        h = x[context].mean(0)
        if hierarchical:
            path = slice(starts[word], starts[word + 1])
            sign = torch.tensor(2 * branches[path] - 1).double()
            return -logsigmoid(sign * (o[nodes[path]] @ h)).sum()
        return -logsigmoid(o[word] @ h) - logsigmoid(-(o[noise] @ h))

    x, o, expected = inputs.double(), outputs.double(), 0.0
    for context, word in predictions(text, cbow):
        x.requires_grad_(), o.requires_grad_()
        value = loss_of(x, o, context, word)
        gx, go = torch.autograd.grad(value, (x, o), allow_unused=True)
        # word2vec.c gives the mean's gradient to each of its words whole
        x = (x - RATE * gx * len(context)).detach()
        o = (o - RATE * go).detach()
        expected += value.item()
    assert count == len(predictions(text, cbow))
    assert loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(ours, x.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(theirs, o.numpy(), rtol=1e-5, atol=1e-6)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=40).filter(any))
def test_negative_words_are_sampled_by_their_weights(weights: list[int]) -> None:
    given = np.array(weights, np.float64)
    accept, other = alias_table(given)
    drawn = np.bincount(other, 1 - accept, len(given)) + accept
    np.testing.assert_allclose(drawn / len(given), given / given.sum(), atol=1e-6)


@given(
    st.lists(st.integers(0, 50), min_size=2, max_size=40).filter(lambda x: sum(map(bool, x)) > 1)
)
def test_huffman_codes_are_short(counts: list[int]) -> None:
    counts = [*counts, 3, 1]
    starts, nodes, branches = huffman_codes(np.array(counts))
    lengths = np.diff(starts)
    assert ((lengths > 0) == (np.array(counts) > 0)).all()
    assert sum(0.5 ** lengths[lengths > 0]) == 1  # every code is used, none begins another
    assert set(branches) == {0, 1}
    assert set(nodes) <= set(range(len(counts) - 1))
    p = np.array(counts) / sum(counts)
    entropy = -sum(x * np.log2(x) for x in p if x)
    assert entropy - 1e-9 <= (p * lengths).sum() < entropy + 1


def test_frequent_words_are_left_out_by_their_fraction() -> None:
    keep = keep_probabilities(np.array([0, 900, 99, 1]), 0.05)
    t_over_f = 0.05 / np.array([0.9, 0.099])
    np.testing.assert_allclose(keep, [0, *(np.sqrt(t_over_f) + t_over_f).clip(0, 1), 1], rtol=1e-6)
    assert keep_probabilities(np.array([0, 900]), 0).tolist() == [0, 1]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


def test_chunks_end_where_documents_do(data: Path) -> None:
    shards = open_shards(data)
    tokens, ends = read_chunk(shards, 5, 700)
    assert tokens.tolist() == shards.tokens(5, 700).tolist()
    starts = shards.sentence_tokens[shards.document_sentences]
    assert ends.tolist() == [*(x - 5 for x in starts if 5 < x < 700), 695]
    counts = count_words(shards)
    assert counts.sum() == shards.num_tokens - (shards.tokens(0, shards.num_tokens) == 1).sum()
    assert not counts[:5].any()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["word2vec-skip-gram", "word2vec-cbow"])
@pytest.mark.parametrize("loss", ["negative-sampling", "hierarchical-softmax"])
def test_words_of_one_context_come_together(
    data: Path, tmp_path: Path, model: str, loss: str
) -> None:
    more = {"subsample": 0.0, "learning_rate": 0.1, "window": 2, "epochs": 20, "model": model}
    architecture = {"hidden_size": 16, "loss": loss}
    pretrain(config(data, tmp_path / "run", architecture=architecture, **more), lambda _: None)
    table = checkpoint.load(tmp_path / "run").learner.encoder.token_embedding().weight
    words = torch.nn.functional.normalize(table[5:-1].detach())  # text counts on from word to word
    cosines = words @ words.T
    near = torch.stack([cosines.diagonal(n)[: len(words) - 20].mean() for n in (1, 2)]).mean()
    far = torch.stack([cosines.diagonal(n).mean() for n in (20, 30)]).mean()
    assert near > far + 0.3


def test_threads_train_and_one_gives_the_same_bytes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertwright.models.word_vectors.corpus.CHUNK", 500)
    made = []
    for number, workers in enumerate((1, 1, 3)):
        out = tmp_path / str(number)
        pretrain(config(data, out, epochs=2, workers=workers), lambda _: None)
        made.append(tensors(out))
    first, again, threads = (each["encoder.table.weight"] for each in made)
    assert torch.equal(first, again)
    assert torch.isfinite(threads).all()
    torch.testing.assert_close(threads, first, rtol=0, atol=0.03)
    assert newest(tmp_path / "2").name == "step-00000002"


def read_by(run: Path) -> tuple[int, list[float]]:
    """The tokens that a run has read, and its learning rate after each pass."""
    records = read_records(run / METRICS)
    return records[-1]["tokens"], [record["learning_rate"] for record in records]


def test_a_run_may_end_in_the_middle_of_a_pass(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its passes or its minutes, whichever end first; the rate falls until then."""
    monkeypatch.setattr("bertwright.models.word_vectors.corpus.CHUNK", 100)
    words = int(count_words(open_shards(data)).sum())
    pretrain(config(data, tmp_path / "passes", epochs=1.5), lambda _: None)
    read, rates = read_by(tmp_path / "passes")
    assert read == pytest.approx(1.5 * words, rel=0.05)
    assert rates == pytest.approx([0.025 / 3, 0.025e-4])

    seconds = count()
    monkeypatch.setattr("bertwright.data.loading.phases.time.monotonic", lambda: next(seconds))
    chunks = open_shards(data).num_tokens / 100
    minutes = 2 * 1.5 * chunks / 60  # the clock is read twice for each chunk, and by the log
    pretrain(config(data, tmp_path / "time", minutes=minutes), lambda _: None)
    read, rates = read_by(tmp_path / "time")
    assert read == pytest.approx(1.5 * words, rel=0.1)
    assert rates == pytest.approx([0.025 / 3, 0.025e-4], rel=0.25)
    longer = config(data, tmp_path / "both", minutes=2 * minutes, epochs=1.5)
    pretrain(longer, lambda _: None)
    assert read_by(tmp_path / "both")[0] == pytest.approx(1.5 * words, rel=0.05)


def test_what_comes_before_the_first_chunk_is_not_of_the_minutes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as compiling, which takes half a minute on a busy machine."""
    now, quick = [0.0], corpus.alias_table

    def make_slowly(weights: Any) -> Any:
        now[0] += 1000.0
        return quick(weights)

    monkeypatch.setattr(corpus, "CHUNK", 100)
    monkeypatch.setattr(corpus, "alias_table", make_slowly)
    monkeypatch.setattr("bertwright.data.loading.phases.time.monotonic", lambda: now[0])
    pretrain(config(data, tmp_path / "run", minutes=1.0, epochs=1.0), lambda _: None)
    words = int(count_words(open_shards(data)).sum())
    assert read_by(tmp_path / "run")[0] == pytest.approx(words, rel=0.05)
    assert read_records(tmp_path / "run" / METRICS)[-1]["seconds"] == 0.0


def shards_of(folder: Path, text: str, words: list[str]) -> Path:
    """Shards of a text with a vocabulary."""
    folder.mkdir()
    make_tokenizer([*SPECIAL, *words]).save(folder / "tokenizer")
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    build_shards([str(folder / "corpus.txt")], folder / "shards", folder / "tokenizer", workers=1)
    return folder / "shards"


def test_what_cannot_be_trained_is_an_error(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="'validation'"):
        config(data, tmp_path / "run", validation={"fraction": 0.1})
    with pytest.raises(ConfigError, match=r"'steps'"):
        config(data, tmp_path / "run", steps=3)
    for name, text, vocabulary, message in (
        ("one", "one two one\n", ["one"], "1 different word"),
        ("short", "one\n\ntwo three\n", ["one", "two"], "1 in its longest document"),
    ):
        other = shards_of(tmp_path / name, text, vocabulary)
        with pytest.raises(DataError, match=message):
            count_words(open_shards(other))
    monkeypatch.setitem(sys.modules, "bertwright.models.word_vectors.kernels", None)
    with pytest.raises(MissingExtra, match=r"bertwright\[words\]"):
        pretrain(config(data, tmp_path / "run"), lambda _: None)
