"""In use: vectors beside sentence-transformers, fine-tuning beside a plain loop over transformers'
model, generation and beam search beside `transformers.generate`, and serving's engine in process.

Models have random weights and their published sizes, texts are made up, of mixed lengths. Seconds
are of the clock: results are on the host when a call ends.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import VectorConfig
from bertwright.decoding.search import Row, RowsInFlight, beam_steps, finish
from bertwright.decoding.texts import CausalDecoder
from bertwright.inference.model import load
from bertwright.labelled.examples import TextExample
from bertwright.models.bert.config import PRESETS
from bertwright.models.gpt.config import Gpt2Config
from bertwright.nn.products import has_bfloat16
from bertwright.recipes.finetune.run import new_learner
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import Hardware, train_seed
from bertwright.tasks.task_data import TaskData
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_tokenizer
from bertwright.train.distributed import Ranks

from .device import Device, where_it_waits
from .models import (
    BERT_VOCABULARY,
    GPT2_VOCABULARY,
    SMALL_BERT,
    SPECIAL,
    TINY,
    import_peers,
)
from .record import Checks

WORDS = tuple(f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in "bdfgklmnprst")
LABELS = ("no", "yes")
END = 0


def run(checks: Checks, device: Device) -> None:
    """All checks; the peers are imported when they are first needed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks.run("imports", lambda: import_peers("sentence_transformers"), most=60)
        checks.run("a model in a folder", lambda: write_model(device, folder), most=15)
        for precision in ("bf16", "fp32"):
            checks.run(
                f"vectors, {precision}",
                lambda: vectors(device, folder, precision),  # noqa: B023
                most=20,
            )
        checks.run("fine-tuning", lambda: finetuning(device, folder), most=25)
        checks.run("generation", lambda: generation(device, 1), most=20)
        checks.run("beam search", lambda: generation(device, 4), most=20)
        checks.run("the engine of serving", lambda: serving(device, folder), most=15)


def make_texts(count: int, longest: int = 126) -> list[str]:
    """Texts of 3 to `longest` words, most of them of 10 to 40."""
    chance = random.Random(0)
    lengths = [min(longest, 3 + int(chance.lognormvariate(3.0, 0.7))) for _ in range(count)]
    return [" ".join(chance.choices(WORDS, k=length)) for length in lengths]


@cache
def tokenizer() -> Tokenizer:
    """A word a token."""
    return make_tokenizer([*SPECIAL, *WORDS, "."])


def write_model(device: Device, folder: Path) -> dict[str, Any]:
    """A BERT of the base size, random weights, as a folder that both sides read."""
    size = SMALL_BERT if device.smoke else {}
    vocabulary = tokenizer().vocab_size if device.smoke else BERT_VOCABULARY
    config = replace(PRESETS["bert-base"], vocab_size=vocabulary, **size)
    learner = checkpoint.make_learner(config, ["masked_lm"])
    made = folder / "model"
    made.mkdir()
    tokenizer().save(folder / "tokenizer")
    checkpoint.save(made, learner, folder / "tokenizer", "random weights\n")
    return {
        "layers": config.num_hidden_layers,
        "parameters": sum(p.numel() for p in learner.parameters()),
    }


def _has(device: Device, precision: str) -> bool:
    return device.is_cuda or precision == "fp32" or has_bfloat16()


def _fastest(work: Callable[[], Any], seconds: float, least: int = 2) -> float:
    """The shortest of some calls after one that does not count."""
    work()
    times: list[float] = []
    ends = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < ends:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def vectors(device: Device, folder: Path, precision: str) -> dict[str, Any]:
    """Sentences a second and the least cosine with the peer's vectors; its batches of 32, which is
    its default, and of 256."""
    from sentence_transformers import SentenceTransformer

    if not _has(device, precision):
        return {"left_out": "this processor has no products in bf16"}
    texts, made = make_texts(24 if device.smoke else 4096), str(folder / "model")
    config = VectorConfig((-1,), pooling="mean")
    model = load(made, device=device.device)
    ours = model.embedder(config, precision=precision, sample=texts[:64])  # type: ignore[arg-type]
    seconds = 0.1 if device.smoke else 2.0
    rate = len(texts) / _fastest(lambda: ours.embed(texts), seconds)
    found = ours.embed(texts)
    figures: dict[str, Any] = {
        "texts": len(texts),
        "tokens": sum(len(text.split()) + 2 for text in texts),
        "ours": rate,
        "backend": ours.backend.name,
        **where_it_waits(device, lambda: ours.embed(texts[:256])),
    }
    dtype = {"dtype": torch.bfloat16} if precision == "bf16" else {}
    peer = SentenceTransformer(made, device=str(device.device), model_kwargs=dtype)
    for rows in (32, 256):
        encode = lambda: peer.encode(texts, batch_size=rows, show_progress_bar=False)  # noqa: B023, E731
        figures[f"sentence-transformers, batches of {rows}"] = len(texts) / _fastest(
            encode, seconds
        )
    theirs = np.asarray(peer.encode(texts[:256], show_progress_bar=False), np.float32)
    some = found[: len(theirs)]
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(theirs, axis=1)
    figures["least_cosine"] = float(((some * theirs).sum(1) / lengths).min())
    best = max(value for key, value in figures.items() if key.startswith("sentence-"))
    return figures | {"ok": figures["least_cosine"] > 0.99, "ours_over_best": rate / best}


def _examples(count: int) -> list[TextExample]:
    chance = random.Random(1)
    return [TextExample(text, label=LABELS[chance.randrange(2)]) for text in make_texts(count, 100)]


