"""A format without foreign names: a toy encoder comes in by the class of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.export.write import export
from bertwright.checkpoint.format import Format
from bertwright.checkpoint.inspection import inspect
from bertwright.config.run import RunConfig
from bertwright.config.systems import SYSTEMS
from bertwright.config.task import HeadConfig, TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.sequences import Inputs
from bertwright.objectives.objective import Learner, Loss, Objective
from tests.checkpoint.conftest import assert_same, change, rewrite


@dataclass(frozen=True)
class ToyConfig:
    """A table of word vectors."""

    vocab_size: int = 37
    width: int = 6


class Toy(Encoder):
    """Static vectors: no layers, no limit of length."""

    def __init__(self, config: ToyConfig) -> None:
        super().__init__(EncoderSpec(config.width, 0, config.vocab_size))
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.width)
        self.register_buffer("counts", torch.zeros(config.vocab_size, dtype=torch.int64))
        self.register_buffer("waves", torch.arange(5.0).sin(), persistent=False)

    def forward(self, inputs: Inputs, **options: Any) -> Encoded:
        return Encoded(inputs.sequences, self.table(inputs.ids))

    def stages(self) -> Sequence[nn.Module]:
        return [self.table]

    def token_embedding(self) -> nn.Embedding:
        return self.table


class NextWord(Objective[Any]):
    """Scores of the next word."""

    def __init__(self, config: ToyConfig, encoder: Encoder) -> None:
        super().__init__()
        self.output = nn.Linear(config.width, config.vocab_size)

    def forward(self, encoded: Encoded, batch: Any) -> Loss:
        raise NotImplementedError


class ToyRun(RunConfig):
    """Names its format; it is never run."""

    presets: ClassVar[Mapping[str, ToyConfig]] = {"toy": ToyConfig()}
    format: ClassVar[str] = f"{__name__}:TOY"


TOY = Format("toy", ToyConfig, Toy, {"next_word": NextWord})
TASKS = {"stars": TaskConfig("regression", head=HeadConfig(layers="last", dropout=0.0))}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "toy", ToyRun)


@pytest.fixture
def learner(toy: None) -> Learner:
    learner = make_learner(ToyConfig(), ["next_word"], TASKS)
    learner.encoder.counts += torch.arange(37)
    return learner


@pytest.fixture
def folder(tmp_path: Path, learner: Learner, tokenizer_folder: Path) -> Path:
    path = tmp_path / "toy"
    path.mkdir()
    save(path, learner, tokenizer_folder, "# A card\n", tasks=TASKS)
    return path


def test_bit_for_bit(folder: Path, learner: Learner) -> None:
    content = json.loads((folder / "config.json").read_text())
    assert (content["model_type"], content["width"]) == ("toy", 6)
    names = set(load_file(folder / "model.safetensors"))
    assert names == {
        "encoder.table.weight",
        "encoder.counts",
        "objectives.next_word.output.weight",
        "objectives.next_word.output.bias",
    }
    loaded = load(folder)
    assert loaded.config == ToyConfig()
    assert loaded.tasks == TASKS
    assert loaded.report.parts == ("encoder", "next_word", "stars")
    assert not loaded.report.started
    assert_same(loaded.learner, learner)
    assert torch.equal(loaded.learner.encoder.waves, learner.encoder.waves)


def test_a_new_head_and_one_that_is_not_requested(folder: Path) -> None:
    save(folder, make_learner(ToyConfig(), []), None, "")
    (folder / "task.json").unlink()
    (folder / "heads.safetensors").unlink()
    with pytest.raises(DataError, match="has no next_word head"):
        load(folder, ["next_word"])
    found = load(folder, ["next_word"], torch.Generator().manual_seed(1), tasks=TASKS)
    assert found.report.started == ("next_word", "stars")
    weight = found.learner.objectives["next_word"].output.weight
    assert 0 < weight.abs().max() <= 0.04
    assert not any(parameter.is_meta for parameter in found.learner.parameters())


def test_missing_and_unknown_tensors(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    for lost in ("encoder.table.weight", "objectives.next_word.output.bias"):
        rewrite(folder, {name: x for name, x in tensors.items() if name != lost})
        with pytest.raises(IntegrityError, match=f"lacks '{lost}'"):
            load(folder)
    rewrite(folder, {**tensors, "encoder.more": torch.zeros(1)})
    with pytest.raises(IntegrityError, match=r"has 'encoder.more', which no toy"):
        load(folder)


def test_other_shapes_and_types(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(folder / "config.json", vocab_size=38)
    with pytest.raises(IntegrityError, match=r"has the shape .* asks for"):
        load(folder, [], tasks={})
    change(folder / "config.json", vocab_size=37)
    rewrite(folder, {**tensors, "encoder.table.weight": torch.zeros(37, 6, dtype=torch.int8)})
    with pytest.raises(DataError, match=r"'encoder.table.weight' in .* is of type I8.*quantized"):
        load(folder)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": "6"}, "'width'"),
        ({"width": None}, "'width'"),
        ({"depth": 3}, "'depth'"),
        ({"model_type": "lstm"}, "is 'lstm'; expected one of bert, .*toy"),
    ],
)
def test_hostile_configurations(folder: Path, values: dict[str, Any], message: str) -> None:
    change(folder / "config.json", **values)
    with pytest.raises(DataError, match=message):
        load(folder)


def test_a_configuration_of_no_format(tmp_path: Path) -> None:
    learner = make_learner(ToyConfig(), [])
    learner.encoder.config = replace(TASKS["stars"])
    with pytest.raises(ConfigError, match="no format stores a model with a TaskConfig"):
        save(tmp_path, learner, None, "")


def test_what_is_of_berts_alone(folder: Path, tmp_path: Path) -> None:
    for to in ("tensorflow", "sentence-transformers"):
        with pytest.raises(ConfigError, match="is for BERT only; this model is a toy"):
            convert(folder, tmp_path / to, to)  # type: ignore[arg-type]


def test_exports_are_of_models_that_have_graphs(folder: Path, tmp_path: Path) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    with pytest.raises(ConfigError, match=r"export is of a BERT, .* model is a toy with next_word"):
        export(folder, tmp_path / "onnx", "onnx")


def test_convert_and_inspect(folder: Path, tmp_path: Path, learner: Learner) -> None:
    done = convert(folder, tmp_path / "copy")
    assert done.parts == ("encoder", "next_word", "stars")
    assert_same(load(tmp_path / "copy").learner, learner)
    found = inspect(tmp_path / "copy")
    assert found.loads, found.reason
    assert found.sizes == {"vocab_size": 37, "width": 6}
    assert found.parts["encoder"] == {"tensors": 2, "parameters": 37 * 6 + 37}
