"""What a Transformer of sentence-transformers does with texts: lengths, cases, what is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertwright.checkpoint.sentence_transformers.folder import read_max_length
from bertwright.errors import DataError
from bertwright.storage.model_folder import read_json
from bertwright.text.tokenizer.tokenizer import BertRules, load_tokenizer, make_tokenizer
from tests.checkpoint.conftest import VOCABULARY, change

OF_TEXT = {"method": "forward", "method_output_name": "last_hidden_state"}


@pytest.mark.parametrize(
    "content",
    [
        {"max_seq_length": 9, "do_lower_case": False},
        {
            "max_seq_length": 9,
            "transformer_task": "feature-extraction",
            "modality_config": {"text": OF_TEXT},
            "module_output_name": "token_embeddings",
            "unpad_inputs": True,
        },
        {"max_seq_length": 9, "model_args": {"attn_implementation": "sdpa", "dtype": "float16"}},
        {"max_seq_length": 9, "tokenizer_args": {}, "config_args": None},
    ],
)
def test_forms_of_all_versions(folder: Path, content: dict[str, Any]) -> None:
    change(folder / "sentence_bert_config.json", **content)
    assert read_max_length(folder, read_json(folder / "config.json")) == 9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"transformer_task": "fill-mask"}, "'transformer_task' in .* is 'fill-mask'; only"),
        ({"module_output_name": "sentence_embedding"}, "only 'token_embeddings' is read"),
        ({"modality_config": "text"}, "'modality_config' in .* takes 'text' of the model"),
        (
            {"modality_config": {"text": {**OF_TEXT, "method_output_name": "pooler_output"}}},
            "only its 'last_hidden_state' is read",
        ),
        ({"tokenizer_args": {"model_max_length": 6}}, "'tokenizer_args' in .* that is not read"),
        ({"model_args": {"num_hidden_layers": 1}}, "'model_args' in .* that is not read"),
        ({"query_expansion": True}, "'query_expansion' in .* is True: that is not read"),
    ],
)
def test_what_would_give_other_vectors(folder: Path, content: Any, message: str) -> None:
    change(folder / "sentence_bert_config.json", **content)
    with pytest.raises(DataError, match=message):
        read_max_length(folder, read_json(folder / "config.json"))


def test_texts_that_lose_their_start(folder: Path) -> None:
    change(folder / "tokenizer_config.json", truncation_side="left")
    with pytest.raises(DataError, match=r"'truncation_side' in .* is 'left'"):
        read_max_length(folder, read_json(folder / "config.json"))
    change(folder / "tokenizer_config.json", truncation_side="right")
    assert read_max_length(folder, read_json(folder / "config.json")) == 17


def test_lower_case_is_the_tokenizers_own(folder: Path) -> None:
    """Whatever its configuration says: what it does with a capital is looked at."""
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    assert read_max_length(folder, read_json(folder / "config.json")) == 17
    make_tokenizer(VOCABULARY, BertRules(lowercase=False)).save(folder)
    with pytest.raises(DataError, match="lower case"):
        read_max_length(folder, read_json(folder / "config.json"))
    told = json.loads((folder / "tokenizer_config.json").read_text())
    del told["do_lower_case"]
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(DataError, match="lower case"):
        read_max_length(folder, read_json(folder / "config.json"))


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("name", ["BertTokenizer", "BertTokenizerFast", None])
def test_two_files_that_contradict_each_other(
    folder: Path, lowercase: bool, name: str | None
) -> None:
    """`tokenizer_config.json` counts, as with transformers."""
    make_tokenizer(VOCABULARY, BertRules(lowercase=lowercase)).save(folder)
    change(folder / "tokenizer_config.json", do_lower_case=not lowercase, tokenizer_class=name)
    change(folder / "tokenizer_config.json", tokenize_chinese_chars=False, strip_accents=True)
    found = load_tokenizer(folder)
    assert found.rules == BertRules(not lowercase, True, False)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
    for text in ("A b", "\u00c9a", "a \u65e5\u672c"):
        assert found.encode(text).ids == theirs(text)["input_ids"]


def test_a_class_that_takes_its_file_as_it_is(folder: Path) -> None:
    told = {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast"}
    change(folder / "tokenizer_config.json", **told)
    assert load_tokenizer(folder).rules.lowercase
