"""GPT's second stage: a text is read at its last token, beside the language model's loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.labelled.examples import TextExample
from bertwright.models.gpt.config import GptConfig
from bertwright.nn.objective import Learner, Objective
from bertwright.tasks.task_data import TaskData, make_batch
from bertwright.tasks.texts.options import ClassificationTask, RegressionOptions, RegressionTask
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.log import read_records
from tests import small_bert
from tests.task_files import LETTERS, learn, write_files

SHAPE = GptConfig(
    vocab_size=24,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=40,
)
LAST = HeadConfig(pooling="last", dropout=0.0)
CLASSES = ClassificationTask(labels=("x", "y"), max_length=40, stride=8, head=LAST)
TEXTS = [TextExample("a b c", label="x"), TextExample("d", label="y"), TextExample("e f", "g", "x")]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *".,!?"]
    folder: Any = tmp_path_factory.mktemp("models") / "gpt"
    config: Any = SHAPE
    return small_bert.write_model(
        folder, ["next_token"], config, vocabulary=vocabulary, seed=1, std=0.15, noise=0.0
    )


def learner_of(gpt: Path, task: TaskConfig, share: float) -> Learner:
    chance = torch.Generator().manual_seed(0)
    learner = checkpoint.load(gpt, ["next_token"], chance, tasks={"task": task}).learner
    learner.auxiliary = ("next_token",) if share else ()
    learner.weights = {"next_token": share}
    return learner


def gradient(learner: Learner, batch: Any) -> dict[str, torch.Tensor]:
    learner.zero_grad()
    sum(loss.total / loss.count for loss in learner(batch).values()).backward()
    return {n: p.grad.clone() for n, p in learner.named_parameters() if p.grad is not None}


def test_what_is_read_is_the_last_token(gpt: Path) -> None:
    learner = learner_of(gpt, CLASSES, 0).eval()
    data = TaskData("task", CLASSES, load_tokenizer(gpt), TEXTS)
    head: Any = learner.objectives["task"]
    for row, instance in enumerate(data.instances):
        batch = make_batch("task", CLASSES, data.instances, [row])
        assert head.positions(batch).tolist() == [instance.num_tokens - 1]
        with torch.inference_mode():
            scores = head.scores(learner.encode(batch, [head]), batch)
            last = learner.encoder(batch.inputs).last[-1:]
            torch.testing.assert_close(scores, head.classifier(last))


def test_the_language_model_has_its_share_of_the_gradient(gpt: Path) -> None:
    data = TaskData("task", CLASSES, load_tokenizer(gpt), TEXTS)
    batch = make_batch("task", CLASSES, data.instances, [0, 1, 2])
    alone, half = (learner_of(gpt, CLASSES, share) for share in (0.0, 0.5))
    of_task, of_both = gradient(alone, batch), gradient(half, batch)
    head: Any = half.objectives["next_token"]
    half.zero_grad()
    loss = head(half.encoder(batch.inputs), batch)
    assert loss.count == batch.num_tokens - 3
    assert isinstance(head, Objective)
    torch.testing.assert_close(half(batch)["next_token"].total, loss.total)  # what is logged
    (loss.total / loss.count).backward()
    of_language = {n: p.grad for n, p in half.named_parameters() if p.grad is not None}
    for name, found in of_both.items():
        expected = of_task.get(name, 0) + 0.5 * of_language.get(name, torch.zeros_like(found))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_a_pair_in_both_orders_has_no_order(gpt: Path) -> None:
    task = RegressionTask(
        max_length=40, stride=8, head=LAST, options=RegressionOptions(both_orders=True)
    )
    learner = learner_of(gpt, task, 0).eval()
    pairs = [TextExample("a b c", "d e"), TextExample("d e", "a b c"), TextExample("a", "b")]
    data = TaskData("task", task, load_tokenizer(gpt), pairs)
    assert [len(instance.ids) for instance in data.instances] == [2, 2, 2]
    assert data.lengths.in_windows == 0
    batch = make_batch("task", task, data.instances, [0, 1, 2], with_labels=False)
    head: Any = learner.objectives["task"]
    with torch.inference_mode():
        encoded = learner.encoder(batch.inputs)
        scores = head.scores(encoded, batch)
        torch.testing.assert_close(scores[0], scores[1])
        alone = make_batch("task", task, data.instances, [0], with_labels=False)
        summed = learner.encoder(alone.inputs).last[[7, 15]].sum(0)  # [CLS] a b c [SEP] d e [SEP]
        expected = head.classifier.weight[0] @ summed / 2 + head.classifier.bias[0]
        torch.testing.assert_close(scores[0], expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "multiple-choice", "generation"])
def test_every_kind_learns(kind: str, gpt: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, kind)
    epochs = 20.0 if kind == "generation" else 12.0
    out = tmp_path / "run"
    results, _ = learn(gpt, out, kind, train, dev, epochs=epochs, language_model=0.5, dropout=0.0)
    least = {"generation": 0.85, "multiple-choice": 0.6}.get(kind, 0.85)
    assert results["metrics"][results["main"]] >= least
    record = next(each for each in read_records(out / "metrics.jsonl") if "next_token.loss" in each)
    assert record["next_token.loss"] > 0
    head = json.loads((out / "model" / "task.json").read_text())["tasks"]["task"]["head"]
    read = ("mean", "last") if kind == "classification" else ("last", None)
    assert (head["pooling"], head["layers"]) == read
    model = load(out)
    assert set(model.heads) == {"next_token", "task"}


def test_it_is_of_language_models_alone(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    with pytest.raises(ConfigError, match="no language model"):
        learn(model, tmp_path / "run", "classification", train, dev, language_model=0.5)
    with pytest.raises(ConfigError, match="has one text a row"):
        learn(model, tmp_path / "run", "classification", train, dev, both_orders=True)
