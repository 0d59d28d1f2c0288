"""Fine-tuning, whole: every kind of task and transfer, seeds, tasks, and what a run leaves."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import open_model
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.task import TaskConfig
from bertwright.data.loading.phases import DataPosition
from bertwright.errors import ConfigError, DataError, Interrupted
from bertwright.labelled.examples import SpanExample, TaggingExample, TextExample
from bertwright.labelled.read import read_examples
from bertwright.progress import silent
from bertwright.recipes import run_folder
from bertwright.recipes.finetune import defaults, seeds, training
from bertwright.recipes.finetune import run as finetuning
from bertwright.recipes.finetune.setup import TaskSpec, hold_out, set_up
from bertwright.recipes.finetune.training import TaskLoader
from bertwright.report.pages import run_page
from bertwright.report.read import read_run
from bertwright.tasks.batch import TaskBatch
from bertwright.tasks.catalogue import KINDS, kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.predict import predict
from bertwright.tasks.tagging.options import TaggingOptions, TaggingTask
from bertwright.tasks.task_data import TaskData
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks
from bertwright.train.log import read_records
from bertwright.train.signals import Signals
from tests.task_files import SPEC, learn, write_files

MAINS = {
    "classification": 0.9,
    "pair": 0.9,
    "regression": 0.8,
    "tagging": 0.9,
    "span": 0.8,
    "multiple-choice": 0.8,
    "generation": 0.85,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAINS)
def test_every_kind_learns(kind: str, model: Path, tmp_path: Path) -> None:
    """That its model is complete, `evaluate` and `predict` of the command line show."""
    train, dev = write_files(tmp_path, kind)
    out = tmp_path / "run"
    epochs = {"span": 4.0, "multiple-choice": 4.0, "generation": 20.0}.get(kind, 7.0)
    results, said = learn(model, out, kind, train, dev, epochs=epochs)
    main = results["metrics"][results["main"]]
    assert main >= MAINS[kind], said[-3:]
    assert json.loads((out / "results.json").read_text())["summary"] == results["summary"]
    assert any("examples" in line and train.name in line for line in said)


TRANSFERS: list[dict[str, Any]] = [
    {"transfer": "features", "layers": "last", "network": "bilstm", "learning_rate": 0.01},
    {"transfer": "features", "layers": "mix", "network": "taglm", "learning_rate": 0.01},
    {"transfer": "top-1"},
    {"transfer": "gradual", "learning_rate": 0.01, "keep": "last"},
]


@pytest.mark.slow
@pytest.mark.parametrize("changes", TRANSFERS, ids=lambda c: "-".join(map(str, c.values())))
def test_every_transfer_learns(changes: dict[str, Any], model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "tagging")
    out = tmp_path / "run"
    results, _ = learn(model, out, "tagging", train, dev, **{"epochs": 8.0, **changes})
    assert results["metrics"]["f1"] > 0.85
    weights = results["layer_weights"]
    assert list(weights) == (["0", "1", "2"] if changes.get("layers") == "mix" else [])
    assert sum(weights.values()) == pytest.approx(1 if weights else 0)
    assert ("What it reads of each layer" in run_page(read_run(out))) == bool(weights)
    before = checkpoint.load(model).learner.state_dict()
    after = checkpoint.load(out).learner.state_dict()
    frozen = {"features": "encoder.", "top-1": "encoder.layers.0.", "gradual": "none"}[
        str(changes["transfer"])
    ]
    for name in before:
        if name.startswith(frozen) and name in after:
            assert torch.equal(before[name], after[name]), name
    if changes["transfer"] == "gradual":
        name = "encoder.embeddings.token.weight"
        assert not torch.equal(before[name], after[name])
    assert not list(out.glob(".features*"))


@pytest.mark.slow
def test_several_seeds_are_logged_and_the_best_is_kept(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    out = tmp_path / "run"
    results, said = learn(model, out, "classification", train, dev, seeds=3, epochs=2.0)
    scores = [seed["metrics"]["accuracy"] for seed in results["seeds"]]
    assert [seed["seed"] for seed in results["seeds"]] == [1, 2, 3]
    assert results["summary"]["accuracy"]["mean"] == pytest.approx(sum(scores) / 3)
    assert results["summary"]["accuracy"]["max"] == max(scores)
    assert results["best_seed"] == 1 + scores.index(max(scores))
    records = read_records(out / "metrics.jsonl")
    assert {record["seed"] for record in records} == {1, 2, 3}
    assert [r["epoch"] for r in records if r["split"] == "dev"] == [0, 1, 2] * 3
    assert any("seed 2 (1 to 3)" in line for line in said)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    runs = []
    for name in ("one", "two"):
        results, _ = learn(model, tmp_path / name, "classification", train, dev, epochs=2.0)
        runs.append((results["metrics"], checkpoint.load(tmp_path / name).learner.state_dict()))
    assert runs[0][0] == runs[1][0]
    for name, value in runs[0][1].items():
        assert torch.equal(value, runs[1][1][name]), name


@pytest.mark.slow
def test_the_best_epoch_is_kept_or_the_last(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    out = tmp_path / "run"
    changes = {"epochs": 6.0, "learning_rate": 0.02}
    results, _ = learn(model, out, "classification", train, dev, **changes)
    told = [r for r in read_records(out / "metrics.jsonl") if r["split"] == "dev"]
    best = max(range(7), key=lambda epoch: told[epoch]["accuracy"])
    assert results["seeds"][0]["best_epoch"] == best
    assert results["metrics"]["accuracy"] == told[best]["accuracy"]
    last, _ = learn(model, tmp_path / "last", "classification", train, dev, keep="last", **changes)
    assert last["metrics"]["accuracy"] == told[-1]["accuracy"]


@pytest.mark.slow
def test_patience_ends_a_seed_that_does_not_improve(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    results, _ = learn(
        model, tmp_path / "run", "classification", train, dev, epochs=40.0, patience=2
    )
    (seed,) = results["seeds"]
    assert seed["epochs"] < 40
    assert seed["epochs"] == seed["best_epoch"] + 2


def set_accuracies(monkeypatch: pytest.MonkeyPatch, accuracies: list[float]) -> None:
    """Make dev have these accuracies, one after the other."""
    told = iter(accuracies)

    def said(*given: Any, **named: Any) -> Evaluation:
        found = evaluate(*given, **named)
        return replace(found, metrics=found.metrics | {"accuracy": next(told)})

    monkeypatch.setattr(training, "evaluate", said)


def test_patience_counts_from_the_best_where_the_last_is_kept(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_files(tmp_path, "classification", train=16, dev=4)
    set_accuracies(monkeypatch, [0.5, 0.9, 0.6, 0.7, 0.8, 0.85])
    changes: dict[str, Any] = {"keep": "last", "patience": 3, "epochs": 6.0}
    results, _ = learn(model, tmp_path / "run", "classification", train, dev, **changes)
    assert results["seeds"][0]["epochs"] == 5


def test_frozen_features_of_a_random_encoder_are_those_of_the_saved_one(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_files(tmp_path, "classification", train=16, dev=8)
    set_accuracies(monkeypatch, [0.5, 0.9])
    out = tmp_path / "run"
    changes = {"transfer": "features", "random_start": True, "seeds": 2, "epochs": 1.0}
    results, _ = learn(model, out, "classification", train, dev, **changes)
    assert results["best_seed"] == 2
    loaded = checkpoint.load(out)
    examples = read_examples(str(dev), kind_of("classification").reader).examples
    data = TaskData("task", loaded.tasks["task"], load_tokenizer(loaded.opened.folder), examples)
    kept = (out / "dev-predictions.jsonl").read_text().splitlines()
    for prediction, line in zip(predict(loaded.learner, data), kept, strict=True):
        scores = json.loads(line)["scores"]
        assert scores == pytest.approx(prediction.scores, abs=2e-3)


@pytest.mark.slow
def test_several_tasks_share_an_encoder(model: Path, tmp_path: Path) -> None:
    tasks = []
    for name, kind in (("words", "classification"), ("tags", "tagging")):
        train, dev = write_files(tmp_path, kind)
        files = TaskFilesConfig(str(train), str(dev), weight=1.5 if name == "tags" else 1.0)
        tasks.append(TaskSpec(name, kind, files, KINDS[kind].options()))
    out = tmp_path / "run"
    config = FinetuneConfig(
        str(model), str(out), epochs=6.0, learning_rate=3e-3, batch_size=16, precision="fp32"
    )
    results = finetuning.finetune(tasks, config, lambda line: None)
    assert results["tasks"]["words"]["metrics"]["accuracy"] > 0.85
    assert results["tasks"]["tags"]["metrics"]["f1"] > 0.85
    loaded = checkpoint.load(out)
    assert set(loaded.tasks) == {"words", "tags"}
    told = [r for r in read_records(out / "metrics.jsonl") if r["split"] == "dev"]
    places = ["step", "tokens", "seconds", "split", "epoch"]
    assert list(told[0])[:7] == [*places, "words.accuracy", "tags.f1"]
    seed = results["tasks"]["tags"]["seeds"][0]
    passed = seed["examples_per_second"] * seed["seconds"]
    assert passed == pytest.approx(6 * (120 + 1.5 * 120), rel=0.02)


@pytest.mark.slow
def test_unanswerable_questions_tune_a_threshold_that_is_saved(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "span")
    for path in (train, dev):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows[::3]:
            row["context"] = row["context"].replace("j", "i")
            row["answers"] = {"text": [], "answer_start": []}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    results, _ = learn(model, out, "span", train, dev, epochs=4.0)
    threshold = results["tuned"]["null_threshold"]
    task = checkpoint.load(out).tasks["task"]
    assert task.unanswerable
    assert task.null_threshold == threshold


def test_what_is_of_one_passage_is_held_out_together() -> None:
    questions = [SpanExample(f"q{n}", f"passage {n % 20}", ()) for n in range(200)]
    train, dev = hold_out(questions, kind_of("span"), 1)
    assert len(train) + len(dev) == 200
    assert 20 <= len(dev) < 40
    assert not {e.context for e in train} & {e.context for e in dev}


def test_a_new_head_predicts_the_mean_number(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "regression")
    rows = [json.loads(line) for line in train.read_text().splitlines()]
    for row in rows:
        row["label"] += 100
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    learn(model, out, "regression", train, dev, learning_rate=1e-9, epochs=1.0)
    values = [json.loads(line)["value"] for line in (out / "dev-predictions.jsonl").open()]
    assert sum(values) / len(values) == pytest.approx(100.8, abs=1.5)


def test_rare_classes_weigh_more_if_asked(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    config = FinetuneConfig(str(model), "o")
    files = TaskFilesConfig(str(train), str(dev))
    options = ClassificationOptions(class_weights="balanced")
    spec = TaskSpec("task", "classification", files, options)
    setup = set_up(spec, config, load_tokenizer(model), SPEC, lambda line: None)
    learner, new = seeds.new_learner(open_model(model), config, [setup], 1)
    head = learner.objectives["task"]
    assert "task" in new
    assert torch.equal(head.class_weights, setup.class_weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "words"}, "words"),
        ({"max_length": 64}, "max_length is 64, but .* has positions for 40"),
        ({"transfer": "top-3"}, "top-3, but the model has 2 layers"),
        ({"metric": "bleu"}, "bleu"),
        ({"transfer": "features", "layers": "sum-last-4"}, "needs 4 or more"),
    ],
)
def test_what_does_not_fit_is_an_error_and_leaves_nothing(
    change: dict[str, Any], message: str, model: Path, tmp_path: Path
) -> None:
    train, dev = write_files(tmp_path, "classification")
    out = tmp_path / "run"
    with pytest.raises((ConfigError, DataError), match=message):
        learn(model, out, "classification", train, dev, **change)
    assert not out.exists()


def test_one_label_only_is_an_error(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    train.write_text("".join(json.dumps({"text": t, "label": "x"}) + "\n" for t in "abcd"))
    with pytest.raises(DataError, match="one label only, 'x'"):
        learn(model, tmp_path / "run", "classification", train, dev)
    with pytest.raises(DataError, match="one label only, 'x'"):
        learn(model, tmp_path / "run", "classification", train, dev, multi_label=True)


def test_one_label_that_some_texts_have_and_others_have_not_is_learned(
    model: Path, tmp_path: Path
) -> None:
    train = tmp_path / "train.jsonl"
    rows = [{"text": f"{word} {n}", "label": ["x"] * (n % 2)} for n, word in enumerate("abcdef")]
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "run"
    results, _ = learn(model, out, "classification", train, train, multi_label=True, baselines=True)
    assert set(results["metrics"]) >= {"micro_f1", "exact_match"}
    (task,) = checkpoint.load(out).tasks.values()
    assert (task.labels, task.options.multi_label) == (("x",), True)


def test_a_run_does_not_take_the_place_of_its_model(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    out = tmp_path / "run"
    learn(model, out, "classification", train, dev, epochs=1.0)
    task = TaskSpec("task", "classification", TaskFilesConfig(str(train)), ClassificationOptions())
    with pytest.raises(ConfigError, match="would take its place"):
        finetuning.finetune([task], FinetuneConfig(str(out), str(out)), print, overwrite=True)
    assert checkpoint.load(out).tasks


def test_a_folder_in_which_another_trains_is_left_alone(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    with (
        run_folder.alone(tmp_path / "run"),
        pytest.raises(ConfigError, match="another process"),
    ):
        learn(model, tmp_path / "run", "classification", train, dev)


def test_a_signal_in_the_last_step_of_a_seed_ends_the_run_after_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_files(tmp_path, "classification")
    out, real = tmp_path / "run", seeds.train_seed

    def with_a_signal(*arguments: Any, **more: Any) -> Any:
        with Signals():
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **more)

    monkeypatch.setattr(seeds, "train_seed", with_a_signal)
    with pytest.raises(Interrupted, match=r"seed 2; .* the 1 seeds"):
        learn(model, out, "classification", train, dev, seeds=3, epochs=1.0)
    assert len(json.loads((out / "results.json").read_text())["seeds"]) == 1


def test_an_interrupted_run_keeps_the_seeds_before_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, dev = write_files(tmp_path, "classification")
    out, real = tmp_path / "run", seeds.train_seed

    def interrupt_third(*arguments: Any, **more: Any) -> Any:
        if arguments[0].seed == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments, **more)

    def at_once(number: int, frame: object) -> None:
        raise Interrupted(number, "stopped")

    monkeypatch.setattr(seeds, "train_seed", interrupt_third)
    before = signal.signal(signal.SIGINT, at_once)
    try:
        with pytest.raises(Interrupted, match=r"seed 3; .* the 2 seeds"):
            learn(model, out, "classification", train, dev, seeds=4, epochs=1.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(json.loads((out / "results.json").read_text())["seeds"]) == 2
    assert checkpoint.load(out).tasks


CLASSES = ClassificationTask(labels=("x", "y"), max_length=40, stride=8)


def steps_of(
    model: Path,
    examples: list[Any],
    task: TaskConfig = CLASSES,
    batch_size: int = 8,
    tokens: int = 999,
    rank: int = 0,
    ranks: int = 1,
) -> TaskLoader:
    """The steps of a rank."""
    instances = TaskData("task", task, load_tokenizer(model), examples).instances
    shared = Ranks(rank, ranks, torch.device("cpu"))
    return TaskLoader([("task", task, instances, 1.0)], batch_size, tokens, 1, shared)


def epoch_of(source: TaskLoader, number: int = 0) -> list[list[TaskBatch]]:
    """The batches of each step of an epoch."""
    place, steps = DataPosition(epoch=number), []
    for _ in range(source.steps_in_epoch):
        batches, place = source.step(place, 0.0)
        steps.append(batches)
    return steps


def rows_of(step: list[TaskBatch]) -> list[int]:
    return [row for batch in step for row in batch.rows]


def test_an_epoch_has_every_example_once_in_another_order_each_time(model: Path) -> None:
    examples = [TextExample(f"{'a ' * (n % 7 + 1)}", label="x") for n in range(50)]
    source = steps_of(model, examples, tokens=20)
    orders = []
    for number in range(2):
        steps = epoch_of(source, number)
        assert all(b.num_tokens <= 20 or len(b.rows) == 1 for step in steps for b in step)
        assert {len(rows_of(step)) for step in steps} == {8, 2}
        orders.append([row for step in steps for row in rows_of(step)])
        assert sorted(orders[-1]) == list(range(50))
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("count", "steps"), [(21, 3), (17, 2)])  # a last one of one joins another
def test_ranks_share_steps_without_overlap_or_loss(model: Path, count: int, steps: int) -> None:
    examples = [TextExample("a b c", label="x") for _ in range(count)]
    one, two = (epoch_of(steps_of(model, examples, rank=n, ranks=2)) for n in range(2))
    assert len(one) == len(two) == steps
    assert all(map(rows_of, one + two))
    assert sorted(row for step in one + two for row in rows_of(step)) == list(range(count))


def test_steps_count_sentences_where_documents_are_read(model: Path) -> None:
    task = TaggingTask(
        labels=("O", "B"), max_length=40, stride=8, options=TaggingOptions(context="document")
    )
    sizes = [1 + number % 12 for number in range(30)]
    examples = [
        TaggingExample(("a", "b"), ("O", "B"), number)
        for number, size in enumerate(sizes)
        for _ in range(size)
    ]
    rows: list[int] = []
    for step in epoch_of(steps_of(model, examples, task)):
        own = rows_of(step)
        assert len(own) <= 8 or len({examples[row].document for row in own}) == 1
        rows += own
    assert sorted(rows) == list(range(len(examples)))
    for part in (examples[:3], examples):  # two documents, or all: no rank is without work
        assert all(epoch_of(steps_of(model, part, task, rank=1, ranks=2)))
    with pytest.raises(DataError, match="for 2 processes"):
        epoch_of(steps_of(model, examples[:1], task, rank=1, ranks=2))


def test_few_examples_are_seen_more_often() -> None:
    config = FinetuneConfig("m", "o")
    assert defaults.epochs_of(config, 400_000) == 3
    assert defaults.epochs_of(config, 4000) == 5
    assert defaults.epochs_of(config, 100) == 20


def test_a_small_model_takes_a_higher_rate() -> None:
    config = FinetuneConfig("m", "o")
    rates = {1024: 2.25e-5, 768: 3e-5, 384: 6e-5, 256: 9e-5, 128: 1.8e-4, 32: 7.2e-4}
    for width, rate in rates.items():
        assert defaults.usual_rate(config, width) == pytest.approx(rate, rel=0.01)
    frozen = replace(config, transfer="features")
    assert defaults.usual_rate(frozen, 256) == 1e-2
    assert defaults.usual_rate(replace(frozen, network="bilstm"), 256) == 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_it_shows_what_it_will_cost_and_how_far_it_is(
    model: Path, tmp_path: Path, kind: str
) -> None:
    train, dev = write_files(tmp_path, kind)
    files = TaskFilesConfig(str(train), str(dev))
    config = FinetuneConfig(
        str(model), str(tmp_path / "run"), epochs=2.5, seeds=2, batch_size=16, device="cpu"
    )
    calls: list[tuple[int, int | None]] = []
    task = TaskSpec("task", kind, files, KINDS[kind].options())
    finetuning.finetune([task], config, silent, on_progress=lambda *call: calls.append(call))
    done, totals = zip(*calls, strict=True)
    assert len({*totals}) == 1  # one bar, over all seeds
    assert list(done) == sorted(done)
    assert done[-1] == pytest.approx(totals[0], rel=0.1)
