"""Count how often each word of a corpus occurs, which is all that a vocabulary is trained on.

Worker processes split and count blocks of documents; the parent adds the counts in the order of the
blocks. The table is bounded: if it holds more than `limit` distinct words after a block, the rarest
are dropped (ties by spelling) until three quarters of the limit are left, and their number is
reported. Both steps depend only on the blocks, so any number of workers gives the same counts.

A word is what the tokenizer sees at run time: the parts of `normalize.split_parts`, normalized by
the same normalizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

from tokenizers import pre_tokenizers

from bertwright.machine import usable_cores
from bertwright.progress import OnProgress, silent
from bertwright.text.tokenizer.accents import Accents, find_accents
from bertwright.text.tokenizer.files import BertRules, make_normalizer
from bertwright.text.tokenizer.normalize import drop_surrogates, is_plain, split_chunks, split_parts
from bertwright.text.workers import map_in_order


@dataclass
class WordCounts:
    """Distinct words with their counts, and the numbers of those left out."""

    counts: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    characters: int = 0
    words: int = 0
    """The number of occurrences of words, including those left out."""
    too_long: int = 0
    """The number of occurrences of words above `max_word_characters`, which are `[UNK]` at run
    time.
    """
    pruned_words: int = 0
    """The number of distinct words dropped to bound the table; a word may be dropped more than
    once.
    """
    accented: dict[str, int] = field(default_factory=dict)
    """If accents are stripped: the parts of text that stripping changed, in their original form
    (words joined by blanks), and how often each occurs.
    """

    def add(self, other: WordCounts) -> None:
        """Add the counts of a block."""
        for table, more in ((self.counts, other.counts), (self.accented, other.accented)):
            get = table.get
            for word, count in more.items():
                table[word] = get(word, 0) + count
        self.documents += other.documents
        self.characters += other.characters
        self.words += other.words
        self.too_long += other.too_long

    def prune(self, limit: int) -> None:
        """If there are more than `limit` words, keep the three quarters of `limit` that are most
        frequent, ties by spelling.
        """
        before = len(self.counts)
        self.counts = _most_frequent(self.counts, limit)
        self.pruned_words += before - len(self.counts)
        self.accented = _most_frequent(self.accented, limit)

    def accents(self, rules: BertRules) -> Accents:
        """Return the effect of stripping accents on the words. `rules` are those they were counted
        with.
        """

        def accented() -> Iterator[tuple[str, str, int]]:
            for part, count in self.accented.items():
                for word in part.split(" "):
                    yield word, "".join(_words_of(word, rules)), count

        return find_accents(self.counts, accented())

    def with_accents(self, rules: BertRules) -> WordCounts:
        """Return the counts of the same text with accents kept. `rules` are those it was counted
        with.
        """
        counts = dict(self.counts)
        result = replace(self, counts=counts, accented={})
        for part, count in self.accented.items():
            for word in _words_of(part, rules):
                result.words -= count
                if len(word) > rules.max_word_characters:
                    result.too_long -= count
                elif (left := counts.get(word, 0) - count) > 0:
                    counts[word] = left
                else:
                    counts.pop(word, None)
            for word in part.split(" "):
                result.words += count
                if len(word) > rules.max_word_characters:
                    result.too_long += count
                else:
                    counts[word] = counts.get(word, 0) + count
        return result


def _most_frequent(table: dict[str, int], limit: int) -> dict[str, int]:
    """Return three quarters of `limit` words if there are more than `limit`; see
    `WordCounts.prune`.
    """
    if len(table) <= limit:
        return table
    room = limit * 3 // 4
    last = sorted(table.values(), reverse=True)[room]
    frequent = {word: count for word, count in table.items() if count > last}
    tied = sorted(word for word, count in table.items() if count == last)
    frequent.update((word, last) for word in tied[: room - len(frequent)])
    return frequent


def count_words(
    blocks: Iterable[list[str]],
    rules: BertRules,
    workers: int = 0,
    limit: int = 2_000_000,
    cluster: str | None = None,
    on_progress: OnProgress = silent,
) -> WordCounts:
    """Count the words of blocks of documents.

    With several workers, a script must call this under `if __name__ == "__main__":`.

    Args:
        blocks: documents in blocks.
        rules: the rules of the tokenizer.
        workers: the number of processes; 0: as many as there are usable cores.
        limit: the most distinct words that are kept.
        cluster: the address of a Dask scheduler whose workers count instead.
        on_progress: receives the number of characters read.

    Raises:
        BertwrightError: a worker died.
    """
    total = WordCounts()
    make_work = partial(partial, count_block, rules=rules)
    processes = workers or usable_cores()
    with closing(map_in_order(make_work, blocks, processes, cluster=cluster)) as results:
        for counted in results:
            total.add(counted)
            total.prune(limit)
            on_progress(total.characters, None)
    return total


def count_block(documents: list[str], rules: BertRules) -> WordCounts:
    """Count the words of one block."""
    chunks: Counter[str] = Counter()
    result = WordCounts(documents=len(documents), characters=sum(map(len, documents)))
    for document in documents:
        chunks.update(split_chunks(document))
    parts: dict[str, int] = {}
    for chunk, count in chunks.items():
        if is_plain(chunk):
            parts[chunk] = parts.get(chunk, 0) + count
        else:
            for part in split_parts(chunk, rules.chinese_characters):
                parts[part] = parts.get(part, 0) + count
    counts = result.counts
    strips, unstripping = rules.strips, replace(rules, strip_accents=False)
    for part, count in parts.items():
        if is_plain(part):
            words: tuple[str, ...] = (part.lower() if rules.lowercase else part,)
        else:
            words = _words_of(part, rules)
            if strips and not part.isascii():
                unstripped = _words_of(part, unstripping)
                if unstripped != words:
                    text = " ".join(unstripped)
                    result.accented[text] = result.accented.get(text, 0) + count
        for word in words:
            result.words += count
            if len(word) > rules.max_word_characters:
                result.too_long += count
            else:
                counts[word] = counts.get(word, 0) + count
    return result


_normalizer = lru_cache(maxsize=2)(make_normalizer)


@lru_cache(maxsize=1 << 17)
def _words_of(part: str, rules: BertRules) -> tuple[str, ...]:
    """Return the words of a part that is not plain ASCII, as the library splits it at run time."""
    normalized = _normalizer(rules).normalize_str(drop_surrogates(part))
    words = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalized)
    return tuple(word for word, _ in words)
