"""Every system is shown with the same held-out text and words, which a fixed rule chooses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.inference.score import TextScore
from bertwright.recipes.compare import examples
from bertwright.recipes.compare.examples import Chosen, Prompt, choose
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_tokenizer
from tests.contract.conftest import config_of
from tests.small_runs import WORDS, build_data, train


@pytest.fixture
def words() -> Tokenizer:
    """A vocabulary in the order of frequency."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return make_tokenizer([*special, ".", *WORDS])


def held_out(folder: Path, *sentences: str) -> Path:
    path = folder / "held-out.txt"
    path.write_text("\n\n".join(sentences), encoding="utf-8")
    return path


def test_text_and_words_are_of_known_words_and_always_the_same(
    words: Tokenizer, tmp_path: Path
) -> None:
    known = [" ".join(WORDS[n : n + 12]) + " ." for n in range(0, 40, 4)]
    unknown = [
        each.replace(WORDS[n], "zzz") for n, each in zip(range(2, 42, 4), known, strict=True)
    ]
    path = held_out(tmp_path, *unknown, *known, *known, "too short .")
    chosen = choose(path, words)
    assert chosen == choose(path, words)
    texts = [chosen.sentence, *(f"{prompt.text} {prompt.rest}" for prompt in chosen.prompts)]
    assert len({*texts}) == examples.PROMPTS + 1
    assert {*texts} <= {*known}
    assert len(chosen.words) == examples.WORDS
    assert {*chosen.words} <= {*chosen.candidates} <= {*WORDS}
    ranks = [WORDS.index(word) for word in chosen.words]
    assert ranks == sorted(ranks)


def test_text_without_a_fitting_sentence_has_words_alone(words: Tokenizer, tmp_path: Path) -> None:
    chosen = choose(held_out(tmp_path, " ".join(WORDS[:9])), words)
    assert (chosen.prompts, chosen.sentence) == ((), "")
    assert chosen.words


def test_a_mask_takes_the_place_of_the_word_after_the_prompt() -> None:
    assert Prompt("He said", "(loudly) no.").masked("[MASK]") == ("He said ([MASK]) no.", "loudly")
    assert examples._prompt("今天下雨并且刮风") == Prompt("今天下雨", "并且刮风")


def test_the_bits_of_a_word_are_those_of_its_tokens() -> None:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = make_tokenizer([*special, "read", "##ing", "on"])
    score = TextScore([5, 6, 7, 3], np.log([0.5, 0.25, 0.125, 0.5]))
    found = examples._bits_of_words(tokenizer, score)
    assert found["words"] == ["reading", "on", examples.END]
    assert found["bits"] == pytest.approx([3, 3, 1])


@pytest.mark.parametrize(
    ("system", "kinds"),
    [
        ("ngram", {"continuations", "surprisal"}),
        ("gpt2", {"continuations", "surprisal", "neighbours"}),
        ("bert", {"fills", "surprisal", "neighbours"}),
    ],
)
def test_a_system_shows_what_it_can_do(system: str, kinds: set[str], tmp_path: Path) -> None:
    data = build_data(tmp_path)
    train(config_of(system, data, tmp_path / "run"))
    prompts = tuple(
        Prompt(" ".join(WORDS[n : n + 4]), " ".join(WORDS[n + 4 : n + 6])) for n in (0, 9)
    )
    sentence = " ".join(WORDS[3:11])
    chosen = Chosen(prompts, sentence, (WORDS[4], WORDS[7]), tuple(WORDS[2:20]))
    found = examples.examples(tmp_path / "run", chosen, "neighbours" in kinds, "cpu")
    assert {*found} - {"prompts", "pseudo"} == kinds
    for kind in kinds & {"continuations", "fills"}:
        assert len(found[kind]) == len(prompts)
    assert found["surprisal"]["words"][:8] == WORDS[3:11]
    assert min(found["surprisal"]["bits"]) > 0
    assert found["pseudo"] is (system == "bert")
    for word, near in found.get("neighbours", {}).items():
        assert word not in near
        assert len(near) == examples.NEAREST
        assert {*near} <= {*chosen.candidates}
