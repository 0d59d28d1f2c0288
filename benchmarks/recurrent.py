"""LSTM language models: ours beside torch's fused `nn.LSTM` alone, and beside a padded loop.

    python benchmarks/recurrent.py [--model awd-lstm-small] [--rounds 8]

1. `stack`: forward and backward of the AWD-LSTM encoder in training, with all its dropouts as
   published and DropConnect, over 32 sequences of 64 tokens laid end to end; against `nn.LSTM`s of
   the same widths, one after the other, without dropout, over a dense `[64, 32, F]`.
2. `mixed`: a whole training step of the language model (vocabulary 8,192, AdamW) over 64 sequences
   of mixed lengths (log-normal, median 20, 4 to 128: as sentences are); against the same model as a
   padded loop: embeddings, `nn.LSTM`, logits of every position, cross-entropy without the padding.
3. `projected`: forward and backward of the LSTMs of `elmo-small` (cells of 1,024, projected to 128,
   both directions, clipped) over 32 sequences of 64; against an `nn.LSTM` a direction with the same
   projections, which has no clipping.

Both sides take turns in one process; a ratio is of their best rounds, in tokens a second (padding
does not count). Seconds are of the processor, one thread, as a core of a training step has a
micro-batch of its own; other work on the computer disturbs them little. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from machine import machine
from torch import Tensor, nn

from bertwright.data.token_streams import TokenStreamBatch
from bertwright.models.awd_lstm.config import DROPOUTS, AwdLstmConfig
from bertwright.models.awd_lstm.encoder import AwdLstm
from bertwright.models.catalogue import MODELS
from bertwright.models.elmo.encoder import Elmo
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.process_settings import keep_freed_memory

VOCABULARY, LENGTH, ROWS = 8192, 64, 32


def stack(config: AwdLstmConfig) -> tuple[Callable[[], None], Callable[[], None], int]:
    """Ours, torch's, and tokens of a step."""
    model = AwdLstm(replace(config, dropout_scale=1.0)).train()
    inputs = Inputs(torch.randint(VOCABULARY, (LENGTH * ROWS,)), Sequences([LENGTH] * ROWS))
    layers = [nn.LSTM(below, width) for below, width in pairwise(config.widths)]
    x = torch.randn(LENGTH, ROWS, config.embedding_size)

    def ours() -> None:
        model(inputs).last.sum().backward()  # type: ignore[no-untyped-call]

    def theirs() -> None:
        found = x.clone().requires_grad_()
        for layer in layers:
            found = layer(found)[0]
        found.sum().backward()  # type: ignore[no-untyped-call]

    return ours, theirs, LENGTH * ROWS


class PaddedModel(nn.Module):
    """The same language model over rectangles."""

    def __init__(self, config: AwdLstmConfig) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(VOCABULARY, config.embedding_size)
        self.layers = nn.ModuleList(
            nn.LSTM(below, width, batch_first=True) for below, width in pairwise(config.widths)
        )
        self.bias = nn.Parameter(torch.zeros(VOCABULARY))

    def forward(self, ids: Tensor, labels: Tensor) -> Tensor:
        """ids, labels `[B, T]`, padding -100 -> the mean loss"""
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x)[0]
        logits = F.linear(x, self.embeddings.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def mixed(config: AwdLstmConfig) -> tuple[Callable[[], None], Callable[[], None], int]:
    """Ours, the padded loop, and tokens of a step."""
    lengths = torch.empty(64).log_normal_(3.0, 0.7).clamp(4, 128).int().sort(descending=True)[0]
    counts = lengths.tolist()
    rows = [torch.randint(VOCABULARY, (count,)) for count in counts]
    encoder = AwdLstm(replace(config, dropout_scale=0.0))
    head = NextToken(config.embedding_size, VOCABULARY, encoder.token_embedding())
    learner = Learner(encoder, {"next_token": head}).train()
    sequences, tokens = Sequences(counts), torch.cat(rows)
    ends = torch.tensor(sequences.offsets[1:]) - 1
    inside = torch.ones(len(tokens), dtype=torch.bool).index_fill(0, ends, False)
    batch = TokenStreamBatch(Inputs(tokens, sequences), tokens, inside.nonzero()[:, 0])
    padded = PaddedModel(config)
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    labels = nn.utils.rnn.pad_sequence([row[1:] for row in rows], True, -100)
    labels = F.pad(labels, (0, 1), value=-100)
    steps = [torch.optim.AdamW(m.parameters(), 1e-3, fused=True) for m in (learner, padded)]

    def ours() -> None:
        steps[0].zero_grad()
        loss = learner(batch)["next_token"]
        (loss.total / loss.count).backward()
        steps[0].step()

    def theirs() -> None:
        steps[1].zero_grad()
        padded(ids, labels).backward()
        steps[1].step()

    return ours, theirs, len(tokens)


def projected() -> tuple[Callable[[], None], Callable[[], None], int]:
    """Ours, torch's, and tokens of a step: the LSTMs alone, without characters and dropout."""
    config = replace(MODELS["elmo"].presets["elmo-small"], vocab_size=VOCABULARY)
    width, sequences = config.projection_dim, Sequences([LENGTH] * ROWS)
    layers: Any = Elmo(config).train().layers
    rows = torch.randn(LENGTH * ROWS, width)
    directions = [nn.LSTM(width, config.dim, 2, proj_size=width) for _ in range(2)]
    x = torch.randn(LENGTH, ROWS, width)

    def ours() -> None:
        own = [rows.clone().requires_grad_()] * 2
        for both in layers:
            own = [lstm(each, sequences) for lstm, each in zip(both, own, strict=True)]
        torch.stack(own).sum().backward()  # type: ignore[no-untyped-call]

    def theirs() -> None:
        found = x.clone().requires_grad_()
        states = torch.stack([lstm(found)[0] for lstm in directions])
        states.sum().backward()  # type: ignore[no-untyped-call]

    return ours, theirs, LENGTH * ROWS


def rates(ours: Callable[[], None], theirs: Callable[[], None], tokens: int, rounds: int) -> object:
    """Tokens a second of both, each the best of its rounds, in turns."""
    best = [float("inf")] * 2
    for turn in range(rounds + 1):  # the first does not count
        for side, step in enumerate((ours, theirs)):
            began = time.process_time()
            step()
            if turn:
                best[side] = min(best[side], time.process_time() - began)
    mine, other = (round(tokens / seconds) for seconds in best)
    return {"ours": mine, "theirs": other, "ratio": round(mine / other, 2)}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model", default="awd-lstm-small", choices=list(MODELS["awd-lstm"].presets)
    )
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    published = {name: getattr(AwdLstmConfig(), name) for name in DROPOUTS}
    preset = MODELS["awd-lstm"].presets[arguments.model]
    config = replace(preset, vocab_size=VOCABULARY, **published)
    found: dict[str, object] = {"machine": machine(), "model": arguments.model}
    makers = {"stack": partial(stack, config), "mixed": partial(mixed, config)}
    for name, make in (makers | {"projected": projected}).items():
        found[name] = rates(*make(), arguments.rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
