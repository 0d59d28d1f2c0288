"""One pass for whatever is asked, and its highest layer only where it is read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.inference.backends.packed import PackedBackend
from bertwright.inference.fill import find_blanks
from bertwright.inference.next_sentence import make_pair
from bertwright.nn.products import rows_for
from bertwright.serve.engine.engine import Engine, RequestItem
from bertwright.serve.engine.items import items_of, task_items, tokenize_texts
from bertwright.serve.engine.loading import load_engine, run_batch, side_by_side
from bertwright.serve.engine.outputs import Attention, Fill, NextSentences, Tokens, Vectors

TEXTS = ["a b", "c the d e f", "z"]
LONG = " ".join("abcdefghijklmnopqrstuvwxyz")  # 26 tokens, in windows of 14


@pytest.fixture(scope="module")
def engine(full: Path) -> Engine:
    return load_engine("full", str(full), "cpu")


def works(engine: Engine, kind: str) -> list[RequestItem]:
    """Three texts and more of a kind of question, one of them in windows where that can be."""
    whole, _ = tokenize_texts(engine, [*TEXTS, LONG], False, windows=True)
    config = ServeConfig(model=("full",))
    if kind.startswith("vectors"):
        _, pooling, *layers = kind.split()
        how = VectorConfig(tuple(map(int, layers)), pooling=pooling)
        return items_of(Vectors(engine, how), whole)
    if kind == "tokens":
        return items_of(Tokens(engine, VectorConfig((-1, 0))), whole)
    if kind == "attention":
        return items_of(Attention(engine, (1, 3)), tokenize_texts(engine, TEXTS, False)[0])
    if kind == "fill":
        letters = LONG.split()
        letters[2] = letters[3] = letters[22] = "[MASK]"
        found = [find_blanks(engine.runner, x) for x in ("[MASK] a", "b [MASK]", " ".join(letters))]
        asked = enumerate(found, 2)  # each asks for a number of its own
        return [RequestItem(Fill(engine), x.sequences(), None, (x, n)) for n, x in asked]
    if kind == "pairs":
        pairs = [make_pair(engine.runner, a, b) for a, b in zip(TEXTS, TEXTS[::-1], strict=True)]
        return [RequestItem(NextSentences(engine), [x.ids], [x.segments]) for x in pairs]
    inputs: dict[str, list[Any]] = {
        "score": [("a", "b c"), (LONG, "d")],
        "names": [["a", "fishing", "c"], LONG.split()],
        "answer": [{"question": "a b", "context": LONG}, {"question": "c", "context": "d e"}],
        "next": [{"text": "a", "choices": ["b", "c d e", LONG]}],
    }
    return task_items(engine, kind, inputs.get(kind, [*TEXTS, LONG]), True, config).items


KINDS = {
    "vectors cls -1": True,
    "vectors cls+last -1": True,
    "vectors mean -1": False,
    "vectors cls -2 -1": True,
    "vectors mean -2": False,
    "tokens": False,
    "attention": False,
    "fill": True,
    "pairs": True,
    "mood": True,
    "score": True,
    "next": True,
    "mixed": False,
    "names": False,
    "answer": False,
}
"""Whether less than the whole of the highest layer is read."""


class Seen:
    """Rows of the top layer that were computed; and whether only those that are read."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows, self.everywhere = 0, False
        packed = cast(PackedBackend, engine.backend).packed
        run, layer = packed.run, packed.layers[-1]
        norm = layer.feed_forward_norm
        monkeypatch.setattr(layer, "feed_forward_norm", lambda x: self._count(norm(x)))
        monkeypatch.setattr(
            packed, "run", lambda *given: run(*given[:2], None if self.everywhere else given[2])
        )

    def _count(self, x: Any) -> Any:
        self.rows += len(x)
        return x


def numbers(answer: Any) -> Iterator[float]:
    """All numbers of an answer, in order."""
    if hasattr(answer, "as_dict"):
        answer = answer.as_dict()
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for each in answer:
            yield from numbers(each)
    elif not isinstance(answer, (str, type(None))):
        yield from np.ravel(answer).tolist()


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose([*numbers(one)], [*numbers(other)], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_is_that_of_whole_layers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    seen, asked = Seen(engine, monkeypatch), works(engine, kind)
    found, read, seen.everywhere, seen.rows = engine.run(asked), seen.rows, True, 0
    assert_same(found, engine.run(asked))
    assert (read < seen.rows) == KINDS[kind]


def test_questions_of_all_kinds_in_one_batch(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [work for kind in KINDS for work in works(engine, kind)]
    asked = asked[::2] + asked[1::2]
    seen = Seen(engine, monkeypatch)
    found, read, seen.everywhere, seen.rows = engine.run(asked), seen.rows, True, 0
    alone = [engine.run([work])[0] for work in asked]
    assert_same(found, alone)
    assert read < seen.rows * 0.7


def test_batches_in_two_threads_are_as_one_after_the_other(engine: Engine) -> None:
    asked = [works(engine, kind) for kind in KINDS]
    expected = [engine.run(each) for each in asked]
    before = torch.get_num_threads()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda each: run_batch(2, engine, each, 2), asked * 3))
        assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {1}
    for own, other in zip(found, expected * 3, strict=True):
        assert_same(own, other)
    assert torch.get_num_threads() == before  # of this thread


def test_warming_up_makes_each_size_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertwright.inference.backends.packed._MADE", {})
    layer = cast(PackedBackend, engine.backend).packed.layers[0]
    seen: list[int] = []
    behind = layer.behind

    def counted(x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        seen.append(len(x))
        return behind(x, context)

    monkeypatch.setattr(layer, "behind", counted)
    engine.warm_up(100)
    assert seen == sorted({rows_for(tokens) for tokens in range(1, 101)})
    engine.warm_up(90)
    assert len(seen) == len(set(seen))
    engine.warm_up(120)
    assert seen[-1] == 120
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)  # other kernels
    try:
        engine.warm_up(4)
    finally:
        torch.set_num_threads(before)
    assert seen[-1] == 4


@pytest.mark.parametrize(
    ("cores", "tokens", "batches"),
    [(1, 1024, 1), (2, 1024, 2), (2, 256, 1), (4, 1024, 4), (8, 1024, 1)],
)
def test_batches_side_by_side(cores: int, tokens: int, batches: int) -> None:
    assert side_by_side(cores, tokens) == batches


def test_who_reads_lower_layers_asks_for_nothing_of_the_highest(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    below, above = works(engine, "vectors mean -2"), works(engine, "pairs")
    seen = Seen(engine, monkeypatch)
    assert_same(engine.run([*below, *above])[: len(below)], engine.run(below))
    assert seen.rows == 4  # three [CLS], as rows are laid out
