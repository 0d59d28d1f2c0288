"""Which backend makes the vectors: the one asked for, verified, or the fastest.

What is not float32 by torch is held against it on a sample of texts before it is used. `auto`
takes the fastest of those near enough and tells what it measured.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from bertwright.checkpoint.export.check import SAMPLE as SENTENCES
from bertwright.checkpoint.export.exported import open_exported
from bertwright.checkpoint.sentence_transformers.dense import DenseLayer
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, MissingExtra
from bertwright.inference import model as models
from bertwright.inference.backends.int8 import LEAST_COSINE, least_cosine, make_int8
from bertwright.inference.backends.packed import PackedBert, has_bfloat16
from bertwright.inference.backends.plain import (
    Backend,
    BackendName,
    ExportedBackend,
    PackedBackend,
    PlainBackend,
    Precision,
)
from bertwright.inference.pieces import Text
from bertwright.inference.runner import Runner
from bertwright.inference.vector_maker import VectorMaker
from bertwright.text.tokenizer.tokenizer import Tokenizer

LEAST_EXACT = 0.9999
"""Cosine that float32 elsewhere must reach: below it is another model, be it a neighbour."""
CPU_BATCH = 2048
"""Tokens of a batch: more falls out of a processor's cache."""
SAMPLE = 128
_SAMPLE_TEXTS = (
    "A man is playing a guitar on a small stage.",
    "The committee did not agree on the budget for next year, so the vote was put off.",
    "Where can I find the nearest station?",
    "Water boils at 100 degrees Celsius at sea level; on a mountain it boils earlier.",
    "i love this film !!",
    "def read(path): return open(path).read()",
    "Shares of the company fell 3.4% on Tuesday after it cut its forecast for the third time in "
    "a year, citing weak demand in Europe and the cost of energy, analysts said.",
    "No.",
)
RANDOM_TEXTS, RANDOM_WORDS = 32, 40
"""Texts of a model's own vocabulary in any order, and words of one, at most."""


def torch_backend(runner: Runner) -> Backend:
    """The model in float32, whatever else is chosen."""
    if runner.device.type != "cpu":
        return PlainBackend(runner.encoder, runner.batch_tokens)
    packed = PackedBert(runner.encoder, torch.float32)
    return PackedBackend(packed, CPU_BATCH, "torch fp32")


