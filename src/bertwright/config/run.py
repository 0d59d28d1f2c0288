"""The keys that training runs share: those of all, of runs in steps, and of runs in passes.

A system adds its own keys in a subclass (`models/NAME/config.py`); `models/catalogue.py` lists
these. A run has no keys that it does not read.

Annotations are types in this file, not text, because cyclopts evaluates those that a subclass
inherits in the subclass's file.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from bertwright.config.ranges import above, at_least, below_one, seed
from bertwright.errors import ConfigError


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with bias correction (Loshchilov & Hutter 2019) and Muon (train/optim.py)."""

    matrices: Literal["adamw", "muon"] = "muon"
    """The optimizer of linear layers' weights; embeddings, norms and biases use AdamW."""
    matrix_learning_rate: float = 2e-3
    """The peak learning rate of Muon, scaled to be comparable with AdamW's."""
    learning_rate: float = 1e-3
    """The peak learning rate of AdamW, reached after warm-up."""
    beta1: float = 0.9
    """Decay of the running mean of gradients."""
    beta2: float = 0.999
    """Decay of the running mean of squared gradients."""
    eps: float = 1e-8
    """AdamW's epsilon, which is added to the root of the mean squared gradient."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices; norms and biases have none."""
    layer_decay: float = 1.0
    """Layer-wise decay of the learning rate: its factor from each layer to the one below, for
    pre-trained layers; ULMFiT: 1/2.6. Token embeddings are also the output weights, so they have
    the rate of the top layer.
    """
    clip_norm: float = 1.0
    """Maximum norm of the gradients, which are clipped to it; 0: no clipping."""

    def __post_init__(self) -> None:
        at_least(self, 0, "learning_rate", "matrix_learning_rate", "eps")
        at_least(self, 0, "weight_decay", "clip_norm")
        below_one(self, "beta1", "beta2")
        above(self, 0, "layer_decay")


@dataclass(frozen=True)
class ScheduleConfig:
    """Warm-up, then decay, over the steps or the minutes of the run."""

    warmup: float = 0.06
    """Fraction of the run in which the learning rate rises to its peak."""
    curve: Literal["linear", "slanted", "inverse-sqrt"] = "linear"
    """Shape of the learning rate. linear: rises from 0 and falls to 0; slanted: ULMFiT's triangle,
    from 1/32 of the peak and back; inverse-sqrt: falls as 1 / sqrt(step) after warm-up.
    """

    def __post_init__(self) -> None:
        below_one(self, "warmup")
        if self.curve == "inverse-sqrt":
            above(self, 0, "warmup")


@dataclass(frozen=True)
class BatchConfig:
    """Sizes of an optimizer step and of a micro-batch."""

    tokens: int = 4096
    """Tokens per optimizer step, over all micro-batches and ranks."""
    micro_tokens: int | None = None
    """Tokens per forward and backward pass; unset: 65,536 on a GPU; on a CPU 4,096 divided by the
    number of cores (each computes a micro-batch of its own), but at least 1,024.
    """

    def __post_init__(self) -> None:
        at_least(self, 1, "tokens", "micro_tokens")


HoldOut = Literal["documents", "ends"]
"""Which part of a corpus is held out; see `data/split.py`."""


@dataclass(frozen=True)
class HoldOutConfig:
    """Held-out documents, on which the loss is computed."""

    fraction: float = 0.01
    """Fraction of the documents to hold out for validation."""
    hold_out: HoldOut | None = None
    """documents: hold out whole documents, chosen by their number; ends: hold out the last part of
    each document, after a gap of ten sentences; unset: ends for a new run that would hold out fewer
    than eight documents, if they are long enough.
    """
    tokens: int = 65536
    """Maximum tokens of held-out instances per validation."""

    def __post_init__(self) -> None:
        below_one(self, "fraction")
        at_least(self, 1, "tokens")


@dataclass(frozen=True)
class ValidationConfig(HoldOutConfig):
    """Held-out documents, and how often the loss on them is computed."""

    every_minutes: float = 5.0
    """Minutes between two validations; there is always one at the end of the run."""
    every_steps: int | None = None
    """Steps between two validations, instead of minutes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "every_steps")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class KeepConfig:
    """How many checkpoints are kept."""

    keep: int = 2
    """Number of newest checkpoints to keep."""

    def __post_init__(self) -> None:
        at_least(self, 1, "keep")


@dataclass(frozen=True)
class CheckpointConfig(KeepConfig):
    """How often a checkpoint is written, and how many are kept."""

    every_minutes: float = 10.0
    """Minutes between two checkpoints; there is always one at the end of the run."""
    every_steps: int | None = None
    """Steps between two checkpoints, instead of minutes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "every_steps")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class TensorBoardConfig:
    """Where else than in `metrics.jsonl` a run is logged."""

    tensorboard: bool = False
    """Also write TensorBoard events to `RUN/tensorboard` (extra `tensorboard`)."""


@dataclass(frozen=True)
class LogConfig(TensorBoardConfig):
    """What is logged during a run, and how often."""

    every_seconds: float = 10.0
    """Seconds between two log lines, in `metrics.jsonl` and on the screen."""
    every_steps: int | None = None
    """Steps between two log lines, instead of seconds."""

    def __post_init__(self) -> None:
        at_least(self, 1, "every_steps")
        at_least(self, 0, "every_seconds")


