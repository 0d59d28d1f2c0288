"""Choose the backend that computes vectors, and verify it.

The reference is torch in the precision in which the model was loaded; it is used without a check.
Any other backend is compared with float32 on a sample of texts before it is used.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, get_args

import torch
from torch import Tensor

from bertwright.arrays import Float32s
from bertwright.checkpoint.export.check import SENTENCES
from bertwright.checkpoint.export.exported import open_exported
from bertwright.config.vectors import BackendName, VectorPrecision
from bertwright.errors import ConfigError
from bertwright.inference.backends.agree import require_agreement
from bertwright.inference.backends.exported import ExportedBackend, ExportedEncoder
from bertwright.inference.backends.int8 import bfloat16_is_faster, make_int8
from bertwright.inference.backends.packed import PackedBackend, PackedStack, packable
from bertwright.inference.backends.plain import Backend, PlainBackend
from bertwright.inference.encode import ModelRunner, Text
from bertwright.nn.products import has_bfloat16
from bertwright.text.tokenizer.tokenizer import Tokenizer

CPU_BATCH = 2048
"""The number of tokens of a batch; more would not fit in a processor's cache."""
SAMPLE = 128
RANDOM_TEXTS, RANDOM_WORDS = 32, 40
"""The number of texts of random tokens of a model's vocabulary, and the most words of each."""


def torch_backend(runner: ModelRunner) -> Backend:
    """Return the backend that computes with the model as it was loaded: with torch in its
    precision, or with its exported graph.

    Layers that are `packable` are packed, unless the processor has no products in its precision.
    """
    encoder, name = runner.encoder, f"torch {runner.precision}"
    if isinstance(encoder, ExportedEncoder):
        return ExportedBackend(encoder)
    exact = runner.precision == "fp32"
    stack = packable(encoder)
    if stack is not None and (exact or has_bfloat16()):
        packed = PackedStack(stack, torch.float32 if exact else torch.bfloat16)
        return PackedBackend(packed, min(runner.batch_tokens, CPU_BATCH), name)
    return PlainBackend(encoder, runner.batch_tokens, name)


class Embeds(Protocol):
    """What computes vectors of texts, pooled or of every token."""

    def embed(self, texts: Sequence[Text]) -> Float32s: ...

    def embed_tokens(self, texts: Sequence[Text]) -> object: ...


