"""What a masked LM names of long texts, read whole and in windows of its training's length.

    python experiments/small_budget/positions.py RUN SHARDS [--window 128] [--texts 60]

The last documents of SHARDS with 510 tokens, 15 % of them masked (NumPy's generator, seed 0).
Reading whole passes over what the folder says (`model_max_length`). Prints a line a window.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.data.batch import make_inputs
from bertwright.data.shards import open_shards
from bertwright.text.tokenizer.tokenizer import load_tokenizer

TOKENS, MASKED = 510, 76


def main() -> None:
    """Read, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("shards")
    parser.add_argument("--window", type=int, default=128)
    parser.add_argument("--texts", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shards, loaded = open_shards(options.shards), checkpoint.load(options.run)
    tokenizer = load_tokenizer(loaded.opened.folder)
    learner = loaded.learner.eval()
    head: Any = learner.objectives["masked_lm"]
    cpu, draws, step = torch.device("cpu"), np.random.default_rng(0), options.window - 2

    @torch.inference_mode()
    def named(ids: Sequence[int], masked: Sequence[int]) -> list[int]:
        """The likeliest tokens at the positions `masked` of bare ids."""
        framed = tokenizer.framing.one(list(ids))
        _, inputs = make_inputs([0], [framed], [[0] * len(framed)], cpu)
        positions = torch.tensor(masked) + 1
        encoded = learner.encoder(inputs, positions=positions)
        found: list[int] = head.logits(encoded.at(positions)).argmax(1).tolist()
        return found

    starts = shards.sentence_tokens[shards.document_sentences]
    long = [n for n in range(len(starts) - 1) if starts[n + 1] - starts[n] >= TOKENS]
    right = np.zeros((2, TOKENS))
    count = np.zeros(TOKENS)
    for number in long[-options.texts :]:
        start = int(starts[number])
        ids = shards.tokens(start, start + TOKENS).tolist()
        masked = sorted(draws.choice(TOKENS, MASKED, replace=False).tolist())
        blanked = [tokenizer.mask_id if n in masked else token for n, token in enumerate(ids)]
        count[masked] += 1
        for at, token in zip(masked, named(blanked, masked), strict=True):
            right[0, at] += token == ids[at]
        for first in range(0, TOKENS, step):
            own = [n for n in masked if first <= n < first + step]
            part = named(blanked[first : first + step], [n - first for n in own]) if own else []
            for at, token in zip(own, part, strict=True):
                right[1, at] += token == ids[at]
    bounds = [*range(0, TOKENS - step // 2, step), TOKENS]
    for first, last in pairwise(bounds):
        rows = slice(first, last)
        whole, windows = (right[n, rows].sum() / count[rows].sum() for n in (0, 1))
        print(f"tokens {first + 1} to {last}: whole {whole:.1%}, windows {windows:.1%}")


if __name__ == "__main__":
    main()
