"""A pre-training run as one value: what `config.toml` of a run holds and `--config` reads."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Literal

from bertwright.config.bert import PRESETS, BertConfig
from bertwright.config.instances import InstanceConfig, MaskingConfig
from bertwright.config.ranges import above, at_least, part, seed
from bertwright.errors import ConfigError

DEFAULT_MODEL = "bert-mini"


@dataclass(frozen=True)
class ArchitectureConfig:
    """What to change of the model that `model` names; unset: as published.

    Dropout is off: a small budget sees its text once or twice, and has nothing to forget.
    """

    hidden_size: int | None = None
    """H, width of a token's vector."""
    num_hidden_layers: int | None = None
    """L, layers."""
    num_attention_heads: int | None = None
    """A, attention heads of a layer."""
    intermediate_size: int | None = None
    """F, width inside the feed-forward part."""
    hidden_act: Literal["gelu", "gelu_tanh"] | None = None
    """GELU by the error function, or by its tanh approximation."""
    max_position_embeddings: int | None = None
    """Longest sequence the model will ever read, in tokens."""
    hidden_dropout_prob: float | None = 0.0
    """Dropout after embeddings, attention and feed-forward; none: as published, 0.1."""
    attention_probs_dropout_prob: float | None = 0.0
    """Dropout of attention probabilities; above 0 it leaves the fast attention path."""


@dataclass(frozen=True)
class LongPhaseConfig:
    """The last part of a run on longer sequences (BERT, appendix A.2)."""

    share: float = 0.0
    """Share of the budget for it; 0: no such phase. BERT gave it 0.1."""
    sequence_length: int = 512
    """Its sequence length in tokens."""
    batch_tokens: int | None = None
    """Tokens of its optimizer steps; unset: as before."""

    def __post_init__(self) -> None:
        part(self, "share")
        at_least(self, 8, "sequence_length", "batch_tokens")


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with bias correction (Loshchilov & Hutter 2019) and Muon (train/optim.py)."""

    matrices: Literal["adamw", "muon"] = "muon"
    """What steps the weights of linear layers; embeddings, norms and biases have AdamW."""
    matrix_learning_rate: float = 2e-3
    """The highest learning rate of Muon, in the measure of AdamW's."""
    learning_rate: float = 1e-3
    """The highest learning rate, reached after warm-up."""
    beta1: float = 0.9
    """Decay of the mean of gradients."""
    beta2: float = 0.999
    """Decay of the mean of squared gradients."""
    eps: float = 1e-8
    """Added to the root of the mean square."""
    weight_decay: float = 0.01
    """Decoupled decay of matrices; norms and biases have none."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this norm; 0: never."""

    def __post_init__(self) -> None:
        at_least(self, 0, "learning_rate", "matrix_learning_rate", "eps")
        at_least(self, 0, "weight_decay", "clip_norm")
        part(self, "beta1", "beta2")


@dataclass(frozen=True)
class StartConfig:
    """What first weights know; without it they are random, as published."""

    aimed_heads: bool = True
    """Sinusoidal positions, and heads of the first layer aimed at neighbours (nn/init.py)."""
    counted_vectors: bool = True
    """Token vectors from counts of neighbours in the training documents (data/token_vectors.py)."""
    frequency_bias: bool = True
    """The output bias is the logarithm of each token's frequency."""
    embedding_std: float = 0.05
    """Root mean square of token and position vectors; published: 0.02."""

    def __post_init__(self) -> None:
        at_least(self, 1e-6, "embedding_std")


@dataclass(frozen=True)
class ScheduleConfig:
    """Linear warm-up, then linear decay to zero, over the steps or the minutes of the run."""

    warmup: float = 0.06
    """Share of the run in which the learning rate rises."""

    def __post_init__(self) -> None:
        part(self, "warmup")


@dataclass(frozen=True)
class BatchConfig:
    """How much a step and a micro-batch hold."""

    tokens: int = 4096
    """Tokens of an optimizer step, over all micro-batches and ranks."""
    micro_tokens: int | None = None
    """Tokens of one forward and backward; unset: 4,096 on a CPU, 65,536 on a GPU."""

    def __post_init__(self) -> None:
        at_least(self, 1, "tokens", "micro_tokens")


