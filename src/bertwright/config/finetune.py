"""The configuration of a fine-tuning run: its labelled files, and how it trains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import above, at_least, below_one, seed
from bertwright.config.task import BleuTokenize, Form, HeadPooling, Layers, Network
from bertwright.errors import ConfigError

TRANSFERS = "finetune, features, gradual, or top-N, as top-2"


def label_map(pairs: Sequence[str]) -> dict[str, str]:
    """Return what each label is read as, of pairs as `0=bad`; ConfigError for one without a `=`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, meant = pair.rpartition("=")
        if not sign or not name.strip() or not meant.strip():
            raise ConfigError(
                f"label_map has {pair!r}; expected a label of the file, = and the label that it "
                "means, as 0=bad 1=good"
            )
        found[name.strip()] = meant.strip()
    return found


@dataclass(frozen=True)
class TaskFilesConfig:
    """The labelled files of a task, and how its texts reach the model."""

    train: str
    """Labelled file to train on (TSV, CSV, JSONL, Parquet, CoNLL columns, SQuAD JSON)."""
    dev: str | None = None
    """Labelled file to evaluate on; unset: a tenth of the training file is held out."""
    text: str | None = None
    """Column of the text; unset: found by its name."""
    text2: str | None = None
    """Column of the second text of a pair; unset: found by its name, if there is one."""
    label: tuple[str, ...] | str | None = None
    """Column of the label, by name or number from 1; unset: found. With multi_label several: a
    column of 0 and 1 for each class, or the names of the classes of a list of 0 and 1."""
    dev_text: str | None = None
    """Column of the text in dev, where it is another one than in train."""
    dev_text2: str | None = None
    """Column of the second text in dev, where it is another one."""
    dev_label: tuple[str, ...] | str | None = None
    """Column of the label in dev, where it is another one; several as label."""
    label_map: tuple[str, ...] = ()
    """Other names of labels, as 0=bad 1=good: what is before the sign is read as what is behind."""
    format: Form | None = None
    """Form of the files: tsv, csv, jsonl, json, parquet, conll, conllu; unset: by their names or
    headers."""
    multi_label: bool = False
    """A text may have several labels: a list, separated by commas, or a 0 or 1 for each class in a
    list or in columns."""
    metric: str | None = None
    """Metric that selects the best epoch and seed; unset: the usual one of the kind of task."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: weight labels in the loss by the inverse of their frequency; combine it with
    --metric macro_f1, since accuracy favours frequent labels."""
    max_length: int | None = None
    """Maximum tokens of a window; unset: as many as the model was trained on at once (spans: at
    most 384, with the document as context 256). Nothing is padded, so short texts cost little."""
    stride: int | None = None
    """Tokens by which windows of a long text overlap; unset: 128 for spans, else 32."""
    max_windows: int | None = None
    """Maximum windows of a text, the first ones; unset: as many as hold 8,192 tokens."""
    truncate: bool = False
    """Read the first --max-length tokens of a text only, in place of windows."""
    both_orders: bool = False
    """Read a pair in both orders and take the mean of its scores: for similarity, which has no
    order (GPT)."""
    merge: Literal["mean", "max"] = "mean"
    """How the scores of a long text's windows are combined."""
    context: Literal["sentence", "document"] = "sentence"
    """Tagging: encode each sentence alone, or with its neighbours in the document."""
    crf: bool = False
    """Predict the tags of a sentence jointly, with a conditional random field."""
    max_answer_tokens: int = 30
    """Maximum tokens of an answer."""
    max_target_tokens: int | None = None
    """Generation: maximum tokens of a target; unset: 128, and half of --max-length at most."""
    bleu_tokenize: BleuTokenize = "auto"
    """Generation: sacreBLEU's tokenizer for BLEU; auto: zh for Chinese, ja-mecab for Japanese if it
    is installed, char for other scripts without blanks, else 13a."""
    bad_rows: Literal["refuse", "skip"] = "refuse"
    """A row that cannot be read: stop, or skip and count it."""
    bad_tags: Literal["mend", "refuse"] = "mend"
    """Tags that break their scheme: repair them as conlleval does and count them, or stop."""
    wrong_answers: Literal["skip", "refuse"] = "skip"
    """An answer that is not at its offset: skip and count it, or stop."""
    weight: float = 1.0
    """With several tasks: sampling weight of this one, times its size."""

    def __post_init__(self) -> None:
        above(self, 0, "weight")
        for key in ("label", "dev_label"):
            value = getattr(self, key)
            if isinstance(value, tuple) and len(value) < 2:
                object.__setattr__(self, key, value[0] if value else None)
            elif isinstance(value, tuple) and not self.multi_label:
                raise ConfigError(
                    f"{key} names {len(value)} columns, and a text has one label; for a class a "
                    "column pass multi_label too"
                )
        label_map(self.label_map)
        for key in ("dev_text", "dev_text2", "dev_label"):
            if self.dev is None and getattr(self, key) is not None:
                raise ConfigError(f"{key} names a column of dev, and there is no dev; pass --dev")
        at_least(self, 1, "max_windows")
        if self.truncate and self.max_windows not in (None, 1):
            raise ConfigError(f"truncate reads one window, and max_windows is {self.max_windows}")


