"""Exported decoders write as ours do: token by token, with the state that goes in and out."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.export.check_decoder import check_decoder
from bertwright.checkpoint.export.decoders import graphs_of
from bertwright.checkpoint.export.exported import Session, open_exported
from bertwright.checkpoint.export.padded import Graph
from bertwright.checkpoint.export.write import export
from bertwright.errors import BertwrightError, ConfigError, DataError
from bertwright.inference.model import load
from bertwright.models.bert.config import LeftToRightBertConfig
from bertwright.models.bert2rnd.config import Bert2RndConfig
from bertwright.models.gpt.config import Gpt2Config, GptConfig
from bertwright.models.seq2seq.config import Seq2SeqConfig
from bertwright.models.transformer.config import TransformerConfig
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.house.source import ROOT
from tests.small_runs import SPECIAL, WORDS

V = len(SPECIAL) + len(WORDS)
GPT_SIZES: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 19,
}
SOURCE_SIZES: dict[str, Any] = {"vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2}
TRANSFORMER = {**SOURCE_SIZES, "num_attention_heads": 3, "intermediate_size": 20}
CONFIGS: dict[str, Any] = {
    "gpt": GptConfig(**GPT_SIZES),
    "gpt2": Gpt2Config(**GPT_SIZES),
    "bert-ltr": LeftToRightBertConfig(**GPT_SIZES, intermediate_size=40),
    "transformer": TransformerConfig(**TRANSFORMER, max_position_embeddings=16),
    "pre-norm": TransformerConfig(**TRANSFORMER, max_position_embeddings=16, norm="pre"),
    "bert2rnd": Bert2RndConfig(**TRANSFORMER, max_position_embeddings=16, num_decoder_layers=1),
}
PROMPTS = ["ba be", "do ga ke mi no pu ba", "fu"]


def learner_of(name: str) -> Learner:
    """Random weights, none of them 0."""
    head = "translation" if CONFIGS[name].max_position_embeddings == 16 else "next_token"
    learner = make_learner(CONFIGS[name], [head]).eval()
    generator = torch.Generator().manual_seed(1)
    for parameter in learner.parameters():
        parameter.data.normal_(0, 0.3, generator=generator)
    return learner


def in_torch(graph: Graph) -> Session:
    """A graph run by torch, as a runtime runs its file."""

    def run(feed: Any) -> list[Any]:
        assert feed.keys() == graph.inputs.keys()
        ids, mask, *state = (torch.from_numpy(feed[name]) for name in graph.inputs)
        with torch.inference_mode():
            found = graph(ids, mask, state)
        assert len(found) == len(graph.outputs)
        return [each.numpy() for each in found]

    return run


@pytest.mark.parametrize("name", CONFIGS)
def test_graphs_are_ours(name: str) -> None:
    learner = learner_of(name)
    graphs = [graph.eval() for graph in graphs_of(learner)]
    assert check_decoder(learner, graphs, [in_torch(graph) for graph in graphs]) < 1e-5


def test_a_state_that_is_off_is_refused() -> None:
    learner = learner_of("gpt2")
    graphs = graphs_of(learner)
    run = in_torch(graphs[0])

    def off(feed: Any) -> list[Any]:
        logits, *present = run(feed)
        return [logits, *(each[::-1].copy() for each in present)]  # rows of others

    with pytest.raises(BertwrightError, match="logits"):
        check_decoder(learner, graphs, [off])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_prompt_is_padded_on_either_side(side: str) -> None:
    (graph,) = graphs_of(learner_of("gpt"))
    run, rows, more = in_torch(graph), [[7, 8, 9, 10], [5, 6]], [11, 12]
    names = [name.replace("present", "past_key_values") for name in graph.outputs][1:]

    def read(ids: Any, mask: Any, state: Any = None) -> tuple[Any, Any]:
        """Logits of the last column, and the state."""
        state = state or {name: np.zeros((len(ids), 3, 0, 8), np.float32) for name in names}
        logits, *present = run({"input_ids": ids, "attention_mask": mask, **state})
        return logits[:, -1], dict(zip(names, present, strict=True))

    whole = [np.array([[*row, new]]) for row, new in zip(rows, more, strict=True)]
    alone = np.concatenate([read(ids, np.ones_like(ids))[0] for ids in whole])
    ids = np.array([rows[0], [0, 0, *rows[1]] if side == "left" else [*rows[1], 0, 0]])
    mask = (ids > 0).astype(np.int64)
    _, state = read(ids, mask)
    new = np.array(more)[:, None]
    together, _ = read(new, np.concatenate([mask, np.ones_like(new)], 1), state)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def write_model(folder: Path, name: str) -> Path:
    """Random weights and a tokenizer."""
    folder.mkdir()
    make_tokenizer([*SPECIAL, *WORDS]).save(folder / "tokenizer")
    learner = learner_of(name)
    heads: Any = learner.objectives
    if "translation" in heads:
        heads["translation"].bias.data[3] = 2.0  # or it would never end
    (folder / "model").mkdir()
    save(folder / "model", learner, folder / "tokenizer", "")
    return folder / "model"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """A model and its export, made once."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    home = tmp_path_factory.mktemp("decoders")

    def make(name: str) -> tuple[Path, Path]:
        if not (home / name).exists():
            facts = export(write_model(home / name, name), home / name / "onnx", "onnx")
            assert facts["largest_difference"] < 1e-5
        return home / name / "model", home / name / "onnx"

    return make


