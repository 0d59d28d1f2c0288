"""A fine-tuning run as values: the labelled files with how they are read, and how it trains."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from bertwright.config.ranges import above, at_least, part, seed
from bertwright.config.task import Form, Layers
from bertwright.errors import ConfigError

TRANSFERS = "finetune, features, gradual, or top-N, as top-2"


@dataclass(frozen=True)
class TaskFilesConfig:
    """The labelled files of a task, and how its texts reach the model."""

    train: str
    """Labelled file to learn from (TSV, CSV, JSONL, Parquet, CoNLL columns, SQuAD JSON)."""
    dev: str | None = None
    """Labelled file to judge by; unset: a tenth of the training file is held out."""
    text: str | None = None
    """Column of the text; unset: found by its name."""
    text2: str | None = None
    """Column of the second text of a pair; unset: found by its name, if there is one."""
    label: str | None = None
    """Column of the label, by name (CoNLL columns: by number from 1, -1 the last); unset: found.
    With --multi-label also a column of 0 and 1 for each class: A,B,C."""
    format: Form | None = None
    """Form of the files: tsv, csv, jsonl, json, parquet, conll, conllu; unset: by their names or
    headers."""
    multi_label: bool = False
    """A text may have several labels, separated by commas or in a column each."""
    metric: str | None = None
    """What the best epoch and seed are chosen by; unset: the usual one of the kind."""
    class_weights: Literal["none", "balanced"] = "none"
    """Whether rare labels weigh more in the loss, by the inverse of their frequency; classes are
    then chosen by --metric macro_f1, as accuracy asks for frequent ones."""
    max_length: int | None = None
    """Tokens of a window; unset: as many as the model has positions for (spans: 384, with the
    document as context: 256). Short texts cost what they are long."""
    stride: int | None = None
    """Tokens that neighbouring windows of a long text share; unset: 128 for spans, else 32."""
    merge: Literal["mean", "max"] = "mean"
    """How the scores of a long text's windows become one."""
    context: Literal["sentence", "document"] = "sentence"
    """What a sentence to be tagged is read with: nothing, or its neighbours in the document."""
    crf: bool = False
    """Judge the tags of a sentence together, by a conditional random field."""
    max_answer_tokens: int = 30
    """Tokens of an answer, at most."""
    bad_rows: Literal["refuse", "skip"] = "refuse"
    """What to do with a row that cannot be read: stop, or count it and go on."""
    bad_tags: Literal["mend", "refuse"] = "mend"
    """What to do with tags that break their scheme: mend them as conlleval reads them and count
    it, or stop."""
    wrong_answers: Literal["skip", "refuse"] = "skip"
    """What to do with an answer that is not where its offset says: count and skip, or stop."""
    weight: float = 1.0
    """With several tasks: how often this one is visited, beside its size."""

    def __post_init__(self) -> None:
        above(self, 0, "weight")


@dataclass(frozen=True)
class FinetuneConfig:
    """How a run learns a task, or several."""

    model: str
    """The checkpoint to start from: a run, a checkpoint or a Hugging Face BERT folder."""
    out: str
    """Folder of the run."""
    transfer: str = "finetune"
    """What learns: finetune (everything), features (frozen, with --layers), top-N (the last N
    layers), gradual (one more layer an epoch, lower ones slower; ULMFiT)."""
    layers: Layers | None = None
    """With features: embeddings, last, second-to-last, sum-last-4, mix-last-4, concat-last-4, mix
    (a learned weighted sum of all); unset: last."""
    network: Literal["linear", "bilstm"] = "linear"
    """With features: what learns on them, a linear layer or a bidirectional LSTM."""
    network_size: int = 256
    """Width of each direction of the LSTM."""
    pooling: Literal["cls", "mean", "max"] = "mean"
    """With features: how those of a text become one vector; of a bilstm's states always the max."""
    random_start: bool = False
    """Start the encoder from random weights: what the pre-training is worth."""
    epochs: float | None = None
    """Passes over the training file; unset: 3, and more where it has under 7,000 examples, up to
    20 (Mosbach et al. 2021); on features 10 to 30."""
    learning_rate: float | None = None
    """The highest learning rate; unset: 3e-5 for a width of 768, more for narrower models, and
    1e-3 on features."""
    batch_size: int = 32
    """Examples of a step."""
    warmup: float = 0.1
    """Share of the run in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled decay of matrices; norms and biases have none."""
    layer_decay: float | None = None
    """Factor of the learning rate from a layer to the one below; unset: 1, with gradual 1/2.6."""
    bias_correction: bool = True
    """Of AdamW; BERT's first release went without, and small tasks fail more often so."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this norm; 0: never."""
    dropout: float = 0.1
    """Dropout in the encoder and before the scores."""
    attention_dropout: float = 0.0
    """Dropout of attention probabilities; published 0.1, which leaves the fast attention path."""
    seeds: int = 1
    """How many times to train, each from another seed; the best by dev is kept."""
    seed: int = 1
    """The first seed: of the head's weights, the order of examples, and dropout."""
    keep: Literal["best", "last"] = "best"
    """Which weights of a seed to keep: of its best evaluation, or its last."""
    evaluations_per_epoch: float = 1.0
    """How often dev is asked; 0.5: every second epoch. At the end it is asked in any case."""
    patience: int | None = None
    """Stop a seed after so many evaluations without a better one; unset: never."""
    baselines: bool = False
    """Measure what needs no BERT beside it: majority, TF-IDF, word shapes."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of matrix products; auto measures whether bf16 is faster here. Weights stay float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; auto takes the GPU if there is one."""
    micro_tokens: int | None = None
    """Tokens of one forward and backward; unset: 8,192 on a CPU, 65,536 on a GPU."""

    def __post_init__(self) -> None:
        at_least(self, 1, "seeds", "batch_size", "network_size", "patience", "micro_tokens")
        above(self, 0, "epochs", "learning_rate", "layer_decay", "evaluations_per_epoch")
        part(self, "warmup", "dropout", "attention_dropout")
        at_least(self, 0, "weight_decay", "clip_norm")
        seed(self)
        if not re.fullmatch(r"finetune|features|gradual|top-[1-9]\d*", self.transfer):
            raise ConfigError(f"no transfer {self.transfer!r}; expected {TRANSFERS}")
        featured = self.layers or self.network != "linear" or self.pooling != "mean"
        if self.transfer != "features" and featured:
            raise ConfigError(
                "layers, network and pooling are of frozen features, and transfer is "
                f"{self.transfer}; pass --transfer features, or leave them out"
            )
        if self.transfer == "features" and self.layer_decay is not None:
            raise ConfigError(
                "layer_decay is of layers that learn, and transfer is features, which keeps them; "
                "leave it out, or pass another --transfer"
            )
        if self.network == "linear" and self.network_size != FinetuneConfig.network_size:
            raise ConfigError(
                f"network_size is {self.network_size}, and network is linear, which has no size; "
                "pass --network bilstm, or leave it out"
            )

    @property
    def top_layers(self) -> int | None:
        """N of `top-N`."""
        return int(self.transfer[4:]) if self.transfer.startswith("top-") else None
