"""GPT-2: a training step on mixed lengths and generation, beside transformers in the same run.

    python benchmarks/generation.py [--rounds 3] [--threads 1] [--profile]

Models of one size, random weights: gpt2-mini (H 256, 4 layers, 4 heads), vocabulary 8,000.

1. `training`: forward, backward, clipping and fused AdamW over 32 texts of 8 to 256 tokens. Ours
   without padding and without dropout, as `pretrain` does; theirs (`GPT2LMHeadModel`) over a padded
   rectangle, with its dropout of 0.1, as its configuration says, and once without. Tokens a second;
   padding does not count.
2. `generation`: 32 prompts of 4 to 100 tokens, 64 new tokens each, greedily, with a KV cache; ours
   without padding, longest first, as `generate` does; theirs by `generate` with padding before the
   prompts. New tokens a second.

Each in fp32 and bf16 (training: autocast; generation: weights), each in a process of its own with
the settings of its library; all take turns, and the best of the rounds counts. Seconds are of the
processor, on one thread, so that other work on the computer disturbs them little; with more threads
they are of the clock. Prints one JSON line; `over` are ratios of ours to theirs. `--profile` prints
where the time of ours goes instead.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from machine import machine
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.generation import GenerationConfig
from bertwright.data.token_streams import TokenStreamBatch
from bertwright.decoding.search import Row, RowsInFlight
from bertwright.inference.encode import ModelRunner
from bertwright.inference.generate import decoder_of
from bertwright.models.gpt.config import Gpt2Config
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.process_settings import keep_freed_memory
from bertwright.train.optim import clip_gradients

V, H, L, A, LONGEST = 8000, 256, 4, 4, 512
ROWS, NEW, END = 32, 64, 1
Sides = dict[str, Callable[[], None]]


def ours() -> Any:
    """A learner of ours, without dropout."""
    config = Gpt2Config(
        vocab_size=V,
        hidden_size=H,
        num_hidden_layers=L,
        num_attention_heads=A,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LONGEST,
    )
    return make_learner(config, ["next_token"])


def theirs(dropout: float) -> Any:
    """Of transformers, of the same size."""
    sizes: dict[str, Any] = {
        "vocab_size": V,
        "n_embd": H,
        "n_layer": L,
        "n_head": A,
        "n_positions": LONGEST,
    }
    drops: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    ends: dict[str, Any] = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), END)
    return GPT2LMHeadModel(GPT2Config(**sizes, **drops, **ends))


def texts(least: int, most: int) -> list[Tensor]:
    """Of mixed lengths, longest first."""
    lengths = torch.linspace(most, least, ROWS).int().tolist()
    return [torch.randint(5, V, (length,)) for length in lengths]


def training() -> tuple[Sides, int]:
    """A step of each, and its tokens."""
    rows = texts(8, 256)
    sequences = Sequences([len(row) for row in rows])
    tokens = torch.cat(rows)
    at = torch.ones(len(tokens), dtype=torch.bool)
    at[torch.tensor(sequences.offsets[1:]) - 1] = False
    positions = at.nonzero()[:, 0]

    def of_ours(model: nn.Module) -> Tensor:
        fresh = Sequences(sequences.lengths)  # what is made once a batch is made in every step
        batch = TokenStreamBatch(Inputs(tokens, fresh), tokens, positions)
        loss = model(batch)["next_token"]
        mean: Tensor = loss.total / loss.count
        return mean

    shuffled = [rows[n] for n in torch.randperm(ROWS).tolist()]
    ids = nn.utils.rnn.pad_sequence(shuffled, True, END)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in shuffled], True, 0)
    labels = ids.masked_fill(mask == 0, -100)

    def of_theirs(model: nn.Module) -> Tensor:
        loss: Tensor = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        return loss

    def step(model: nn.Module, loss: Callable[[nn.Module], Tensor], low: bool) -> Any:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu") if low else contextlib.nullcontext():
                found = loss(model)
            found.backward()  # type: ignore[no-untyped-call]
            clip_gradients(model.parameters(), 1.0)
            optimizer.step()

        return run

    models: dict[str, tuple[nn.Module, Any]] = {
        "ours": (ours().train(), of_ours),
        "transformers": (theirs(0.1).train(), of_theirs),
        "transformers without dropout": (theirs(0.0).train(), of_theirs),
    }
    sides = {
        f"{name}, {'bf16' if low else 'fp32'}": step(model, loss, low)
        for name, (model, loss) in models.items()
        for low in (False, True)
    }
    return sides, len(tokens)


def generation() -> tuple[Sides, int]:
    """Greedy texts of each, and their tokens."""
    prompts = [row.tolist() for row in texts(4, 100)]
    config = GenerationConfig(max_new_tokens=NEW)

    def of_ours(model: Any) -> None:
        runner = ModelRunner(model, None, torch.device("cpu"), 4096, "")  # type: ignore[arg-type]
        flight = RowsInFlight(decoder_of(runner), {END})
        rows = [Row(config, NEW, ids) for ids in prompts]
        flight.add(prompts, [[row] for row in rows])
        while len(flight):
            flight.step()
        assert all(len(row.ids) == NEW for row in rows)

    longest = max(map(len, prompts))
    ids = torch.tensor([[END] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])

    def of_theirs(model: Any) -> None:
        options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False}
        with torch.inference_mode():
            found = model.generate(ids, attention_mask=mask, **options)
        assert found.shape[1] == longest + NEW

    sides: Sides = {}
    for name, model, run in (("ours", ours(), of_ours), ("transformers", theirs(0.1), of_theirs)):
        plain = model.eval().requires_grad_(False)
        if name == "ours":
            # the table is the output too: no text ends before its length
            plain.encoder.token_embedding().weight[END] = 0
        sides[f"{name}, fp32"] = partial(run, plain)
        sides[f"{name}, bf16"] = partial(run, deepcopy(plain).bfloat16())
    return sides, ROWS * NEW


KINDS: dict[str, Callable[[], tuple[Sides, int]]] = {"training": training, "generation": generation}


def work(library: str, threads: int) -> None:
    """Answer each line `KIND/SIDE` with the tokens a second of one run."""
    if library == "ours":
        keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    made = {kind: make() for kind, make in KINDS.items()}
    clock = time.process_time if threads == 1 else time.perf_counter
    for line in sys.stdin:
        kind, _, side = line.strip().partition("/")
        sides, count = made[kind]
        began = clock()
        sides[side]()
        print(count / (clock() - began), flush=True)


def measure(rounds: int, threads: int) -> dict[str, Any]:
    """The best rate of each side, in turns; the first round does not count."""
    workers = {
        library: subprocess.Popen(
            [sys.executable, __file__, "--one", library, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for library in ("ours", "transformers")
    }
    names = {
        "training": ["ours", "transformers", "transformers without dropout"],
        "generation": ["ours", "transformers"],
    }
    found: dict[str, Any] = {}
    for kind, libraries in names.items():
        sides = [f"{name}, {low}" for low in ("fp32", "bf16") for name in libraries]
        best = dict.fromkeys(sides, 0.0)
        for turn in range(rounds + 1):
            for side in sides:
                worker = workers[side.partition(",")[0].partition(" ")[0]]
                assert worker.stdin
                assert worker.stdout
                worker.stdin.write(f"{kind}/{side}\n")
                worker.stdin.flush()
                rate = float(worker.stdout.readline())
                best[side] = max(best[side], rate if turn else 0.0)
        own = [side for side in sides if side.startswith("ours")]
        found[kind] = {side: round(rate) for side, rate in best.items()}
        found[kind]["over"] = {
            f"{ours} over {side}": round(best[ours] / best[side], 2)
            for ours in own
            for side in sides
            if side not in own
        }
    for worker in workers.values():
        worker.communicate()
    return found


def profile() -> None:
    """Where the time of ours goes, by operator."""
    keep_freed_memory()
    torch.set_num_threads(1)
    for kind, make in KINDS.items():
        sides, _ = make()
        for side in [each for each in sides if each.startswith("ours")]:
            sides[side]()
            with torch.profiler.profile() as profiler:
                sides[side]()
            print(kind, side)
            averages = profiler.key_averages()
            print(averages.table(sort_by="self_cpu_time_total", row_limit=20))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.profile:
        profile()
    elif arguments.one:
        work(arguments.one, arguments.threads)
    else:
        facts = {"machine": machine(), "threads": arguments.threads}
        print(json.dumps(facts | measure(arguments.rounds, arguments.threads)))


if __name__ == "__main__":
    main()
