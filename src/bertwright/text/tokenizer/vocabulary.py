"""Training a tokenizer: corpus -> word counts -> alphabet -> pieces -> vocabulary.

The same corpus and configuration give the same files, byte for byte, with any number of workers and
any PYTHONHASHSEED: blocks are counted in order, and every tie is broken by spelling.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.text.corpus.corpus import CorpusReport, read_blocks
from bertwright.text.corpus.files import find_files, size_on_disk
from bertwright.text.tokenizer.alphabet import Alphabet, choose_alphabet
from bertwright.text.tokenizer.bpe import FREQUENCY
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, CutRules
from bertwright.text.tokenizer.merges import Merger
from bertwright.text.tokenizer.pruning import Pruner
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_tokenizer
from bertwright.text.tokenizer.word_counts import WordCounts, count_words
from bertwright.text.tokenizer.wordpiece import LIKELIHOOD
from bertwright.text.tokenizer.words import most_frequent

_CRITERIA = {"wordpiece": (LIKELIHOOD, 1.5), "bpe": (FREQUENCY, 1.0)}
"""Algorithm -> what it merges by, and how many times the pieces asked for it learns."""


@dataclass(frozen=True)
class Training:
    """What training a vocabulary met and made."""

    algorithm: str
    vocab_size: int
    """Entries of the vocabulary; below what was asked where the corpus has no more."""
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
    """Their share of all characters."""
    characters_dropped_examples: str
    words_too_long: int
    """Occurrences of words over `max_word_characters`."""
    unknown_share: float
    """The share of the corpus' words that this vocabulary cuts to `[UNK]`."""
    rounds: int
    """Rounds of merging."""
    pieces_per_word: float
    """Pieces a known word is cut into on average, over the words the pieces were learned from."""
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
    """Train a tokenizer on files, folders or globs (see `text.files.find_files`).

    `report` is filled while reading; `on_read` is told bytes on disk.

    Raises:
        ConfigError: the vocabulary is smaller than the alphabet.
        DataError: the corpus has no documents or no words.
    """
    counted = count_corpus(inputs, corpus, config, report, on_read)
    return learn_tokenizer(counted, config)


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

    def tell(done: int, total: int | None) -> None:
        on_progress(report.position, size)

    return count_words(
        read_blocks(inputs, corpus, report),
        rules_of(config),
        workers=config.workers,
        limit=config.max_words,
        repair=corpus.normalize_unicode,
        on_progress=tell,
    )


def learn_tokenizer(
    counted: WordCounts, config: TokenizerConfig, on_progress: OnProgress = silent
) -> tuple[Tokenizer, Training]:
    """The second half of `train_tokenizer`: a tokenizer out of word counts."""
    if not counted.counts:
        raise DataError(
            f"no words to learn from: {counted.documents} documents of {counted.characters} "
            f"characters hold {counted.words} words, {counted.too_long} of them longer than "
            f"{config.max_word_characters} characters; give a corpus with text in it"
        )
    begin = time.monotonic()
    entries, figures = _learn(counted, config, on_progress)
    training = Training(
        algorithm=config.algorithm,
        vocab_size=len(SPECIAL_TOKENS) + len(entries),
        documents=counted.documents,
        characters=counted.characters,
        words=counted.words,
        distinct_words=len(counted.counts),
        words_pruned=counted.pruned_words,
        words_too_long=counted.too_long,
        seconds_counting=counted.seconds,
        seconds_learning=round(time.monotonic() - begin, 2),
        **figures,
    )
    return make_tokenizer([*SPECIAL_TOKENS.values(), *entries], rules_of(config)), training


def rules_of(config: TokenizerConfig) -> CutRules:
    """The rules that a configuration asks for."""
    return CutRules(
        lowercase=config.lowercase,
        strip_accents=config.strip_accents,
        chinese_characters=config.chinese_characters,
        max_word_characters=config.max_word_characters,
    )


def _learn(
    counted: WordCounts, config: TokenizerConfig, on_learn: OnProgress
) -> tuple[list[str], dict[str, Any]]:
    """The entries after the special tokens, and figures for `Training`."""
    counts = counted.counts
    size = config.vocab_size - len(SPECIAL_TOKENS)
    if config.algorithm == "word":
        entries = most_frequent(counts, size, config.min_frequency)
        known = sum(counts[word] for word in entries)
        alphabet = choose_alphabet(dict.fromkeys(entries, 1), 1.0)
        return entries, _figures(counted, alphabet, known, rounds=0, pieces_per_word=1.0)
    alphabet = choose_alphabet(counts, config.character_coverage, config.limit_alphabet)
    if len(alphabet.entries) > size:
        raise ConfigError(_too_small(alphabet, config))
    known_words = {word: count for word, count in counts.items() if alphabet.covers(word)}
    # A fixed order, so that neither hashing nor the order of reading can be seen in the result.
    often = [item for item in sorted(known_words.items()) if item[1] >= config.min_frequency]
    words, times = [word for word, _ in often], [count for _, count in often]
    entries, rounds, uses = alphabet.entries, 0, 0
    if words:
        entries, rounds, uses = _pieces(words, times, alphabet, size, config, on_learn)
    return entries, _figures(
        counted,
        alphabet,
        known=sum(known_words.values()),
        rounds=rounds,
        pieces_per_word=uses / max(sum(times), 1),
    )


def _pieces(
    words: list[str],
    times: list[int],
    alphabet: Alphabet,
    size: int,
    config: TokenizerConfig,
    on_learn: OnProgress,
) -> tuple[list[str], int, int]:
    """Alphabet and pieces, the rounds of merging, and how many pieces the words are cut into."""
    merger = Merger(words, times)
    characters = len(merger.pieces)
    room = size - len(alphabet.entries)
    criterion, overshoot = _CRITERIA[config.algorithm]
    if config.overshoot is not None:
        overshoot = config.overshoot
    rounds = merger.learn(characters + round(room * overshoot), criterion, on_progress=on_learn)
    pruner = Pruner(alphabet.entries, merger.pieces[characters:], words, times)
    pieces = pruner.shrink(room)
    return [*alphabet.entries, *pieces], rounds, sum(pruner.uses.values())


def _figures(
    counted: WordCounts, alphabet: Alphabet, known: int, rounds: int, pieces_per_word: float
) -> dict[str, Any]:
    """The part of `Training` that depends on what was learned."""
    return {
        "alphabet": len(alphabet.characters),
        "characters_dropped": len(alphabet.dropped),
        "characters_dropped_share": alphabet.dropped_occurrences / max(alphabet.occurrences, 1),
        "characters_dropped_examples": "".join(alphabet.dropped[:20]),
        "unknown_share": 1 - known / counted.words if counted.words else 0.0,
        "rounds": rounds,
        "pieces_per_word": round(pieces_per_word, 4),
    }


def _too_small(alphabet: Alphabet, config: TokenizerConfig) -> str:
    """Why the vocabulary has no room, and the two ways out."""
    needed = len(SPECIAL_TOKENS) + len(alphabet.entries)
    return (
        f"vocab_size is {config.vocab_size}, but the alphabet alone needs {needed} entries: "
        f"{len(SPECIAL_TOKENS)} special tokens and {len(alphabet.characters)} characters, those "
        'inside words twice ("x" and "##x"); pass --vocab-size '
        f"{needed} or more, or keep fewer characters with --limit-alphabet or "
        "--character-coverage"
    )
