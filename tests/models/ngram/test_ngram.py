"""N-gram models: probabilities equal the formulas computed one by one, and nltk's."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertwright
from bertwright.cli.app import run as run_verb
from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.build import build_shards
from bertwright.data.counted_pairs import BYTES
from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, DataError
from bertwright.models.catalogue import make_run
from bertwright.models.ngram.config import NgramConfig, NgramRun
from bertwright.models.ngram.count import count_ngrams
from bertwright.models.ngram.system import discounts, estimate
from bertwright.models.ngram.tables import Ngrams
from bertwright.text.tokenizer.train import train_tokenizer
from tests.small_runs import train

BEGIN, END, UNKNOWN = 2, 3, 1
Gram = tuple[int, ...]


@pytest.fixture(scope="module")
def texts(shards: Shards) -> list[list[int]]:
    """The framed documents."""
    bounds = shards.sentence_tokens[shards.document_sentences]
    return [
        [BEGIN, *shards.tokens(start, stop).tolist(), END]
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]


def counted(texts: Sequence[Sequence[int]], order: int) -> list[Counter[Gram]]:
    """Of the orders 1 to n, one n-gram at a time."""
    return [
        Counter(tuple(text[i : i + k]) for text in texts for i in range(len(text) - k + 1))
        for k in range(1, order + 1)
    ]


class Naive:
    """Interpolated modified Kneser-Ney in dictionaries, after the paper's formulas."""

    def __init__(self, texts: Sequence[Sequence[int]], order: int, size: int) -> None:
        raw = counted(texts, order)
        self.uniform = 1 / (size - 1)
        self.counts: list[dict[Gram, int]] = []
        for k in range(1, order + 1):
            if k == order:
                own = dict(raw[k - 1])
            else:
                before: dict[Gram, set[int]] = defaultdict(set)
                for gram in raw[k]:
                    before[gram[1:]].add(gram[0])
                own = {g: len(before[g]) if g in before else n for g, n in raw[k - 1].items()}
            own.pop((BEGIN,), None)
            self.counts.append(own)
        self.discounts, self.following = [], []
        for own in self.counts:
            t = Counter(own.values())
            d = [0, 0.5, 1, 1.5]
            if all(t[c] for c in range(1, 5)):
                y = t[1] / (t[1] + 2 * t[2])
                found = [c - (c + 1) * y * t[c + 1] / t[c] for c in (1, 2, 3)]
                if all(0 <= each <= c for c, each in enumerate(found, 1)):
                    d = [0, *found]
            self.discounts.append(d)
            after: dict[Gram, dict[int, int]] = defaultdict(dict)
            for gram, count in own.items():
                after[gram[:-1]][gram[-1]] = count
            self.following.append(after)

    def p(self, word: int, context: Gram) -> float:
        """Of a word after a context of n - 1 tokens, or of fewer at the start."""
        lower = self.p(word, context[1:]) if context else self.uniform
        after = self.following[len(context)].get(context)
        if not after:
            return lower
        d, total = self.discounts[len(context)], sum(after.values())
        rest = sum(d[min(count, 3)] for count in after.values()) / total
        count = after.get(word, 0)
        return (count - d[min(count, 3)]) / total + rest * lower


def model(
    shards: Shards,
    folder: Path,
    order: int,
    prune: Sequence[int] = (),
    k: float | None = None,
    memory: int = 1 << 20,
) -> tuple[Ngrams, float]:
    """Of all documents."""
    folder.mkdir(exist_ok=True)
    documents = np.arange(shards.num_documents)
    counts = count_ngrams(shards, documents, order, folder, memory)
    thresholds = [*prune, *[0] * order][:order]
    tables, loss = estimate(counts, BEGIN, thresholds, k)
    head = Ngrams(NgramConfig(shards.vocab_size, order))
    head.set_tables(tables)
    return head, loss


