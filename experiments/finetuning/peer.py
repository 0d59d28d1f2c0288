"""Fine-tunes by transformers' Trainer: what Bertwright's scores and speed are held against.

    python experiments/finetuning/peer.py --out DIR [--tasks SST-2 ...] [--seeds 1 2 3]
        [--precision bf16] [--model FOLDER] [--data FOLDER] [--attention eager] [--max-steps N]

Dynamic padding, published dropout, AdamW, linear decay after 10 % warm-up; the rest is in
`settings.py`. Texts come in random order: batches of like length, the Trainer's other way, put the
questions on one passage into one batch, and SQuAD then ends at 5 F1. Adds one JSON line a (task,
seed, model, precision) to DIR/peer.jsonl and leaves out what is there. `examples_per_second` is
training alone, by the clock; `examples_per_cpu_second` by the time the processor gave to it, for a
machine that works on other things as well. `--attention eager` is the same mathematics and faster
on a CPU where attention has dropout; sdpa is transformers' default.

Needs beyond `.[dev]`: accelerate, which transformers' Trainer imports (`pip install accelerate`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lines import Lines
from peer_tasks import PeerTask, make_task
from settings import (
    GRADIENT_NORM,
    SEEDS,
    SETTINGS,
    WARMUP,
    WEIGHT_DECAY,
    Setting,
    data_folder,
    files,
    model_folder,
)

sys.path.append(str(Path(__file__).resolve().parents[1]))
from needs import needs


def make_trainer(
    setting: Setting, task: PeerTask, tokenizer: Any, seed: int, given: argparse.Namespace
) -> Any:
    """A Trainer as its examples make it.

    Args:
        setting: batch size, epochs, learning rate.
        task: model class, features, collator.
        tokenizer: of the model.
        seed: of the head's weights, dropout and order.
        given: `model`, `attention`, `precision`, `max_steps`, `out`.
    """
    import transformers

    transformers.set_seed(seed)
    model_class = getattr(transformers, task.model_class)
    model = model_class.from_pretrained(
        given.model, attn_implementation=given.attention, **task.model_options
    )
    steps = -(-len(task.train) // setting.batch_size) * setting.epochs
    arguments = transformers.TrainingArguments(
        output_dir=str(given.out / "trainer"),
        num_train_epochs=setting.epochs,
        max_steps=given.max_steps or -1,
        per_device_train_batch_size=setting.batch_size,
        per_device_eval_batch_size=64,
        learning_rate=setting.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(WARMUP * steps),
        weight_decay=WEIGHT_DECAY,
        max_grad_norm=GRADIENT_NORM,
        bf16=given.precision == "bf16",
        use_cpu=True,
        seed=seed,
        save_strategy="no",
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    return transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=task.train,
        data_collator=getattr(transformers, task.collator)(tokenizer),
        processing_class=tokenizer,
    )


def finetune(name: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One run: its scores and its speed."""
    import torch
    import transformers

    setting = SETTINGS[name]
    train, dev = files(name, given.data, given.out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    task = make_task(setting, train, dev, tokenizer)
    trainer = make_trainer(setting, task, tokenizer, seed, given)
    clock, processor = time.perf_counter(), time.process_time()
    trainer.train()
    seconds, processor = time.perf_counter() - clock, time.process_time() - processor
    steps = trainer.state.global_step
    examples = min(steps * setting.batch_size, len(task.train) * setting.epochs)
    examples = round(examples * task.examples / len(task.train))  # of windows: questions
    clock = time.process_time()
    scores = task.scores(predict(trainer, task.dev))
    return {
        "side": "transformers",
        "task": name,
        "seed": seed,
        "precision": given.precision,
        "main": setting.main,
        "scores": {key: round(value, 5) for key, value in scores.items()},
        "examples": examples,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(processor, 1),
        "examples_per_second": round(examples / seconds, 1),
        "examples_per_cpu_second": round(examples / processor, 1),
        "evaluation_cpu_seconds": round(time.process_time() - clock, 1),
        "steps": steps,
        "attention": given.attention,
        "threads": torch.get_num_threads(),
        "settings": asdict(setting),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def predict(trainer: Any, features: list[dict[str, Any]]) -> Any:
    """Logits of the held-out features in their order; longest first, which pads least."""
    import numpy as np

    order = sorted(range(len(features)), key=lambda i: -len(features[i]["input_ids"]))
    logits = trainer.predict([features[i] for i in order]).predictions
    back = np.argsort(order)
    return tuple(part[back] for part in logits) if isinstance(logits, tuple) else logits[back]


def main() -> None:
    """Every task with the first seed, then with the next."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--max-steps", type=int, help="stop early, to measure; nothing is written")
    given = parser.parse_args()
    needs("accelerate", "accelerate")
    given.model = given.model or model_folder()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    given.out.mkdir(parents=True, exist_ok=True)
    lines = Lines(given.out / "peer.jsonl")
    for seed in given.seeds:
        for name in given.tasks:
            key = {"task": name, "seed": seed, "model": given.model, "precision": given.precision}
            if given.max_steps:
                print(json.dumps(finetune(name, seed, given)), flush=True)
            elif not lines.has(**key):
                lines.add(finetune(name, seed, given) | key)


if __name__ == "__main__":
    main()
