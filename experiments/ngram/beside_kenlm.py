"""Our n-gram model beside KenLM's own estimator (lmplz) on the same tokens.

    python experiments/ngram/beside_kenlm.py SHARDS HELD --lmplz build/bin/lmplz --out OUT

SHARDS have a tokenizer that knows every word of their text, as lmplz does not count <unk> (word,
`--min-frequency 1`). HELD is a text; both models score its lines through KenLM's reader, without
its unknown words. Prints one JSON object.

Needs beyond `.[dev]`: KenLM's reader (`pip install kenlm`) and its estimator, built from source.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

from bertwright.cli.app import run
from bertwright.data.shards import open_shards
from bertwright.text.tokenizer.tokenizer import load_tokenizer

sys.path.append(str(Path(__file__).resolve().parents[1]))
from needs import needs

ORDER = "5"


def bertwright(*words: object) -> None:
    """Run a command line."""
    assert run([str(word) for word in words]) == 0


def main() -> None:
    """Estimate twice, compare every token."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path)
    parser.add_argument("held", type=Path)
    parser.add_argument("--lmplz", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    needs("kenlm", "kenlm")
    import kenlm

    out: Path = given.out
    out.mkdir(parents=True, exist_ok=True)
    ours, theirs, text = out / "ours.arpa", out / "theirs.arpa", out / "tokens.txt"

    where = "--data", given.shards, "--out", out / "run", "--overwrite", "--validation.fraction", 0
    bertwright("pretrain", "--model", "ngram", "--architecture.order", ORDER, *where)
    bertwright("convert", out / "run", ours, "--to", "arpa", "--overwrite")

    shards = open_shards(given.shards)
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    spelled = {number: word for word, number in tokenizer.vocab.items()}
    ends = shards.sentence_tokens[shards.document_sentences]
    documents = [
        " ".join(spelled[number] for number in shards.tokens_at(np.arange(first, last)).tolist())
        for first, last in pairwise(ends)
    ]
    text.write_text("\n".join(documents) + "\n", encoding="utf-8")
    options = ["-o", ORDER, "--skip_symbols", "--discount_fallback", "-S", "1G"]
    with text.open() as source, theirs.open("w") as target:
        subprocess.run([given.lmplz, *options], stdin=source, stdout=target, check=True)

    models = [kenlm.Model(str(path)) for path in (ours, theirs)]
    scores: list[list[float]] = [[], []]
    for line in filter(None, given.held.read_text("utf-8").splitlines()):
        tokens = tokenizer.encode(line).tokens
        known = [token != "[UNK]" for token in tokens] + [True]
        written = " ".join("<unk>" if token == "[UNK]" else token for token in tokens)
        for own, model in zip(scores, models, strict=True):
            found = [score for score, *_ in model.full_scores(written)]
            own += [score for score, is_known in zip(found, known, strict=True) if is_known]
    difference = np.abs(np.subtract(scores[0], scores[1]))
    figures = {
        "tokens_counted": shards.num_tokens,
        "tokens_scored": len(difference),
        "perplexities": [10 ** -float(np.mean(own)) for own in scores],
        "largest_difference": float(difference.max()),
        "mean_difference": float(difference.mean()),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
