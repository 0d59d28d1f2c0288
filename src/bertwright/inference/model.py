"""A trained model at work: `load(folder)` and the five things one asks of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.huggingface.names import Report
from bertwright.checkpoint.sources import read_tokenizer
from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import Combine, VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference import fill, next_sentence
from bertwright.inference.backends.plain import PlainBackend
from bertwright.inference.inputs import make_examples
from bertwright.inference.pieces import Text, listed, parts_of
from bertwright.inference.runner import Runner, is_count, windows
from bertwright.inference.vector_maker import VectorMaker, layer_tuple
from bertwright.progress import OnProgress, silent
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import TaskData
from bertwright.text.tokenizer.tokenizer import Encoding, Tokenizer

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class EncodedText:
    """What the encoder saw in one text: a row a token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """Characters of the text each token is from; (0, 0) for [CLS] and [SEP]."""
    type_ids: list[int]
    layers: Float32s
    """`[L + 1, T, H]`, embeddings first."""
    pooled: Float32s
    """`[H]`, the pooler's vector of the text; of the first window where there are several. Without
    meaning where nothing taught the pooler: it starts at random in a masked LM alone."""


class Model:
    """A BERT with its tokenizer and the heads its checkpoint has, ready to be asked."""

    def __init__(self, runner: Runner, report: Report, tasks: Mapping[str, TaskConfig]) -> None:
        self.runner = runner
        self.report = report
        """Which tensors of the folder were read, missing and unused."""
        self.tasks = dict(tasks)
        """What its task heads are for, by name: kind, labels, windows, threshold."""

    @property
    def config(self) -> BertConfig:
        """The shape of the BERT."""
        return self.runner.config

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        return self.runner.tokenizer

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads it has: `masked_lm`, `next_sentence`, and the names of its tasks."""
        return tuple(self.runner.learner.objectives)

    def encode(self, inputs: Iterable[Text]) -> list[EncodedText]:
        """Every layer's vector of every token of texts and pairs.

        A text longer than the model's positions is read in windows and put together again, so that
        each of its tokens has its row.

        Raises:
            DataError: something is no text, a pair is too long (only single texts are read in
                windows), or the model reads no pairs.
        """
        texts = [parts_of(number, item) for number, item in enumerate(listed(inputs))]
        paired = self.config.type_vocab_size > 1
        if not paired and any(len(parts) == 2 for parts in texts):
            raise DataError(f"{self.runner.name} reads no pairs: it has one segment")
        encodings = [self.tokenizer.encode(*parts) for parts in texts]
        pieces, types, owners = [], [], []
        for number, (parts, encoding) in enumerate(zip(texts, encodings, strict=True)):
            length = len(encoding.ids)
            most = self.config.max_position_embeddings
            if length > most and len(parts) == 2:
                raise DataError(
                    f"pair {number} has {length} tokens; this BERT has positions for {most}: "
                    "cut it, or encode its texts one by one"
                )
            if length <= most:
                spans = [(1, length - 1)]
            else:
                spans = [(a + 1, b + 1) for a, b in windows(length - 2, self.runner.room)]
            for start, stop in spans:
                ends = encoding.ids[0], encoding.ids[-1]
                pieces.append([ends[0], *encoding.ids[start:stop], ends[1]])
                types.append(encoding.type_ids[start - 1 : stop + 1])
                owners.append(number)
        states: list[Float32s] = [np.empty(0, np.float32)] * len(pieces)
        pooled: list[Float32s] = [np.empty(0, np.float32)] * len(pieces)
        for rows, encoded in self.runner.run(pieces, types, keep_layers=True):
            assert encoded.pooled is not None
            layers = torch.stack(encoded.layers).float().cpu().numpy()  # [L + 1, N, H]
            vectors = encoded.pooled.float().cpu().numpy()
            offsets = encoded.sequences.offsets
            for place, row in enumerate(rows):
                states[row] = layers[:, offsets[place] : offsets[place + 1]].copy()
                pooled[row] = vectors[place].copy()
        return [
            _put_together(
                encoding, [p for p, owner in enumerate(owners) if owner == n], states, pooled
            )
            for n, encoding in enumerate(encodings)
        ]

    def embed(
        self,
        texts: Iterable[Text],
        layers: int | Sequence[int] = (-2,),
        pooling: str = "mean",
        normalize: bool = False,
        on_progress: OnProgress = silent,
        combine: Combine = "concat",
    ) -> Float32s:
        """One vector a text or pair, by the model as it is loaded.

        Args:
            texts: n texts and pairs.
            layers: one or several: 0 is the embeddings, 1 to L the layers, negative from the top.
            pooling: how the tokens become one vector: a `Pooling`, or several as `cls+mean`.
            normalize: scale every vector to length 1.
            on_progress: called with the tokens done.
            combine: what becomes of several layers.

        Returns:
            `[n, W]`, float32: W is H, so often as layers are joined and poolings side by side.

        Raises:
            ConfigError: no such layer or pooling.
            DataError: something is no text, or a pair is too long.
        """
        config = VectorConfig(layer_tuple(layers), combine, pooling, normalize)
        backend = PlainBackend(self.runner.encoder, self.runner.batch_tokens)
        return VectorMaker(backend, self.tokenizer, self.config, config).embed(texts, on_progress)

    def fill(self, text: str, top: int = 5) -> list[fill.Blank]:
        """The likeliest tokens and their probabilities, one list a [MASK]; see `inference.fill`."""
        return fill.fill(self.runner, text, top)

    def next_sentence(self, first: str, second: str) -> float:
        """The probability that `second` follows `first`; warns if tokens had to be cut."""
        judgement = next_sentence.next_sentence(self.runner, first, second)
        if judgement.tokens_cut:
            warnings.warn(
                f"{judgement.tokens_cut} tokens far from the joint were cut: this BERT has "
                f"positions for {self.config.max_position_embeddings}",
                stacklevel=2,
            )
        return judgement.probability

    def predict(
        self,
        inputs: Iterable[Any],
        task: str | None = None,
        on_progress: OnProgress = silent,
    ) -> list[Prediction]:
        """What its task head says: one prediction an input, in order; see `inference.inputs`.

        Args:
            inputs: texts, pairs, lists of words, questions with passages, texts with choices.
            task: name of the task; it may be left out where the model has one.
            on_progress: called with the tokens done.

        Raises:
            DataError: no task head, or an input of another kind.
            ConfigError: several tasks and none named, or no such task.
        """
        name = self.task_name(task)
        runner = self.runner
        data = TaskData(
            name, self.tasks[name], runner.tokenizer, make_examples(self.tasks[name], inputs)
        )
        return predict(
            runner.learner, data, runner.device, "fp32", runner.batch_tokens, on_progress
        )

    def task_name(self, asked: str | None = None) -> str:
        """The task that is meant: the one asked for, or the only one.

        Raises:
            DataError: the model has no task head.
            ConfigError: several tasks and none named, or no such task.
        """
        if not self.tasks:
            raise DataError(
                f"{self.runner.name} has no task head (it has: "
                f"{', '.join(self.heads) or 'the encoder alone'}); teach it a task first: "
                f"bertwright finetune KIND --model {self.runner.name} --train FILE --out RUN"
            )
        if asked is None and len(self.tasks) == 1:
            return next(iter(self.tasks))
        if asked not in self.tasks:
            came = "has several tasks" if asked is None else f"has no task {asked!r}"
            raise ConfigError(
                f"{self.runner.name} {came}; name one with --task: {', '.join(self.tasks)}"
            )
        return asked


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
) -> Model:
    """Load a model.

    Args:
        path: a run, a checkpoint or a Hugging Face BERT folder.
        device: where it works; unset: the GPU if there is one.
        precision: `fp32`, exact; `bf16`, faster where the processor has it, 2 to 3 digits.
        batch_tokens: tokens of a batch, about; unset: 4,096 on a CPU, 65,536 on a GPU.

    Raises:
        ConfigError: no such precision or device, or a batch of no tokens.
        DataError, IntegrityError: no tokenizer in the folder, and see `checkpoint.load`.
    """
    if precision not in ("fp32", "bf16"):
        raise ConfigError(f"precision is {precision!r}; expected 'fp32' or 'bf16'")
    if batch_tokens is not None and not is_count(batch_tokens):
        raise ConfigError(f"batch_tokens is {batch_tokens!r}; expected 1 or more")
    place = _place(device)
    found = checkpoint.load(path)
    try:
        tokenizer = read_tokenizer(found.folder, found.config)
    except ConfigError as error:
        other = [
            f"; {path.name} alone, of SentencePiece, is not read: make tokenizer.json of it with "
            "transformers (AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))"
            for path in found.folder.glob("*.model")
        ]
        raise DataError(
            f"{found.folder} is a model without a tokenizer: put its tokenizer.json or vocab.txt "
            f"beside it{''.join(other[:1])}"
        ) from error
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    learner = found.learner.to(place, dtype).eval().requires_grad_(False)
    tokens = batch_tokens or (4096 if place.type == "cpu" else 65536)
    runner = Runner(learner, tokenizer, found.config, place, tokens, str(found.folder))
    return Model(runner, found.report, found.tasks)


def _place(asked: str | torch.device | None) -> torch.device:
    there = "cuda" if torch.cuda.is_available() else "cpu"
    if str(asked).startswith("cuda") and there == "cpu":
        raise ConfigError(f"device is {asked}, and torch finds no GPU here; leave it out, or cpu")
    try:
        place = torch.device(there if asked is None else asked)
        torch.zeros(1, device=place).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ConfigError(
            f"device is {asked!r}, and torch has none such here ({error}); expected {there}"
        ) from error
    return place


def _put_together(
    encoding: Encoding,
    pieces: list[int],
    states: list[Float32s],
    pooled: list[Float32s],
) -> EncodedText:
    """Join windows: [CLS] of the first, the text's tokens of each, [SEP] of the last."""
    last = len(pieces) - 1
    parts = [
        states[piece][:, 0 if n == 0 else 1 : None if n == last else -1]
        for n, piece in enumerate(pieces)
    ]
    return EncodedText(
        encoding.ids,
        encoding.tokens,
        encoding.offsets,
        encoding.type_ids,
        np.concatenate(parts, axis=1),
        pooled[pieces[0]],
    )
