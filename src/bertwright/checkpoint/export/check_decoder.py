"""Exported decoders held against ours, with the state that goes in and comes out.

Rows of unlike random lengths, padded, are read several tokens at once and then one by one; ours
reads each row alone, without padding, all at once. So the cache, the masks and the exporter are all
in what is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.checkpoint.export.check import accept
from bertwright.checkpoint.export.exported import Session
from bertwright.checkpoint.export.padded import LOGITS, PAST, PRESENT, Graph
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences

Arrays = dict[str, npt.NDArray[Any]]


def check_decoder(learner: Learner, graphs: Sequence[Graph], sessions: Sequence[Session]) -> float:
    """The largest difference to ours of the logits that the graphs give, run by `sessions`.

    Raises:
        BertwrightError: it is over `LARGEST_DIFFERENCE` of the largest logit above 1.
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
        own = np.stack([_own(learner, text, more).numpy() for text, more in pairs])
    scale = max(1.0, float(np.abs(own).max()))
    return accept(float(np.abs(own - theirs).max()) / scale, LOGITS)


def _run(
    graphs: Sequence[Graph], sessions: Sequence[Session], texts: Sequence[list[int]], new: Any
) -> npt.NDArray[Any]:
    """Logits after each of some new tokens `[B, t]`, behind prompts or of targets: `[B, t, V]`."""
    longest = max(map(len, texts))
    ids = np.zeros((len(texts), longest), np.int64)
    mask = np.zeros_like(ids)
    one = len(graphs) == 1  # what is read, it goes on with
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
    # two at once, so that a target that is given is compared too
    for some in (new[:, :2], *np.split(new[:, 2:], max(new.shape[1] - 2, 1), 1)):
        if one:
            mask = np.concatenate([mask, np.ones_like(some)], 1)
        if some.size:
            found.append(_advance(last, session, some, mask, state))
    return np.concatenate(found, 1)


def _advance(
    graph: Graph, session: Session, ids: Any, mask: Any, state: Arrays
) -> npt.NDArray[Any]:
    """What a graph gives first; the state is changed by the rest."""
    names = list(graph.inputs)
    feed = {names[0]: ids, names[1]: mask, **{name: state[name] for name in graph.state}}
    first, *rest = session(feed)
    outputs = list(graph.outputs)[1:]
    state |= {PAST + n.removeprefix(PRESENT): x for n, x in zip(outputs, rest, strict=True)}
    return first


def _own(learner: Learner, text: list[int], new: list[int]) -> torch.Tensor:
    """Ours: logits `[t, V]` after each new token."""

    def inputs(ids: list[int]) -> Inputs:
        return Inputs(torch.tensor(ids), Sequences([len(ids)]))

    heads: Any = learner.objectives
    if "next_token" in heads:
        logits: torch.Tensor = heads["next_token"].logits(learner.encoder(inputs(text + new)).last)
        return logits[len(text) :]
    head = heads["translation"]
    found: torch.Tensor = head.logits(head.decoder(learner.encoder(inputs(text)), inputs(new)))
    return found
