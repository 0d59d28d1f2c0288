"""Counting: what the tokenizer sees, the same for any number of workers, bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.word_counts import WordCounts, count_block, count_words
from tests.text.published_rules import basic_tokenize

BLOCKS = [
    ["The cat sat.\nThe dog, too!", "Caf\u00e9 \u6728\u6751 the\u00a0end"],
    ["A cat\x0bb \u2014 caf\u00e9\u2026", "\ud800 lone"],
    ["the THE The"],
] * 5


def test_counts_words_as_they_are_cut() -> None:
    counted = count_words(BLOCKS[:3], BertRules(), workers=1)
    text = " ".join(document for block in BLOCKS[:3] for document in block)
    assert counted.counts == Counter(basic_tokenize(text.replace("\ud800", "")))
    assert counted.documents == 5
    assert counted.words == sum(counted.counts.values())


@given(st.lists(st.text(), max_size=3), st.booleans(), st.booleans())
def test_any_text_counts_like_the_published_rules(
    texts: list[str], lowercase: bool, chinese: bool
) -> None:
    old = [t for t in texts if t.isascii() or all(ord(c) < 0x500 and c != "\u03a3" for c in t)]
    counted = count_block(old, BertRules(lowercase, None, chinese))
    words: Counter[str] = Counter()
    for text in old:
        words.update(basic_tokenize(text, lowercase, None, chinese))
    assert counted.counts == words


def test_pruning_keeps_the_most_frequent_and_ties_by_spelling() -> None:
    counted = WordCounts(counts={"d": 1, "a": 5, "c": 1, "b": 1, "e": 2})
    counted.prune(5)
    assert len(counted.counts) == 5
    counted.prune(4)
    assert counted.counts == {"a": 5, "e": 2, "b": 1}
    assert counted.pruned_words == 2


def test_the_table_is_bounded_and_workers_do_not_matter() -> None:
    blocks = [[" ".join(f"w{i * 37 % 101 + j}" for i in range(40))] for j in range(12)]
    counts = []
    for workers in (1, 2):
        counted = count_words(blocks, BertRules(), workers=workers, limit=40)
        assert len(counted.counts) <= 40
        assert counted.pruned_words > 0
        assert sum(counted.counts.values()) < counted.words
        read = counted.documents, counted.characters, counted.words
        counts.append((list(counted.counts.items()), read))
    assert counts[0] == counts[1]


def test_long_words_are_counted_apart() -> None:
    counted = count_block(["ok " + "x" * 11, "\u00e9" * 11], BertRules(max_word_characters=10))
    assert counted.counts == {"ok": 1}
    assert (counted.words, counted.too_long) == (3, 2)


def test_hash_seed_does_not_change_the_vocabulary(tmp_path: Path) -> None:
    code = (
        "from bertwright.config.tokenizer import TokenizerConfig\n"
        "from bertwright.text.tokenizer.train import train_on_counts\n"
        "from bertwright.text.tokenizer.word_counts import count_words\n"
        "from bertwright.text.tokenizer.files import BertRules\n"
        "text = ' '.join(f'{a}{b}{c}' for a in 'abcde' for b in 'xyzab' for c in 'ing')\n"
        "counted = count_words([[text], [text + ' abc']], BertRules(), workers=1)\n"
        "print(train_on_counts(counted, TokenizerConfig(vocab_size=60))[0].fingerprint)\n"
    )
    prints = set()
    for seed in ("0", "4321"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        prints.add(done.stdout)
    assert len(prints) == 1
