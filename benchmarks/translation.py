"""The translation Transformer: a training step and beam search, beside others in the same run.

    python benchmarks/translation.py [--rounds 3]

Models of one size, random weights: H 256, 3 + 3 layers, F 1,024, vocabulary 8,000. Sentences are of
mixed lengths, as those of Multi30k (log-normal, median 13).

1. `training`: forward, backward and AdamW over 128 pairs with dropout 0.1; ours without padding;
   `torch.nn.Transformer` and `MarianMTModel` of transformers over rectangles. Tokens of both sides
   a second; padding does not count. Ours and torch's with label smoothing 0.1.
2. `search`: 256 sources, sorted by length for both, beam 4; a target ends at 0.8 to 1.25 times the
   length of its source; ours in batches of tokens, transformers' `generate` with its cache in
   batches of 64. Sentences a second.

Each in fp32 and bf16 (training: autocast; search: weights). All take turns in one process; the best
of the rounds counts. Seconds are of the processor, one thread, so that other work on the computer
disturbs them little. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from machine import machine
from torch import Tensor, nn
from transformers import LogitsProcessor, LogitsProcessorList, MarianConfig, MarianMTModel

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.data.batch import token_batches
from bertwright.decoding.search import beam_steps, finish
from bertwright.decoding.targets import TargetDecoder
from bertwright.models.transformer.config import TransformerConfig
from bertwright.nn.outputs.translation import TranslationBatch
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.process_settings import keep_freed_memory

V, H, A, FF, L = 8000, 256, 4, 1024, 3
PAD, BEGIN, END = 0, 2, 3
PAIRS, SOURCES, BEAM = 128, 256, 4
Rows = list[Tensor]


def sentences(count: int) -> Rows:
    """Of mixed lengths, longest first."""
    lengths = torch.empty(count).log_normal_(2.6, 0.35).clamp(4, 60).int()
    return [torch.randint(5, V, (n,)) for n in lengths.sort(descending=True)[0].tolist()]


class Padded(nn.Module):
    """`nn.Transformer` with tied embeddings over rectangles."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(V, H)
        self.positions = nn.Embedding(128, H)
        self.stack = nn.Transformer(H, A, L, L, FF, 0.1, "relu", batch_first=True)
        self.bias = nn.Parameter(torch.zeros(V))

    def forward(self, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        """`[B, S]`, `[B, T]`, `[B, T]` -> the mean loss"""
        x, y = (
            self.embeddings(ids) * H**0.5 + self.positions(torch.arange(ids.shape[1]))
            for ids in (source, target)
        )
        no_x, no_y = source == PAD, target == PAD
        causal = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        masks = {"src_key_padding_mask": no_x, "memory_key_padding_mask": no_x}
        found = self.stack(x, y, tgt_mask=causal, tgt_key_padding_mask=no_y, **masks)
        logits = F.linear(found, self.embeddings.weight, self.bias)
        flat = logits.flatten(0, 1), labels.flatten()
        return F.cross_entropy(*flat, ignore_index=-100, label_smoothing=0.1)


def marian() -> MarianMTModel:
    """Theirs, of the same size."""
    sizes: dict[str, Any] = {"vocab_size": V, "d_model": H, "max_position_embeddings": 128}
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": L, f"{part}_ffn_dim": FF, f"{part}_attention_heads": A}
    sizes |= {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": BEGIN}
    sizes |= {"scale_embedding": True, "activation_function": "relu", "dropout": 0.1}
    config = MarianConfig(**sizes, forced_eos_token_id=None)
    return MarianMTModel(config)


def training() -> tuple[dict[str, Callable[[], None]], int]:
    """A step of each, and the tokens of both sides."""
    sources, targets = sentences(PAIRS), sentences(PAIRS)
    near = (torch.arange(PAIRS) + torch.randn(PAIRS) * 16).argsort().tolist()
    targets = [targets[n] for n in near]  # about as long as their sources
    begin, end = torch.tensor([BEGIN]), torch.tensor([END])
    read = [torch.cat([begin, each]) for each in targets]
    wanted = [torch.cat([each, end]) for each in targets]

    def inputs(rows: Rows) -> Inputs:
        return Inputs(torch.cat(rows), Sequences([len(row) for row in rows]))

    batch = TranslationBatch(inputs(sources), inputs(read), torch.cat(wanted))
    config = TransformerConfig(V, H, L, A, FF, max_position_embeddings=128)
    ours = make_learner(config, ["translation"]).train()
    padded, other = Padded().train(), marian().train()
    shuffled = torch.randperm(PAIRS).tolist()

    def rectangle(rows: Rows, fill: int) -> Tensor:
        return nn.utils.rnn.pad_sequence([rows[n] for n in shuffled], True, fill)

    x, y, labels = rectangle(sources, PAD), rectangle(read, PAD), rectangle(wanted, -100)

    def of_ours() -> Tensor:
        loss = ours(batch)["translation"]
        mean: Tensor = loss.total / loss.count
        return mean

    def of_marian() -> Tensor:
        mask = x != PAD
        loss: Tensor = other(x, mask, decoder_input_ids=y, labels=labels).loss
        return loss

    models: dict[str, tuple[nn.Module, Callable[[], Tensor]]] = {
        "ours": (ours, of_ours),
        "nn.Transformer": (padded, lambda: padded(x, y, labels)),
        "Marian": (other, of_marian),
    }

    def step(model: nn.Module, loss: Callable[[], Tensor], low: bool) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            with torch.autocast("cpu") if low else contextlib.nullcontext():
                found = loss()
            found.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        return run

    steps = {
        f"{name}, {'bf16' if low else 'fp32'}": step(*pair, low)
        for name, pair in models.items()
        for low in (False, True)
    }
    return steps, len(torch.cat(sources)) + len(batch.labels)


class Ends(LogitsProcessor):
    """Each sentence ends at its length, not before."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = torch.tensor(lengths).repeat_interleave(BEAM)

    def __call__(self, ids: Any, scores: Any) -> Any:
        """ids `[R, t]`, scores `[R, V]`"""
        over = ids.shape[1] >= self.lengths
        end = scores[over, END].clone()
        scores[over] = -torch.inf
        scores[:, END] = -torch.inf
        scores[over, END] = end
        return scores


def search() -> tuple[dict[str, Callable[[], None]], int]:
    """Translating with each, and the sentences."""
    sources = [[BEGIN, *row.tolist(), END] for row in sentences(SOURCES)]
    ratios = torch.empty(SOURCES).uniform_(0.8, 1.25).tolist()
    lengths = [round(ratio * len(ids)) for ratio, ids in zip(ratios, sources, strict=True)]
    config = TransformerConfig(V, H, L, A, FF, max_position_embeddings=128)
    learner = make_learner(config, ["translation"])

    def ours(model: Any) -> None:
        decoder = TargetDecoder(model, model.objectives["translation"], BEGIN)
        for rows in token_batches([len(ids) for ids in sources], 4096 // BEAM):
            some, limits = [sources[row] for row in rows], [lengths[row] for row in rows]
            finish(beam_steps(decoder, some, {END}, limits, beam=BEAM, never=[PAD, END]))

    def theirs(model: Any) -> None:
        for first in range(0, SOURCES, 64):
            rows = [torch.tensor(ids) for ids in sources[first : first + 64]]
            ids = nn.utils.rnn.pad_sequence(rows, True, PAD)
            ends = LogitsProcessorList([Ends(lengths[first : first + 64])])
            options = {"num_beams": BEAM, "max_new_tokens": 100, "logits_processor": ends}
            with torch.inference_mode():
                model.generate(ids, attention_mask=ids != PAD, **options)

    sides: dict[str, Callable[[], None]] = {}
    for name, model, run in (("ours", learner, ours), ("Marian", marian(), theirs)):
        plain = model.eval().requires_grad_(False)
        sides[f"{name}, fp32"] = partial(run, plain)
        sides[f"{name}, bf16"] = partial(run, deepcopy(plain).bfloat16())
    return sides, SOURCES


def rates(sides: dict[str, Callable[[], None]], count: int, rounds: int) -> dict[str, float]:
    """What each does a second, the best of its rounds, in turns; the first does not count."""
    best = dict.fromkeys(sides, float("inf"))
    for turn in range(rounds + 1):
        for name, run in sides.items():
            began = time.process_time()
            run()
            if turn:
                best[name] = min(best[name], time.process_time() - began)
    return {name: round(count / seconds, 1) for name, seconds in best.items()}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found: dict[str, object] = {"machine": machine()}
    for name, make in (("training", training), ("search", search)):
        found[name] = rates(*make(), arguments.rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
