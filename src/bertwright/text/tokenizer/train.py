"""Train a tokenizer: from a corpus to word counts, an alphabet, entries, and a vocabulary.

The same corpus and configuration give the same files, byte for byte, for any number of workers and
any PYTHONHASHSEED: blocks are counted in order, and every tie is broken by spelling.

Byte-level BPE (Radford et al. 2019, section 2.2) merges bytes, so no text is unknown. Text is split
into words with the blank before each, as in GPT-2; bytes are represented by printable characters.
Training and rules are those of the `tokenizers` library. The one special token, `<|endoftext|>`,
begins and ends a text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.rows.open import size_on_disk
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.pairs import PairFile
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.files import (
    END_OF_TEXT,
    SPECIAL_TOKENS,
    BertRules,
    ends_config,
    split_by_bytes,
)
from bertwright.text.tokenizer.safety import MAX_WRITTEN
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
"""For each algorithm, its merge criterion, and how many times the wanted entries it makes before
pruning.
"""

PART_CHARACTERS = 1 << 16
"""The number of characters of a document that byte-level BPE is trained on at once."""
Figures = dict[str, Any]
"""Statistics of the training by name: the content of `training.json`."""


def train_tokenizer(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport | None = None,
    on_read: OnProgress = silent,
    pairs: PairFile | None = None,
) -> tuple[Tokenizer, Figures]:
    """Train a tokenizer on files, folders or globs (see `corpus.find.find_files`).

    If `pairs` is given, the one input is a file of pairs, and both sides are read. `report` is
    filled while reading; `on_read` receives the bytes read from disk.

    Raises:
        ConfigError: the vocabulary is smaller than the alphabet.
        DataError: the corpus has no documents or no words.
    """
    work = train_byte_bpe if config.algorithm == "byte-bpe" else count_corpus
    result = work(inputs, corpus, config, report or CorpusReport(), on_read, pairs)
    return train_on_counts(result, config) if isinstance(result, WordCounts) else result


def count_corpus(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport,
    on_read: OnProgress = silent,
    pairs: PairFile | None = None,
) -> WordCounts:
    """Count the words of a corpus: the first half of `train_tokenizer`, which reads the corpus."""
    size = size_on_disk(find_files(inputs))
    return count_words(
        read_blocks(inputs, corpus, report, pairs=pairs),
        rules_of(config),
        workers=config.workers,
        limit=config.max_words,
        cluster=config.cluster,
        on_progress=lambda done, total: on_read(report.position, size),
    )


def train_on_counts(
    counted: WordCounts, config: TokenizerConfig, on_progress: OnProgress = silent
) -> tuple[Tokenizer, Figures]:
    """Train a tokenizer on word counts: the second half of `train_tokenizer`."""
    if not counted.counts:
        instead = "give a corpus with text in it"
        if counted.too_long:
            instead = "text without spaces, such as proteins, is read with --algorithm byte-bpe"
        raise DataError(
            f"no words to train on: {counted.documents} documents of {counted.characters} "
            f"characters hold {counted.words} words, {counted.too_long} of them longer than "
            f"{rules_of(config).max_word_characters} characters; {instead}"
        )
    begin = time.monotonic()
    rules, accents = rules_of(config), None
    if rules.strips:
        accents = counted.accents(rules)
        if config.strip_accents == "auto" and accents.harmful:
            counted = counted.with_accents(rules)
            rules = replace(rules, strip_accents=False)
    special = ["[UNK]"] if config.special_tokens == "unknown" else list(SPECIAL_TOKENS.values())
    size = config.vocab_size - len(special)
    counts, tokens_per_word = counted.counts, 1.0
    if config.algorithm == "word":
        entries = most_frequent(counts, size, config.min_frequency)
        alphabet = choose_alphabet(dict.fromkeys(entries, 1), 1.0)
        known = sum(counts[word] for word in entries)
    else:
        alphabet = choose_alphabet(counts, config.character_coverage)
        if len(alphabet.entries) > size:
            needed = len(special) + len(alphabet.entries)
            raise ConfigError(
                f"vocab_size is {config.vocab_size}, but the alphabet alone needs {needed} "
                f"entries: {len(special)} special tokens and {len(alphabet.characters)} "
                f'characters, those inside words twice ("x" and "##x"); pass --vocab-size {needed} '
                "or more, or keep fewer characters with --character-coverage"
            )
        covered = {word: count for word, count in counts.items() if alphabet.covers(word)}
        known = sum(covered.values())
        entries, tokens_per_word = _wordpieces(covered, alphabet, size, config, on_progress)
    return (
        make_tokenizer([*special, *entries], rules),
        {
            "algorithm": config.algorithm,
            # less than --vocab-size if the corpus does not have that many entries
            "vocab_size": len(special) + len(entries),
            "documents": counted.documents,
            "characters": counted.characters,
            "words": counted.words,
            "distinct_words": len(counts),
            "words_pruned": counted.pruned_words,  # distinct words dropped to bound the memory
            "alphabet": len(alphabet.characters),
            "characters_dropped": len(alphabet.dropped),  # distinct characters not in the alphabet
            "words_too_long": counted.too_long,
            "accents": "stripped" if rules.strips else "kept",
            **(accents.as_dict() if accents else {}),
            "unknown_share": 1 - known / counted.words if counted.words else 0.0,  # of all words
            "pieces_per_word": round(tokens_per_word, 4),  # of the known words
            "seconds_learning": round(time.monotonic() - begin, 2),
        },
    )


def train_byte_bpe(
    inputs: Sequence[str],
    corpus: CorpusConfig,
    config: TokenizerConfig,
    report: CorpusReport,
    on_read: OnProgress = silent,
    pairs: PairFile | None = None,
) -> tuple[Tokenizer, Figures]:
    """Train a byte-level BPE. Of the configuration it uses `vocab_size`, `min_frequency` and
    `lowercase`.

    Raises:
        ConfigError: the vocabulary is too small for the bytes.
        DataError: the corpus has no text.
    """
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if config.vocab_size <= len(alphabet):
        raise ConfigError(
            f"vocab_size is {config.vocab_size}; the bytes and {END_OF_TEXT} alone are "
            f"{len(alphabet) + 1}"
        )
    begin = time.monotonic()
    size = size_on_disk(find_files(inputs))
    backend = tokenizers.Tokenizer(models.BPE())
    backend.normalizer = normalizers.Lowercase() if config.lowercase else None
    split_by_bytes(backend)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=alphabet,
        max_token_length=MAX_WRITTEN,  # a text that repeats itself could become one token
        show_progress=False,
    )

    def documents() -> Iterator[str]:
        for block in read_blocks(inputs, corpus, report, pairs=pairs):
            for document in block:
                yield from parts_of(document)
            on_read(report.position, size)

    backend.train_from_iterator(documents(), trainer)
    if not report.characters:
        raise DataError("no text to train on: give a corpus with text in it")
    tokenizer = Tokenizer(backend, ends_config(backend, lowercase=config.lowercase))
    return tokenizer, {
        "algorithm": config.algorithm,
        "vocab_size": tokenizer.vocab_size,
        "documents": report.documents,
        "characters": report.characters,
        "seconds_learning": round(time.monotonic() - begin, 2),
    }


def parts_of(document: str) -> Iterator[str]:
    """Yield a document in parts, because the trainer holds hundreds of texts and every distinct
    word in memory.

    A part ends before a single space, where the byte-level rules split words too, so that the words
    are the same as in the whole document. Text without such a space is split after
    `PART_CHARACTERS`.
    """
    begin = 0
    while len(document) - begin > PART_CHARACTERS:
        most = begin + PART_CHARACTERS
        end = document.rfind(" ", begin + 1, most - 1)
        while end >= 0 and (document[end - 1].isspace() or document[end + 1].isspace()):
            end = document.rfind(" ", begin + 1, end)
        yield document[begin : (end := end if end >= 0 else most)]
        begin = end
    yield document[begin:] if begin else document


def rules_of(config: TokenizerConfig) -> BertRules:
    """Return the rules of a configuration. `strip_accents` `auto` gives the published rules."""
    return BertRules(
        lowercase=config.lowercase,
        strip_accents=None if config.strip_accents == "auto" else config.strip_accents,
        chinese_characters=config.chinese_characters,
    )


def most_frequent(counts: Mapping[str, int], size: int, min_frequency: int) -> list[str]:
    """Return a vocabulary of whole words, as in word2vec and n-gram models; all other words are
    `[UNK]`.

    It has the `size` most frequent words with a count of at least `min_frequency`, ties by
    spelling.
    """
    often = [(-count, word) for word, count in counts.items() if count >= min_frequency]
    return [word for _, word in sorted(often)[:size]]


def _wordpieces(
    covered: Mapping[str, int],
    alphabet: Alphabet,
    size: int,
    config: TokenizerConfig,
    on_progress: OnProgress,
) -> tuple[list[str], float]:
    """Return the alphabet with the wordpieces, and the number of tokens per word."""
    # sorted, so that the result depends neither on hashing nor on the order of reading
    often = [item for item in sorted(covered.items()) if item[1] >= config.min_frequency]
    words, times = [word for word, _ in often], [count for _, count in often]
    if not often or config.algorithm == "character":
        characters = sum(len(word) * count for word, count in often)
        return alphabet.entries, characters / max(sum(times), 1)
    criterion, overshoot = _CRITERIA[config.algorithm]
    if config.overshoot is not None:
        overshoot = config.overshoot
    merger = Merger(words, times)
    first = len(merger.pieces)
    room = size - len(alphabet.entries)
    merger.train(first + round(room * overshoot), criterion, on_progress=on_progress)
    pruner = Pruner(alphabet.entries, merger.pieces[first:], words, times)
    entries = [*alphabet.entries, *pruner.shrink(room)]
    return entries, sum(pruner.uses.values()) / sum(times)
