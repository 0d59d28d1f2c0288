"""What holds of every task head, on every network: splits, batches, precision, learning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from bertwright.config.task import HeadConfig
from bertwright.errors import ConfigError
from bertwright.models.bert.encoder import bert_spec
from bertwright.nn.objective import Learner
from bertwright.tasks.tagging.kind import Tagger
from bertwright.tasks.texts.kind import Classifier
from tests.tasks.sample_of_heads import (
    ALL,
    CONFIG,
    HEADS,
    TASKS,
    by_example,
    make_batch,
    make_head,
    make_learner,
    random_encoded,
)

NETWORKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mix": {"layers": "mix"},
    "concat": {"layers": "concat-last-4", "pooling": "max"},
    "second": {"layers": "second-to-last", "pooling": "cls"},
    "lstm": {"network": "bilstm"},
    "mixed-lstm": {"layers": "mix-last-4", "network": "bilstm"},
}
SOME = [(kind, name) for kind in TASKS for name in ("plain", "mixed-lstm")]
SOME += [("classes", name) for name in ("mix", "concat", "second", "lstm")]
VARIANTS = [(kind, name, NETWORKS[name]) for kind, name in SOME] + [
    ("tags", "crf", {"crf": True}),
    ("tags", "sum-lstm-crf", {"layers": "sum-last-4", "network": "bilstm", "crf": True}),
    ("tags", "taglm-crf", {"network": "taglm", "crf": True}),
    ("tags", "mixed-taglm", {"layers": "mix", "network": "taglm"}),
]
variants = pytest.mark.parametrize(
    ("kind", "head"), [pytest.param(k, h, id=f"{k}-{n}") for k, n, h in VARIANTS]
)


def gradients(learner: Learner, kind: str, splits: list[list[int]]) -> dict[str, Tensor]:
    """Of one step over all splits: sums added up, divided once."""
    learner.zero_grad()
    batches = [make_batch(kind, chosen) for chosen in splits]
    count = sum(learner.counts(batch)["task"] for batch in batches)
    for batch in batches:
        loss = learner(batch)["task"]
        assert loss.count == learner.counts(batch)["task"]
        assert loss.total.dtype == torch.float32
        (loss.total / count).backward()
    return {name: p.grad for name, p in learner.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", TASKS)
def test_the_last_layer_is_computed_where_it_is_read(kind: str) -> None:
    """Behind the pooler at [CLS] alone, for tags at first pieces, for spans everywhere."""
    batch = make_batch(kind, ALL)
    windows, tokens = batch.inputs.sequences.count, batch.inputs.sequences.total
    read = {"span": tokens}.get(kind, windows)
    if kind == "tags":
        read += sum(batch.counts)
    assert make_learner(make_head(kind)).tokens_read(batch) == read
    assert make_learner(make_head(kind, network="bilstm")).tokens_read(batch) == (
        read if kind == "tags" else tokens
    )


@variants
def test_any_split_gives_the_same_gradient(kind: str, head: dict[str, Any]) -> None:
    learner = make_learner(make_head(kind, **head))
    whole = {name: g.clone() for name, g in gradients(learner, kind, [ALL]).items()}
    for splits in ([[0, 3], [1, 2]], [[3], [2], [1, 0]]):
        parts = gradients(learner, kind, splits)
        assert parts.keys() == whole.keys()
        for name, gradient in parts.items():
            torch.testing.assert_close(gradient, whole[name], rtol=1e-4, atol=2e-6, msg=name)


@variants
def test_every_part_learns(kind: str, head: dict[str, Any]) -> None:
    learner = make_learner(make_head(kind, **head))
    found = gradients(learner, kind, [ALL])
    for name, _ in learner.objectives.named_parameters():
        # One number added to the scores of all choices, or of all tokens, changes no probability.
        softmax_bias = kind in ("choice", "span") and name.endswith(
            ("classifier.bias", "outputs.bias")
        )
        assert found[f"objectives.{name}"].abs().max() > 1e-6 or softmax_bias, name


@variants
def test_scores_do_not_depend_on_the_batch(kind: str, head: dict[str, Any]) -> None:
    made = make_head(kind, **head)
    learner = make_learner(made)

    def scores(chosen: list[int]) -> dict[tuple[int, int], Tensor]:
        batch = make_batch(kind, chosen)
        found = by_example(kind, made.scores(learner.encode(batch, [made]), batch), batch)
        seen: dict[int, int] = {}
        keyed = {}
        for row, part in zip(batch.rows, found, strict=True):
            keyed[row, seen.get(row, 0)] = part
            seen[row] = seen.get(row, 0) + 1
        return keyed

    with torch.no_grad():
        together = scores([2, 3, 0, 1])
        for example in ALL:
            for key, part in scores([example]).items():
                torch.testing.assert_close(together[key], part, rtol=1e-4, atol=1e-5)


@variants
def test_scores_are_float32_under_autocast(kind: str, head: dict[str, Any]) -> None:
    made = make_head(kind, **head)
    learner = make_learner(made)
    batch = make_batch(kind, ALL)
    with torch.no_grad():
        expected = made.scores(learner.encode(batch, [made]), batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = made.scores(learner.encode(batch, [made]), batch)
        loss = learner(batch)["task"]
    loss.total.backward()
    assert scores.dtype == torch.float32
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(scores, expected, rtol=0.1, atol=0.3)
    # Not float32 by a cast of rounded numbers: some must need more than bfloat16's 8 bits.
    assert (scores != scores.bfloat16().float()).any()


@variants
def test_a_whole_model_in_bfloat16(kind: str, head: dict[str, Any]) -> None:
    made = make_head(kind, **head)
    learner = make_learner(made)
    batch = make_batch(kind, ALL)
    with torch.inference_mode():
        expected = made.scores(learner.encode(batch, [made]), batch)
        learner.to(torch.bfloat16)
        scores = made.scores(learner.encode(batch, [made]), batch)
        assert scores.dtype == torch.float32
        torch.testing.assert_close(scores, expected, rtol=0.1, atol=0.3)
        if isinstance(made, Tagger):
            share = made.probabilities(scores, batch)
            assert share.dtype == torch.float32
            torch.testing.assert_close(share.sum(1), torch.ones(10))
            assert made.decode(scores, batch).shape == (10,)


@pytest.mark.parametrize("kind", list(TASKS))
def test_dropout_is_before_the_scores(kind: str) -> None:
    made = make_head(kind, dropout=0.5)
    batch = make_batch(kind, ALL)
    encoded = random_encoded(batch)
    with torch.no_grad():
        torch.manual_seed(0)
        dropped = made.train().scores(encoded, batch)
        whole = made.eval().scores(encoded, batch)
    # BertForQuestionAnswering has none, and so has ours
    assert torch.equal(dropped, whole) == (kind == "span")


@pytest.mark.parametrize("kind", list(TASKS))
def test_layers_tell_the_encoder_where_to_stop(kind: str) -> None:
    assert make_head(kind).layers is None
    assert make_head(kind, layers="second-to-last").layers == (4,)
    assert make_head(kind, layers="concat-last-4").layers == (2, 3, 4, 5)
    batch = make_batch(kind, ALL)
    for layers, highest in (("embeddings", 0), ("second-to-last", 4), ("mix", 5)):
        head = make_head(kind, layers=layers)
        learner = make_learner(head)
        encoded = learner.encode(batch, [head])
        assert len(encoded.layers) == highest + 1
        assert encoded.pooled is None
        both = learner.encode(batch, [head, make_head(kind)])  # another reads the top
        assert both.pooled is not None
        torch.testing.assert_close(both.layers[highest], encoded.last)


def test_a_batch_teaches_the_task_it_names() -> None:
    learner, batch = make_learner(make_head("classes")), make_batch("classes", ALL)
    learner.objectives["another"] = make_head("classes")
    assert learner.counts(batch) == {"task": 4}
    assert learner(batch).keys() == {"task"}


@pytest.mark.parametrize("kind", list(TASKS))
def test_an_encoder_with_too_few_layers(kind: str) -> None:
    task = replace(TASKS[kind], head=HeadConfig(layers="sum-last-4"))
    with pytest.raises(ConfigError, match="needs 4 or more"):
        HEADS.get(kind, Classifier)(replace(bert_spec(CONFIG), depth=3), task)


@pytest.mark.parametrize("kind", ["classes", "labels", "tags"])
def test_class_weights_go_with_the_head_and_are_not_saved(kind: str) -> None:
    made = make_head(kind, torch.ones(4))
    assert not any("weights" in name for name in made.state_dict())
    assert "class_weights" in dict(made.named_buffers())


def test_names_of_parameters() -> None:
    """Checkpoints rely on them."""
    head = make_head("tags", layers="mix", network="bilstm", crf=True)
    assert {name.rpartition(".")[0] for name in head.state_dict()} == {
        "mix",
        "network.lstm",
        "classifier",
        "crf",
    }
    assert set(make_head("span").state_dict()) == {"qa_outputs.weight", "qa_outputs.bias"}
    for kind in ("classes", "labels", "number", "tags", "choice"):
        assert set(make_head(kind).state_dict()) == {"classifier.weight", "classifier.bias"}
