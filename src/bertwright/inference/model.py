"""A trained model: load it with `load(folder)`, and compute vectors, predictions and texts.

model = load("runs/news")
vectors = model.embed(["one text", ("a", "pair")])        # float32 [2, W], as its folder says
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import Opened
from bertwright.checkpoint.sentence_transformers.dense import DenseLayer, read_layer
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.checkpoint.spelling import spell_unknown_words
from bertwright.config.generation import GenerationConfig, TranslationConfig
from bertwright.config.task import TaskConfig
from bertwright.config.vectors import (
    BackendName,
    SimilarityFunction,
    VectorConfig,
    VectorPrecision,
)
from bertwright.decoding.texts import Generated
from bertwright.errors import ConfigError, DataError
from bertwright.inference import fill, generate, next_sentence, score
from bertwright.inference.attention.maps import AttentionMaps, attention_maps
from bertwright.inference.backends.choice import BackendChoice, torch_backend
from bertwright.inference.backends.exported import with_export
from bertwright.inference.backends.plain import Backend
from bertwright.inference.encode import (
    ModelRunner,
    Text,
    chunks,
    is_count,
    join_windows,
    listed,
    only_text,
    parts_of,
    tokenize,
)
from bertwright.inference.inputs import make_examples
from bertwright.inference.translation.parse import Parsed, parse
from bertwright.inference.translation.translate import TEXTS, Translated, translate
from bertwright.inference.vectors.embed import Embedder, layer_tuple, truncation
from bertwright.inference.vectors.whitening import Whitening, load_whitening
from bertwright.inference.vectors.words import WordTable, no_vector
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.sequences import Sequences
from bertwright.progress import OnProgress, silent
from bertwright.storage.tensor_names import Report
from bertwright.tasks.predict import predict
from bertwright.tasks.predictions import Prediction
from bertwright.tasks.task_data import TaskData
from bertwright.text.tokenizer.tokenizer import Tokenizer
from bertwright.text.treebank.words import split_sentence
from bertwright.train.hardware import choose_precision


@dataclass(frozen=True)
class EncodedText:
    """What the encoder computed for one text, with a row for each token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    """The start and end of each token in the text, in characters; (0, 0) for [CLS] and [SEP]."""
    type_ids: list[int]
    layers: Float32s
    """`[L + 1, T, H]`, the embeddings first."""
    pooled: Float32s | None
    """`[H]`, the pooler's vector of the text, or of its first window, if the encoder has a pooler.
    It is meaningless if no objective trained the pooler: after masked-LM training alone its weights
    are random.
    """


