"""The inventory of what a user has: its parts that need no runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from docs.generator.options import type_of
from tests.inventory import folders_below, keys, names, options, presets


def test_options_have_types_choices_and_defaults() -> None:
    found = [*options()]
    assert len(found) == len({*found})
    assert "embed --dtype: {float32, float16, int8, binary} = float32" in found
    assert "pretrain --data: str" in found
    assert any(line.startswith("tokenizer train --vocab-size: int = ") for line in found)
    # an option of some systems alone names them
    (masking,) = [line for line in found if line.startswith("pretrain --masking.whole-word")]
    assert "bert" in masking.partition("[")[2]
    assert "gpt2" not in masking.partition("[")[2]


def test_names_have_parameters_and_results() -> None:
    found = [*names()]
    assert "bertwright.load() -> Model" in found
    assert "bertwright.finetune(kind: str)" in found
    assert "bertwright.Run.metrics" in found
    assert any(line.startswith("bertwright.load(...).embed(pooling: ") for line in found)


def test_presets_have_sizes() -> None:
    (base,) = [line for line in presets() if line.startswith("bert: bert-base: ")]
    assert "hidden_size=768 num_hidden_layers=12 num_attention_heads=12" in base


def test_types_are_short() -> None:
    assert type_of(Path | None) == "path | none"
    assert type_of(Literal["a", "b"] | str) == "str | {a, b}"
    assert type_of(tuple[int, ...]) == "int..."


def test_keys_of_rows_are_merged() -> None:
    rows = [{"a": 1, "b": [{"c": "x"}, {"c": None}]}, {"a": True, "figures": {"of one": 0.5}}]
    assert [*keys(rows)] == ["a: boolean | number", "b[].c: null | text", "figures.*: number"]


def test_checkpoints_of_any_step_are_one_line(tmp_path: Path) -> None:
    for name in ("checkpoints/step-00000006/config.json", "checkpoints/step-00000012/card.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert [*folders_below(tmp_path)] == ["checkpoints/step-N/ card.md config.json"]