@dataclass(frozen=True)
class FinetuneConfig:
    """How a run fine-tunes on a task, or several."""

    model: str
    """Model to start from: a run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME)."""
    out: str
    """Folder to write the run to."""
    transfer: str = "finetune"
    """What is trained: finetune (everything), features (only the head, on frozen --layers), top-N
    (the last N layers), gradual (one more layer per epoch, lower ones slower; ULMFiT)."""
    layers: Layers | None = None
    """With features: embeddings, last, embeddings+last (side by side), second-to-last, sum-last-4,
    mix-last-4, concat-last-4, mix (a trained weighted sum of all); unset: last."""
    network: Network = "linear"
    """The network trained on the last layer, or on features: a linear layer; bilstm, a
    bidirectional LSTM; taglm, for tagging: one over words and their spelling, one over its states
    and the features."""
    pooling: HeadPooling | None = None
    """How the last layer, or features, of a text become one vector: cls, last, mean, max,
    last+max+mean (ULMFiT); unset: the model's pooler, of a GPT last, else mean; a bilstm always
    uses max."""
    hidden_size: int = 0
    """Width of a hidden layer with ReLU before the scores of a text; 0: none; ULMFiT: 50."""
    language_model: float = 0.0
    """Share of the language model's loss on the same texts in the gradient, of a model that has
    one; published for GPT: 0.5."""
    random_start: bool = False
    """Train the encoder from scratch, to measure what pre-training is worth."""
    epochs: float | None = None
    """Passes over the training file; unset: 3, and up to 20 where it has under 7,000 examples
    (Mosbach et al. 2021); with features 10 to 30."""
    learning_rate: float | None = None
    """The peak learning rate; unset: 3e-5 * (768 / H)^2 for a hidden size of H, and 1e-3 at most;
    with features 1e-2, or 1e-3 under an LSTM."""
    batch_size: int = 32
    """Examples per step."""
    warmup: float = 0.1
    """Fraction of the run in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices; norms and biases have none."""
    layer_decay: float | None = None
    """Factor of the learning rate from each layer to the one below; unset: 1, gradual: 1/2.6."""
    bias_correction: bool = True
    """Bias correction of AdamW; BERT's release had none, and failed more often on small tasks."""
    clip_norm: float = 1.0
    """Gradients are clipped to this norm; 0: never."""
    dropout: float = 0.1
    """Dropout in the encoder and before the output layer."""
    dropout_scale: float | None = None
    """Factor of all dropouts of an AWD-LSTM; unset: the model's own."""
    attention_dropout: float = 0.0
    """Dropout of attention probabilities; published: 0.1; above 0, attention is slower."""
    seeds: int = 1
    """Number of seeds to train with; the best on dev is kept."""
    seed: int = 1
    """The first seed: of the head's initialization, the order of examples, and dropout."""
    keep: Literal["best", "last"] = "best"
    """Which weights of a seed to keep: those of its best evaluation, or the last."""
    evaluations_per_epoch: float = 1.0
    """Evaluations on dev per epoch; 0.5: every second epoch. There is always one at the end."""
    patience: int | None = None
    """Stop a seed after this many evaluations without improvement; unset: never."""
    baselines: bool = False
    """Also evaluate baselines without BERT: majority, TF-IDF, word shapes."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of matrix products; auto measures which is faster. Weights stay float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto uses the GPU if there is one."""
    micro_tokens: int | None = None
    """Tokens per forward and backward pass; unset: 65,536 on a GPU; on a CPU 8,192, those that
    train 4,096 shared among its cores, 1,024 at least."""

    def __post_init__(self) -> None:
        at_least(self, 1, "seeds", "batch_size", "patience", "micro_tokens")
        above(self, 0, "epochs", "learning_rate", "layer_decay", "evaluations_per_epoch")
        below_one(self, "warmup", "dropout", "attention_dropout")
        at_least(self, 0, "weight_decay", "clip_norm", "language_model")
        seed(self)
        if not re.fullmatch(r"finetune|features|gradual|top-[1-9]\d*", self.transfer):
            raise ConfigError(f"no transfer {self.transfer!r}; expected {TRANSFERS}")
        at_least(self, 0, "hidden_size", "dropout_scale")
        if self.transfer != "features" and self.layers:
            raise ConfigError(
                f"layers are for frozen features, and transfer is {self.transfer}; pass --transfer "
                "features, or leave them out"
            )
        if self.transfer == "features" and self.language_model:
            raise ConfigError(
                "language_model trains the encoder, and transfer features freezes it; leave it out"
            )
        if self.transfer == "features" and self.layer_decay is not None:
            raise ConfigError(
                "layer_decay is for layers that are trained, and transfer features freezes them; "
                "leave it out, or pass another --transfer"
            )

    @property
    def top_layers(self) -> int | None:
        """N of the transfer `top-N`: how many of the highest layers are trained; else None."""
        return int(self.transfer[4:]) if self.transfer.startswith("top-") else None
