"""The doctor: a healthy corpus passes, each disease is found and named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.data.build import build_shards
from bertwright.data.checkup import Checkup, Finding
from bertwright.data.doctor import check, scan_shards
from bertwright.data.shards import Shards
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_pairs import MaskedPairs
from bertwright.text.tokenizer.tokenizer import make_tokenizer

WORDS = [f"w{number}" for number in range(400)]
Examine = Callable[..., tuple[Checkup, dict[str, Finding]]]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer([*SPECIAL, *WORDS]).save(folder)
    return folder


def sentence(chance: np.random.Generator, words: int = 0) -> str:
    return " ".join(chance.choice(WORDS, words or chance.integers(5, 25)))


def pairs(
    instances: InstanceConfig | None = None, masking: MaskingConfig | None = None
) -> Callable[[Shards], MaskedPairs]:
    given = instances or InstanceConfig(), masking or MaskingConfig()
    return lambda shards: MaskedPairs(shards, *given, validation_fraction=0)


@pytest.fixture
def examine(tmp_path: Path, tokenizer_folder: Path) -> Examine:
    """Build documents, and check them."""

    def examine(
        documents: list[list[str]], tokenizer: Path = tokenizer_folder, **options: Any
    ) -> tuple[Checkup, dict[str, Finding]]:
        corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
        corpus.write_text("\n\n".join("\n".join(lines) for lines in documents), encoding="utf-8")
        lines = CorpusConfig(sentences="line")
        build_shards([str(corpus)], out, tokenizer, lines, workers=1, overwrite=True)
        checkup = check(out, pairs(**options))
        return checkup, {finding.name: finding for finding in checkup.findings}

    return examine


def healthy(documents: int = 60) -> list[list[str]]:
    chance = np.random.default_rng(2)
    return [[sentence(chance) for _ in range(25)] for _ in range(documents)]


def test_a_healthy_corpus_has_no_errors(examine: Examine) -> None:
    checkup, found = examine(healthy())
    assert checkup.errors == 0
    assert [f.name for f in checkup.findings if f.level == "warning"] == ["held_out", "size"]
    assert abs(float(found["next_sentence_ratio"].value) - 0.5) < 0.1
    assert abs(float(found["predicted_tokens"].value) - 0.15) < 0.01
    shares = [
        int(each)
        for each in re.findall(r"(\d+)% (?:are|rep|kept)", found["predicted_tokens"].message)
    ]
    assert shares == pytest.approx([80, 10, 10], abs=4)
    assert sum(map(float, re.findall(r"-\d+ ([\d.]+)%", found["instances"].message))) == (
        pytest.approx(100, abs=0.5)
    )
    assert all(f.advice for f in checkup.findings if f.level != "ok")
    json.dumps(checkup.as_dict(), allow_nan=False)


def of_long_sentences() -> list[list[str]]:
    chance = np.random.default_rng(3)
    return [[sentence(chance, 300) for _ in range(4)] for _ in range(20)]


def without(word: str) -> list[list[str]]:
    return [[line.replace(word, "x") for line in lines] for lines in healthy()]


LINES = [line for document in healthy(20) for line in document]
MLM = {"instances": InstanceConfig(objectives="mlm")}
DISEASES: list[tuple[list[list[str]], dict[str, Any], dict[str, tuple[str, str]]]] = [
    (
        [LINES * 3],
        {},
        {"documents": ("warning", "no blank lines"), "files_of_one_document": ("warning", "")},
    ),
    (
        [[line] for line in LINES],
        {},
        {
            "one_sentence_documents": ("error", "--instances.objectives mlm"),
            "next_sentence_ratio": ("error", "--instances.objectives mlm"),
        },
    ),
    (without("w1"), {}, {"unknown_tokens": ("error", "tokenizer train")}),
    (without("w17"), {}, {"unknown_tokens": ("warning", "")}),  # 11 words of 400
    (of_long_sentences(), {}, {"truncated": ("error", "--sentences split")}),
    ([*healthy(), ["\u200e"], ["\u200e"]], {}, {"lost_documents": ("warning", "")}),
]


@pytest.mark.parametrize(("documents", "options", "expected"), DISEASES)
def test_diseases(
    examine: Examine,
    documents: list[list[str]],
    options: dict[str, Any],
    expected: dict[str, tuple[str, str]],
) -> None:
    _, found = examine(documents, **options)
    for name, (level, advice) in expected.items():
        assert found[name].level == level, name
        assert advice in found[name].advice, name


def test_other_objectives(examine: Examine) -> None:
    checkup, found = examine(healthy(), **MLM, masking=MaskingConfig(whole_word=True))
    assert checkup.errors == 0
    assert "next_sentence_ratio" not in found
    assert examine([[line] for line in LINES], **MLM)[0].errors == 0


def test_duplicate_lines(examine: Examine) -> None:
    documents = healthy()
    for document in documents:
        document[3] = document[10] = " ".join(WORDS[:12])
    _, found = examine(documents)
    assert found["duplicate_sentences"].level == "warning"
    assert "120 times): 'w0 w1 w2" in found["duplicate_sentences"].message
    assert "--deduplicate" in found["duplicate_sentences"].advice


def test_rows_without_text_are_lost_documents(tmp_path: Path, tokenizer_folder: Path) -> None:
    corpus, chance = tmp_path / "corpus.jsonl", np.random.default_rng(5)
    rows = [sentence(chance) for _ in range(20)] + ["", "\u200e"]
    corpus.write_text("\n".join(json.dumps({"text": text}) for text in rows), encoding="utf-8")
    build_shards([str(corpus)], tmp_path / "out", tokenizer_folder, workers=1)
    found = {finding.name: finding for finding in check(tmp_path / "out").findings}
    assert found["lost_documents"].value == 2
    assert "2 of 22 documents" in found["lost_documents"].message
    assert not found.keys() & {"instances", "next_sentence_ratio"}  # of no model


def test_an_example_of_chinese_has_no_blanks_between_characters(
    tmp_path: Path, examine: Examine
) -> None:
    make_tokenizer([*SPECIAL, *"我们喜欢北京。的《》", "a", "b"]).save(tmp_path / "tokenizer")
    documents = [["我们喜欢北京的《北京》。", "a b"]] * 12
    _, found = examine(documents, tmp_path / "tokenizer")
    assert "'我们喜欢北京的《北京》。'" in found["duplicate_sentences"].message


def test_a_vocabulary_for_no_masked_lm(tmp_path: Path, examine: Examine) -> None:
    make_tokenizer(["[UNK]", *WORDS]).save(tmp_path / "tokenizer")
    checkup, found = examine(healthy(), tmp_path / "tokenizer")
    assert checkup.errors == 1
    assert "--special-tokens bert" in found["instances"].message
    assert found["unknown_tokens"].value == 0


def test_the_same_words_in_another_order_are_no_repeat(make_shards: Callable[..., Shards]) -> None:
    # Eight ids come round: sentences of eight tokens are turns of each other, those of three short.
    shards = make_shards([[8, 3] * 8], vocab_size=13)
    scan = scan_shards(shards)
    assert (scan.repeated, scan.most_repeated) == (0, None)
    assert scan_shards(make_shards([[8, 3] * 9], "more", vocab_size=13)).most_repeated_times == 2


def test_repeats_are_estimated_from_a_fraction(
    make_shards: Callable[..., Shards], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertwright.data.doctor.MOST_KEPT", 100)
    monkeypatch.setattr("bertwright.data.doctor.CHUNK_TOKENS", 500)
    # Ids count up modulo 92: sentences of 23 tokens repeat after four.
    scan = scan_shards(make_shards([[23] * 10] * 100))
    assert scan.repeated == 0.996
    assert scan.most_repeated_times == 250
    assert scan.id_counts.sum() == 23_000
    lengths = [[23, 24] * 100] * 8
    distinct = scan_shards(make_shards(lengths, "distinct", vocab_size=49_999))
    assert distinct.repeated < 0.25
    assert distinct.most_repeated is None
    twice = scan_shards(make_shards(lengths * 2, "twice", vocab_size=5 + 8 * 4700))
    assert abs(twice.repeated - 0.5) < 0.12
    assert twice.most_repeated_times == 2


def test_markup_in_the_text(examine: Examine) -> None:
    documents = healthy()
    for document in documents:
        document[4] = '<doc id="7" url="https://x.org/wiki?curid=7">'
    documents += [["w1 w2 w3"] for _ in range(20)]
    _, found = examine(documents)
    for name, value in (("tags", 60), ("urls", 60), ("title_documents", 20)):
        assert (found[name].level, found[name].value) == ("warning", value)
    assert "60 tags" in found["tags"].message
    assert "--strip-markup" in found["tags"].advice
    assert "templates" not in found
    assert "variants" not in found


def test_chinese_variants_in_the_text(examine: Examine) -> None:
    documents = healthy()
    documents[0][4] = "-{zh-tw:w1;zh-cn:w2}- w3"
    _, found = examine(documents)
    assert (found["variants"].level, found["variants"].value) == ("warning", 1)
    assert "variant=zh-" in found["variants"].advice
