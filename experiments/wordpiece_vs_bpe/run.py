"""Is a likelihood vocabulary no worse than a frequency vocabulary of the same size?

    python experiments/wordpiece_vs_bpe/run.py TRAIN... --held-out TEXT... --out DIR
        [--vocab-size 30522] [--megabytes 148]

Trains on the same text, to the same size, with the same alphabet:

| folder | pieces by | dropped at the end |
|---|---|---|
| `wordpiece` | likelihood | half as many again are learned, the least useful dropped (default) |
| `wordpiece-bare` | likelihood | nothing: the textbook procedure |
| `bpe` | frequency | nothing: the textbook procedure (default) |
| `bpe-overshoot` | frequency | as `wordpiece` |

and writes them to DIR. On held-out text it measures pieces per word and bits per character of a
unigram model fitted to the training words, both under the run-time cut. `wordpiece` and `bpe` are
the pair for the second part, bits per character of a small masked language model: pre-train the
same model on each and divide loss x masked tokens by the characters they cover.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.text.corpus.read import CorpusReport, read_blocks
from bertwright.text.tokenizer.normalize import longest_match
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.tokenizer.train import rules_of, train_on_counts
from bertwright.text.tokenizer.word_counts import WordCounts, count_words

SYSTEMS: dict[str, dict[str, object]] = {
    "wordpiece": {"algorithm": "wordpiece"},
    "wordpiece-bare": {"algorithm": "wordpiece", "overshoot": 1.0},
    "bpe": {"algorithm": "bpe"},
    "bpe-overshoot": {"algorithm": "bpe", "overshoot": 1.5},
}


def words_of(inputs: list[str], config: TokenizerConfig, megabytes: float) -> WordCounts:
    """Word counts of the first so many million characters."""

    def some() -> Iterator[list[str]]:
        room = megabytes * 1e6
        for block in read_blocks(inputs, CorpusConfig(), CorpusReport()):
            yield block
            room -= sum(map(len, block))
            if room <= 0:
                return

    return count_words(some(), rules_of(config))


def uses_of(tokenizer: Tokenizer, counts: Mapping[str, int]) -> Counter[int]:
    """How often each id is used."""
    uses: Counter[int] = Counter()
    for word, count in counts.items():
        for index in longest_match(word, tokenizer.vocab) or [tokenizer.unk_id]:
            uses[index] += count
    return uses


def measure(
    tokenizer: Tokenizer, train: Mapping[str, int], held_out: Mapping[str, int]
) -> dict[str, float]:
    """Figures on held-out words; a blank counts as a character of its word."""
    seen = uses_of(tokenizer, train)
    uses = uses_of(tokenizer, held_out)
    total = sum(seen.values()) + tokenizer.vocab_size / 2  # half a use more for every entry
    bits = -sum(n * math.log2((seen[i] + 0.5) / total) for i, n in uses.items())
    words = sum(held_out.values())
    characters = sum((len(word) + 1) * count for word, count in held_out.items())
    rare = {word: count for word, count in held_out.items() if train.get(word, 0) < 100}
    return {
        "pieces_per_word": round(sum(uses.values()) / words, 4),
        "pieces_per_rare_word": round(
            sum(uses_of(tokenizer, rare).values()) / sum(rare.values()), 3
        ),
        "unigram_bits_per_character": round(bits / characters, 4),
        "unknown_percent": round(100 * uses[tokenizer.unk_id] / words, 4),
        "entries_unused_in_training": tokenizer.vocab_size - len(seen),
    }


def main() -> None:
    """Train the four, measure, write them and `results.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("train", nargs="+")
    parser.add_argument("--held-out", nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--vocab-size", type=int, default=30522)
    parser.add_argument("--megabytes", type=float, default=math.inf)
    given = parser.parse_args()
    configs = {
        name: TokenizerConfig(vocab_size=given.vocab_size, **options)  # type: ignore[arg-type]
        for name, options in SYSTEMS.items()
    }
    train = words_of(given.train, configs["bpe"], given.megabytes)
    held_out = words_of(given.held_out, configs["bpe"], given.megabytes)
    results = {}
    for name, config in configs.items():
        tokenizer, training = train_on_counts(train, config)
        tokenizer.save(given.out / name)
        results[name] = {
            "vocab_size": training["vocab_size"],
            "seconds_learning": training["seconds_learning"],
            **measure(tokenizer, train.counts, held_out.counts),
        }
        print(name, json.dumps(results[name]), flush=True)
    (given.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    columns = list(results["bpe"])
    print("\n| |", " | ".join(columns), "|\n|---|" + "---|" * len(columns))
    for name, figures in results.items():
        print("|", name, "|", " | ".join(str(figures[column]) for column in columns), "|")


if __name__ == "__main__":
    main()