class Choice:
    """Candidates, held against float32 on a sample."""

    def __init__(
        self,
        runner: Runner,
        config: VectorConfig,
        exported: list[Path],
        sample: Sequence[Text],
        dense: Sequence[DenseLayer] = (),
    ) -> None:
        self.runner, self.config, self.exported = runner, config, exported
        self.sample = list(sample or _SAMPLE_TEXTS)[:SAMPLE]
        self.notes: list[str] = []
        self.dense = dense
        pooling = "mean" if config.pooling == "none" else config.pooling
        self.judged = replace(config, pooling=pooling, truncate=True)

    def choose(self, backend: BackendName, precision: Precision) -> tuple[Backend, list[str]]:
        """The backend asked for, verified; or the fastest of those that are.

        Raises:
            ConfigError: an export for another runtime or precision than is asked for, or nothing
                near enough to float32.
        """
        exact = torch_backend(self.runner)
        if backend == "torch" and precision == "fp32":
            return exact, []
        reference = self._vectors(exact)
        if backend == "torch" and precision != "auto":
            found = self._torch(precision)
            self._verify(found, reference)
            return found, self.notes
        makers: list[Callable[[], Backend]] = []
        if backend in ("auto", "torch"):
            wanted = ["bf16", "int8"] if precision == "auto" else [precision]
            wanted = [name for name in wanted if name != "fp32"]
            makers += [lambda name=name: self._torch(name) for name in wanted]  # type: ignore[misc]
        makers += [
            lambda folder=folder: self._exported(folder, backend, precision)  # type: ignore[misc]
            for folder in self.exported
        ]
        ours = backend in ("auto", "torch") and precision in ("auto", "fp32")
        candidates = [exact] if ours else []
        for make in makers:
            try:
                found = make()
                self._verify(found, reference)
                candidates.append(found)
            except (ConfigError, MissingExtra) as error:
                if backend not in ("auto", "torch"):
                    raise
                self.notes.append(f"left out: {error}")
        if not candidates:
            raise ConfigError(f"nothing here gives {precision} vectors: {'; '.join(self.notes)}")
        return self._fastest(candidates), self.notes

    def _torch(self, precision: str) -> Backend:
        runner = self.runner
        if runner.device.type != "cpu":
            if precision == "int8":
                raise ConfigError("8-bit products are for the CPU; use --precision bf16")
            low = models.load(runner.name, str(runner.device), "bf16").runner
            return PlainBackend(low.encoder, low.batch_tokens, "torch bf16")
        if not has_bfloat16():
            raise ConfigError(
                "this processor has no bfloat16 products that torch can use (AVX-512); "
                "use --precision fp32"
            )
        packed = PackedBert(runner.encoder, torch.bfloat16)
        backend = PackedBackend(packed, CPU_BATCH, f"torch {precision}")
        if precision == "int8":
            # ranges of the sample alone would cut off what other texts hold: a file may begin with
            # lines that are all alike
            broad = [*self.sample, *other_texts(runner.tokenizer)]
            kept = make_int8(
                packed,
                lambda: self._maker(backend).embed_tokens(broad),
                lambda: self._vectors(backend, broad),
                self._vectors(torch_backend(runner), broad),
            )
            if kept:
                self.notes.append(
                    f"int8: {len(kept)} of {4 * len(packed.layers)} products stay in bfloat16 "
                    f"({', '.join(kept)})"
                )
        return backend

    def _exported(self, folder: Path, backend: BackendName, precision: Precision) -> Backend:
        opened = open_exported(folder, torch.get_num_threads())
        stored = "int8" if opened.int8 else "fp32"
        if backend not in ("auto", opened.runtime):
            raise ConfigError(
                f"{folder} was exported for {opened.runtime}, not {backend}: pass --backend "
                f"{opened.runtime}, or another --exported"
            )
        if precision not in ("auto", stored):
            raise ConfigError(
                f"{folder} was exported in {stored}, not {precision}: pass --precision {stored}, "
                "or another --exported"
            )
        return ExportedBackend(opened, 4096, self.runner.config.num_hidden_layers)

    def _vectors(self, backend: Backend, texts: Sequence[Text] = ()) -> Tensor:
        return torch.from_numpy(self._maker(backend).embed(texts or self.sample))

    def _maker(self, backend: Backend) -> VectorMaker:
        runner = self.runner
        return VectorMaker(backend, runner.tokenizer, runner.config, self.judged, dense=self.dense)

    def _verify(self, backend: Backend, reference: Tensor) -> None:
        cosine = least_cosine(self._vectors(backend), reference)
        self.notes.append(
            f"{backend.name}: least cosine with float32 {cosine:.4f} over {len(reference)} texts"
        )
        least = LEAST_EXACT if backend.name.endswith("fp32") else LEAST_COSINE
        if cosine < least:
            raise ConfigError(
                f"{backend.name} gives other vectors than float32 (least cosine {cosine:.4f} over "
                f"{len(reference)} texts, {least} is asked): is it of this model?"
            )

    def _fastest(self, candidates: list[Backend]) -> Backend:
        texts = (self.sample * SAMPLE)[:SAMPLE]
        best: dict[str, float] = {}
        for _ in range(3):  # in turns, so that a slow moment falls on all
            for each in candidates:
                maker = self._maker(each)
                start = time.perf_counter()
                maker.embed(texts)
                rate = len(texts) / (time.perf_counter() - start)
                best[each.name] = max(best.get(each.name, 0.0), rate)
        chosen = max(candidates, key=lambda each: best[each.name])
        rates = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in best.items())
        self.notes.append(f"chosen: {chosen.name} ({rates})")
        return chosen


def other_texts(tokenizer: Tokenizer) -> list[str]:
    """Sentences of our own, and tokens of a vocabulary in any order, of every language it knows;
    always the same."""
    chance = random.Random(0)
    named = tokenizer.tokens_of(range(tokenizer.vocab_size))
    words = [
        token.removeprefix("##")
        for number, token in enumerate(named)
        if number not in tokenizer.special_ids and token
    ]
    lengths = [chance.randint(1, RANDOM_WORDS) for _ in range(RANDOM_TEXTS)]
    mixed = [" ".join(chance.choices(words, k=length)) for length in lengths]
    return [*_SAMPLE_TEXTS, *SENTENCES, *mixed]
