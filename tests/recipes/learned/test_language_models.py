"""What n-gram models and neural language models show of themselves on tiny runs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from bertwright.data.shards import open_shards
from bertwright.data.split import split_text
from bertwright.data.token_streams import framed_tokens
from bertwright.recipes.examine import read_run_config, write_findings
from bertwright.recipes.learned import language_models, ngram
from bertwright.recipes.learned.language_models import Compared
from bertwright.recipes.learned.ngram import Counted, Losses
from bertwright.recipes.learned.run import FinishedRun, validation_batches
from bertwright.report.pages import run_page
from bertwright.report.read import read_run
from bertwright.text.framing import ends_of
from tests.contract.conftest import config_of
from tests.small_runs import build_data, records, train


def finished(folder: Path) -> FinishedRun:
    config = read_run_config(folder)
    return FinishedRun(folder, config, open_shards(config.data, False), records(folder))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def counted(data: Path) -> FinishedRun:
    """A run of an n-gram model of order 3."""
    out = data / "ngram"
    train(config_of("ngram", data, out))
    return finished(out)


def test_losses_are_those_of_the_validation(counted: FinishedRun) -> None:
    (own,) = ngram.losses(counted, [counted.model.runner.learner])
    assert own.nats / own.predictions == pytest.approx(counted.last["loss"], rel=1e-5)


def test_the_highest_order_of_a_page_is_the_model(counted: FinishedRun) -> None:
    _, orders, by_order, own = counted.once(ngram._orders)
    assert orders == [1, 2, 3]
    assert by_order[-1].nats == pytest.approx(own.nats, rel=1e-5)
    bits = [each.bits for each in by_order]
    assert bits[1] < bits[0]  # each word is followed by the next one
    assert ngram.verdict(counted).answer == "yes"


def test_a_long_text_is_counted_in_part(counted: FinishedRun) -> None:
    part = ngram.count(counted, {2}, most=200)
    assert part.tokens <= 200 < part.total
    assert f"{part.tokens:,} of {part.total:,}" in part.of_what


def test_orders_that_no_document_has_are_left_out(counted: FinishedRun) -> None:
    assert [*ngram.count(counted, {1, 2, 500}).tables] == [1, 2]


def test_the_share_of_contexts_seen(counted: FinishedRun) -> None:
    held, shards = counted.config.validation, counted.shards
    seen: list[set[tuple[int, ...]]] = [set(), set()]
    shares = ngram.seen(counted, counted.model.runner.learner)
    parts, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    ends = len(ends_of(shards.special) or ())
    starts = parts.sentence_tokens[parts.document_sentences]
    for document in documents:
        size = int(starts[document + 1] - starts[document]) + ends
        ids = framed_tokens(parts, np.full(size, document), np.arange(size)).tolist()
        for n in range(2, len(ids) + 1):
            seen[0].add(tuple(ids[n - 2 : n]))
            seen[1].add(tuple(ids[max(0, n - 3) : n]))
    batches = validation_batches(shards, counted.config, "dev")
    pairs = []
    for batch in batches:
        tokens = np.asarray(batch.tokens)
        pairs += [(int(tokens[at]), int(tokens[at + 1])) for at in batch.positions]
    assert shares[1][1] == pytest.approx(np.mean([pair in seen[0] for pair in pairs]))
    assert shares[0] == (1.0, 1.0)
    assert shares[2][1] <= shares[1][1]


def test_the_page_of_an_ngram_has_no_chart_of_one_dot(counted: FinishedRun) -> None:
    write_findings(counted.folder)
    page = run_page(read_run(counted.folder))
    for title in ("By order", "Continuations", "contexts seen"):
        assert title in page
    assert "Tokens per second" not in page


@pytest.mark.parametrize("system", ["nnlm", "awd-lstm", "gpt2"])
def test_the_page_of_a_language_model(data: Path, tmp_path: Path, system: str) -> None:
    out = tmp_path / "run"
    train(config_of(system, data, out))
    write_findings(out)
    found = read_run(out)
    titles = [section["title"] for section in found.examples["sections"]]
    assert titles == ["Bits a character", "Continuations", "Surprisal"]
    _, continued, surprise = found.examples["sections"]
    assert len(continued["rows"]) == 3
    assert len(continued["columns"]) == len(continued["rows"][0]) == 4
    assert {*surprise["series"]} == {"this model", "4-gram"}
    assert all(len(bits) == len(surprise["tokens"]) for bits in surprise["series"].values())
    assert found.examples["verdict"]["sentence"] in run_page(found)


def test_bits_are_of_the_same_predictions(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(config_of("nnlm", data, out))
    run = finished(out)
    own = run.once(language_models.compare).own
    (measured,) = ngram.losses(run, [run.model.runner.learner])
    assert own.bits == pytest.approx(measured.bits, rel=1e-4)
    assert measured.bits == measured.nats / math.log(2) / measured.characters


@pytest.mark.parametrize(
    ("own", "answer"), [(90.0, "yes"), (100.0, "perhaps"), (150.0, "perhaps"), (200.0, "no")]
)
def test_a_verdict_needs_the_ngram_to_be_beaten(
    counted: FinishedRun, own: float, answer: str
) -> None:
    last = {"split": "dev", "next_token.loss": 1.0}
    run = FinishedRun(counted.folder, counted.config, counted.shards, [last])
    learner = counted.model.runner.learner
    run.made[language_models.compare] = Compared(
        *(Losses(nats, 10, 10) for nats in (own, 100.0, 200.0)), 4, learner, Counted({}, 5, 5)
    )
    assert language_models.verdict(run).answer == answer
