"""Compare exported decoders, and the state that they take and return, with the original model.

The export reads a padded batch of texts of different random lengths, several tokens at once and
then one by one; the original model reads each text alone, without padding, in a single pass. The
comparison therefore covers the cache, the masks and the exporter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.checkpoint.export.check import compare
from bertwright.checkpoint.export.exported import Session
from bertwright.checkpoint.export.padded import LOGITS, PAST, PRESENT, Graph
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences

Arrays = dict[str, npt.NDArray[Any]]


def check_decoder(learner: Learner, graphs: Sequence[Graph], sessions: Sequence[Session]) -> float:
    """Return the largest difference, by `compare`, between the logits of the graphs, which
    `sessions` run, and those of the learner.
    """
    random = np.random.default_rng(0)
    spec = learner.encoder.spec
    most = min(spec.max_length or 64, 64)
    rows, steps = 6, min(4, most - 1)
    texts = [
        random.integers(0, spec.vocab_size, length).tolist()
        for length in [1, most - steps, *random.integers(1, most - steps + 1, rows - 2)]
    ]
    new = random.integers(0, spec.vocab_size, (rows, steps))
    theirs = _run(graphs, sessions, texts, new)  # [rows, steps, V]
    with torch.inference_mode():
        pairs = zip(texts, new.tolist(), strict=True)
        own = [_own(learner, text, more).numpy() for text, more in pairs]
    return compare({LOGITS: own}, {LOGITS: list(theirs)})


def _run(
    graphs: Sequence[Graph], sessions: Sequence[Session], texts: Sequence[list[int]], new: Any
) -> npt.NDArray[Any]:
    """Compute the logits `[B, t, V]` after each of the new tokens `[B, t]`, which continue prompts
    or, in a translation, are the targets of sources."""
    longest = max(map(len, texts))
    ids = np.zeros((len(texts), longest), np.int64)
    mask = np.zeros_like(ids)
    one = len(graphs) == 1  # a GPT, which continues the text that it reads
    for row, text in enumerate(texts):
        where = slice(longest - len(text), None) if one else slice(len(text))
        ids[row, where], mask[row, where] = text, 1
    last, session = graphs[-1], sessions[-1]
    state: Arrays = {}
    for name in last.state:
        sizes = [size if isinstance(size, int) else 0 for size in last.inputs[name][1:]]
        state[name] = np.zeros((len(texts), *sizes), np.float32)
    _advance(graphs[0], sessions[0], ids, mask, state)
    found = []
    # The first two tokens are read at once, so that a step of several tokens is compared too.
    for some in (new[:, :2], *np.split(new[:, 2:], max(new.shape[1] - 2, 1), 1)):
        if one:
            mask = np.concatenate([mask, np.ones_like(some)], 1)
        if some.size:
            found.append(_advance(last, session, some, mask, state))
    return np.concatenate(found, 1)


def _advance(
    graph: Graph, session: Session, ids: Any, mask: Any, state: Arrays
) -> npt.NDArray[Any]:
    """Run a graph, update `state` with its other outputs, and return its first output."""
    names = list(graph.inputs)
    feed = {names[0]: ids, names[1]: mask, **{name: state[name] for name in graph.state}}
    first, *rest = session(feed)
    outputs = list(graph.outputs)[1:]
    state |= {PAST + n.removeprefix(PRESENT): x for n, x in zip(outputs, rest, strict=True)}
    return first


def _own(learner: Learner, text: list[int], new: list[int]) -> torch.Tensor:
    """Compute the logits `[t, V]` of our model after each new token."""

    def inputs(ids: list[int]) -> Inputs:
        return Inputs(torch.tensor(ids), Sequences([len(ids)]))

    heads: Any = learner.objectives
    if "next_token" in heads:
        logits: torch.Tensor = heads["next_token"].logits(learner.encoder(inputs(text + new)).last)
        return logits[len(text) :]
    head = heads["translation"]
    found: torch.Tensor = head.logits(head.decoder(learner.encoder(inputs(text)), inputs(new)))
    return found
