"""In use: vectors beside sentence-transformers, fine-tuning beside a plain loop over transformers'
model, generation and beam search beside `transformers.generate`, and serving's engine in process.

Models have random weights and their published sizes, texts are made up, of mixed lengths. Seconds
are of the clock: results are on the host when a call ends. All figures of ours are measured before
a peer is imported, so that a peer that is missing, slow or broken costs none of them; a peer's
check reads ours from the record for the ratio.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import open_model
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.vectors import VectorConfig
from bertwright.decoding.search import Row, RowsInFlight, beam_steps, finish
from bertwright.decoding.texts import CausalDecoder
from bertwright.inference.model import load
from bertwright.labelled.examples import TextExample
from bertwright.models.bert.config import PRESETS
from bertwright.models.gpt.config import Gpt2Config
from bertwright.nn.products import has_bfloat16
from bertwright.recipes.finetune.seeds import new_learner
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import TaskHardware, train_seed
from bertwright.tasks.task_data import TaskData
from bertwright.tasks.texts.options import ClassificationTask
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
    """Ours first, then the peers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(device, folder)
        found = checks.record.found
        for precision in ("bf16", "fp32"):
            checks.run(
                f"vectors, {precision}",
                lambda: vectors(device, folder, precision),  # noqa: B023
                most=10,
            )
        checks.run("fine-tuning", lambda: finetuning(device, folder), most=15)
        checks.run("generation", lambda: generation(device, 1), most=10)
        checks.run("beam search", lambda: generation(device, 4), most=10)
        checks.run("the engine of serving", lambda: serving(device, folder), most=10)
        checks.run("imports", lambda: import_peers("sentence_transformers"), most=60)
        for precision in ("bf16", "fp32"):
            checks.run(
                f"vectors by sentence-transformers, {precision}",
                lambda: their_vectors(device, folder, precision, found(f"vectors, {precision}")),  # noqa: B023
                most=25,
            )
        checks.run(
            "fine-tuning of transformers' model",
            lambda: their_finetuning(device, folder, found("fine-tuning")),
            most=30,
        )
        for kind, beams in (("generation", 1), ("beam search", 4)):
            checks.run(
                f"{kind} by transformers",
                lambda: their_generation(device, beams, found(kind)),  # noqa: B023
                most=15,
            )


def make_texts(count: int, longest: int = 126) -> list[str]:
    """Texts of 3 to `longest` words, most of them of 10 to 40."""
    chance = random.Random(0)
    lengths = [min(longest, 3 + int(chance.lognormvariate(3.0, 0.7))) for _ in range(count)]
    return [" ".join(chance.choices(WORDS, k=length)) for length in lengths]


@cache
def tokenizer() -> Tokenizer:
    """A word a token."""
    return make_tokenizer([*SPECIAL, *WORDS, "."])


def write_model(device: Device, folder: Path) -> None:
    """Write a BERT of the base size, random weights, as a folder that both sides read."""
    size = SMALL_BERT if device.smoke else {}
    vocabulary = tokenizer().vocab_size if device.smoke else BERT_VOCABULARY
    config = replace(PRESETS["bert-base"], vocab_size=vocabulary, **size)
    learner = checkpoint.make_learner(config, ["masked_lm"])
    made = folder / "model"
    made.mkdir()
    tokenizer().save(folder / "tokenizer")
    checkpoint.save(made, learner, folder / "tokenizer", "random weights\n")


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


def _ratio(ours: dict[str, Any], theirs: float, key: str) -> dict[str, Any]:
    """Ours over theirs, where the check of ours has a figure."""
    return {key: ours["ours"] / theirs} if "ours" in ours else {}


def _texts(device: Device) -> list[str]:
    return make_texts(24 if device.smoke else 4096)


def _embedder(device: Device, folder: Path, precision: str) -> Any:
    config = VectorConfig((-1,), pooling="mean")
    model = load(str(folder / "model"), device=device.device)
    sample = _texts(device)[:64]
    return model.embedder(config, precision=precision, sample=sample)  # type: ignore[arg-type]


def vectors(device: Device, folder: Path, precision: str) -> dict[str, Any]:
    """Sentences a second."""
    if not _has(device, precision):
        return {"left_out": "this processor has no products in bf16"}
    texts, ours = _texts(device), _embedder(device, folder, precision)
    rate = len(texts) / _fastest(lambda: ours.embed(texts), 0.1 if device.smoke else 2.0)
    return {
        "texts": len(texts),
        "tokens": sum(len(text.split()) + 2 for text in texts),
        "ours": rate,
        "backend": ours.backend.name,
        **where_it_waits(device, lambda: ours.embed(texts[:256])),
    }


def their_vectors(
    device: Device, folder: Path, precision: str, ours: dict[str, Any]
) -> dict[str, Any]:
    """Sentences a second of the peer, in batches of 32, which is its default, and of 256; and the
    least cosine of its vectors with ours."""
    from sentence_transformers import SentenceTransformer

    if not _has(device, precision):
        return {"left_out": "this processor has no products in bf16"}
    texts, figures = _texts(device), dict[str, Any]()
    dtype = {"dtype": torch.bfloat16} if precision == "bf16" else {}
    peer = SentenceTransformer(str(folder / "model"), device=str(device.device), model_kwargs=dtype)
    rates = []
    for rows in (32, 256):
        encode = lambda: peer.encode(texts, batch_size=rows, show_progress_bar=False)  # noqa: B023, E731
        rates.append(len(texts) / _fastest(encode, 0.1 if device.smoke else 2.0))
        figures[f"sentence-transformers, batches of {rows}"] = rates[-1]
    theirs = np.asarray(peer.encode(texts[:256], show_progress_bar=False), np.float32)
    some = _embedder(device, folder, precision).embed(texts[:256])
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(theirs, axis=1)
    least = float(((some * theirs).sum(1) / lengths).min())
    figures |= {"ok": least > 0.99, "least_cosine": least}
    return figures | _ratio(ours, max(rates), "ours_over_best")


