"""Bits per character of a small masked LM over each vocabulary: the second part of the comparison.

    python experiments/wordpiece_vs_bpe/masked_lm.py TRAIN --held-out TEXT --vocabularies DIR
        --out DIR [--epochs 1]

For every vocabulary that `run.py` wrote the same bert-tiny reads the same characters once. On
held-out text whole words are masked, so that both are asked for the same thing however they cut it;
the summed loss over the masked pieces, in bits, is divided by the characters these pieces cover.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch

from bertwright.checkpoint.checkpoint import load
from bertwright.config.run import LogConfig
from bertwright.data.build import build_shards
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.shards import open_shards
from bertwright.models.bert.config import BertRun, InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_pairs import MaskedPairs
from bertwright.recipes.pretrain import pretrain
from bertwright.text.tokenizer.tokenizer import load_tokenizer

WORDS_ASKED = 1 << 18  # tokens of held-out sequences
INSTANCES = InstanceConfig(objectives="mlm", sequence_length=64, short_probability=0.0)
MASKING = MaskingConfig(whole_word=True)


def bits_per_character(run: Path, held_out: Path) -> dict[str, float]:
    """Ask a run about the masked words of held-out shards."""
    shards = open_shards(held_out)
    data = EpochLoader(MaskedPairs(shards, INSTANCES, MASKING, validation_fraction=0.0))
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    tokens = tokenizer.tokens_of(range(tokenizer.vocab_size))
    widths = np.array([len(token.removeprefix("##")) for token in tokens])
    widths[sorted(tokenizer.special_ids)] = 1  # [UNK] hides one word; there are hardly any
    learner = load(run).learner.eval()
    nats, characters, right, count = 0.0, 0, 0, 0
    asked = min(WORDS_ASKED, data.tokens_in_epoch(0))
    for batch in data.step(0, 0, asked, 4096):
        with torch.inference_mode():
            loss = learner(batch)["masked_lm"]
        nats += float(loss.total)
        right += int(loss.correct)
        count += loss.count
        characters += int(widths[batch.masked_labels].sum())
    return {
        "bits_per_character": nats / math.log(2) / characters,
        "bits_per_piece": nats / math.log(2) / count,
        "accuracy_of_pieces": right / count,
    }


def main() -> None:
    """Train and ask one model a vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train")
    parser.add_argument("--held-out", required=True)
    parser.add_argument("--vocabularies", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=["wordpiece", "bpe"])
    parser.add_argument("--epochs", type=float, default=1.0)
    arguments = parser.parse_args()
    for name in arguments.only:
        folder = arguments.out / name
        vocabulary = arguments.vocabularies / name
        for text, place in ((arguments.train, "train"), (arguments.held_out, "held-out")):
            build_shards([text], folder / place, vocabulary, overwrite=True)
        config = BertRun(
            data=str(folder / "train"),
            out=str(folder / "run"),
            model="bert-tiny",
            epochs=arguments.epochs,
            instances=INSTANCES,
            masking=MASKING,
            log=LogConfig(every_seconds=60.0),
        )
        pretrain(config, lambda line: None, overwrite=True)
        print(
            json.dumps(
                {"vocabulary": name, **bits_per_character(folder / "run", folder / "held-out")}
            )
        )


if __name__ == "__main__":
    main()
