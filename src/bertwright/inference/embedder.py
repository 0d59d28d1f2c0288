"""`Embedder.load(folder)`: a model that makes vectors, with its folder's own defaults.

Embedder.load("runs/news").embed(["a text", ("a", "pair")])        # -> float32 [2, H]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch

from bertwright.checkpoint.sentence_transformers.dense import read_layer
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults, read_defaults
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError
from bertwright.inference import model as models
from bertwright.inference.backends.choice import Choice
from bertwright.inference.backends.plain import BackendName, Precision
from bertwright.inference.pieces import Text
from bertwright.inference.vector_maker import VectorMaker
from bertwright.inference.whitening import load_whitening


class Embedder(VectorMaker):
    """A model that makes vectors, loaded from its folder."""

    @staticmethod
    def load(
        path: str | Path,
        config: VectorConfig | None = None,
        *,
        backend: BackendName = "torch",
        precision: Precision = "fp32",
        exported: Sequence[str | Path] = (),
        whitening: str | Path | None = None,
        device: str | torch.device | None = None,
        sample: Sequence[Text] = (),
    ) -> Embedder:
        """Load a model to make vectors with.

        Args:
            path: a run, a checkpoint, a Hugging Face or sentence-transformers folder.
            config: which vectors; unset: the folder's own way if sentence-transformers wrote it,
                with its default prompt, else the mean of the layer below the last.
            backend: `torch`, `onnx` or `openvino`; `auto` measures.
            precision: `fp32`, exact; `bf16`, 2 to 3 digits; `int8`, a cosine of 0.99 or more
                with float32, else refused; `auto` measures.
            exported: folders that `bertwright export` wrote of this model, without a head, for
                this backend and precision.
            whitening: a file of `bertwright embed --fit-whitening`.
            device: unset: the GPU if there is one, for torch.
            sample: texts to measure and verify on; unset: a few of our own.

        Raises:
            ConfigError: no such layer, backend or precision, an export for others, or vectors too
                far from float32's.
            DataError, IntegrityError: see `checkpoint.load`.
        """
        for name, value, known in (
            ("backend", backend, get_args(BackendName)),
            ("precision", precision, get_args(Precision)),
        ):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; expected {', '.join(known)}")
        _check_exports(backend, exported)
        loaded = models.load(path, device)
        runner = loaded.runner
        config = config or default_config(path)
        white = None if whitening is None else load_whitening(whitening)
        folder = _defaults(path)
        dense = [read_layer(each) for each in folder.dense] if folder and config.dense else []
        choice = Choice(runner, config, [Path(each) for each in exported], sample, dense)
        found, notes = choice.choose(backend, precision)
        prompts = folder.prompts if folder is not None else None
        embedder = Embedder(
            found, runner.tokenizer, runner.config, config, white, dense=dense, prompts=prompts
        )
        embedder.notes = notes
        return embedder


def default_config(path: str | Path) -> VectorConfig:
    """What a folder of sentence-transformers says of itself; else our own."""
    known = _defaults(path)
    return VectorConfig() if known is None else known.vectors()


def prompts_of(path: str | Path) -> dict[str, str]:
    """The prompts of a folder, by name; none, unless it is one of sentence-transformers."""
    known = _defaults(path)
    return {} if known is None else dict(known.prompts)


def _defaults(path: str | Path) -> EmbeddingDefaults | None:
    return read_defaults(path) if Path(path).is_dir() else None


def _check_exports(backend: BackendName, exported: Sequence[str | Path]) -> None:
    if backend in ("onnx", "openvino") and not exported:
        raise ConfigError(
            f"--backend {backend} runs what bertwright export {backend} wrote; name the folder "
            "with --exported DIR, beside the checkpoint it is held against in --model"
        )
    if exported and backend == "torch":
        raise ConfigError(
            "--exported is run by another backend than torch; pass --backend onnx, openvino or auto"
        )
