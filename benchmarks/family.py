"""The family of BERT beside BERT at equal sizes: a training step, and vectors of texts.

    python benchmarks/family.py [--threads 2] [--rounds 5] [--width 256] [--layers 4]

A training step is forward, backward, clipping and AdamW over 32 sequences of 128 tokens, 15%
masked, by masked LM alone, in the precision that `pretrain` chooses (bfloat16 on a CPU that has
it); ELECTRA is trained by replaced-token detection too. Vectors are those that `embed` makes of 512
texts of 6 to 60 made-up words. ModernBERT has the feed-forward width at which its layers have
about as many weights. Systems take turns, and the best of the rounds counts. Prints the machine,
then one JSON line a system with its ratio to BERT: for training, then for vectors.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import machine

from bertwright.checkpoint.checkpoint import make_learner, save
from bertwright.config.run import OptimizerConfig
from bertwright.data.batch import inputs_of
from bertwright.inference.model import load
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.catalogue import MODELS
from bertwright.nn.init import initialize
from bertwright.process_settings import keep_freed_memory
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from bertwright.train.hardware import choose_precision
from bertwright.train.optim import clip_gradients, make_optimizers

ROWS, LENGTH, MASKED = 32, 128, 19
WORDS = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in "bdfgklmnprstvz"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = 30522
"""As published, for training; texts have the words above."""
TEXTS = 512
MEMBERS = ("bert", "roberta", "distilbert", "electra", "albert", "mpnet", "modernbert")


def configuration(name: str, layers: int, width: int) -> Any:
    """The configuration of a member with these sizes, without dropout."""
    # A width that is no multiple of 16 makes matrix products slow.
    feed_forward = 16 * round(width / 6) if name == "modernbert" else 4 * width
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": feed_forward,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pooler": False,
    }
    if name == "roberta":
        sizes["first_position"] = 1  # after the padding of the vocabulary here
    if name == "electra":
        quarter = width // 4
        sizes |= {"embedding_size": width, "generator_hidden_size": quarter}
        sizes |= {"generator_intermediate_size": width}
    return MODELS[name].config(**sizes)


def training_step(config: Any, objective: str, precision: str) -> Callable[[], None]:
    """A training step, as the trainer does it."""
    torch.manual_seed(0)
    learner = make_learner(config, [objective]).train()
    initialize(learner, 0.02, torch.Generator().manual_seed(0))
    optimizer = make_optimizers(learner, OptimizerConfig("adamw", learning_rate=1e-4))
    ids = torch.randint(1000, VOCABULARY, (ROWS, LENGTH))
    masked = torch.stack([torch.randperm(LENGTH)[:MASKED].sort()[0] for _ in range(ROWS)])
    labels = ids.gather(1, masked)
    ids = ids.scatter(1, masked, 103)
    starts = torch.arange(ROWS)[:, None] * LENGTH

    def step() -> None:
        batch = MaskedBatch(
            inputs_of(ids.flatten().numpy(), np.full(ROWS, LENGTH), None),
            masked_positions=(masked + starts).flatten(),
            masked_labels=labels.flatten(),
            next_sentence_labels=None,
            instances=torch.arange(ROWS),
        )
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            (loss,) = learner(batch).values()
        (loss.total / loss.count).backward()
        clip_gradients(learner.parameters(), 1.0)
        optimizer.step()

    return step


def embedding(config: Any, folder: Path) -> Callable[[], None]:
    """A call that embeds all texts."""
    chance = random.Random(0)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(6, 60))) for _ in range(TEXTS)]
    learner = make_learner(config, [])
    initialize(learner, 0.02, torch.Generator().manual_seed(0))
    make_tokenizer([*SPECIAL, *WORDS]).save(folder / "tokenizer")
    (folder / "model").mkdir()
    save(folder / "model", learner, folder / "tokenizer", "")
    embedder = load(folder / "model").embedder()

    def embed() -> None:
        embedder.embed(texts)

    return embed


def best_of(calls: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Seconds of the best call of each, in turns."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    """Measure all members."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_freed_memory()
    precision, _ = choose_precision(torch.device("cpu"))
    print(json.dumps(machine() | {"precision": precision}))
    configs = {name: configuration(name, args.layers, args.width) for name in MEMBERS}
    steps = {
        name: training_step(config, "masked_lm", precision) for name, config in configs.items()
    }
    steps["electra, replaced tokens"] = training_step(
        configs["electra"], "replaced_tokens", precision
    )
    with tempfile.TemporaryDirectory() as beside:
        folders = {name: Path(beside, name) for name in MEMBERS}
        for folder in folders.values():
            folder.mkdir()
        calls = {name: embedding(configs[name], folders[name]) for name in MEMBERS}
        report("tokens", ROWS * LENGTH, best_of(steps, args.rounds))
        report("texts", TEXTS, best_of(calls, args.rounds))


def report(what: str, count: int, seconds: Mapping[str, float]) -> None:
    """Print how many a second, and the ratio to BERT."""
    for name, best in seconds.items():
        ratio = round(seconds["bert"] / best, 3)
        line = {"system": name, f"{what}_per_second": round(count / best), "of_bert": ratio}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
