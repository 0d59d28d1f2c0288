"""Prompts of a GPT-2 that was not trained here begin as transformers begins them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import bertwright
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.config.generation import GenerationConfig
from bertwright.inference.generate import make_prompts
from tests.parity.conftest import transformers

MERGES = "merges.txt"
PROMPTS = ["the cat", "a", " on the mat", "a<|endoftext|>b", "it is a cat on the mat"]
RULES: dict[str, tuple[dict[str, Any], Any]] = {
    "as published": ({}, None),
    "a begin token in the template": (
        {"tokenizer_class": "PreTrainedTokenizerFast"},
        [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}],
    ),
    "add_bos_token beside tokenizer.json": ({"add_bos_token": True}, None),
    "merges alone": ({}, MERGES),
    "add_bos_token beside merges": ({"add_bos_token": True}, MERGES),
}


def write_gpt2(folder: Path, config: dict[str, Any], begin: Any) -> Any:
    """A GPT-2 of random weights, written by transformers, with a tokenizer of this rule."""
    letters = [*"abcdefghijklmnopqrstuvwxyz", "\u0120"]
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("c", "a"), ("ca", "t")]
    entries = [*letters, *("".join(pair) for pair in merges), "<|endoftext|>"]
    vocab = {token: number for number, token in enumerate(entries)}
    transformers.GPT2Tokenizer(vocab=vocab, merges=merges).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    if begin == MERGES:
        (folder / "tokenizer.json").unlink()
        (folder / "vocab.json").write_text(json.dumps(vocab))
        lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
        (folder / MERGES).write_text("\n".join(lines), encoding="utf-8")
    elif begin:
        path = folder / "tokenizer.json"
        end = entries.index("<|endoftext|>")
        special = {"id": "<|endoftext|>", "ids": [end], "tokens": ["<|endoftext|>"]}
        text = {"Sequence": {"id": "A", "type_id": 0}}
        pair = [*begin, text, {"Sequence": {"id": "B", "type_id": 1}}]
        rule: dict[str, Any] = {
            "type": "TemplateProcessing",
            "single": [*begin, text],
            "pair": pair,
        }
        rule["special_tokens"] = {"<|endoftext|>": special}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": rule}))
    torch.manual_seed(5)
    ends = {"bos_token_id": len(vocab) - 1, "eos_token_id": len(vocab) - 1}
    sizes = {"vocab_size": len(vocab), "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 40}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ends)).eval()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("rule", RULES)
def test_generated_as_theirs(rule: str, tmp_path: Path) -> None:
    theirs = write_gpt2(tmp_path / "gpt2", *RULES[rule])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    convert(tmp_path / "gpt2", tmp_path / "converted", "huggingface")
    for folder in ("gpt2", "converted"):
        ours = bertwright.load(tmp_path / folder)
        prompts = make_prompts(ours.runner, PROMPTS, GenerationConfig(max_new_tokens=12))
        found = ours.generate(PROMPTS, max_new_tokens=12)
        for text, prompt, (own, *_) in zip(PROMPTS, prompts, found, strict=True):
            ids = tokenizer(text, return_tensors="pt").input_ids
            assert prompt.ids == ids[0].tolist(), (folder, text)
            with torch.inference_mode():
                whole = theirs.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=12,
                    do_sample=False,
                    pad_token_id=theirs.config.eos_token_id,
                )
            new = whole[0, ids.shape[1] :]
            assert own.text == tokenizer.decode(new, skip_special_tokens=True), (folder, text)


def test_rules_differ(tmp_path: Path) -> None:
    begins = []
    for number, rule in enumerate(RULES.values()):
        write_gpt2(tmp_path / str(number), *rule)
        runner = bertwright.load(tmp_path / str(number)).runner
        (prompt,) = make_prompts(runner, ["a"], GenerationConfig())
        begins.append(len(prompt.ids) - 1)
        (empty,) = make_prompts(runner, [""], GenerationConfig())
        assert empty.ids == [runner.tokenizer.special["bos"]]
    assert begins == [0, 1, 0, 0, 1]


def test_trained_here_begins_as_its_training_did(tmp_path: Path) -> None:
    write_gpt2(tmp_path / "gpt2", *RULES["as published"])
    learner = checkpoint.load(tmp_path / "gpt2").learner
    (tmp_path / "ours").mkdir()
    checkpoint.save(tmp_path / "ours", learner, tmp_path / "gpt2", "a card")
    runner = bertwright.load(tmp_path / "ours").runner
    (prompt,) = make_prompts(runner, ["a"], GenerationConfig())
    assert prompt.ids == [runner.tokenizer.special["bos"], runner.tokenizer.vocab["a"]]