def contexts(texts: Sequence[Sequence[int]], order: int) -> list[Gram]:
    """Some that occur, some that do not, some at the start."""
    seen = [tuple(texts[0][max(0, i - order + 1) : i]) for i in range(1, 30)]
    draw = np.random.default_rng(1)
    return [*seen, *(tuple(draw.integers(4, 20, order - 1).tolist()) for _ in range(10))]


def padded(found: Sequence[Gram], order: int) -> torch.Tensor:
    width = max(1, order - 1)
    return torch.tensor([[*[-1] * (width - len(each)), *each] for each in found])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_kneser_ney_equals_the_formulas(
    shards: Shards, texts: list[list[int]], tmp_path: Path, order: int
) -> None:
    head, loss = model(shards, tmp_path, order)
    naive = Naive(texts, order, shards.vocab_size)
    assert order < 3 or naive.discounts[-1] != [0, 0.5, 1, 1.5]
    found = contexts(texts, order)
    x = padded(found, order)
    logits = head.logits(x).double()
    expected = [
        [0.0 if word == BEGIN else naive.p(word, each) for word in range(shards.vocab_size)]
        for each in found
    ]
    np.testing.assert_allclose(logits.exp().numpy(), expected, rtol=2e-5, atol=1e-12)
    for word in (4, 7, END, UNKNOWN):
        scores = head.log_probabilities(x, torch.full((len(x),), word))
        torch.testing.assert_close(scores, logits[:, word].float())
    whole = [
        math.log(naive.p(text[i], tuple(text[max(0, i - order + 1) : i])))
        for text in texts
        for i in range(1, len(text))
    ]
    assert loss == pytest.approx(-np.mean(whole))


def test_the_formulas_equal_those_of_nltk(texts: list[list[int]]) -> None:
    """With one discount in each order, which is all that nltk has."""
    lm = pytest.importorskip("nltk.lm")
    order, d = 3, 0.75
    naive = Naive(texts, order, 100)
    naive.discounts = [[0, d, d, d]] * order
    other = lm.KneserNeyInterpolated(order, discount=d)
    spelled = [[str(word) for word in text] for text in texts]
    grams = [
        [tuple(t[i : i + k]) for k in range(1, order + 1) for i in range(len(t) - k + 1)]
        for t in spelled
    ]
    other.fit(grams, vocabulary_text=[word for text in spelled for word in text])
    # nltk's own unigrams are not discounted: the orders above are compared, given its
    own = naive.p

    def p(word: int, context: Gram) -> float:
        return own(word, context) if context else float(other.score(str(word)))

    naive.p = p
    for text in texts[:3]:
        for i in range(5, len(text)):
            context = tuple(text[i - 2 : i])
            assert p(text[i], context) == pytest.approx(
                other.score(str(text[i]), [str(word) for word in context]), rel=1e-4
            )


