"""A loaded model that computes batches: one pass of the encoder for outputs of all kinds.

A batch may hold vectors, mask positions, tags and attention maps side by side. Their sequences lie
end to end; the encoder stops at the highest layer that any of them needs, and there at the tokens
that are read; then each output reads its rows.

Letters: N tokens of a batch, H hidden, L layers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.arrays import Float32s
from bertwright.atomic import sha256_file
from bertwright.checkpoint.adapters import adapter_of
from bertwright.checkpoint.checkpoint import (
    CARD,
    CHECKPOINTS,
    find_checkpoint,
    look_up_checkpoint,
    plan,
)
from bertwright.checkpoint.sentence_transformers.dense import DenseLayer
from bertwright.checkpoint.sentence_transformers.folder import folders_of
from bertwright.checkpoint.sources import folder_of, read_config, read_tokenizer
from bertwright.checkpoint.task_heads import HEADS
from bertwright.config.hub import PREFIX
from bertwright.config.vectors import VectorConfig, VectorPrecision
from bertwright.errors import BertwrightError, DataError
from bertwright.inference.backends.packed import PackedBackend
from bertwright.inference.backends.plain import Backend, PlainBackend
from bertwright.inference.encode import Positions
from bertwright.inference.generate import generates
from bertwright.inference.model import Model, load
from bertwright.inference.translation.translate import translates
from bertwright.inference.vectors.embed import Embedder
from bertwright.nn.encoder import HasAttentionMaps
from bertwright.nn.finite import NotFinite
from bertwright.nn.sequences import Sequences
from bertwright.serve.generation.flight import Flight
from bertwright.storage.model_folder import WEIGHTS

CONTINUATION = "continuation"
"""What a model can do that continues prompts."""
TRANSLATION = "translation"
"""The head of a model that translates."""
WHOLE = 1 << 40
"""Tokens of a backend's own batches: here the batcher decides."""
CHECK = ("a", "the first of two", "one that is a little longer than the others, and has a comma")
EXACT = 1e-4
"""Distance of vectors, by their length: more than float32's rounding, less than any mistake."""
ROUGH = 0.3
"""The same of short texts in bfloat16 or 8 bits."""


@dataclass(eq=False, slots=True)
class RequestItem:
    """One text: its sequences, and the output that is computed of them."""

    output: Output
    ids: Sequence[Sequence[int]]
    segments: Sequence[Sequence[int]] | None
    data: Any = None
    """For the output."""

    @property
    def tokens(self) -> int:
        """The tokens of all sequences of the item."""
        return sum(map(len, self.ids))

    def positions(self, top: int) -> Positions:
        """Of each sequence the positions where the layer `top` of a batch is read."""
        if max(self.output.layers) < top:
            return [()] * len(self.ids)
        return self.output.positions(self) or [range(len(ids)) for ids in self.ids]


@dataclass(frozen=True)
class Output(ABC):
    """What is computed of layers. Items of equal outputs are computed together."""

    engine: Engine

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers it needs, 0 the embeddings: the highest, unless a kind of output says more."""
        return (self.engine.top,)

    def positions(self, item: RequestItem) -> Positions | None:
        """Where it reads the highest of its layers, sequence by sequence of a text; None:
        everywhere. Elsewhere that layer may hold no numbers."""
        return None

    @abstractmethod
    def read(self, items: Sequence[RequestItem], part: Part) -> Sequence[Any]:
        """A result for each of the items, in order."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some sequences of a batch, end to end."""

    rows: list[int]
    """Of each sequence its number, counted through the windows of the items."""
    sequences: Sequences
    layers: dict[int, Tensor]
    """Layer -> `[N, H]`; the highest of a batch holds numbers only where it is read."""

    def take(self, numbers: Sequence[int]) -> Part:
        """These of its sequences, by number and in this order."""
        if list(numbers) == self.rows:
            return self
        index_of = {number: index for index, number in enumerate(self.rows)}
        at = [index_of[number] for number in numbers]
        offsets = self.sequences.offsets
        index = np.concatenate([np.arange(offsets[n], offsets[n + 1]) for n in at])
        rows = torch.from_numpy(index).to(next(iter(self.layers.values())).device)
        sequences = Sequences([self.sequences.lengths[n] for n in at], self.sequences.device)
        return Part(list(numbers), sequences, {n: x[rows] for n, x in self.layers.items()})


