"""Perplexity of n-gram models against their order and smoothing, with time and memory.

    python experiments/ngram/run.py SHARDS TEXT... [--orders 5] [--out FILE]

One count of the documents that are not held out serves all orders; TEXT are further test texts.
Writes a JSON line for each model and text to FILE, and prints what counting took.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.data.shards import Shards, open_shards
from bertwright.data.split import split_documents
from bertwright.inference.encode import ModelRunner
from bertwright.inference.score import score_ids
from bertwright.models.ngram.config import NgramConfig
from bertwright.models.ngram.count import count_ngrams
from bertwright.models.ngram.encoder import NgramContext
from bertwright.models.ngram.system import estimate
from bertwright.models.ngram.tables import Ngrams
from bertwright.nn.objective import Learner
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def peak_gb() -> float:
    """Of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def held_out(shards: Shards, most: int) -> list[list[int]]:
    """Framed documents, of about so many tokens."""
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    bounds = shards.sentence_tokens[shards.document_sentences]
    found, tokens = [], 0
    for document in split_documents(shards, "dev", 0.01).tolist():
        ids = shards.tokens(bounds[document], bounds[document + 1]).tolist()
        found.append(tokenizer.framing.one(ids))
        tokens += len(ids)
        if tokens > most:
            break
    return found


def main() -> None:
    """Count, then estimate and evaluate each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shards")
    parser.add_argument("texts", nargs="*", type=Path)
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--memory-mb", type=int, default=512)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.jsonl"))
    options = parser.parse_args()
    shards = open_shards(options.shards, verify=False)
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    tests = {"held out": held_out(shards, 200_000)}
    for path in options.texts:
        lines = [line for line in path.read_text("utf-8").split("\n") if line.strip()]
        tests[path.name] = [tokenizer.framing.one(x) for x in tokenizer.encode_bare_ids(lines)]
    framing = ends_of(shards.special)
    begin = None if framing is None else framing[0]
    documents = split_documents(shards, "train", 0.01)
    with tempfile.TemporaryDirectory(prefix=".ngrams-", dir=options.out.parent) as folder:
        began = time.monotonic()
        counts = count_ngrams(
            shards, documents, options.orders, Path(folder), options.memory_mb << 20
        )
        counting = {
            "tokens": int(counts[0].counts.sum()),
            "ngrams": [len(each.keys) for each in counts],
            "seconds": round(time.monotonic() - began, 1),
            "peak_gb": round(peak_gb(), 2),
        }
        print(json.dumps(counting), flush=True)
        rows: list[dict[str, Any]] = []
        kinds: list[tuple[str, float | None, list[int]]] = [
            ("kneser-ney", None, [0]),
            ("kneser-ney, pruned 0 0 1", None, [0, 0, 1]),
            ("add-0.01", 0.01, [0]),
            ("add-1", 1.0, [0]),
        ]
        for order in range(1, options.orders + 1):
            for name, k, prune in kinds:
                if len(prune) > order:
                    continue
                began = time.monotonic()
                thresholds = [*prune, *[prune[-1]] * order][:order]
                tables, loss = estimate(counts[:order], begin, thresholds, k)
                seconds = time.monotonic() - began
                config = NgramConfig(shards.vocab_size, order)
                head = Ngrams(config)
                head.set_tables(tables)
                learner = Learner(NgramContext(config), {"next_token": head}).eval()
                runner = ModelRunner(learner, tokenizer, torch.device("cpu"), 1 << 16, name)
                facts = {
                    "order": order,
                    "smoothing": name,
                    "ngrams": sum(len(table.keys) for table in tables),
                    "train_perplexity": round(float(np.exp(loss)), 2),
                    "estimate_seconds": round(seconds, 1),
                }
                for test, texts in tests.items():
                    began = time.monotonic()
                    scores = score_ids(runner, texts)
                    seconds = time.monotonic() - began
                    logs = np.concatenate([each.log_probabilities for each in scores])
                    row = {
                        **facts,
                        "text": test,
                        "perplexity": round(float(np.exp(-logs.mean())), 2),
                        "tokens": len(logs),
                        "tokens_per_second": round(len(logs) / seconds),
                    }
                    rows.append(row)
                    print(json.dumps(row), flush=True)
                text = "".join(json.dumps(row) + "\n" for row in rows)
                options.out.write_text(text, encoding="utf-8")
    print(json.dumps({"peak_gb": round(peak_gb(), 2)}))


if __name__ == "__main__":
    main()