def _examples(count: int) -> list[TextExample]:
    chance = random.Random(1)
    return [TextExample(text, label=LABELS[chance.randrange(2)]) for text in make_texts(count, 100)]


def _task(device: Device) -> TaskSetup:
    task = ClassificationTask(labels=LABELS)
    train, dev = _examples(64 if device.smoke else 3200), _examples(32)
    files = TaskFilesConfig(train="made up", dev="made up")
    of_train, of_dev = (TaskData("task", task, tokenizer(), each) for each in (train, dev))
    return TaskSetup("task", task, files, task.options, of_train, of_dev, (), None, {}, [])


def finetuning(device: Device, folder: Path) -> dict[str, Any]:
    """Examples a second of training in batches of 32, by the recipe's own loop."""
    setup, made = _task(device), folder / "model"
    config = FinetuneConfig(
        str(made), str(folder / "run"), epochs=1.0, learning_rate=1e-5, device="auto"
    )
    ranks = Ranks(0, 1, device.device)
    hardware = TaskHardware(ranks, "bf16", device.peak or 1e12, 65536, 65536)
    learner, _ = new_learner(open_model(made), config, [setup], 1)
    seed_run = train_seed(config, [setup], learner, hardware, None)
    return {"examples": len(setup.train.examples), "ours": seed_run.examples_per_second}


def their_finetuning(device: Device, folder: Path, ours: dict[str, Any]) -> dict[str, Any]:
    """The same by the plain loop that a user writes around transformers' model."""
    transformers: Any = import_module("transformers")
    data = _task(device).train
    model: Any = transformers.AutoModelForSequenceClassification.from_pretrained(
        str(folder / "model"), num_labels=2, attn_implementation="sdpa"
    )
    model = model.to(device.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    rows = [
        (torch.tensor(each.ids[0]), int(cast(Any, each).label)) for each in data.instances
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
    rate = len(order) / (time.perf_counter() - began)
    return {"transformers": rate, **_ratio(ours, rate, "ours_over_theirs")}


@dataclass(frozen=True)
class Prompts:
    """What is generated: prompts of 4 to 100 tokens, longest first, and `new` tokens after each."""

    ids: list[list[int]]
    new: int
    vocabulary: int


def _prompts(device: Device, beams: int) -> Prompts:
    vocabulary = 500 if device.smoke else GPT2_VOCABULARY
    count, new = (4, 8) if device.smoke else (32 if beams == 1 else 8, 64)
    chance = random.Random(0)
    lengths = np.linspace(100, 4, count).astype(int).tolist()
    ids = [[chance.randrange(5, vocabulary) for _ in range(n)] for n in lengths]
    return Prompts(ids, new, vocabulary)


def generation(device: Device, beams: int) -> dict[str, Any]:
    """New tokens a second of GPT-2's size in bf16."""
    prompts = _prompts(device, beams)
    tiny: dict[str, Any] = {**TINY, "max_position_embeddings": 256} if device.smoke else {}
    made = Gpt2Config(vocab_size=prompts.vocabulary, **tiny)
    learner = checkpoint.make_learner(made, ["next_token"])
    learner = learner.to(device.device, torch.bfloat16).eval().requires_grad_(False)
    head: Any = learner.objectives["next_token"]
    config, count, new = GenerationConfig(max_new_tokens=prompts.new), len(prompts.ids), prompts.new

    def ours() -> None:
        decoder = CausalDecoder(learner.encoder, head)
        if beams > 1:
            finish(beam_steps(decoder, prompts.ids, (), [new] * count, beam=beams))
            return
        flight = RowsInFlight(decoder, ())
        flight.add(prompts.ids, [[Row(config, new, ids)] for ids in prompts.ids])
        while len(flight):
            flight.step()

    rate = count * new / _fastest(ours, 0.1 if device.smoke else 2.0)
    figures = {"prompts": count, "new_tokens": new, "beams": beams, "ours": rate}
    return figures | where_it_waits(device, ours)


def their_generation(device: Device, beams: int, ours: dict[str, Any]) -> dict[str, Any]:
    """The same by `transformers.generate`: its cache, its padding before the prompts."""
    transformers: Any = import_module("transformers")
    prompts = _prompts(device, beams)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4} if device.smoke else {}
    marks = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), END)
    made = transformers.GPT2Config(
        vocab_size=prompts.vocabulary, **sizes, **marks, attn_implementation="sdpa"
    )
    peer = transformers.GPT2LMHeadModel(made).to(device.device, torch.bfloat16).eval()
    longest = max(map(len, prompts.ids))
    ids = torch.tensor([[END] * (longest - len(row)) + row for row in prompts.ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts.ids])
    ids, mask, new = ids.to(device.device), mask.to(device.device), prompts.new

    def theirs() -> None:
        options = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False}
        with torch.inference_mode():
            peer.generate(ids, attention_mask=mask, num_beams=beams, **options)
        device.wait()

    rate = len(prompts.ids) * new / _fastest(theirs, 0.1 if device.smoke else 2.0)
    return {"transformers": rate, **_ratio(ours, rate, "ours_over_theirs")}


def serving(device: Device, folder: Path) -> dict[str, Any]:
    """What the server calls, without a network: full batches, and a text alone."""
    from bertwright.serve.engine.engine import RequestItem
    from bertwright.serve.engine.loading import load_engine
    from bertwright.serve.engine.outputs import Vectors

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
