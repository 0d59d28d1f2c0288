"""Training a tokenizer: corpus -> word counts -> alphabet -> entries -> vocabulary.

The same corpus and configuration give the same files, byte for byte, with any number of workers and
any PYTHONHASHSEED: blocks are counted in order, and every tie is broken by spelling.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.text.corpus.files import find_files, size_on_disk
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, BertRules
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_tokenizer
from bertwright.text.tokenizer.word_counts import WordCounts, count_words
from bertwright.text.tokenizer.wordpiece import (
    FREQUENCY,
    LIKELIHOOD,
    Alphabet,
    Merger,
    Pruner,
    choose_alphabet,
)

_CRITERIA = {"wordpiece": (LIKELIHOOD, 1.5), "bpe": (FREQUENCY, 1.0)}
"""Algorithm -> what it merges by, and how many times the entries wanted it makes."""


@dataclass(frozen=True)
class Training:
    """What training a vocabulary met and made; the fields of `training.json`."""

    algorithm: str
    vocab_size: int
    """Entries of the vocabulary; below `--vocab-size` where the corpus has no more."""
    documents: int
    characters: int
    words: int
    """Occurrences of words."""
    distinct_words: int
    words_pruned: int
    """Distinct words dropped to bound the memory."""
    alphabet: int
    """Characters kept."""
    characters_dropped: int
    """Characters left out of the alphabet, distinct."""
    characters_dropped_share: float
    """Their fraction of all characters."""
    characters_dropped_examples: str
    words_too_long: int
    """Occurrences of words over `max_word_characters`."""
    unknown_share: float
    """The fraction of the corpus' words that this vocabulary makes `[UNK]`."""
    rounds: int
    """Rounds of merging."""
    pieces_per_word: float
    """Tokens of a known word on average, over the words that were trained on."""
    seconds_counting: float
    seconds_learning: float

    def as_dict(self) -> dict[str, Any]:
        """Every field by its name, ready for JSON."""
        return asdict(self)


def train_tokenizer(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport | None = None,
    on_read: OnProgress = silent,
) -> tuple[Tokenizer, Training]:
    """Train a tokenizer on files, folders or globs (see `corpus.files.find_files`).

    `report` is filled while reading; `on_read` gets bytes on disk.

    Raises:
        ConfigError: the vocabulary is smaller than the alphabet.
        DataError: the corpus has no documents or no words.
    """
    return train_on_counts(count_corpus(inputs, corpus, config, report, on_read), config)


def count_corpus(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport | None = None,
    on_progress: OnProgress = silent,
) -> WordCounts:
    """The first half of `train_tokenizer`, all that reads the corpus."""
    report = CorpusReport() if report is None else report
    size = size_on_disk(find_files(inputs))
    return count_words(
        read_blocks(inputs, corpus, report),
        rules_of(config),
        workers=config.workers,
        limit=config.max_words,
        repair=corpus.normalize_unicode,
        on_progress=lambda done, total: on_progress(report.position, size),
    )