def programs() -> list[str]:
    """Of the section of docs/howto/checkpoints.md: the GPT's, then the translation's."""
    text = (ROOT / "docs" / "howto" / "checkpoints.md").read_text("utf-8")
    section = text[text.index("#### A decoder with its cache") :]
    return re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)[:2]


def printed(program: str, folder: Path, given: str) -> list[str]:
    """What a program of the documents prints for PROMPTS."""
    shown = re.search(r"^texts = (\[.*\])$", program, re.M)
    assert shown
    program = program.replace(given, str(folder)).replace(shown[1], repr(PROMPTS))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "docs/howto/checkpoints.md", "exec"), {})
    return out.getvalue().splitlines()


@pytest.mark.slow
def test_the_program_of_the_page_continues_as_ours(
    exported: Callable[[str], tuple[Path, Path]],
) -> None:
    model, folder = exported("gpt2")
    ours = load(model).generate(PROMPTS, max_new_tokens=10)
    expected = [prompt + found.text for prompt, (found,) in zip(PROMPTS, ours, strict=True)]
    found = printed(programs()[0].replace("range(40)", "range(10)"), folder, "gpt-onnx")
    assert [each.replace(" ", "") for each in found] == [each.replace(" ", "") for each in expected]
    assert len({len(each) for each in found}) > 1


@pytest.mark.slow
def test_the_program_of_the_page_translates_as_ours(
    exported: Callable[[str], tuple[Path, Path]],
) -> None:
    model, folder = exported("bert2rnd")
    expected = load(model).translate(PROMPTS, beam=1, max_length=10)
    found = printed(programs()[1].replace("range(100)", "range(10)"), folder, "en-de-onnx")
    assert found == [each.text for each in expected]


@pytest.mark.slow
def test_what_the_folder_says(exported: Callable[[str], tuple[Path, Path]]) -> None:
    model, folder = exported("gpt2")
    facts = json.loads((folder / "export.json").read_text())
    assert facts["begin"] == 2
    assert facts["ends"] == [3]
    takes = facts["graphs"]["model.onnx"]["inputs"]
    assert takes["input_ids"] == ["int64", ["batch", "sequence"]]
    assert takes["past_key_values.1.value"] == ["float32", ["batch", 3, "past", 8]]
    with pytest.raises(DataError, match=r"decoder.*model\.onnx"):
        open_exported(folder)
    with pytest.raises(ConfigError, match="--task, --layers and --int8"):
        export(model, folder.with_name("no"), "onnx", int8=True)


@pytest.mark.slow
def test_openvino_gives_the_same(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("openvino")
    facts = export(write_model(tmp_path / "home", "gpt2"), tmp_path / "out", "openvino")
    assert facts["largest_difference"] < 1e-4
    assert all((tmp_path / "out" / graph).is_file() for graph in facts["graphs"])
    assert not list((tmp_path / "out").glob("*.onnx*"))


def test_models_without_such_graphs() -> None:
    learner = learner_of("gpt")
    del learner.objectives["next_token"]
    with pytest.raises(ConfigError, match="gpt with no head"):
        graphs_of(learner)
    lstm = make_learner(Seq2SeqConfig(**SOURCE_SIZES, embedding_size=10), ["translation"])
    with pytest.raises(ConfigError, match="seq2seq with translation"):
        graphs_of(lstm)


def test_what_cannot_be_exported_is_told_no_options(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    (tmp_path / "words.vec").write_text("door 1 0 2\nhouse 0 1 1\n")
    convert(tmp_path / "words.vec", tmp_path / "words")
    with pytest.raises(ConfigError, match="this model is a"):
        export(tmp_path / "words", tmp_path / "out", "onnx", int8=True)