class BackendChoice:
    """Creates backends and compares them with float32 on a sample."""

    def __init__(
        self,
        runner: ModelRunner,
        own: Backend,
        embedder: Callable[[Backend], Embeds],
        sample: Sequence[Text] = (),
    ) -> None:
        """Prepare the comparison of backends.

        Args:
            runner: the model.
            own: the model's `torch_backend`.
            embedder: returns what computes vectors of texts with a backend.
            sample: the texts whose vectors are compared; if empty, the package's sample sentences.
        """
        self.runner, self.own, self.embedder = runner, own, embedder
        self.sample = list(sample or SENTENCES)[:SAMPLE]
        self.notes: list[str] = []

    def choose(
        self, backend: BackendName, precision: VectorPrecision, exported: str | Path | None = None
    ) -> Backend:
        """Return the requested backend, after verifying that its vectors agree with float32's.

        Raises:
            ConfigError: there is no such backend or precision, the export is for another one, or
                its vectors are too far from float32's.
        """
        self._check(backend, precision, exported)
        if backend == "torch" and precision == self.runner.precision:
            return self.own
        if exported is None:
            chosen = self._torch(precision)
        else:
            chosen = self._exported(Path(exported), backend, precision)
        reference = self._vectors(self.own)
        exact = chosen.name.endswith("fp32")
        cosine = require_agreement(chosen.name, exact, self._vectors(chosen), reference)
        over = f"over {len(reference)} texts"
        self.notes.append(f"{chosen.name}: least cosine with float32 {cosine:.4f} {over}")
        return chosen

    def _check(
        self, backend: BackendName, precision: VectorPrecision, exported: str | Path | None
    ) -> None:
        for name, value, known in (
            ("backend", backend, get_args(BackendName)),
            ("precision", precision, get_args(VectorPrecision)),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; expected {', '.join(known)}")
        if backend != "torch" and exported is None:
            raise ConfigError(
                f"--backend {backend} runs what bertwright export {backend} wrote; name the folder "
                "with --exported DIR, beside the checkpoint it is compared with in --model"
            )
        if exported is not None and backend == "torch":
            raise ConfigError("--exported needs --backend onnx or --backend openvino")
        if self.runner.precision != "fp32" and (backend, precision) != ("torch", "bf16"):
            raise ConfigError(
                f"{self.runner.name} is loaded in {self.runner.precision}, but {backend} "
                f"{precision} is compared with float32: load it in fp32"
            )

    def _torch(self, precision: str) -> Backend:
        encoder, on_cpu = self.runner.encoder, self.runner.device.type == "cpu"
        stack = packable(encoder)
        if precision == "int8" and stack is None:
            raise ConfigError(
                "8-bit products are for layers such as BERT's on the CPU; use --precision bf16"
            )
        if on_cpu and not has_bfloat16():
            raise ConfigError(
                "this processor has no bfloat16 products that torch can use (AVX-512); "
                "use --precision fp32"
            )
        if stack is None:
            low = copy.deepcopy(encoder).to(torch.bfloat16)
            return PlainBackend(low, self.runner.batch_tokens, "torch bf16")
        packed = PackedStack(stack, torch.bfloat16)
        backend = PackedBackend(packed, CPU_BATCH, f"torch {precision}")
        if precision == "int8":
            if bfloat16_is_faster():
                self.notes.append(
                    "int8: this processor multiplies bfloat16 faster (AMX); --precision bf16 gives "
                    "closer vectors, 1.2 to 1.3 times as fast"
                )
            # The ranges of the sample are not enough, because a file may begin with lines that are
            # all alike; values of other texts would be clipped.
            broad = [*self.sample, *other_texts(self.runner.tokenizer)]
            in_bfloat16 = make_int8(
                packed,
                lambda: self.embedder(backend).embed_tokens(broad),
                lambda: self._vectors(backend, broad),
                self._vectors(self.own, broad),
            )
            if in_bfloat16:
                self.notes.append(
                    f"int8: {len(in_bfloat16)} of {4 * len(packed.layers)} products stay in "
                    f"bfloat16 ({', '.join(in_bfloat16)})"
                )
        return backend

    def _exported(self, folder: Path, backend: BackendName, precision: VectorPrecision) -> Backend:
        opened = open_exported(folder, torch.get_num_threads())
        stored = "int8" if opened.int8 else "fp32"
        for option, given, wanted in (
            ("backend", opened.runtime, backend),
            ("precision", stored, precision),
        ):
            if wanted != given:
                how = "for" if option == "backend" else "in"
                raise ConfigError(
                    f"{folder} was exported {how} {given}, not {wanted}: pass --{option} {given}, "
                    "or another --exported"
                )
        return ExportedBackend(ExportedEncoder(opened, self.runner.encoder, self.runner.name))

    def _vectors(self, backend: Backend, texts: Sequence[Text] = ()) -> Tensor:
        return torch.from_numpy(self.embedder(backend).embed(texts or self.sample))


def other_texts(tokenizer: Tokenizer) -> list[str]:
    """Return the package's sample sentences, and texts of random tokens of a vocabulary.

    The random texts contain words of all languages of the vocabulary. The seed is fixed, so the
    texts are always the same.
    """
    generator = random.Random(0)
    tokens = tokenizer.tokens_of(range(tokenizer.vocab_size))
    words = [
        token.removeprefix("##")
        for number, token in enumerate(tokens)
        if number not in tokenizer.special_ids and token
    ]
    lengths = [generator.randint(1, RANDOM_WORDS) for _ in range(RANDOM_TEXTS)]
    mixed = [" ".join(generator.choices(words, k=length)) for length in lengths]
    return [*SENTENCES, *mixed]
