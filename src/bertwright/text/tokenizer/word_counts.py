"""How often each word of a corpus occurs: the only thing a vocabulary is trained on.

Blocks of documents go to worker processes, which split and count them; the parent adds the counts
up in the order of the blocks. The table is bounded: when it holds more than `limit` distinct words
after a block, the rarest go (ties by their spelling) until three quarters are left, and are
reported. Both depend on the blocks alone, so any number of workers gives the same counts.

A word is what the tokenizer sees at run time: the parts of
`normalize.split_parts`, normalized by the very normalizer that runs later.
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
    """Distinct words with their counts, and what was left out."""

    counts: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    characters: int = 0
    words: int = 0
    """Occurrences of words, those left out included."""
    too_long: int = 0
    """Occurrences of words above `max_word_characters`, which are `[UNK]` at run time."""
    pruned_words: int = 0
    """Distinct words dropped to bound the table; one may have come back and been dropped again."""
    accented: dict[str, int] = field(default_factory=dict)
    """Where accents are stripped: what was counted otherwise than it stands in the text, as it is
    there (the words of a part, with blanks between them), and how often."""

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
        """Keep three quarters of `limit` words if there are more than `limit`: the most frequent,
        those that tie for the last ones by their spelling."""
        before = len(self.counts)
        self.counts = _most_frequent(self.counts, limit)
        self.pruned_words += before - len(self.counts)
        self.accented = _most_frequent(self.accented, limit)

    def accents(self, rules: BertRules) -> Accents:
        """What stripping accents, as `rules` do and as was counted, does to the words."""

        def accented() -> Iterator[tuple[str, str, int]]:
            for part, count in self.accented.items():
                for word in part.split(" "):
                    yield word, "".join(_words_of(word, rules)), count

        return find_accents(self.counts, accented())

    def with_accents(self, rules: BertRules) -> WordCounts:
        """The counts of the same text with accents kept; `rules`: those it was counted by."""
        counts = dict(self.counts)
        found = replace(self, counts=counts, accented={})
        for part, count in self.accented.items():
            for word in _words_of(part, rules):
                found.words -= count
                if len(word) > rules.max_word_characters:
                    found.too_long -= count
                elif (left := counts.get(word, 0) - count) > 0:
                    counts[word] = left
                else:
                    counts.pop(word, None)
            for word in part.split(" "):
                found.words += count
                if len(word) > rules.max_word_characters:
                    found.too_long += count
                else:
                    counts[word] = counts.get(word, 0) + count
        return found


def _most_frequent(table: dict[str, int], limit: int) -> dict[str, int]:
    """Three quarters of `limit` words if there are more than `limit`; see `WordCounts.prune`."""
    if len(table) <= limit:
        return table
    room = limit * 3 // 4
    last = sorted(table.values(), reverse=True)[room]
    kept = {word: count for word, count in table.items() if count > last}
    tied = sorted(word for word, count in table.items() if count == last)
    kept.update((word, last) for word in tied[: room - len(kept)])
    return kept


def count_words(
    blocks: Iterable[list[str]],
    rules: BertRules,
    workers: int = 0,
    limit: int = 2_000_000,
    cluster: str | None = None,
    on_progress: OnProgress = silent,
) -> WordCounts:
    """Count the words of blocks of documents.

    `workers` 0 means all processors; `limit` bounds the distinct words kept; `cluster` is the
    address of a Dask scheduler whose workers count instead; `on_progress` gets the characters read.
    With several workers a script calls this under `if __name__ == "__main__":`.

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
    """The words of a part that is not plain ASCII, by the library that runs later."""
    normalized = _normalizer(rules).normalize_str(drop_surrogates(part))
    found = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalized)
    return tuple(word for word, _ in found)
