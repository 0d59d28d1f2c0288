"""The tokenizers of RoBERTa and XLM-R frame texts as `tokenizer.json` does, as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tokenizers
from tokenizers import (
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from bertwright.text.framing import Framing
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from tests.text.tokenizer.sample import SPECIAL, TEXTS, byte_bpe, unigram

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("make", [byte_bpe, unigram])
def test_ids_are_those_of_the_library(make: object, tmp_path: Path) -> None:
    assert callable(make)
    backend = make()
    backend.save(str(tmp_path / "tokenizer.json"))  # no file names its special tokens
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.framing == Framing((0,), (2,), (2,))
    assert [tokenizer.special[role] for role in ("cls", "pad", "sep", "unk", "mask")] == [*range(5)]
    for text in TEXTS:
        assert tokenizer.encode(text).ids == backend.encode(text).ids
        assert tokenizer.encode(text, TEXTS[0]).ids == backend.encode(text, TEXTS[0]).ids
    ids = tokenizer.encode("The cat <mask> there.").ids
    assert ids == backend.encode("The cat <mask> there.").ids
    assert ids.count(4) == 1
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint


def test_a_folder_of_vocabulary_and_merges(tmp_path: Path) -> None:
    backend = byte_bpe()
    backend.model.save(str(tmp_path))  # vocab.json and merges.txt, as the oldest folders have
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.framing == Framing((0,), (2,), (2,))
    for text in [*TEXTS, "The <mask> sat."]:
        assert tokenizer.encode(text, TEXTS[1]).ids == backend.encode(text, TEXTS[1]).ids
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    assert tokenizer.encode(TEXTS[0], TEXTS[1]).ids == theirs(TEXTS[0], TEXTS[1])["input_ids"]


def test_tokens_are_shown_as_text(tmp_path: Path) -> None:
    byte_bpe().save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.encode("on the mat").ids[1:-1]
    assert "".join(tokenizer.shown(ids)) == "on the mat"
    assert any("\u0120" in token for token in tokenizer.tokens_of(ids))


def test_albert_and_mpnet_without_names_of_their_tokens(tmp_path: Path) -> None:
    albert = tokenizers.Tokenizer(models.Unigram())
    albert.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    albert.train_from_iterator(TEXTS, trainer)
    albert.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    words = [*SPECIAL, "[UNK]", "the", "cat", "##s"]
    mpnet = tokenizers.Tokenizer(
        models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    mpnet.normalizer = normalizers.BertNormalizer()
    mpnet.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    mpnet.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    mpnet.add_special_tokens(words[:6])
    roles = ("pad", "unk", "cls", "sep", "mask")
    for backend, expected, between in ((albert, [*range(5)], ()), (mpnet, [1, 5, 0, 2, 4], (2,))):
        backend.save(str(tmp_path / "tokenizer.json"))
        tokenizer = load_tokenizer(tmp_path)
        assert [tokenizer.special[role] for role in roles] == expected
        assert tokenizer.framing.between == between
        found, theirs = (x.encode("The cats zoo", TEXTS[0]) for x in (tokenizer, backend))
        assert found.ids == theirs.ids
        assert between or list(found.type_ids) == theirs.type_ids  # MPNet has no segments
