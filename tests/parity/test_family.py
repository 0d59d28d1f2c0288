"""The family of BERT is transformers': vectors, logits of every head, losses and gradients.

Weights are random, written by transformers and read here; then written here and read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.config.task import TaskConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.electra.replaced_tokens import ReplacedBatch
from bertwright.models.load import system_of_config
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.storage.tensor_names import to_foreign, with_heads
from tests.parity.conftest import transformers
from tests.tasks.sample import unlabelled_batch

TOLERANCE = 1e-5
LENGTHS = [17, 13, 13, 4, 2]
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SIZES = {
    "vocab_size": 61,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 19,
    **STILL,
}


@dataclass(frozen=True)
class Member:
    """A model of the family, as transformers has it."""

    name: str
    classes: str
    """The beginning of the names of its classes."""
    sizes: Mapping[str, Any] = field(default_factory=lambda: SIZES)
    padding: int = 0
    segments: int = 1


ROBERTA = {**SIZES, "max_position_embeddings": 21, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
MEMBERS = {
    "roberta": Member("roberta", "Roberta", ROBERTA, padding=1),
    "roberta, padding 3": Member("roberta", "Roberta", {**ROBERTA, "pad_token_id": 3}, padding=3),
    "roberta, gelu_new": Member("roberta", "Roberta", {**ROBERTA, "hidden_act": "gelu_new"}, 1),
    "xlm-roberta": Member("xlm-roberta", "XLMRoberta", ROBERTA, padding=1),
    "camembert": Member("camembert", "Camembert", ROBERTA, padding=1),
}
MEMBERS["distilbert"] = Member(
    "distilbert",
    "DistilBert",
    {
        "vocab_size": 61,
        "dim": 24,
        "n_layers": 3,
        "n_heads": 4,
        "hidden_dim": 40,
        "max_position_embeddings": 19,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "qa_dropout": 0.0,
        "seq_classif_dropout": 0.0,
    },
)
ELECTRA = {**SIZES, "embedding_size": 10, "summary_last_dropout": 0.0}
MEMBERS["electra"] = Member("electra", "Electra", ELECTRA, segments=2)
MEMBERS["electra, H wide"] = Member(
    "electra", "Electra", {**ELECTRA, "embedding_size": 24}, segments=2
)
ALBERT = {**SIZES, "embedding_size": 10, "classifier_dropout_prob": 0.0}
MEMBERS["albert"] = Member("albert", "Albert", ALBERT, segments=2)
MEMBERS["mpnet"] = Member("mpnet", "MPNet", {**SIZES, "max_position_embeddings": 21}, padding=1)
MEMBERS["modernbert"] = Member(
    "modernbert",
    "ModernBert",
    {
        "vocab_size": 61,
        "hidden_size": 24,
        "num_hidden_layers": 4,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 19,
        "local_attention": 4,
        "pad_token_id": 0,
    },
)
MEMBERS["modernbert, mean"] = Member(
    "modernbert",
    "ModernBert",
    {
        **MEMBERS["modernbert"].sizes,
        "local_attention": 20,
        "global_attn_every_n_layers": 2,
        "classifier_pooling": "mean",
    },
)
HEADS = {
    "classification": "ForSequenceClassification",
    "tagging": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "multiple-choice": "ForMultipleChoice",
}


@pytest.fixture(params=MEMBERS)
def member(request: pytest.FixtureRequest) -> Member:
    return MEMBERS[request.param]


def make_theirs(member: Member, kind: str, **settings: Any) -> Any:
    """Return a model of transformers, all of whose numbers are random."""
    torch.manual_seed(7)
    config = getattr(transformers, f"{member.classes}Config")(**{**member.sizes, **settings})
    config._attn_implementation = "eager"
    theirs = getattr(transformers, member.classes + kind)(config)
    for parameter in theirs.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.15)
    return theirs


def make_ids(member: Member) -> tuple[list[list[int]], dict[str, Tensor]]:
    """Return texts of ids, and the same as a padded batch."""
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(6, 61, (n,), generator=generator).tolist() for n in LENGTHS]
    ids = torch.full((len(texts), max(LENGTHS)), member.padding)
    mask = torch.zeros_like(ids)
    types = torch.zeros_like(ids)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = 1
        types[row, len(text) // 2 : len(text)] = member.segments - 1
    padded = {"input_ids": ids, "attention_mask": mask}
    return texts, padded | ({"token_type_ids": types} if member.segments > 1 else {})


def inputs_of(padded: Mapping[str, Tensor]) -> Inputs:
    real = padded["attention_mask"].bool()
    types = padded.get("token_type_ids")
    lengths = padded["attention_mask"].sum(1).tolist()
    return Inputs(
        padded["input_ids"][real], Sequences(lengths), None if types is None else types[real]
    )


def near(ours: Tensor, theirs: Tensor, what: str) -> None:
    assert ours.shape == theirs.shape, what
    assert (ours - theirs).abs().max() <= TOLERANCE, what


def check_gradients(
    theirs: Any, learner: Learner, tasks: Mapping[str, TaskConfig] | None = None
) -> None:
    """Compare all gradients; a tied parameter may have the other of its two names there."""
    config = learner.encoder.config
    system = system_of_config(config)
    parts = with_heads(system.mappings(config), system.names.task_parts(tasks or {}, False))
    gradients = {n: p.grad for n, p in learner.named_parameters() if p.grad is not None}
    named = to_foreign(gradients, parts)
    repeats = system.names.repeats
    found = {repeats.get(n, n): p.grad for n, p in theirs.named_parameters() if p.grad is not None}
    assert found.keys() == named.keys()
    for name, gradient in named.items():
        near(gradient, found[name], name)


@pytest.mark.parametrize("training", [False, True])
def test_layers_and_masked_lm(member: Member, tmp_path: Path, training: bool) -> None:
    theirs = make_theirs(member, "ForMaskedLM").train(training)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = checkpoint.load(tmp_path / "theirs")
    learner = loaded.learner.train(training)
    assert list(learner.objectives) == ["masked_lm"]
    _, padded = make_ids(member)
    real = padded["attention_mask"].bool()
    chosen = real & (padded["input_ids"] % 3 == 0)
    assert chosen.any()
    wanted = (padded["input_ids"] * 5 + 7) % 61
    expected = theirs(**padded, labels=wanted.masked_fill(~chosen, -100), output_hidden_states=True)

    inputs = inputs_of(padded)
    head: Any = learner.objectives["masked_lm"]
    with torch.no_grad():
        encoded = learner.encoder(inputs, keep_layers=True)
        for number, layer in enumerate(encoded.layers):
            near(layer, expected.hidden_states[number][real], f"layer {number}")
        near(head.logits(encoded.last), expected.logits[real], "logits")
    batch = MaskedBatch(
        inputs,
        chosen[real].nonzero()[:, 0],
        wanted[chosen],
        None,
        torch.arange(len(LENGTHS)),
    )
    loss = learner(batch)["masked_lm"]
    mean = loss.total / loss.count
    near(mean, expected.loss, "loss")
    mean.backward()
    expected.loss.backward()
    check_gradients(theirs, learner)

    out = tmp_path / "ours"
    out.mkdir()
    checkpoint.save(out, learner, None, "")
    again, report = transformers.AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        logits = again.train(training)(**padded).logits[real]
    near(logits, expected.logits[real], "written logits")


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", HEADS)
def test_task_heads(member: Member, kind: str, training: bool, tmp_path: Path) -> None:
    theirs = make_theirs(member, HEADS[kind]).train(training)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = checkpoint.load(tmp_path / "theirs")
    learner = loaded.learner.train(training)
    assert list(loaded.tasks) == list(learner.objectives) == [kind]
    _, padded = make_ids(member)
    real = padded["attention_mask"].bool()
    if kind == "multiple-choice":
        padded = {name: x[:4] for name, x in padded.items()}
        given = {name: x.view(2, 2, -1) for name, x in padded.items()}
    else:
        given = padded
    expected = theirs(**given)
    if kind == "span":
        wanted = torch.stack([expected.start_logits, expected.end_logits], 2)[real]
    elif kind == "tagging":
        wanted = expected.logits[real]
    elif kind == "multiple-choice":
        wanted = expected.logits.flatten()
    else:
        wanted = expected.logits
    inputs = inputs_of(padded)
    batch = unlabelled_batch(kind, inputs, kind)
    head: Any = learner.objectives[kind]
    scores = head.scores(learner.encode(batch, [head]), batch)
    near(scores, wanted, kind)
    factors = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2))
    (scores * factors).mean().backward()
    (wanted * factors).mean().backward()
    check_gradients(theirs, learner, loaded.tasks)

    out = tmp_path / "ours"
    out.mkdir()
    checkpoint.save(out, learner, None, "", tasks=loaded.tasks)
    auto = getattr(transformers, f"AutoModel{HEADS[kind]}")
    again, report = auto.from_pretrained(out, output_loading_info=True)
    assert not any(report.values()), report
    with torch.no_grad():
        found = again.train(training)(**given)
    first = "start_logits" if kind == "span" else "logits"
    same = slice(None) if kind in ("classification", "multiple-choice") else real
    near(getattr(found, first)[same], getattr(expected, first)[same], f"written {kind}")


@pytest.mark.parametrize("training", [False, True])
def test_discriminator(tmp_path: Path, training: bool) -> None:
    member = MEMBERS["electra"]
    theirs = make_theirs(member, "ForPreTraining").train(training)
    theirs.save_pretrained(tmp_path / "theirs")
    loaded = checkpoint.load(tmp_path / "theirs")
    learner = loaded.learner.train(training)
    assert list(learner.objectives) == ["replaced_tokens"]
    _, padded = make_ids(member)
    real = padded["attention_mask"].bool()
    replaced = (padded["input_ids"] % 3 == 0).float()
    expected = theirs(**padded, labels=replaced)
    head: Any = learner.objectives["replaced_tokens"]
    inputs = inputs_of(padded)
    encoded = learner.encoder(inputs)
    near(head.logits(encoded.last), expected.logits[real], "scores")
    batch = ReplacedBatch(
        inputs=inputs,
        masked_positions=torch.zeros(0, dtype=torch.long),
        masked_labels=torch.zeros(0, dtype=torch.long),
        next_sentence_labels=None,
        instances=torch.arange(len(LENGTHS)),
        generator_loss=torch.zeros(()),
        is_replaced=replaced[real],
    )
    loss = head(encoded, batch)
    mean = loss.total / loss.count
    near(mean, expected.loss, "loss")
    mean.backward()
    expected.loss.backward()
    check_gradients(theirs, learner)
    out = tmp_path / "ours"
    out.mkdir()
    checkpoint.save(out, learner, None, "")
    again, report = transformers.AutoModelForPreTraining.from_pretrained(
        out, output_loading_info=True
    )
    assert not any(report.values()), report
    with torch.no_grad():
        near(again.train(training)(**padded).logits[real], expected.logits[real], "written")


def test_sentence_order(tmp_path: Path) -> None:
    theirs = make_theirs(MEMBERS["albert"], "ForPreTraining").eval()
    theirs.save_pretrained(tmp_path / "theirs")
    learner = checkpoint.load(tmp_path / "theirs").learner.eval()
    assert list(learner.objectives) == ["masked_lm", "next_sentence"]
    _, padded = make_ids(MEMBERS["albert"])
    head: Any = learner.objectives["next_sentence"]
    with torch.no_grad():
        expected = theirs(**padded).sop_logits
        near(head.logits(learner.encoder(inputs_of(padded)).pooled), expected, "order")
    out = tmp_path / "ours"
    out.mkdir()
    checkpoint.save(out, learner, None, "")
    again, report = transformers.AutoModelForPreTraining.from_pretrained(
        out, output_loading_info=True
    )
    assert not any(report.values()), report
    with torch.no_grad():
        near(again.eval()(**padded).sop_logits, expected, "written order")
