"""BPE of bytes, and the tokenizer folders of GPT and GPT-2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.text.framing import Framing
from bertwright.text.tokenizer.files import ROBERTA_TOKENS, UnusedMerges
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.text.tokenizer.train import train_tokenizer
from tests.text.tokenizer.saved import saved_backend

TEXT = "The old house near the river was quiet.\nNobody walked there, said the old man.\n\n" * 4


def trained(folder: Path, **settings: object) -> Tokenizer:
    (folder / "corpus.txt").write_text(TEXT, encoding="utf-8")
    config = TokenizerConfig(algorithm="byte-bpe", vocab_size=300, **settings)  # type: ignore[arg-type]
    tokenizer, training = train_tokenizer([str(folder / "corpus.txt")], CorpusConfig(), config)
    assert training["vocab_size"] == tokenizer.vocab_size == 300
    return tokenizer


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_text_comes_back(tmp_path: Path, lowercase: bool) -> None:
    transformers = pytest.importorskip("transformers")
    trained(tmp_path, lowercase=lowercase).save(tmp_path / "out")
    tokenizer = load_tokenizer(tmp_path / "out")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("The old man's house", "caf\u00e9 \u4e2d \U0001f600", "  two  blanks\n"):
        (ids,) = tokenizer.encode_bare_ids([text])
        assert tokenizer.decode(ids) == (text.lower() if lowercase else text)
        assert theirs(text)["input_ids"] == ids
    end = tokenizer.vocab["<|endoftext|>"]
    assert tokenizer.framing == Framing((end,), (end,))
    assert theirs.eos_token_id == end


def test_vocab_json_and_merges_alone_are_gpt_2s(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, lowercase=False)
    model = json.loads(saved_backend(tokenizer).to_str())["model"]
    published = tmp_path / "published"
    published.mkdir()
    (published / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    (published / "merges.txt").write_text("\n".join(lines) + "\n")
    again = load_tokenizer(published)
    assert again.special == tokenizer.special
    for text in ("The old house", "a<|endoftext|>b"):
        assert again.encode(text).ids == tokenizer.encode(text).ids
    (published / "merges.txt").write_text("#version: 0.2\nq z x\n")
    with pytest.raises(DataError, match="of a BPE"):
        load_tokenizer(published)


def test_gpts_words_have_an_end(tmp_path: Path) -> None:
    vocab = {"<unk>": 0, "a": 1, "b</w>": 2, "ab</w>": 3, "c</w>": 4}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b</w>\n")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("AB c ?").ids == [3, 4, 0]
    assert tokenizer.decode([3, 4]) == "ab c"
    assert tokenizer.framing == Framing()


def test_merges_of_no_token_are_left_out(tmp_path: Path) -> None:
    """RobBERT's merges.txt has some whose product is not in vocab.json."""
    vocab = {token: n for n, token in enumerate([*ROBERTA_TOKENS.values(), *"abc", "ab"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nb c\na b\nx y\n")
    with pytest.warns(UnusedMerges, match=r"merges\.txt has 2 merges .*'b c'"):
        tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("abc").tokens == ["<s>", "ab", "c", "</s>"]


def test_special_tokens_of_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="--special-tokens bert"):
        TokenizerConfig(algorithm="byte-bpe", special_tokens="bert")


def test_a_vocabulary_without_room_for_the_bytes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="257"):
        train_tokenizer([], CorpusConfig(), TokenizerConfig(algorithm="byte-bpe", vocab_size=256))


def test_a_text_has_its_begin_and_end_where_the_library_adds_none(tmp_path: Path) -> None:
    tokenizer = trained(tmp_path, lowercase=False)
    assert not saved_backend(tokenizer).num_special_tokens_to_add(False)
    end = tokenizer.vocab["<|endoftext|>"]
    texts = "The old house", "Nobody walked"
    bare = tokenizer.encode_bare_ids(texts)
    one, two = tokenizer.encode(texts[0]), tokenizer.encode(*texts)
    assert one.ids == [end, *bare[0], end]
    assert two.ids == [end, *bare[0], end, *bare[1], end]
    assert one.tokens == tokenizer.tokens_of(one.ids)
    assert one.offsets[0] == one.offsets[-1] == (0, 0)
    assert one.offsets[1:-1] == saved_backend(tokenizer).encode(texts[0]).offsets
    assert two.type_ids == [0] * (len(bare[0]) + 2) + [1] * (len(bare[1]) + 1)
    assert [n is None for n in one.word_ids] == [True, *[False] * len(bare[0]), True]
    (special,) = tokenizer.encode_bare_ids(["a<|endoftext|>b"])
    assert special.count(end) == 1
    assert tokenizer.decode(special, skip_special_tokens=False) == "a<|endoftext|>b"