@dataclass(frozen=True)
class ValidationConfig:
    """Held-out documents, and how often they are asked."""

    share: float = 0.01
    """Share of documents held out."""
    tokens: int = 65536
    """Tokens of held-out instances to ask, at most."""
    every_minutes: float = 5.0
    """Minutes between two validations; there is always one at the end."""
    every_steps: int | None = None
    """Steps between two validations, in place of minutes."""

    def __post_init__(self) -> None:
        part(self, "share")
        at_least(self, 1, "tokens", "every_steps")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class CheckpointConfig:
    """How often the run is saved, and how much of it is kept."""

    every_minutes: float = 10.0
    """Minutes between two checkpoints; there is always one at the end."""
    every_steps: int | None = None
    """Steps between two checkpoints, in place of minutes."""
    keep: int = 2
    """Checkpoints to keep, the newest."""

    def __post_init__(self) -> None:
        at_least(self, 1, "every_steps", "keep")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class LogConfig:
    """What is told while a run goes on."""

    every_seconds: float = 10.0
    """Seconds between two lines of `metrics.jsonl` and the screen."""
    every_steps: int | None = None
    """Steps between two lines, in place of seconds."""
    tensorboard: bool = False
    """Write TensorBoard events to `RUN/tensorboard` too (extra `tensorboard`)."""

    def __post_init__(self) -> None:
        at_least(self, 1, "every_steps")
        at_least(self, 0, "every_seconds")


@dataclass(frozen=True)
class PretrainConfig:
    """Everything that decides a pre-training run."""

    data: str
    """Folder that `bertwright data build` wrote."""
    out: str
    """Folder of the run."""
    model: str | None = None
    """bert-tiny, -mini, -small, -medium, -base, -large; unset: bert-mini, with `init` its shape."""
    init: str | None = None
    """Checkpoint to go on from in a new run (continued pre-training); it brings the shape."""
    steps: int | None = None
    """Length of the run in optimizer steps."""
    minutes: float | None = None
    """Length of the run in minutes of wall-clock time, validation included."""
    epochs: float | None = None
    """Length of the run in passes over the data."""
    seed: int = 1
    """Seed of weights, instances, masks and dropout."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Of matrix products; auto measures whether bf16 is faster here. Weights stay float32."""
    compile: bool = False
    """Compile the feed-forward parts with torch.compile (needs a C++ compiler; pays on a GPU)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train; auto takes the GPU if there is one."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Of torchrun's processes: ddp, each holds all weights; fsdp, its shard of them (FSDP2)."""
    start: StartConfig = field(default_factory=StartConfig)
    """What first weights know."""
    architecture: ArchitectureConfig = field(default_factory=ArchitectureConfig)
    """Changes to the model."""
    instances: InstanceConfig = field(default_factory=InstanceConfig)
    """What a training sequence is made of."""
    long_phase: LongPhaseConfig = field(default_factory=LongPhaseConfig)
    """The last part of the run, on longer sequences."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    """Which tokens are hidden."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimizer."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The learning rate over time."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    """Sizes of steps and micro-batches."""
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    """Held-out documents."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """Saving."""
    log: LogConfig = field(default_factory=LogConfig)
    """Telling."""

    def __post_init__(self) -> None:
        given = [name for name in ("steps", "minutes", "epochs") if getattr(self, name) is not None]
        if len(given) != 1:
            came = " and ".join(f"--{name}" for name in given) or "none of them"
            raise ConfigError(f"expected one of --steps, --minutes, --epochs; {came} came")
        above(self, 0, *given)
        seed(self)
        if self.model is None and self.init is None:
            object.__setattr__(self, "model", DEFAULT_MODEL)
        if self.model is not None and self.model not in PRESETS:
            raise ConfigError(f"no model {self.model!r}; there are {', '.join(PRESETS)}")
        longest = self.longest_sequence
        room = self.architecture.max_position_embeddings or 512
        if longest > room and self.init is None:
            raise ConfigError(
                f"sequences of {longest} tokens do not fit max_position_embeddings {room}; "
                "shorten them or raise --architecture.max-position-embeddings"
            )
        micro = self.batch.micro_tokens
        if micro is not None and micro < longest:
            raise ConfigError(
                f"batch.micro_tokens is {micro}; one sequence may have {longest} tokens"
            )

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence of any phase."""
        long = self.long_phase.sequence_length if self.long_phase.share else 0
        return max(self.instances.sequence_length, long)

    def bert(self, vocab_size: int) -> BertConfig:
        """The model's shape: the preset, what `architecture` changes, the vocabulary's size."""
        changes = {f.name: getattr(self.architecture, f.name) for f in fields(self.architecture)}
        given = {name: value for name, value in changes.items() if value is not None}
        preset = PRESETS[self.model or DEFAULT_MODEL]
        try:
            return replace(preset, vocab_size=vocab_size, **given)
        except ConfigError as error:
            raise ConfigError(f"--architecture: {error}") from error