def finetuning(device: Device, folder: Path) -> dict[str, Any]:
    """Examples a second of training in batches of 32, by the recipe's own loop, and by the plain
    loop that a user writes around transformers' model."""
    count = 64 if device.smoke else 6400
    task = TaskConfig("classification", LABELS)
    train, dev = _examples(count), _examples(32)
    made = folder / "model"
    setup = TaskSetup(
        "task",
        task,
        TaskFilesConfig(train="made up", dev="made up"),
        TaskData("task", task, tokenizer(), train),
        TaskData("task", task, tokenizer(), dev),
        None,
        {},
        [],
    )
    config = FinetuneConfig(
        str(made), str(folder / "run"), epochs=1.0, learning_rate=1e-5, device="auto"
    )
    hardware = Hardware(Ranks(0, 1, device.device), "bf16", device.peak or 1e12, 65536, 65536)
    seed_run = train_seed(config, [setup], new_learner(made, config, [setup], 1), 1, hardware, None)
    figures: dict[str, Any] = {"examples": count, "ours": seed_run.examples_per_second}
    figures["transformers"] = _their_finetuning(device, made, setup.train)
    return figures | {"ours_over_theirs": figures["ours"] / figures["transformers"]}


def _their_finetuning(device: Device, made: Path, data: TaskData) -> float:
    import transformers

    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(
        str(made), num_labels=2, attn_implementation="sdpa"
    )
    model = model.to(device.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    rows = [
        (torch.tensor(each.ids[0]), int(each.label)) for each in data.instances
    ]  # made before the clock starts, as ours are
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).tolist()

    def step(numbers: Sequence[int]) -> None:
        ids = [rows[n][0] for n in numbers]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(x) for x in ids], batch_first=True)
        labels = torch.tensor([rows[n][1] for n in numbers])
        place = device.device
        optimizer.zero_grad()
        with torch.autocast(place.type, torch.bfloat16):
            loss = model(
                input_ids=padded.to(place), attention_mask=mask.to(place), labels=labels.to(place)
            ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step(order[:32])
    device.wait()
    began = time.perf_counter()
    for start in range(0, len(order), 32):
        step(order[start : start + 32])
    device.wait()
    return len(order) / (time.perf_counter() - began)


def generation(device: Device, beams: int) -> dict[str, Any]:
    """New tokens a second of GPT-2's size in bf16, prompts of 4 to 100 tokens, 64 new ones each."""
    import transformers

    small = device.smoke
    vocabulary = 500 if small else GPT2_VOCABULARY
    count, new = (4, 8) if small else (32 if beams == 1 else 8, 64)
    tiny: dict[str, Any] = {**TINY, "max_position_embeddings": 256} if small else {}
    learner = checkpoint.make_learner(Gpt2Config(vocab_size=vocabulary, **tiny), ["next_token"])
    learner = learner.to(device.device, torch.bfloat16).eval().requires_grad_(False)
    head: Any = learner.objectives["next_token"]
    chance = random.Random(0)
    lengths = np.linspace(100, 4, count).astype(int).tolist()
    prompts = [[chance.randrange(5, vocabulary) for _ in range(n)] for n in lengths]
    config = GenerationConfig(max_new_tokens=new)

    def ours() -> None:
        decoder = CausalDecoder(learner.encoder, head)
        if beams > 1:
            finish(beam_steps(decoder, prompts, (), [new] * count, beam=beams))
            return
        flight = RowsInFlight(decoder, ())
        flight.add(prompts, [[Row(config, new, ids)] for ids in prompts])
        while len(flight):
            flight.step()

    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4} if small else {}
    marks = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), END)
    peer: Any = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=vocabulary, **sizes, **marks, attn_implementation="sdpa")
    )
    peer = peer.to(device.device, torch.bfloat16).eval()
    longest = max(lengths)
    ids = torch.tensor([[END] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    ids, mask = ids.to(device.device), mask.to(device.device)

    def theirs() -> None:
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
        with torch.inference_mode():
            peer.generate(ids, attention_mask=mask, num_beams=beams, **options)
        device.wait()

    seconds, tokens = 0.1 if small else 2.0, count * new
    rates = {
        "ours": tokens / _fastest(ours, seconds),
        "transformers": tokens / _fastest(theirs, seconds),
    }
    return {
        "prompts": count,
        "new_tokens": new,
        "beams": beams,
        **rates,
        "ours_over_theirs": rates["ours"] / rates["transformers"],
        **where_it_waits(device, ours),
    }


def serving(device: Device, folder: Path) -> dict[str, Any]:
    """What the server calls, without a network: full batches, and a text alone."""
    from bertwright.serve.engine import RequestItem, load_engine
    from bertwright.serve.outputs import Vectors

    precision = "bf16" if _has(device, "bf16") else "fp32"
    engine = load_engine("m", str(folder / "model"), str(device.device), precision)  # type: ignore[arg-type]
    output = Vectors(engine, VectorConfig((-1,), pooling="mean"))
    bare = tokenizer().encode_bare_ids(make_texts(24 if device.smoke else 1024))
    items = [RequestItem(output, [tokenizer().framing.one(ids)], None, [0]) for ids in bare]
    seconds = 0.1 if device.smoke else 2.0
    full = _fastest(lambda: engine.run(items), seconds)
    alone = [_fastest(lambda: engine.run(items[n : n + 1]), 0.1) for n in range(3)]  # noqa: B023
    return {
        "precision": precision,
        "texts_per_second": len(items) / full,
        "alone_ms": 1e3 * statistics.median(alone),
    }