def train_on_counts(
    counted: WordCounts, config: TokenizerConfig, on_progress: OnProgress = silent
) -> tuple[Tokenizer, Training]:
    """The second half of `train_tokenizer`: a tokenizer out of word counts."""
    if config.algorithm == "byte-bpe":
        raise ConfigError("a BPE of bytes is trained by text/tokenizer/byte_bpe.py")
    if not counted.counts:
        raise DataError(
            f"no words to train on: {counted.documents} documents of {counted.characters} "
            f"characters hold {counted.words} words, {counted.too_long} of them longer than "
            f"{config.max_word_characters} characters; give a corpus with text in it"
        )
    begin = time.monotonic()
    special = ["[UNK]"] if config.special_tokens == "unknown" else list(SPECIAL_TOKENS.values())
    size = config.vocab_size - len(special)
    counts, rounds, tokens_per_word = counted.counts, 0, 1.0
    if config.algorithm == "word":
        entries = most_frequent(counts, size, config.min_frequency)
        alphabet = choose_alphabet(dict.fromkeys(entries, 1), 1.0)
        known = sum(counts[word] for word in entries)
    else:
        alphabet = choose_alphabet(counts, config.character_coverage, config.limit_alphabet)
        if len(alphabet.entries) > size:
            raise ConfigError(_too_small(alphabet, config, len(special)))
        covered = {word: count for word, count in counts.items() if alphabet.covers(word)}
        known = sum(covered.values())
        entries, rounds, tokens_per_word = _wordpieces(covered, alphabet, size, config, on_progress)
    training = Training(
        algorithm=config.algorithm,
        vocab_size=len(special) + len(entries),
        documents=counted.documents,
        characters=counted.characters,
        words=counted.words,
        distinct_words=len(counts),
        words_pruned=counted.pruned_words,
        alphabet=len(alphabet.characters),
        characters_dropped=len(alphabet.dropped),
        characters_dropped_share=alphabet.dropped_occurrences / max(alphabet.occurrences, 1),
        characters_dropped_examples="".join(alphabet.dropped[:20]),
        words_too_long=counted.too_long,
        unknown_share=1 - known / counted.words if counted.words else 0.0,
        rounds=rounds,
        pieces_per_word=round(tokens_per_word, 4),
        seconds_counting=counted.seconds,
        seconds_learning=round(time.monotonic() - begin, 2),
    )
    return make_tokenizer([*special, *entries], rules_of(config)), training


def rules_of(config: TokenizerConfig) -> BertRules:
    """The rules of a configuration."""
    return BertRules(
        lowercase=config.lowercase,
        strip_accents=config.strip_accents,
        chinese_characters=config.chinese_characters,
        max_word_characters=config.max_word_characters,
    )


def most_frequent(counts: Mapping[str, int], size: int, min_frequency: int) -> list[str]:
    """A vocabulary of whole words, as word2vec and the n-gram models have: every other is `[UNK]`.

    The `size` most frequent words seen at least `min_frequency` times, ties by spelling.
    """
    often = [(-count, word) for word, count in counts.items() if count >= min_frequency]
    return [word for _, word in sorted(often)[:size]]


def _wordpieces(
    covered: Mapping[str, int],
    alphabet: Alphabet,
    size: int,
    config: TokenizerConfig,
    on_progress: OnProgress,
) -> tuple[list[str], int, float]:
    """Alphabet and wordpieces, the rounds of merging, and tokens per word."""
    # A fixed order, so that neither hashing nor the order of reading can be seen in the result.
    often = [item for item in sorted(covered.items()) if item[1] >= config.min_frequency]
    words, times = [word for word, _ in often], [count for _, count in often]
    if not often or config.algorithm == "character":
        characters = sum(len(word) * count for word, count in often)
        return alphabet.entries, 0, characters / max(sum(times), 1)
    criterion, overshoot = _CRITERIA[config.algorithm]
    if config.overshoot is not None:
        overshoot = config.overshoot
    merger = Merger(words, times)
    first = len(merger.pieces)
    room = size - len(alphabet.entries)
    rounds = merger.train(first + round(room * overshoot), criterion, on_progress=on_progress)
    pruner = Pruner(alphabet.entries, merger.pieces[first:], words, times)
    entries = [*alphabet.entries, *pruner.shrink(room)]
    return entries, rounds, sum(pruner.uses.values()) / sum(times)


def _too_small(alphabet: Alphabet, config: TokenizerConfig, special: int) -> str:
    """Why the vocabulary has no room, and the two ways out."""
    needed = special + len(alphabet.entries)
    return (
        f"vocab_size is {config.vocab_size}, but the alphabet alone needs {needed} entries: "
        f"{special} special tokens and {len(alphabet.characters)} characters, those "
        'inside words twice ("x" and "##x"); pass --vocab-size '
        f"{needed} or more, or keep fewer characters with --limit-alphabet or "
        "--character-coverage"
    )