@dataclass(frozen=True)
class RunConfig:
    """The keys of all training runs; `StepRun` or `PassRun` adds those of its kind."""

    data: str
    """Folder of shards that `bertwright data build` wrote."""
    out: str
    """Folder to write the run to."""
    model: str | None = None
    """Preset of the model, by name; unset: that of `init`, else the system's default."""
    init: str | None = None
    """Checkpoint to start from (continued pre-training), which determines the size of the model."""
    seed: int = 1
    """Seed of weights, instances and dropout."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of matrix products; auto: bf16 if the hardware multiplies it faster, else fp32.
    Weights stay float32.
    """
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto uses the GPU if there is one."""
    checkpoint: KeepConfig = field(default_factory=KeepConfig)
    """How many checkpoints are kept."""
    log: TensorBoardConfig = field(default_factory=TensorBoardConfig)
    """Where the run is logged."""
    architecture: Any = None
    """The model's configuration: the preset with the keys that are given (`make_run` in
    `models/catalogue.py`); unset, for a run that starts from a model: that model's.
    """

    def __post_init__(self) -> None:
        seed(self)
        if self.sized_by is None and self.architecture is not None:
            self.require_positions(self.architecture)

    def with_usual_length(self) -> Self:
        """Return the run with the usual length of its system, if it has one and none is given."""
        return self

    def sources(self) -> dict[str, str]:
        """Return the paths that the run starts from besides its data and `init`, by key. The recipe
        opens them.
        """
        return {}

    @property
    def sized_by(self) -> str | None:
        """The path of the model that determines the sizes; None: `model` and `architecture` do."""
        return self.init

    @property
    def longest_sequence(self) -> int:
        """The number of tokens of the longest sequence that the run may read."""
        return 1

    @property
    def positions_needed(self) -> int:
        """The number of positions of the longest sequence that an encoder or decoder of the run
        reads.
        """
        return self.longest_sequence

    def positions_of(self, model: Any) -> int | None:
        """Return the number of positions that a model has; None: sequences may have any length."""
        return None

    def require_positions(self, model: Any) -> None:
        """Raise ConfigError if the longest sequence does not fit the positions of a model."""
        needed, there = self.positions_needed, self.positions_of(model)
        if there is None or needed <= there:
            return
        if self.sized_by is None:
            owner, more = "this model", ", or raise --architecture.max-position-embeddings"
        else:
            owner, more = self.sized_by, ""
        raise ConfigError(
            f"sequences of {needed} tokens do not fit: {owner} has {there} positions; lower the "
            f"sequence length{more}"
        )

    def trained_length(self, phase: int) -> int | None:
        """Return the number of tokens whose positions are trained up to a phase of the run; None:
        positions have no weights of their own.
        """
        return None

    def model_config(self, vocab_size: int) -> Any:
        """Return the configuration of a new model for a vocabulary."""
        return replace(self.architecture, vocab_size=vocab_size)


@dataclass(frozen=True)
class EvaluatedRun(RunConfig):
    """A run that holds out text and computes the loss on it."""

    validation: HoldOutConfig = field(default_factory=HoldOutConfig)
    """Held-out documents."""


@dataclass(frozen=True)
class StepRun(EvaluatedRun):
    """A run that is trained step by step, for one length: steps, minutes or epochs."""

    steps: int | None = None
    """Length of the run in optimizer steps, in place of minutes or epochs."""
    minutes: float | None = None
    """Length of the run in minutes of wall-clock time, including validation."""
    epochs: float | None = None
    """Length of the run in passes over the data."""
    compile: bool = False
    """Compile the part of each layer after attention with torch.compile, for GPUs; needs a C++
    compiler."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With torchrun: ddp, each process holds all weights; fsdp, a shard of them (FSDP2)."""
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    """The optimizer."""
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """The learning rate over time."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    """Sizes of steps and micro-batches."""
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    """Held-out documents and how often they are evaluated."""
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    """How often checkpoints are written, and how many are kept."""
    log: LogConfig = field(default_factory=LogConfig)
    """What is logged, and how often."""

    def __post_init__(self) -> None:
        given = self._lengths()
        if len(given) > 1:
            self._refuse_length(" and ".join(f"--{name}" for name in given))
        above(self, 0, *given)
        super().__post_init__()
        micro = self.batch.micro_tokens
        if micro is not None and micro < self.longest_sequence:
            raise ConfigError(
                f"batch.micro_tokens is {micro}; one sequence may have {self.longest_sequence} "
                "tokens"
            )

    def require_length(self) -> None:
        """Raise ConfigError if the run has no length. This is checked after its data are opened, so
        that missing data are reported first.
        """
        if not self._lengths():
            self._refuse_length("none of them")

    def _lengths(self) -> list[str]:
        """Return the names of the lengths that are given."""
        lengths = ("steps", "minutes", "epochs")
        return [name for name in lengths if getattr(self, name) is not None]

    def _refuse_length(self, given: str) -> None:
        """Raise ConfigError: not exactly one length is `given`."""
        raise ConfigError(f"expected one of --steps, --minutes, --epochs; got {given}")


@dataclass(frozen=True)
class PassRun(RunConfig):
    """A run that is counted, or trained in passes of its own (`System.fit`). It has a usual length,
    and is logged and saved after each pass.
    """

    epochs: float | None = None
    """Length of the run in passes over the data."""

    def __post_init__(self) -> None:
        above(self, 0, "epochs")
        super().__post_init__()

    @property
    def most_minutes(self) -> float | None:
        """The minutes after which the run ends before its last pass; None: there is no limit."""
        return None
