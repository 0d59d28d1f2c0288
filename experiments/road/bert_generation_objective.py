"""What a BERT's encoder that writes a target learns best from: the next token at each position, or
masked target tokens as UniLM (Dong et al. 2019, section 3.1; 0.7 of them, all replaced by [MASK]).

    python experiments/road/bert_generation_objective.py --model runs/bert-mini --data E2E \
        --out FILE.json [--examples 300] [--epochs 6] [--sources 60] [--seeds 2]

Both begin with the same weights and masked-LM head and take the same steps of the same examples of
`E2E/devset.csv` (shuffled). Then both write greedily for some sources of `testset_w_refs.csv`: by
the last token's vector, or by that of a [MASK] behind it. BLEU and ROUGE-L against all references.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint, find
from bertwright.checkpoint.opened import open_model
from bertwright.data.batch import collate
from bertwright.labelled.examples import GenerationExample
from bertwright.nn.outputs.output import vocabulary_loss
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.evaluate import evaluate
from bertwright.tasks.generation.options import GenerationTask
from bertwright.tasks.predictions import GenerationPrediction

BATCH, RATE, WARMUP, MASKED, LONGEST = 32, 3e-4, 0.1, 0.7, 48


def make_inputs(texts: list[list[int]], prefixes: list[int]) -> tuple[Inputs, list[int]]:
    """Sequences of ids with their sources' lengths; the order in which they lie."""
    segments = [[0] * p + [1] * (len(t) - p) for t, p in zip(texts, prefixes, strict=True)]
    inputs, order = collate(texts, segments)
    lengths = inputs.sequences.lengths
    sequences = Sequences(lengths, prefixes=[prefixes[n] for n in order])
    return replace(inputs, sequences=sequences), order.tolist()


def train(
    learner: Any,
    pairs: list[tuple[list[int], list[int]]],
    masked: bool,
    mask: int,
    options: Any,
    seed: int,
) -> None:
    """Some epochs over (source, target with its end) in ids."""
    head, steps = learner.objectives["masked_lm"], 0
    chance = np.random.default_rng(seed)
    total = options.epochs * math.ceil(len(pairs) / BATCH)
    optimizer = torch.optim.AdamW(learner.parameters(), RATE, weight_decay=0.01)
    learner.train()
    for _ in range(options.epochs):
        pairs = [pairs[n] for n in chance.permutation(len(pairs))]
        for start in range(0, len(pairs), BATCH):
            own = pairs[start : start + BATCH]
            hidden = [chance.random(len(target)) < MASKED for _, target in own]
            texts, places, labels = [], [], []
            for (source, target), where in zip(own, hidden, strict=True):
                if masked:
                    where[chance.integers(len(target))] = True
                    shown = [mask if w else t for t, w in zip(target, where, strict=True)]
                    texts.append(source + shown)
                    places.append([len(source) + int(n) for n in np.flatnonzero(where)])
                    labels.append([t for t, w in zip(target, where, strict=True) if w])
                else:
                    texts.append(source + target[:-1])
                    places.append([len(source) - 1 + n for n in range(len(target))])
                    labels.append(target)
            inputs, order = make_inputs(texts, [len(source) for source, _ in own])
            offsets = inputs.sequences.offsets
            at = [offsets[n] + place for n, row in enumerate(order) for place in places[row]]
            gold = [label for row in order for label in labels[row]]
            x = head.transformed(learner.encoder(inputs, positions=torch.tensor(at)).last)
            weight = learner.encoder.token_embedding().weight
            loss = vocabulary_loss(x, weight, head.bias, torch.tensor(gold), 0.1).total / len(gold)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(learner.parameters(), 1.0)
            done = steps / total
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(done / WARMUP, (1 - done) / (1 - WARMUP))
            optimizer.step()
            steps += 1


@torch.inference_mode()
def write(learner: Any, sources: list[list[int]], masked: bool, mask: int, end: int) -> list[Any]:
    """The most probable token each time, everything read again."""
    learner.eval()
    targets: list[list[int]] = [[] for _ in sources]
    going = list(range(len(sources)))
    for _ in range(LONGEST):
        texts = [sources[n] + targets[n] + ([mask] if masked else []) for n in going]
        inputs, order = make_inputs(texts, [len(sources[n]) for n in going])
        last = torch.tensor(inputs.sequences.offsets[1:]) - 1
        x = learner.encoder(inputs, positions=last).last
        best = learner.objectives["masked_lm"].logits(x).argmax(1).tolist()
        for row, token in zip(order, best, strict=True):
            targets[going[row]].append(token)
        going = [n for n in going if targets[n][-1] != end]
        if not going:
            break
    return [[token for token in target if token != end] for target in targets]


def rows_of(path: Path) -> list[tuple[str, str]]:
    """Sources and targets."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [(row[0], row[1]) for row in rows]


def main() -> None:
    """Train and write both ways, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    for name, value in (("examples", 300), ("epochs", 6), ("sources", 60), ("seeds", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    folder = find.find_checkpoint(options.model)
    tokenizer = open_model(folder).tokenizer
    rows = rows_of(options.data / "devset.csv")
    random.Random(0).shuffle(rows)
    end = tokenizer.special_id("sep")
    pairs = [
        (tokenizer.encode(source).ids, [*tokenizer.encode(target).ids[1:-1], end])
        for source, target in rows[: options.examples]
    ]
    test = rows_of(options.data / "testset_w_refs.csv")
    chosen = random.Random(1).sample(sorted({source for source, _ in test}), options.sources)
    gold = [GenerationExample(*row) for row in test if row[0] in set(chosen)]
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(1, options.seeds + 1):
        for name, masked in (("next token", False), ("masked", True)):
            torch.manual_seed(seed)
            learner = checkpoint.load(folder, ["masked_lm"]).learner
            began = time.process_time()
            train(learner, pairs, masked, tokenizer.mask_id, options, seed)
            seconds = time.process_time() - began
            ids = [tokenizer.encode(source).ids for source in chosen]
            texts = write(learner, ids, masked, tokenizer.mask_id, end)
            by_source = dict(zip(chosen, map(tokenizer.decode, texts), strict=True))
            predictions = [GenerationPrediction(by_source[each.source]) for each in gold]
            task = GenerationTask()
            metrics = evaluate(task, gold, predictions, intervals=False).metrics
            found.setdefault(name, []).append({**metrics, "cpu_seconds": round(seconds, 1)})
            print(name, seed, found[name][-1], by_source[chosen[0]], flush=True)
            facts = {"model": Path(options.model).name, "examples": options.examples}
            facts |= {"epochs": options.epochs, "sources": options.sources}
            text = json.dumps({**facts, "runs": found}, indent=1)
            options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
