"""Bertwright from Python: data in memory, settings, callbacks, and what comes back."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import bertwright
from bertwright import scripting
from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError, DataError, MissingExtra
from bertwright.labelled.columns import Columns
from bertwright.labelled.read import read_examples
from bertwright.labelled.texts import CLASSES
from bertwright.models.catalogue import row_of, trainable
from bertwright.models.load import load, system_of_folder
from bertwright.recipes.compare.systems import NOT_COMPARED, SYSTEMS
from bertwright.rows.read import MemoryRows
from tests.contract import toy
from tests.small_runs import build_data, mapping_of
from tests.task_files import write_model

QUICK: dict[str, Any] = {
    "epochs": 1.0,
    "learning_rate": 1e-3,
    "precision": "fp32",
    "progress": False,
    "device": "cpu",
}
TEXTS = [(f"{'a ' * (n % 2)}b {'c ' * (n % 5)}d", ("without", "with")[n % 2]) for n in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model")


class Frame:
    """What is used of a pandas DataFrame."""

    columns = ("review", "stars")

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return [{"review": text, "stars": label, "note": float("nan")} for text, label in TEXTS]


class ClassLabel:
    """What is used of a feature of `datasets`."""

    def int2str(self, number: int) -> str:
        return ("without", "with")[number]


class Dataset:
    """What is used of a `datasets` Dataset."""

    def __init__(self) -> None:
        self.features = {"text": object(), "label": ClassLabel()}

    def __iter__(self) -> Any:
        return iter([{"text": text, "label": int(label == "with")} for text, label in TEXTS])


FORMS = {
    "tuples": (TEXTS, {}),
    "mappings": ([{"text": text, "label": label} for text, label in TEXTS], {}),
    "frame": (Frame(), {"text": "review", "label": "stars"}),
    "dataset": (Dataset(), {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_data_in_memory_is_data_of_a_file(form: str, tmp_path: Path) -> None:
    data, columns = FORMS[form]
    rows = scripting.input_rows(data, "classification", "train")
    assert isinstance(rows, MemoryRows)
    assert rows.name == "train (30 rows)"
    found = read_examples(rows, CLASSES, Columns(**columns))
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in TEXTS))
    expected = read_examples(path, CLASSES).examples
    assert [(e.text, e.label) for e in found.examples] == [(e.text, e.label) for e in expected]


ROWS: dict[str, Any] = {
    "regression": [(f"{'a ' * (n % 3)}b", n % 3) for n in range(12)],
    "tagging": [(["a", "b"], ["B-X", "O"]), (["c"], ["O"])] * 6,
    "span": [("c ?", "a b j d", "j"), ("c ?", "a b d", "")] * 6,
    "multiple-choice": [("d", ["a", "b"], n % 2) for n in range(12)],
}


@pytest.mark.parametrize("kind", ROWS)
def test_tuples_of_every_kind(kind: Any, model: Path, tmp_path: Path) -> None:
    rows = ROWS[kind]
    run = bertwright.finetune(
        kind, model=model, train=rows, dev=rows, out=tmp_path / "run", **QUICK
    )
    scores = bertwright.evaluate(run.model, rows, intervals=False, precision="fp32", progress=False)
    assert scores.metrics.keys() == run.metrics.keys()
    assert scores.metrics == pytest.approx(run.metrics, abs=1e-3, nan_ok=True)
    assert any("train (12 rows)" in each for each in run.results["warnings"])


def test_a_run_has_its_log_its_model_and_its_page(model: Path, tmp_path: Path) -> None:
    logged: list[dict[str, Any]] = []
    out = tmp_path / "run"
    run = bertwright.finetune(
        "classification", model=model, train=TEXTS, out=out, on_log=logged.append, **QUICK
    )
    assert run == bertwright.Run(out)
    assert logged == run.records
    assert run.metrics == run.results["metrics"]
    assert run.model is run.model
    (predicted,) = run.model.predict(["a b"])
    assert set(predicted.scores) == {"with", "without"}
    assert predicted.label == max(predicted.scores, key=predicted.scores.get)
    assert run.report.name == "report.html"
    config = values.read_toml(out / "config.toml")
    assert (config["train"], config["epochs"]) == ("train (30 rows)", 1.0)


@pytest.mark.parametrize(
    ("named", "preset"),
    [
        ({"system": "gpt", "preset": "mini"}, "gpt-mini"),
        ({"preset": "gpt-mini"}, "gpt-mini"),
        ({"model": "gpt-mini"}, "gpt-mini"),
        ({"config": {"model": "gpt-mini"}}, "gpt-mini"),
        ({"system": "bert-ltr", "preset": "tiny"}, "bert-tiny-ltr"),
        ({"system": "word2vec", "preset": "cbow"}, "word2vec-cbow"),
        ({"system": "gpt2"}, "gpt2-mini"),
        ({"preset": "tiny"}, "bert-tiny"),
    ],
)
def test_a_system_and_its_preset_have_the_names_of_the_catalogue(
    named: dict[str, Any], preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[RunConfig] = []

    def run(config: RunConfig, *_: Any, **__: Any) -> Path:
        trained.append(config)
        return tmp_path

    monkeypatch.setattr(scripting.pretraining, "pretrain", run)
    bertwright.pretrain("shards", out=tmp_path / "run", epochs=1, progress=False, **named)
    assert trained[0].model == preset
    assert preset in row_of(trained[0]).presets


def test_a_recipe_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Any] = []

    def run(config: RunConfig, *_: Any, **__: Any) -> Path:
        trained.append(config)
        return tmp_path

    monkeypatch.setattr(scripting.pretraining, "pretrain", run)
    bertwright.pretrain("shards", out=tmp_path / "run", config="half-hour", seed=3, progress=False)
    assert trained[0].instances.objectives == "mlm+contrast"
    assert (trained[0].minutes, trained[0].seed) == (30.0, 3)
    bertwright.pretrain("shards", out=tmp_path / "run", config="half-hour", epochs=2.0)
    assert (trained[1].minutes, trained[1].epochs) == (None, 2.0)
    with pytest.raises(ConfigError, match=r"half-our.*half-hour.*bert-base-paper"):
        bertwright.pretrain("shards", out=tmp_path / "run", config="half-our")


def test_every_name_of_a_comparison_is_one_of_the_catalogue() -> None:
    for entry in SYSTEMS.values():
        assert entry.system in trainable()
        assert entry.name == entry.system or entry.is_that_of or entry.name not in trainable()
    for system in trainable().keys() - {toy.NAME}:  # other tests add the toy
        assert system in SYSTEMS or system in NOT_COMPARED


def test_a_model_type_that_is_not_the_name_of_its_system(tmp_path: Path) -> None:
    assert system_of_folder({"model_type": "openai-gpt"}, tmp_path).row.name == "gpt"
    assert load("gpt").names.model_type == "openai-gpt"
    with pytest.raises(DataError, match="openai-gpt"):
        system_of_folder({"model_type": "t5"}, tmp_path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a",)], r"train, row 1 .*1 items.*\(text, label\)"),
        ([{"text": "a", "label": "x"}, 3], r"train, row 2 .*int.*mapping"),
        ([{"text": "", "label": "x"}], r"train \(1 rows\), row 1"),
        ([], "train"),
    ],
)
def test_rows_that_cannot_be_read(rows: Any, message: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        bertwright.finetune("classification", model=model, train=rows, out=tmp_path / "r", **QUICK)
    assert not (tmp_path / "r").exists()


def test_a_wrong_setting_names_the_nearest(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'learning_rate'"):
        bertwright.finetune(
            "classification", model=model, train=TEXTS, out=tmp_path, learning_rat=1
        )
    with pytest.raises(ConfigError, match=r"'optimizer\.learning_rate'"):
        bertwright.pretrain("s", out=tmp_path, steps=1, **{"optimizer.learning_rat": 1})
    with pytest.raises(ConfigError, match="'bort'"):
        bertwright.pretrain("s", out=tmp_path, steps=1, system="bort")
    with pytest.raises(ConfigError, match="'tags'"):
        bertwright.finetune("tags", model=model, train=TEXTS, out=tmp_path)


def test_pretraining_takes_keys_sections_mappings_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = build_data(tmp_path / "data")
    sections = mapping_of(data, tmp_path / "unused", steps=4)
    logged: list[dict[str, Any]] = []
    run = bertwright.pretrain(
        data,
        out=tmp_path / "run",
        config=sections,
        on_log=logged.append,
        optimizer={"beta1": 0.8},
        **{"optimizer.learning_rate": 2e-3, "log.every_steps": 2},
    )
    assert logged == run.records
    assert {"loss", "masked_lm.accuracy"} <= run.metrics.keys()
    saved = values.read_toml(run.folder / "config.toml")
    assert (saved["optimizer"]["beta1"], saved["optimizer"]["learning_rate"]) == (0.8, 2e-3)
    assert (saved["out"], saved["batch"]["tokens"]) == (str(tmp_path / "run"), 256)
    said = capsys.readouterr()
    assert "parameters" in said.err
    assert said.out == ""
    again = bertwright.pretrain(
        data,
        out=tmp_path / "again",
        config=run.folder / "config.toml",
        progress=False,
        on_log=lambda record: None,
    )
    assert again.metrics == run.metrics
    assert capsys.readouterr().err == ""


def test_wandb_and_tensorboard_by_name(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    ended: list[bool] = []

    class Session:
        def log(self, record: dict[str, Any]) -> None:
            sent.append(record)

        def finish(self) -> None:
            ended.append(True)

    def init(**words: Any) -> Session:
        assert words["name"] == "run"
        assert words["config"]["epochs"] == 1.0
        return Session()

    wandb = types.SimpleNamespace(init=init)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    settings = QUICK | {"model": model, "train": TEXTS}
    run = bertwright.finetune("classification", out=tmp_path / "run", log_to="wandb", **settings)
    assert len(sent) == len(run.records)
    assert any("dev/accuracy" in record for record in sent)
    assert ended == [True]
    for target in ("wandb", "tensorboard"):
        module = {"wandb": "wandb", "tensorboard": "torch.utils.tensorboard"}[target]
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=rf'pip install "bertwright\[{target}\]"'):
            bertwright.finetune("classification", out=tmp_path / "b", log_to=target, **settings)
    with pytest.raises(ConfigError, match="'mlflow'"):
        bertwright.finetune("classification", out=tmp_path / "b", log_to="mlflow", **settings)
    assert not (tmp_path / "b").exists()


def test_a_comparison_from_rows(tmp_path: Path) -> None:
    from tests.recipes.compare.conftest import write_text

    corpus = write_text(tmp_path / "corpus.txt")
    settings: dict[str, Any] = {"minutes": 0.01, "vocab_size": 200, "device": "cpu"}
    settings |= {"progress": False, "reading": {"sentences": "line"}, "systems": ["ngram"]}
    out = tmp_path / "ladder"
    ladder = bertwright.compare(corpus, out=out, train=TEXTS, test=TEXTS, **settings)
    assert {row["system"] for row in ladder.rows} == {"ngram", "majority", "tfidf"}
    values = {row["metric"]: row["value"] for row in ladder.rows}
    assert values["bits_per_character"] > 0
    assert ladder.report.is_file()
    assert ladder.results["task"]["examples"] == {"train": 27, "dev": 3, "test": 30}
    again = bertwright.compare(corpus, out=out, train=TEXTS, test=TEXTS, **settings)
    assert again.rows == ladder.rows
    with pytest.raises(ConfigError, match="vocab_size"):
        bertwright.compare(corpus, out=out, vocabsize=3)
    with pytest.raises(ConfigError, match="brt"):
        bertwright.compare(
            corpus, out=tmp_path / "other", train=TEXTS, **(settings | {"systems": ["brt"]})
        )
    assert not (tmp_path / "other").exists()