@pytest.mark.parametrize("memory", [1 << 20, 64 * BYTES, 4 * BYTES])
def test_counts_equal_a_naive_count_in_any_memory(
    shards: Shards, texts: list[list[int]], tmp_path: Path, memory: int
) -> None:
    documents = np.arange(6)
    found = count_ngrams(shards, documents, 3, tmp_path, memory)
    grams: list[Gram] = [()]
    for number, (own, expected) in enumerate(zip(found, counted(texts[:6], 3), strict=True)):
        below = grams if number else [()]
        size = shards.vocab_size
        grams = [(*below[key // size], key % size) for key in own.keys.tolist()]
        counts = dict(zip(grams, own.counts.tolist(), strict=True))
        assert {g: n for g, n in counts.items() if n} == dict(expected)
        if number:
            assert [below[row] for row in own.suffixes.tolist()] == [g[1:] for g in grams]


@pytest.mark.parametrize("k", [None, 0.3])
def test_probabilities_sum_to_one_when_pruned(
    shards: Shards, texts: list[list[int]], tmp_path: Path, k: float | None
) -> None:
    full, _ = model(shards, tmp_path / "full", 4, k=k)
    pruned, _ = model(shards, tmp_path / "pruned", 4, prune=(0, 0, 1, 2), k=k)
    raw = counted(texts, 4)
    for order, threshold in ((2, 0), (3, 1), (4, 2)):
        assert len(full.table(order).keys) == len(raw[order - 1])
        held = sum(count > threshold for count in raw[order - 1].values())
        assert len(pruned.table(order).keys) == held < len(raw[order - 1]) + (threshold == 0)
    x = padded(contexts(texts, 4), 4)
    for head in (full, pruned):
        np.testing.assert_allclose(head.logits(x).double().exp().sum(1), 1, rtol=1e-5)


def test_add_k_equals_its_formula(shards: Shards, texts: list[list[int]], tmp_path: Path) -> None:
    head, _ = model(shards, tmp_path, 3, k=0.1)
    _, _, raw = counted(texts, 3)
    found = [tuple(texts[0][i - 2 : i]) for i in range(2, 30)]
    logits = head.logits(padded(found, 3)).exp()
    size = shards.vocab_size - 1
    for row, context in zip(logits.tolist(), found, strict=True):
        total = sum(raw[*context, word] for word in range(shards.vocab_size))
        for word in range(4, 30):
            expected = (raw[*context, word] + 0.1) / (total + 0.1 * size)
            assert row[word] == pytest.approx(expected, rel=1e-4)


def run_of(data: Path, out: Path, **over: Any) -> NgramRun:
    made = {"data": str(data), "out": str(out), "precision": "fp32", "device": "cpu"}
    made |= {"validation": {"fraction": 0.1, "tokens": 512}, "architecture": {"order": 3}, **over}
    return make_run(NgramRun, made)


def test_trained_scored_and_sampled_by_the_verbs(
    shards: Shards, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_of(shards.folder, tmp_path / "run"))
    loaded = bertwright.load(tmp_path / "run")
    text = loaded.tokenizer.decode(shards.tokens(0, 12).tolist())
    assert run_verb(["generate", "--model", str(tmp_path / "run"), text]) == 0
    capsys.readouterr()
    (scored,) = loaded.score([text])
    head: Any = loaded.runner.learner.objectives["next_token"]
    ids = [BEGIN, *shards.tokens(0, 12).tolist(), END]
    direct = head.log_probabilities(
        padded([tuple(ids[max(0, i - 2) : i]) for i in range(1, len(ids))], 3),
        torch.tensor(ids[1:]),
    )
    np.testing.assert_allclose(scored.log_probabilities, direct, rtol=1e-6)
    sampled = loaded.generate(text, sample=True, seed=1, max_new_tokens=8)
    assert sampled == loaded.generate(text, sample=True, seed=1, max_new_tokens=8)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"epochs": 2}, "counted once"),
        ({"prune": [1]}, "prune"),
        ({"prune": [0, 2, 1]}, "prune"),
        ({"k": 0.0}, "k"),
    ],
)
def test_what_no_run_can_have(
    shards: Shards, tmp_path: Path, over: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run_of(shards.folder, tmp_path / "run", **over)


def test_tiny_texts(tmp_path: Path, shards: Shards) -> None:
    assert discounts(np.array([1, 1, 2])).tolist() == [0, 0.5, 1, 1.5]  # as KenLM
    with pytest.raises(DataError, match="lower"):
        count_ngrams(shards, np.arange(2), 500, tmp_path, 1 << 20)


@pytest.mark.filterwarnings("error")
def test_of_bytes(tmp_path: Path) -> None:
    """It reads bytes as it was trained, and is not taken for the model of an ARPA file."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the old house near the river was quiet .\n\n" * 20)
    config = TokenizerConfig(algorithm="byte-bpe", vocab_size=270)
    tokenizer, _ = train_tokenizer([str(corpus)], CorpusConfig(), config)
    tokenizer.save(tmp_path / "tokenizer")
    build_shards([str(corpus)], tmp_path / "data", tmp_path / "tokenizer", workers=1)
    train(run_of(tmp_path / "data", tmp_path / "run"))
    assert bertwright.load(tmp_path / "run").score(["the river"])[0].log_probabilities.size > 2