class Engine:
    """One model under a name."""

    def __init__(self, name: str, folder: str, model: Model) -> None:
        """A loaded model, which makes vectors as its folder says."""
        self.name, self.folder, self.model = name, folder, model
        self.default, self.prompts, self.dense = model.vectors, model.prompts, model.dense
        self.runner, self.tokenizer, self.spec = model.runner, model.tokenizer, model.spec
        self.top, self.longest = self.spec.depth, self.spec.max_length or WHOLE
        self.vector_tokens = min(self.default.max_length or self.longest, self.longest)
        """Tokens that a vector is made of, of a text that is not read in windows."""
        self.sha256 = weights_digest(self.runner.name, self.dense)
        self.loaded = int(time.time())
        self.examples = examples_of(folder_of(Path(self.runner.name)))
        self.damages: dict[str, str] = {}
        """Newer checkpoints of its run, by name, that were skipped, and what is damaged."""
        self.backend: Backend = PlainBackend(self.runner.encoder, WHOLE)
        self.precision = "fp32"
        self.generates = generates(self.runner)
        """Whether it continues prompts."""
        self.translates = translates(self.runner)
        """Whether it translates."""
        self.flights: dict[str, Flight] = {}
        """Of each way in which it generates, the texts that it is at."""
        self._embedders: dict[VectorConfig, Embedder] = {}

    @property
    def checkpoint(self) -> str | None:
        """The name of the checkpoint, where the model is one of a run."""
        place = Path(self.runner.name)
        return place.name if place.parent.name == CHECKPOINTS else None

    @property
    def head_kinds(self) -> set[str]:
        """Its pre-training heads, the kinds of its tasks, and the ways in which it generates."""
        kinds = {*self.model.heads, *(task.kind for task in self.model.tasks.values())}
        able = {CONTINUATION: self.generates, TRANSLATION: self.translates}
        return kinds - able.keys() | {way for way, does in able.items() if does}

    def reads_pairs(self, name: str) -> bool | None:
        """Whether a task of texts was trained on pairs; None where its folder does not say."""
        task = self.model.tasks[name]
        if task.kind not in ("classification", "regression"):
            return None
        if task.text2_column is None and task.text_column is not None:
            return False
        return task.text2_column is not None or self.model.is_cross_encoder or None

    def embedder(self, config: VectorConfig) -> Embedder:
        """What makes such vectors; made once for many requests.

        Raises:
            ConfigError: the model cannot give them.
        """
        found = self._embedders.get(config)
        if found is None:
            if len(self._embedders) >= 64:  # kinds of vectors
                self._embedders.clear()
            given = self.backend, self.tokenizer, self.spec, config
            found = self._embedders[config] = Embedder(*given, dense=self.dense)
        return found

    @property
    def attention_heads(self) -> int | None:
        """A, of each layer; None where the encoder has no attention maps."""
        has_maps = isinstance(self.runner.encoder, HasAttentionMaps)
        return int(self.model.config.num_attention_heads) if has_maps else None

    def run(self, items: Sequence[RequestItem]) -> list[Any]:
        """Results of the items of a batch, in order; may be called from several threads at once."""
        ids = [each for item in items for each in item.ids]
        segments = None
        if any(item.segments is not None for item in items):
            of_items = (item.segments or [[0] * len(own) for own in item.ids] for item in items)
            segments = [each for of_item in of_items for each in of_item]
        wanted = tuple(sorted({layer for item in items for layer in item.output.layers}))
        positions = [each for item in items for each in item.positions(wanted[-1])]
        everywhere = sum(map(len, positions)) == sum(map(len, ids))
        ((rows, sequences, layers),) = self.backend.run(
            ids, segments, wanted, None if everywhere else positions
        )
        whole = Part(list(rows), sequences, dict(zip(wanted, layers, strict=True)))
        ends = list(accumulate(len(item.ids) for item in items))
        groups: dict[Output, list[int]] = {}
        for number, item in enumerate(items):
            groups.setdefault(item.output, []).append(number)
        results: list[Any] = [None] * len(items)
        for output, numbers in groups.items():
            own = [n for i in numbers for n in range(ends[i] - len(items[i].ids), ends[i])]
            index = {number: at for at, number in enumerate(own)}
            part = whole.take([row for row in whole.rows if row in index])
            part = replace(part, rows=[index[row] for row in part.rows])
            with torch.inference_mode():
                found = output.read([items[i] for i in numbers], part)
            for number, result in zip(numbers, found, strict=True):
                results[number] = result
        return results

    def warm_up(self, most: int) -> None:
        """Make ready for batches of up to so many tokens, with as many threads as this one has:
        after it memory does not grow with every size of batch that comes."""
        if isinstance(self.backend, PackedBackend):
            self.backend.packed.warm_up(most)

    def self_check(self) -> None:
        """Compare vectors of texts, computed together, with those that the plain model gives each;
        raise `BertwrightError` if they differ, or are no numbers."""
        config = VectorConfig((-1,), pooling="mean", truncate=True)

        def vectors(backend: Backend, texts: Sequence[str]) -> Float32s:
            return Embedder(backend, self.tokenizer, self.spec, config).embed(texts)

        plain = PlainBackend(self.runner.encoder, WHOLE)
        try:
            expected = np.concatenate([vectors(plain, [text]) for text in CHECK])
            distances = np.linalg.norm(vectors(self.backend, CHECK) - expected, axis=1)
        except NotFinite as error:
            raise BertwrightError(f"{self.folder}: {error}") from error
        largest = float(np.linalg.norm(expected, axis=1).max())
        # a table of word vectors that knows none of the words gives zeros for each text
        wrong = float(distances.max()) / (largest or 1.0)
        allowed = EXACT if self.precision == "fp32" else ROUGH
        if not wrong <= allowed:
            differ = f"they differ by {wrong:.1e}, {allowed:.0e} is allowed; not served"
            raise BertwrightError(f"{self.folder}: vectors are not the plain model's: {differ}")


