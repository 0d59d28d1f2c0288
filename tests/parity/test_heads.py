"""Our task heads are transformers': scores, losses and every gradient within 1e-5 in float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertwright.checkpoint.checkpoint import Loaded, load
from bertwright.models.bert.system import BERT
from bertwright.nn.layers.dropout import Dropout
from bertwright.storage.tensor_names import to_foreign
from bertwright.tasks.batch import TaskBatch, TextBatch
from bertwright.tasks.choices.kind import ChoiceBatch
from bertwright.tasks.head import Head
from bertwright.tasks.span.kind import SpanBatch
from bertwright.tasks.tagging.kind import TaggingBatch
from tests.parity.conftest import SMALL, Labelled, SharedMasks, make_batch, near, transformers

HIDDEN, LAYERS = SMALL["hidden_size"], SMALL["num_hidden_layers"]
MIXED, EQUAL = [17, 13, 13, 13, 9, 4, 9, 2], [11] * 6
SCORES = 5
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classes": ("SequenceClassification", {"problem_type": "single_label_classification"}),
    "labels": ("SequenceClassification", {"problem_type": "multi_label_classification"}),
    "number": ("SequenceClassification", {"problem_type": "regression", "num_labels": 1}),
    "tags": ("TokenClassification", {}),
    "span": ("QuestionAnswering", {"num_labels": 2}),
    "choice": ("MultipleChoice", {}),
}


def make_pair(folder: Path, kind: str, dropout: float = 0.0) -> tuple[Any, Loaded]:
    """Their model and ours, read from what it saves, both in train mode."""
    torch.manual_seed(11)
    their_name, settings = KINDS[kind]
    shape = {**SMALL, "hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = transformers.BertConfig(**shape, **{"num_labels": SCORES, **settings})
    config._attn_implementation = "eager"
    theirs = getattr(transformers, f"BertFor{their_name}")(config)
    for parameter in theirs.parameters():  # biases start as 0 and would hide a mistake
        parameter.data.add_(torch.randn_like(parameter) * 0.15)
    theirs.save_pretrained(folder)
    loaded = load(folder)
    loaded.learner.train()
    return theirs.train(), loaded


def head_of(loaded: Loaded) -> Head[Any]:
    (head,) = loaded.learner.objectives.values()
    assert isinstance(head, Head)
    return head


def label(kind: str, loaded: Loaded, rows: Labelled) -> tuple[TaskBatch, dict[str, Tensor]]:
    """One batch for us, examples in another order than windows, and for them."""
    chance = torch.Generator().manual_seed(5)
    count, total = rows.inputs.sequences.count, rows.inputs.sequences.total
    order = torch.randperm(count, generator=chance)  # example of each window
    given: dict[str, Any] = {"rows": tuple(range(count)), "owners": order}
    padded = {name: rows.padded[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
    if kind in ("classes", "labels", "number"):
        labels = {
            "classes": torch.randint(0, SCORES, (count,), generator=chance),
            "labels": torch.randint(0, 2, (count, SCORES), generator=chance).float(),
            "number": torch.randn(count, generator=chance),
        }[kind]
        given["labels"] = labels
        padded["labels"] = labels[order]
    elif kind == "tags":
        words = (torch.rand(total, generator=chance) < 0.6).nonzero()[:, 0]
        labels = torch.randint(0, SCORES, (len(words),), generator=chance)
        by_token = torch.full((total,), -100).index_put((words,), labels)
        real = padded["attention_mask"].bool()
        padded["labels"] = torch.full(real.shape, -100).masked_scatter(real, by_token)
        given |= {"labels": labels, "words": words, "counts": (len(words),)}
        given["rows"] = (0,)
        del given["owners"]
    elif kind == "span":
        lengths = torch.tensor(rows.inputs.sequences.lengths)
        starts = (torch.rand(count, generator=chance) * lengths).long()
        ends = (torch.rand(count, generator=chance) * lengths).long()
        given["labels"] = torch.stack([starts, ends], 1)
        del given["owners"]
        padded |= {"start_positions": starts, "end_positions": ends}
    else:
        labels = torch.randint(0, 2, (count // 2,), generator=chance)
        given |= {"labels": labels, "rows": tuple(range(count // 2)), "counts": (2,) * (count // 2)}
        by_choice = order.argsort()  # window of each choice
        padded = {name: x[by_choice].unflatten(0, (-1, 2)) for name, x in padded.items()}
        padded["labels"] = labels
    (name,) = loaded.tasks
    batches = {"tags": TaggingBatch, "span": SpanBatch, "choice": ChoiceBatch}
    batch_of: Any = batches.get(kind, TextBatch)
    return batch_of(rows.inputs, task=name, **given), padded


def their_scores(kind: str, expected: Any, batch: Any, rows: Labelled) -> Tensor:
    """Their logits, in the order of ours."""
    if kind == "span":
        return rows.pack(torch.stack([expected.start_logits, expected.end_logits], -1))
    if kind == "tags":
        return rows.pack(expected.logits)[batch.words]
    if kind == "choice":
        return expected.logits.flatten()
    logits = expected.logits[batch.owners.argsort()]
    return logits[:, 0] if kind == "number" else logits


def their_loss(kind: str, expected: Any, padded: dict[str, Tensor]) -> Tensor:
    """Their loss; of spans without what their softmax gives to padding."""
    if kind != "span":
        return expected.loss
    pad = padded["attention_mask"] == 0
    start = F.cross_entropy(
        expected.start_logits.masked_fill(pad, -torch.inf), padded["start_positions"]
    )
    end = F.cross_entropy(expected.end_logits.masked_fill(pad, -torch.inf), padded["end_positions"])
    if not pad.any():
        near((start + end) / 2, expected.loss, "their own loss")
    return (start + end) / 2


def check(theirs: Any, loaded: Loaded, kind: str, rows: Labelled, ours: Callable[[], Any]) -> None:
    """Loss and all gradients of one step; `ours` runs after theirs, to change the masks."""
    batch, padded = label(kind, loaded, rows)
    expected = their_loss(kind, theirs(**padded), padded)
    expected.backward()
    ours()
    learner = loaded.learner
    loss = learner(batch)[batch.task]
    assert loss.count == learner.counts(batch)[batch.task]
    near(loss.total / loss.count, expected, "loss")
    (loss.total / loss.count).backward()
    parts = BERT.mappings(loaded.config) | BERT.names.task_parts(loaded.tasks, False)
    found = {name: p.grad for name, p in learner.named_parameters() if p.grad is not None}
    gradients = to_foreign(found, parts)
    wanted = {name: p.grad for name, p in theirs.named_parameters()}
    assert gradients.keys() == wanted.keys()
    for name, gradient in wanted.items():
        near(gradients[name], gradient, name)
        # One number added to the scores of all choices changes no probability.
        nothing = kind == "choice" and name == "classifier.bias"
        assert gradient.abs().max() > 0 or nothing or name.endswith("key.bias"), name


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("lengths", [MIXED, EQUAL], ids=["mixed", "equal"])
@pytest.mark.parametrize("kind", KINDS)
def test_heads(kind: str, lengths: list[int], training: bool, tmp_path: Path) -> None:
    theirs, loaded = make_pair(tmp_path, kind)
    theirs.train(training)
    loaded.learner.train(training)
    rows = make_batch(SMALL["vocab_size"], lengths)
    batch, padded = label(kind, loaded, rows)
    head = head_of(loaded)
    with torch.no_grad():
        expected = theirs(**padded)
        scores = head.scores(loaded.learner.encode(batch, [head]), batch)
    near(scores, their_scores(kind, expected, batch, rows), "scores")
    check(theirs, loaded, kind, rows, lambda: None)


@pytest.mark.parametrize("kind", ["classes", "tags", "span", "choice"])
def test_dropout_stands_where_theirs_stands(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last mask is the head's: over texts or tokens for them, over the same or words for us."""
    share = 0.25
    theirs, loaded = make_pair(tmp_path, kind, dropout=share)
    rows = make_batch(SMALL["vocab_size"], MIXED)
    batch, _ = label(kind, loaded, rows)
    masks = SharedMasks(rows, heads=4, hidden=HIDDEN, layers=LAYERS, share=share)
    count, longest = rows.inputs.sequences.count, rows.inputs.sequences.longest
    shape = (count, longest, HIDDEN) if kind == "tags" else (count, HIDDEN)
    kept = torch.rand(shape, generator=torch.Generator().manual_seed(8)) >= share
    last = kept / (1 - share)
    by_theirs = batch.owners.argsort() if kind == "choice" else torch.arange(count)
    if kind == "choice":  # they have choices in order, we have windows
        masks.hidden = [mask[by_theirs] for mask in masks.hidden]
        masks.attention = [mask[by_theirs] for mask in masks.attention]
    in_their_encoder = masks.for_theirs()
    places = len(masks.hidden) + len(masks.attention)
    calls = 0

    def for_theirs(x: Tensor, p: float, training: bool = True, inplace: bool = False) -> Tensor:
        nonlocal calls
        calls += 1
        if calls <= places:
            return in_their_encoder(x, p, training, inplace)
        assert p == share
        return x * last[by_theirs]

    def change() -> None:
        assert calls == places + (kind != "span")
        windows = by_theirs.argsort()
        masks.hidden = [mask[windows] for mask in masks.hidden]
        masks.attention = [mask[windows] for mask in masks.attention]
        head = head_of(loaded)
        probabilities, in_our_encoder = masks.for_ours(
            head.positions(batch), loaded.learner.encoder.spec.pooled
        )

        def forward(module: Dropout, x: Tensor) -> Tensor:
            if module is not getattr(head, "dropout", None):
                return in_our_encoder(module, x)
            assert module.p == share
            return x * (rows.pack(last)[batch.words] if kind == "tags" else last)

        monkeypatch.setattr("bertwright.nn.transformer.blocks.drop", probabilities)
        monkeypatch.setattr(Dropout, "forward", forward)

    monkeypatch.setattr(nn.functional, "dropout", for_theirs)
    check(theirs, loaded, kind, rows, change)