class Model:
    """A loaded encoder with its tokenizer and the heads of its checkpoint."""

    def __init__(
        self,
        runner: ModelRunner,
        config: Any,
        report: Report,
        tasks: Mapping[str, TaskConfig],
        opened: Opened | None = None,
    ) -> None:
        """Make a model of its parts.

        What the folder of `opened` specifies is read here, so that a later change of the current
        directory or of the folder does not change the model.
        """
        self.runner = runner
        self.config = config
        """The configuration of the encoder, as its folder has it."""
        self.report = report
        """The tensors that were read from the folder, are missing in it, or were not used."""
        self.tasks = dict(tasks)
        """The configuration of each task by its name: kind, labels, windows, null threshold."""
        self.opened = opened
        """The model on disk; None for a model that was made of parts."""
        self.folder = None if opened is None else opened.folder.absolute()
        """The folder that the model was loaded from; None for a model that was made of parts."""
        self._is_cross_encoder = bool(self.tasks and opened and opened.is_cross_encoder)
        self._stated: tuple[EmbeddingDefaults, tuple[DenseLayer, ...]] | DataError | None = None
        if opened is not None and not self._is_cross_encoder:
            # A cross-encoder's folder describes scores, not vectors. A model whose vectors are not
            # supported may have heads that are, so the error is raised where vectors are computed.
            try:
                self._stated = _read_vectors(opened)
            except DataError as error:
                self._stated = error
        self._backend: Backend | None = None
        self._embedder: tuple[Any, Embedder] | None = None

    @property
    def spec(self) -> EncoderSpec:
        """The specification of the encoder: its width, its depth, and its maximum length."""
        return self.runner.spec

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, which turns texts into the ids that the model reads."""
        return self.runner.tokenizer

    @property
    def heads(self) -> tuple[str, ...]:
        """The names of the model's heads: `masked_lm`, `next_sentence`, and the names of tasks."""
        return tuple(self.runner.learner.objectives)

    @property
    def vectors(self) -> VectorConfig:
        """The configuration of the vectors that `embed` computes by default.

        A folder of sentence-transformers specifies it. For other folders it is the encoder's
        default layer and pooling: for BERT, the mean of the layer below the last.

        Raises:
            DataError: the folder of sentence-transformers has parts that are not supported.
        """
        if self._folder is not None:
            return self._folder.vectors()
        spec = self.spec
        return VectorConfig((spec.default_layer,), normalize=spec.default_normalize)

    @property
    def says_vectors(self) -> bool:
        """Whether the model's folder specifies how vectors are computed, as a folder of
        sentence-transformers does.
        """
        return self._folder is not None

    @property
    def similarity_function(self) -> SimilarityFunction | None:
        """The function for comparing vectors that a folder of sentence-transformers specifies; None
        for other folders.
        """
        return None if self._folder is None else self._folder.similarity

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts of a folder of sentence-transformers, by name."""
        return {} if self._folder is None else dict(self._folder.prompts)

    @property
    def is_cross_encoder(self) -> bool:
        """Whether the model is a cross-encoder of sentence-transformers, whose head scores pairs.

        sentence-transformers marks a cross-encoder in its own configuration file since version 5.4,
        and by a key of `config.json` before.
        """
        return self._is_cross_encoder

    @property
    def _folder(self) -> EmbeddingDefaults | None:
        if isinstance(self._stated, DataError):
            raise self._stated
        return None if self._stated is None else self._stated[0]

    @property
    def dense(self) -> tuple[DenseLayer, ...]:
        """The dense layers of a folder of sentence-transformers."""
        if isinstance(self._stated, DataError):
            raise self._stated
        return () if self._stated is None else self._stated[1]

    def encode(self, inputs: Iterable[Text]) -> list[EncodedText]:
        """Return the vectors of every token of texts and pairs, at every layer.

        A text longer than the encoder reads at once is read in windows, which are joined so that
        each of its tokens has one row.

        Raises:
            DataError: the inputs are not texts, a pair is too long (only single texts are read in
                windows), or the model reads no pairs.
            ConfigError: the layers have different widths.
        """
        if len({*self.spec.widths}) > 1:
            widths = ", ".join(map(str, self.spec.widths))
            raise ConfigError(
                f"the layers of this model are {widths} wide, which one array cannot hold: take "
                "one at a time, embed(texts, layers=(-1,))"
            )
        texts = listed(inputs)
        encodings = [
            self.tokenizer.encode(*parts_of(number, text)) for number, text in enumerate(texts)
        ]
        tokenized = tokenize(
            self.tokenizer, texts, self.spec.max_length, False, self.spec.reads_pairs
        )
        pooled: dict[int, Float32s] = {}

        def batches() -> Iterable[tuple[list[int], Sequences, Float32s]]:
            for rows, encoded in self.runner.run(
                tokenized.ids, tokenized.segments, keep_layers=True
            ):
                if encoded.pooled is not None:
                    pooled.update(zip(rows, encoded.pooled.float().cpu().numpy(), strict=True))
                yield rows, encoded.sequences, torch.stack(encoded.layers).float().cpu().numpy()

        layers = join_windows(self.tokenizer.framing, tokenized, batches())
        firsts = np.flatnonzero(np.diff(tokenized.owners, prepend=-1)).tolist()
        return [
            EncodedText(each.ids, each.tokens, each.offsets, each.type_ids, x, pooled.get(first))
            for each, x, first in zip(encodings, layers, firsts, strict=True)
        ]

    def embed(
        self,
        texts: Iterable[Text],
        layers: int | Sequence[int] | None = None,
        pooling: str | None = None,
        normalize: bool | None = None,
        on_progress: OnProgress = silent,
        *,
        truncate: bool | None = None,
        max_length: int | None = None,
        dimensions: int | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        precision: VectorPrecision | None = None,
    ) -> Float32s:
        """Return one vector for each text or pair. The defaults of the settings are in `vectors`.

        Args:
            texts: n texts and pairs.
            layers: one layer or several: 0 is the embeddings, 1 to L the layers; negative numbers
                count from the top. The vectors of several layers are concatenated.
            pooling: how the tokens become one vector: a `Pooling`, or several as `cls+mean`.
            normalize: scale every vector to length 1.
            on_progress: called with the number of tokens done.
            truncate: truncate long texts instead of reading them in windows.
            max_length: the maximum number of tokens of a sequence, including special tokens.
            dimensions: the number of dimensions of a vector to keep, from the first on.
            prompt: text to put before every text, or before the first of a pair; "" for none.
            prompt_name: the name of one of the folder's prompts, in place of `prompt`.
            precision: the precision of the computation; see `embedder`. It is verified on the texts
                of the first call with these settings.

        Returns:
            `[n, W]`, float32. A warning is issued if texts are truncated because the folder says
            so, not the argument.

        Raises:
            ConfigError: there is no such layer, pooling, prompt or precision.
            DataError: the inputs are not texts, or a pair is too long.
        """
        texts = listed(texts)
        config = self.vectors.over(
            None if layers is None else layer_tuple(layers),
            pooling,
            normalize=normalize,
            truncate=truncate,
            max_length=max_length,
            dimensions=dimensions,
        )
        key = config, precision
        if self._embedder is None or self._embedder[0] != key:
            self._embedder = key, self.embedder(config, precision=precision, sample=texts)
        embedder = self._embedder[1]
        embedder.truncated = embedder.tokens_truncated = 0
        vectors = embedder.embed(texts, on_progress, prompt=prompt, prompt_name=prompt_name)
        if embedder.truncated and truncate is None:
            warnings.warn(
                f"{truncation(embedder.longest, embedder.truncated, embedder.tokens_truncated)}; "
                "truncate=False reads the rest in windows",
                stacklevel=2,
            )
        return vectors

    def most_similar(self, word: str, top: int = 10) -> list[tuple[str, float]]:
        """Return the `top` words with the largest cosine to a word, each with its cosine.

        The model must be a table of vectors (word2vec, GloVe, fastText, distilled token vectors).
        fastText computes the vector of a word outside the table from its n-grams.

        Args:
            word: the word, which is not among the words that are returned.
            top: the number of words.

        Raises:
            ConfigError: the model has layers, so that a word has no vector of its own, or `top` is
                below 1.
            DataError: the word has no vector.
        """
        if not is_count(top):
            raise ConfigError(f"top is {top!r}; expected 1 or more")
        words = self._words
        (ids,) = self.tokenizer.encode_bare_ids([only_text(word)], recognize=False)
        if all(index == self.tokenizer.unk_id for index in ids):
            raise no_vector(word, len(words.words))
        vector = self.embed([word], normalize=False)[0]
        return words.nearest(vector, top, self.tokenizer.tokens_of(ids))

    @cached_property
    def _words(self) -> WordTable:
        """The words of a table of vectors."""
        table = self.runner.encoder.token_embedding()
        if self.spec.depth or table is None:
            raise ConfigError(
                f"{self.runner.name} has layers, where the vector of a word depends on its "
                "sentence; most_similar is for tables of vectors. The nearest words of a layer are "
                f"shown by: bertwright words nearest WORD --model {self.runner.name} --layer 0"
            )
        tokenizer = self.tokenizer
        left_out = tokenizer.special_ids - tokenizer.words_of_file
        ids = sorted(set(tokenizer.vocab.values()) - left_out)
        vectors = table.weight[ids].float().cpu().numpy()
        return WordTable(tokenizer.tokens_of(ids), vectors)

    def embedder(
        self,
        config: VectorConfig | None = None,
        *,
        backend: BackendName = "torch",
        precision: VectorPrecision | None = None,
        exported: str | Path | None = None,
        whitening: str | Path | Whitening | None = None,
        sample: Sequence[Text] = (),
    ) -> Embedder:
        """Return an `Embedder`, which computes vectors with a fixed configuration, also of tokens
        and of files of texts.

        Args:
            config: the configuration of the vectors; None: `vectors`.
            backend: `torch`, `onnx` or `openvino`.
            precision: `fp32` is exact; `bf16` has 2 to 3 significant digits; `int8` is an error
                unless its vectors have a cosine of at least 0.99 with float32's; None: the
                precision that the model was loaded with.
            exported: the folder that `bertwright export` wrote for this model, without a head, for
                this backend and precision.
            whitening: a whitening to apply to the vectors, or a file that `bertwright whiten`
                wrote.
            sample: texts to verify the backend on; if empty, the package's sample sentences.

        Raises:
            ConfigError: there is no such layer, backend or precision, the export is for another
                backend or precision, or the vectors are too far from float32's.
            DataError, IntegrityError: the whitening or a dense layer cannot be read.
        """
        config = config or self.vectors
        if isinstance(whitening, (str, Path)):
            whitening = load_whitening(whitening)
        dense = self.dense if config.dense else ()
        own = self._backend or torch_backend(self.runner)
        pooling = "mean" if config.pooling == "none" else config.pooling
        compared = replace(config, pooling=pooling, truncate=True)

        def embedder_of(backend: Backend) -> Embedder:
            return Embedder(backend, self.tokenizer, self.spec, compared, dense=dense)

        choice = BackendChoice(self.runner, own, embedder_of, sample)
        chosen = choice.choose(backend, precision or self.runner.precision, exported)
        if chosen is own:  # on a CPU it has its own copy of the weights, so keep it only if used
            self._backend = own
        embedder = Embedder(
            chosen, self.tokenizer, self.spec, config, whitening, dense, self.prompts
        )
        embedder.notes = choice.notes
        return embedder

    def fill(self, text: str, top: int = 5) -> list[fill.Blank]:
        """Return the `top` most probable tokens for each [MASK] of a text, with their
        probabilities; see `inference.fill`.
        """
        return fill.fill(self.runner, text, top)

    def score(
        self, texts: Iterable[str], max_length: int | None = None, stride: int | None = None
    ) -> list[score.TextScore]:
        """Return the log-probability of every token of texts under a language model; see
        `inference.score`.

        A masked language model predicts each token from all others, so the sum over a text is its
        pseudo-log-likelihood.
        """
        return score.score(self.runner, texts, max_length, stride)

    def attention(self, text: Text) -> list[AttentionMaps]:
        """Return how much each token of a text, a pair or a translation attends to each other
        token, by layer and head; see `inference.attention.maps`.
        """
        return attention_maps(self.runner, text)

    def next_sentence(self, first: str, second: str) -> float:
        """Return the probability that `second` follows `first`.

        A warning is issued if the pair is too long for the model and tokens are left out.
        """
        probability, left_out = next_sentence.next_sentence(self.runner, first, second)
        if left_out:
            warnings.warn(
                f"this model reads {self.spec.max_length} tokens: {left_out} tokens were truncated "
                "at the start of the first text and the end of the second",
                stacklevel=2,
            )
        return probability

    def generate(
        self, prompts: str | Sequence[str], config: GenerationConfig | None = None, **settings: Any
    ) -> list[list[Generated]]:
        """Return texts that continue prompts, `num` for each; `.text` is the text after the prompt.

        Args:
            prompts: one prompt or several.
            config: how texts are generated. Instead, its fields may be given by name, as
                `max_new_tokens=20, sample=True, top_p=0.9`.
            **settings: see `GenerationConfig`.

        Raises:
            ConfigError: the settings contradict each other.
            DataError: the model is not a language model, or a prompt is too long.
        """
        texts = [prompts] if isinstance(prompts, str) else list(prompts)
        by_prompt = generate.generate(self.runner, texts, config or GenerationConfig(**settings))
        return [generated for _, generated in sorted(by_prompt)]

    def stream(
        self, prompt: str, config: GenerationConfig | None = None, **settings: Any
    ) -> Iterator[str]:
        """Yield the text that continues one prompt as it is generated; see `generate`."""
        return generate.stream(self.runner, prompt, config or GenerationConfig(**settings))

    def translate(
        self,
        texts: str | Iterable[str],
        config: TranslationConfig | None = None,
        **settings: Any,
    ) -> list[Translated]:
        """Return the translations of texts, in order; each has its `.text`.

        Args:
            texts: one text or several, each a sentence.
            config: how texts are translated. Instead, its fields may be given by name, as `beam=8,
                length_penalty=1.0`.
            **settings: see `TranslationConfig`.

        Raises:
            DataError: the model is not a translation model, or a text is too long.
        """
        given = [texts] if isinstance(texts, str) else texts
        groups = chunks(iter(given), TEXTS)
        return list(translate(self.runner, groups, config or TranslationConfig(**settings)))

    def parse(self, texts: str | Iterable[str], beam: int = 4) -> list[Parsed]:
        """Return the constituency trees of sentences, in order, with a model that was trained on
        trees.

        Raises:
            DataError: the model is not a parser, or a sentence is too long.
        """
        given = [texts] if isinstance(texts, str) else texts
        groups = chunks(map(split_sentence, given), TEXTS)
        return list(parse(self.runner, groups, beam))

    def predict(
        self,
        inputs: Iterable[Any],
        task: str | None = None,
        on_progress: OnProgress = silent,
        generation: GenerationConfig | None = None,
    ) -> list[Prediction]:
        """Return the predictions of a task head, one for each input, in order; see
        `inference.inputs`.

        Args:
            inputs: texts, pairs, lists of words, questions with passages, texts with choices, or
                sources to generate from.
            task: the name of the task; it may be omitted if the model has only one.
            on_progress: called with the number of tokens done.
            generation: how a generation task generates targets; None: greedily.

        A warning is issued if inputs are longer than what the task reads of a text.

        Raises:
            DataError: the model has no task head, or an input is of another kind.
            ConfigError: there are several tasks and none is named, or there is no such task.
        """
        name = self.task_name(task)
        runner = self.runner
        data = TaskData(
            name, self.tasks[name], runner.tokenizer, make_examples(self.tasks[name], inputs)
        )
        found = predict(runner.learner, data, "fp32", runner.batch_tokens, on_progress, generation)
        for message in data.warnings("inputs"):
            warnings.warn(message, stacklevel=2)
        return found

    def task_name(self, named: str | None = None) -> str:
        """Return the name of the given task, or of the only one.

        Raises:
            DataError: the model has no task head.
            ConfigError: there are several tasks and none is named, or there is no such task.
        """
        if not self.tasks:
            raise DataError(
                f"{self.runner.name} has no task head (it has: "
                f"{', '.join(self.heads) or 'the encoder alone'}); fine-tune it first: "
                f"bertwright finetune KIND --model {self.runner.name} --train FILE --out RUN"
            )
        if named is None and len(self.tasks) == 1:
            return next(iter(self.tasks))
        if named not in self.tasks:
            came = "has several tasks" if named is None else f"has no task {named!r}"
            raise ConfigError(
                f"{self.runner.name} {came}; name one with --task: {', '.join(self.tasks)}"
            )
        return named


def load(
    path: str | Path | Opened,
    device: str | torch.device | None = None,
    precision: Literal["fp32", "bf16", "auto"] = "fp32",
    batch_tokens: int | None = None,
    exported: str | Path | None = None,
) -> Model:
    """Load a model.

    Args:
        path: a run, a checkpoint, a folder of Hugging Face, sentence-transformers or TensorFlow, or
            an id of the Hugging Face hub (`hf:ORG/NAME`); or a model that is already opened.
        device: the device of the model; None or "auto": the GPU if there is one.
        precision: the precision of the weights: `fp32` is exact; `bf16` is faster if the processor
            supports it, and has 2 to 3 significant digits; `auto` is bf16 if that is measured to be
            faster.
            `Model.embedder` has further precisions, for vectors only.
        batch_tokens: the approximate number of tokens of a batch; None: 4,096 on a CPU, 65,536 on a
            GPU.
        exported: a folder that `bertwright export --task encoder` wrote of this model. Its graph
            computes the layers on the CPU, and the heads of `path` read them.

    Raises:
        ConfigError: there is no such precision or device, a batch would have no tokens, or the
            export is not of this model.
        DataError, IntegrityError: the folder has no tokenizer; see also `checkpoint.load`.
    """
    if precision not in ("fp32", "bf16", "auto"):
        raise ConfigError(
            f"precision is {precision!r}; expected 'fp32', 'bf16' or 'auto' (int8 is for vectors "
            "only: load(...).embed(texts, precision='int8'))"
        )
    if batch_tokens is not None and not is_count(batch_tokens):
        raise ConfigError(f"batch_tokens is {batch_tokens!r}; expected 1 or more")
    if exported is not None and precision != "fp32":
        raise ConfigError(f"an export has its own precision: leave out precision={precision!r}")
    where = _device("cpu" if exported is not None and device in (None, "auto") else device)
    if exported is not None and where.type != "cpu":
        raise ConfigError(f"an export runs on the CPU; device is {device}: leave it out, or cpu")
    if precision == "auto":
        precision, _ = choose_precision(where)
    loaded = checkpoint.load(path)
    opened, encoder = loaded.opened, loaded.learner.encoder
    most = opened.max_length
    tokenizer = spell_unknown_words(opened.tokenizer, encoder)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    learner = loaded.learner.to(where, dtype).eval().requires_grad_(False)
    if exported is not None:
        learner = with_export(exported, learner, tokenizer, opened.folder, most)
    tokens = batch_tokens or (4096 if where.type == "cpu" else 65536)
    begin = None if opened.trained_here else tokenizer.stated_begin
    runner = ModelRunner(learner, tokenizer, where, tokens, str(opened.folder), begin, most)
    return Model(runner, loaded.config, loaded.report, loaded.tasks, opened)


def _read_vectors(opened: Opened) -> tuple[EmbeddingDefaults, tuple[DenseLayer, ...]] | None:
    """Return how a folder of sentence-transformers defines its vectors, with its dense layers; None
    for any other folder."""
    defaults = opened.embedding
    return None if defaults is None else (defaults, tuple(map(read_layer, defaults.dense)))


def _device(name: str | torch.device | None) -> torch.device:
    default = "cuda" if torch.cuda.is_available() else "cpu"
    if str(name).startswith("cuda") and default == "cpu":
        raise ConfigError(f"device is {name}, but torch finds no GPU here; leave it out, or cpu")
    try:
        device = torch.device(default if name in (None, "auto") else name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ConfigError(
            f"device is {name!r}, but torch has no such device here ({error}); expected {default}"
        ) from error
    return device