def examples_of(folder: Path) -> list[str]:
    """The texts of `widget` in a model's card, as the hub shows them:
    https://huggingface.co/docs/hub/models-widgets."""
    head = ""
    with suppress(OSError), (folder / CARD).open(encoding="utf-8", errors="replace") as file:
        head = file.read(1 << 14)
    front = re.match(r"---\n(.*?)\n---", head, re.DOTALL)
    widget = re.search(r"^widget:\n((?:[- ].*\n?)*)", front[1] if front else "", re.MULTILINE)
    found = re.findall(r"^[- ]+text: (.+)", widget[1] if widget else "", re.MULTILINE)
    return [_unquoted(text)[:1000] for text in found[:8]]


def _unquoted(text: str) -> str:
    """What YAML's quotes hold; double ones as JSON's."""
    with suppress(ValueError):
        return str(json.loads(text)) if text.startswith('"') else text.strip("'")
    return text


@contextmanager
def readable(folder: str) -> Iterator[None]:
    """Refuse a folder that this user may not read: a restart would not help."""
    try:
        yield
    except PermissionError as error:
        raise DataError(
            f"{error.filename or folder} cannot be read: {error.strerror}; let the server's user, "
            f"number {os.geteuid()}, read the folder {folder} and all that is in it"
        ) from error


def check_folder(folder: str) -> None:
    """Hold a model's headers against its configuration, before anything is said of serving it;
    of an id of the hub nothing, as it may have to be fetched first.

    Raises:
        BertwrightError: it cannot be served.
    """
    if not folder.startswith(PREFIX):
        with readable(folder):
            place, _ = look_up_checkpoint(folder)
            config = read_config(place)
            plan(place, config)
            read_tokenizer(folder_of(place), config)


def load_engine(
    name: str, folder: str, device: str | None = None, precision: VectorPrecision = "fp32"
) -> Engine:
    """Load a model to be served, warm it up and check its numbers.

    Raises:
        BertwrightError: it cannot be read, or its numbers are wrong.
    """
    with readable(folder):
        place, damaged = look_up_checkpoint(folder)  # from here on this one, wherever `latest` is
        before = _stamps(place)
        model = load(place, device)
        engine = Engine(name, folder, model)
        engine.damages = damaged
        # compared up to the top, as every layer is served
        own = engine.default
        compared = VectorConfig((*own.layers, -1), pooling=own.pooling, max_length=own.max_length)
        if model.spec.has_vectors:
            chosen = model.embedder(compared, precision=precision).backend
            if isinstance(chosen, (PackedBackend, PlainBackend)):
                chosen.batch_tokens = WHOLE
            engine.backend = chosen
            engine.precision = "fp32" if chosen.name.endswith("fp32") else precision
        if _stamps(place) != before:
            changed = f"{folder} was changed while it was loaded"
            raise BertwrightError(f"{changed}; load it once it is whole")
        if model.spec.has_vectors:
            engine.self_check()
        return engine


def weights_digest(folder: str | Path, dense: Sequence[DenseLayer] = ()) -> str:
    """SHA-256 of a model's weights: of its one file, else of the names and digests of several."""
    place = find_checkpoint(folder)
    files = _weights(place, dense)
    if len(files) == 1:
        return sha256_file(files[0])
    names = [Path(os.path.relpath(path, folder_of(place))).as_posix() for path in files]
    lines = [f"{sha256_file(path)}  {name}\n" for path, name in zip(files, names, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _weights(place: Path, dense: Sequence[DenseLayer] = ()) -> list[Path]:
    """The files of a model's weights: of the encoder, of heads and of dense layers."""
    heads = folder_of(place) / HEADS
    more = [heads] if heads.is_file() else []
    files = sorted([*adapter_of(place).weight_files(place), *more])
    return files + [x.dense.folder / WEIGHTS for x in dense]


def _stamps(place: Path) -> set[tuple[Path, int, int, int]]:
    """What tells whether a file that a model is read from was written to or replaced."""
    beside = [path for folder in folders_of(folder_of(place)) for path in folder.iterdir()]
    read = [path for path in beside if path.suffix in (".json", ".txt", ".safetensors")]
    files = {path: path.stat() for path in {*_weights(place), *read}}
    return {(path, x.st_ino, x.st_size, x.st_mtime_ns) for path, x in files.items()}
