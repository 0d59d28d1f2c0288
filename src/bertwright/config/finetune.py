"""The configuration of a fine-tuning run: its labelled files, and how it trains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import LARGEST, above, at_least, below_one, seed
from bertwright.config.task import Form, HeadPooling, Layers, Network, TaskOptions
from bertwright.errors import ConfigError

TRANSFERS = "auto, finetune, features, gradual, or top-N, as top-2"


def rates_of(given: float | str | None) -> tuple[float, ...]:
    """Return the learning rates that are named, as `1e-4,3e-4`; none of `auto` and of None.

    Raises:
        ConfigError: one is no number above 0, or is named twice.
    """
    if given is None or given == "auto":
        return ()
    parts = [given] if isinstance(given, float) else given.split(",")
    expected = "expected auto, a number above 0, or several, as 1e-4,3e-4,1e-3"
    found = []
    for part in parts:
        try:
            rate = float(part)
        except ValueError:
            raise ConfigError(f"learning_rate is {given!r}; {expected}") from None
        if not 0 < rate <= LARGEST:
            raise ConfigError(f"learning_rate is {given!r}; {expected}, up to {LARGEST:g}")
        found.append(rate)
    if len(set(found)) < len(found):
        raise ConfigError(f"learning_rate is {given!r}: the same rate twice")
    return tuple(found)


def label_map(pairs: Sequence[str]) -> dict[str, str]:
    """Return the label that each name in the file means, from pairs such as `0=bad`.

    Raises:
        ConfigError: a pair has no `=`.
    """
    labels: dict[str, str] = {}
    for pair in pairs:
        name, sign, label = pair.rpartition("=")
        if not sign or not name.strip() or not label.strip():
            raise ConfigError(
                f"label_map has {pair!r}; expected a label of the file, = and the label that it "
                "means, as 0=bad 1=good"
            )
        labels[name.strip()] = label.strip()
    return labels


@dataclass(frozen=True)
class TaskFilesConfig:
    """The labelled files of a task, and how its texts reach the model."""

    train: str = ""
    """Labelled file to train on (TSV, CSV, JSONL, Parquet, CoNLL columns, SQuAD JSON)."""
    dev: str | None = None
    """Labelled file to evaluate on; unset: the rows of the training file that its column split
    marks for dev, or else a tenth of its rows; with fewer than 500 rows, all of them, each
    predicted by a model that was trained on other ones (cross-validation).
    """
    text: str | None = None
    """Column of the text; unset: found by its name."""
    text2: str | None = None
    """Column of the second text of a pair; unset: found by its name, if there is one."""
    label: tuple[str, ...] | str | None = None
    """Column of the label, by name or number from 1; unset: found by its name. With multi_label it
    may be several: one column of 0 and 1 for each class, or the names of the classes of a list of 0
    and 1.
    """
    dev_text: str | None = None
    """Column of the text in dev, if it differs from that in train."""
    dev_text2: str | None = None
    """Column of the second text in dev, if it differs."""
    dev_label: tuple[str, ...] | str | None = None
    """Column of the label in dev, if it differs; may be several, as in label."""
    label_map: tuple[str, ...] = ()
    """Rename labels while reading, as 0=bad 1=good: the label before = is read as the one after
    it.
    """
    format: Form | None = None
    """Format of the files; unset: detected from their names or headers."""
    metric: str | None = None
    """Metric that selects the best epoch and seed; unset: the main metric of the kind of task."""
    max_length: int | None = None
    """Maximum tokens of a window; unset: the length that the model was trained on, but at most 384
    for spans and 256 for --context document. Nothing is padded, so short texts cost little.
    """
    stride: int | None = None
    """Tokens by which windows of a long text overlap; unset: 128 for spans, else 32, but at most a
    third of --max-length.
    """
    max_windows: int | None = None
    """Maximum windows of a text, counted from its beginning; unset: as many as hold 8,192
    tokens.
    """
    truncate: bool = False
    """Read only the first --max-length tokens of a text, instead of several windows."""
    bad_rows: Literal["refuse", "skip"] = "refuse"
    """What to do with rows that cannot be read: stop with an error, or skip and count them."""
    weight: float = 1.0
    """With several tasks: weight of this one; tasks are sampled in proportion to their size times
    their weight.
    """

    def __post_init__(self) -> None:
        above(self, 0, "weight")
        label_map(self.label_map)
        for key in ("dev_text", "dev_text2", "dev_label"):
            if self.dev is None and getattr(self, key) not in (None, ()):
                raise ConfigError(f"{key} names a column of dev, but there is no dev; pass --dev")
        at_least(self, 1, "max_windows")
        if self.truncate and self.max_windows not in (None, 1):
            raise ConfigError(f"truncate reads one window, but max_windows is {self.max_windows}")

    def check_with(self, options: TaskOptions) -> None:
        """Raise ConfigError if the columns do not fit the options of the kind of task."""
        for key in ("label", "dev_label"):
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) > 1 and not options.several_label_columns:
                raise ConfigError(
                    f"{key} names {len(value)} columns, but a text has one label; if each column "
                    "is a class, pass multi_label too (classification)"
                )


@dataclass(frozen=True)
class FinetuneConfig:
    """How a run fine-tunes on one task, or on several."""

    model: str
    """Model to start from: a run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME)."""
    out: str
    """Folder to write the run to."""
    transfer: str = "auto"
    """What is trained: finetune (everything), features (only the head, on frozen --layers), top-N
    (the last N layers), gradual (one more layer per epoch, lower ones slower; ULMFiT); auto:
    features for word vectors, NNLM and ELMo if the task labels texts or words, else finetune.
    """
    layers: Layers | None = None
    """With features: embeddings, last, embeddings+last (concatenated), second-to-last, sum-last-4,
    mix-last-4, concat-last-4, mix (a trained weighted sum of all); unset: the layer that embed
    reads, or last if the head is trained in steps.
    """
    network: Network = "linear"
    """The network trained on the last layer, or on the features: linear, a linear layer; bilstm, a
    bidirectional LSTM; taglm, for tagging: one LSTM over words and their spelling, and one over its
    states and the features.
    """
    pooling: HeadPooling | None = None
    """How the last layer, or the features, of a text become one vector: pooler (the encoder's own,
    which transformers loads), cls, last, mean, max, mean-sqrt (the sum divided by the square root
    of the number of tokens), weighted (by position), last+max+mean (ULMFiT); unset: mean; with 30
    million parameters or more, the pooler, or for a GPT last. A bilstm always uses max. Similarity:
    unset as the model's folder says, else last for a GPT, else mean.
    """
    head_start: Literal["fitted", "random"] = "fitted"
    """How a new linear head of classification, regression or tagging begins: as the layer that is
    fitted on the frozen vectors (Kumar et al. 2022), or with random weights."""
    hidden_size: int = 0
    """Width of a hidden layer with ReLU before the scores of a text; 0: none; ULMFiT: 50."""
    language_model: float = 0.0
    """Weight of the language-modeling loss on the same texts, if the model has one; published for
    GPT: 0.5.
    """
    random_start: bool = False
    """Train the encoder from a random initialization, to measure what pre-training contributes."""
    epochs: float | None = None
    """Passes over the training file; unset: 3, and up to 20 for fewer than 7,000 examples (Mosbach
    et al. 2021); with features 10 to 30, if the head is trained in steps.
    """
    learning_rate: float | str | None = "auto"
    """The peak learning rate. Several, as 1e-4,3e-4,1e-3: each trains the first seed, and dev
    selects one. auto: 3e-5 * 768 / H for a hidden size of H; under 30 million parameters up to
    three times that with fewer than 500 steps, and from random weights; 3e-3 for recurrent encoders
    and word vectors; a linear layer on features is fitted without steps and needs no rate. none:
    3e-5 * 768 / H in any case; with features 1e-2, or 1e-3 with an LSTM.
    """
    batch_size: int = 32
    """Examples per step."""
    warmup: float = 0.1
    """Fraction of the run in which the learning rate rises to its peak."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices; norms and biases have none."""
    layer_decay: float | None = None
    """Layer-wise decay of the learning rate: its factor from each layer to the one below; unset: 1,
    with gradual 1/2.6.
    """
    bias_correction: bool = True
    """Bias correction of AdamW. BERT's release had none, and failed more often on small tasks."""
    clip_norm: float = 1.0
    """Maximum norm of the gradients, which are clipped to it; 0: no clipping."""
    dropout: float = 0.1
    """Dropout in the encoder and before the output layer."""
    dropout_scale: float | None = None
    """Factor that multiplies all dropouts of an AWD-LSTM; unset: the model's own."""
    attention_dropout: float = 0.0
    """Dropout of attention probabilities; published: 0.1; above 0, attention is slower."""
    seeds: int = 1
    """Number of seeds to train with; the best on dev is kept."""
    seed: int = 1
    """The first seed, for the head's initialization, the order of examples, dropout, and what is
    held out if there is no --dev.
    """
    keep: Literal["best", "last"] = "best"
    """Which weights of a seed to keep: those of its best evaluation on dev, or the last."""
    evaluations_per_epoch: float = 1.0
    """Evaluations on dev per epoch; 0.5: every second epoch. There is always one at the end."""
    patience: int | None = None
    """Stop a seed after this many evaluations without improvement; unset: never."""
    baselines: bool | None = None
    """Also evaluate baselines without BERT: majority, TF-IDF, word shapes; unset: if they take
    only seconds."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of matrix products; auto: bf16 if the hardware multiplies it faster, else fp32.
    Weights stay float32.
    """
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto uses the GPU if there is one."""
    micro_tokens: int | None = None
    """Tokens per forward and backward pass; unset: 65,536 on a GPU; on a CPU 8,192 for prediction,
    and for training 4,096 divided by the number of cores, but at least 1,024.
    """

    def __post_init__(self) -> None:
        at_least(self, 1, "seeds", "batch_size", "patience", "micro_tokens")
        above(self, 0, "epochs", "layer_decay", "evaluations_per_epoch")
        rates_of(self.learning_rate)
        below_one(self, "warmup", "dropout", "attention_dropout")
        at_least(self, 0, "weight_decay", "clip_norm", "language_model")
        seed(self)
        if not re.fullmatch(r"auto|finetune|features|gradual|top-[1-9]\d*", self.transfer):
            raise ConfigError(f"no transfer {self.transfer!r}; expected {TRANSFERS}")
        at_least(self, 0, "hidden_size", "dropout_scale")
        if self.transfer not in ("auto", "features") and self.layers:
            raise ConfigError(
                f"layers are for frozen features, but transfer is {self.transfer}; pass --transfer "
                "features, or leave them out"
            )
        if self.transfer == "features" and self.language_model:
            raise ConfigError(
                "language_model trains the encoder, but transfer features freezes it; leave it out"
            )
        if self.transfer == "features" and self.layer_decay is not None:
            raise ConfigError(
                "layer_decay is for layers that are trained, but transfer features freezes them; "
                "leave it out, or pass another --transfer"
            )

    @property
    def top_layers(self) -> int | None:
        """N of the transfer `top-N`, the number of highest layers that are trained; None for
        others.
        """
        return int(self.transfer[4:]) if self.transfer.startswith("top-") else None
