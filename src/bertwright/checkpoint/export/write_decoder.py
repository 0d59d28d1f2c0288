"""`bertwright export` of a model that writes token by token, held against ours before it appears.

```
DIR/  model.onnx (GPT)                            inputs and outputs: see decoders.py
      encoder_model.onnx, decoder_model.onnx      (Transformer, seq2seq); of OpenVINO with
                                                  openvino_ before and .xml, .bin behind the name
      config.json  tokenizer files  export.json  MANIFEST.json
```

`export.json` says for each graph what goes in (name, type, axes: a name where the size is open) and
what comes out, and which ids begin a text, end it and are never written.

The comparison: rows of unlike random lengths, padded, read several tokens at once where a graph
takes them and then one by one with the state it gave; ours reads each row alone, without padding,
all at once. So the cache, the masks and the exporter are all in what is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bertwright.atomic import atomic_folder, write_manifest
from bertwright.checkpoint import checkpoint, model_folder
from bertwright.checkpoint.export.check import accept
from bertwright.checkpoint.export.decoders import PAST, PRESENT, CachedGpt, Graph, graphs_of
from bertwright.checkpoint.export.exported import FORMAT, Runtime, Session, start
from bertwright.checkpoint.export.graph_files import (
    OPSET,
    finish_model,
    quiet,
    remove_onnx,
    runtime_file,
    versions,
    write_onnx,
)
from bertwright.checkpoint.model_folder import EXPORT
from bertwright.checkpoint.sources import read_tokenizer
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.objectives.objective import Learner
from bertwright.text.framing import ends_of

Arrays = dict[str, npt.NDArray[Any]]
_SIZES = {"batch": 3, "sequence": 5, "past": 7, "source": 6, "all": 12}
"""Of the traced example: neither 1 nor alike, or the exporter would take a size for fixed."""


def export_decoder(
    loaded: checkpoint.Loaded,
    out: Path,
    runtime: Runtime,
    overwrite: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """See `export` of write.py.

    Raises:
        ConfigError: a model that has no such graphs.
        BertwrightError: what was written differs from ours.
    """
    learner = loaded.learner.eval().requires_grad_(False)
    graphs = [graph.eval() for graph in graphs_of(learner)]
    tokenizer = read_tokenizer(loaded.folder, loaded.config)
    head = "next_token" if isinstance(graphs[0], CachedGpt) else "translation"
    special = tokenizer.special
    ends = {special[role] for role in ("sep", "eos") if role in special}
    unwritten = {*special.values(), *tokenizer.ids_without_token} - ends
    longest = learner.encoder.spec.max_length
    facts: dict[str, Any] = {
        "format": FORMAT,
        "runtime": runtime,
        "int8": False,
        "opset": OPSET,
        "head": head,
        "graphs": {},
        "outputs": dict.fromkeys(graphs[-1].outputs, "token"),
        "begin": (ends_of(special) or (None,))[0],
        "ends": sorted(ends),
        "never": sorted(unwritten),
        "longest": longest,
        "pooling": None,
        "crf": None,
        "versions": versions(runtime),
    }
    with atomic_folder(out, overwrite) as folder, quiet():
        on_step("writing the graphs")
        model_folder.copy_tokenizer(loaded.folder, folder, longest)
        checkpoint.write_config(folder, loaded.config, frozenset({head}))
        for graph in graphs:
            path = folder / f"{graph.file}.onnx"
            _write(graph, path)
            finish_model(path, runtime, int8=False)
            inputs = {name: [str(x.dtype)[6:], sizes] for name, (x, sizes) in _takes(graph).items()}
            made = {"inputs": inputs, "outputs": graph.outputs}
            facts["graphs"][runtime_file(path, runtime).name] = made
        (folder / EXPORT).write_text(json.dumps(facts))
        on_step("comparing with ours on random lengths")
        files = [runtime_file(folder / f"{graph.file}.onnx", runtime) for graph in graphs]
        sessions = [
            start(runtime, path, graph.outputs, torch.get_num_threads())
            for path, graph in zip(files, graphs, strict=True)
        ]
        facts["largest_difference"] = check(learner, graphs, sessions)
        del sessions
        if runtime != "onnx":
            remove_onnx(folder)
        text = json.dumps(facts, indent=1, allow_nan=False)
        (folder / EXPORT).write_text(text + "\n", encoding="utf-8")
        write_manifest(folder)
    return facts


def _takes(graph: Graph) -> dict[str, tuple[torch.Tensor, list[str | int]]]:
    """Input -> an example of it, and its axes: a name where the size is open, else the size."""
    one = graph.step
    of_mask = "all" if isinstance(graph, CachedGpt) else "source"
    of_ids: str | int = 1 if one else "source" if not graph.state else "sequence"
    sizes: dict[str, list[str | int]] = {
        "input_ids": ["batch", of_ids],
        graph.mask: ["batch", of_mask],
    }
    for name, (axes, shape) in graph.state.items():
        sizes[PAST + name] = [axis or size for axis, size in zip(axes, shape, strict=True)]
    found = {}
    for name, own in sizes.items():
        shape = tuple(_SIZES[size] if isinstance(size, str) else size for size in own)
        kind = torch.float32 if name.startswith(PAST) else torch.int64
        found[name] = torch.ones(shape, dtype=kind), own
    return found


def _write(graph: Graph, path: Path) -> None:
    takes = _takes(graph)
    names = {name for _, sizes in takes.values() for name in sizes if isinstance(name, str)}
    open_sizes = {name: torch.export.Dim(name, min=0) for name in sorted(names)}
    examples = [x for x, _ in takes.values()]
    axes = [
        {n: open_sizes[size] for n, size in enumerate(sizes) if isinstance(size, str)}
        for _, sizes in takes.values()
    ]
    inputs = (*examples[:2], examples[2:])
    write_onnx(graph, path, inputs, (*axes[:2], axes[2:]), list(takes), graph.outputs)


def check(learner: Learner, graphs: list[Graph], sessions: list[Session]) -> float:
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
    return accept(float(np.abs(own - theirs).max()) / scale, "logits")


def _run(
    graphs: list[Graph], sessions: list[Session], texts: Sequence[list[int]], new: Any
) -> npt.NDArray[Any]:
    """Logits after each of some new tokens `[B, t]`, behind prompts or of targets: `[B, t, V]`."""
    longest = max(map(len, texts))
    ids = np.zeros((len(texts), longest), np.int64)
    mask = np.zeros_like(ids)
    gpt = isinstance(graphs[0], CachedGpt)
    for row, text in enumerate(texts):
        where = slice(longest - len(text), None) if gpt else slice(len(text))
        ids[row, where], mask[row, where] = text, 1
    state = {
        PAST + name: np.zeros((len(texts), *sizes[1:]), np.float32)
        for name, (_, sizes) in graphs[-1].state.items()
    }
    first: Arrays = {"input_ids": ids, "attention_mask": mask}
    found = []
    if gpt:
        _advance(graphs[0], sessions[0], first, state)
    else:
        given = sessions[0](first)
        state |= _renamed(dict(zip(graphs[0].outputs, given, strict=True)))
    last = graphs[-1]
    # two at once where a graph can, so that a target that is given is compared too
    at_once = [new[:, :1], *np.split(new[:, 1:], new.shape[1] - 1, 1)]
    if not last.step and new.shape[1] > 2:
        at_once = [new[:, :2], *at_once[2:]]
    for some in at_once:
        if gpt:
            mask = np.concatenate([mask, np.ones_like(some)], 1)
        found.append(_advance(last, sessions[-1], {"input_ids": some, last.mask: mask}, state))
    return np.concatenate(found, 1)


def _advance(graph: Graph, session: Session, feed: Arrays, state: Arrays) -> npt.NDArray[Any]:
    """Logits of new tokens; the state is changed."""
    logits, *present = session({**feed, **state})
    state |= _renamed(dict(zip(graph.outputs[1:], present, strict=True)))
    return logits


def _renamed(given: Arrays) -> Arrays:
    """What a graph gave, as it is fed."""
    return {PAST + n.removeprefix(PRESENT): x for n, x in given.items() if n.startswith(PRESENT)}


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
