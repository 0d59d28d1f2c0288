"""What every training run of any system has: its data, length, optimizer, batches and checkpoints.

A system's own run adds its parts in a subclass (`config/runs/`); `models/catalogue.py` lists them.
Annotations are types here, not text: cyclopts reads those of a subclass in its own file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bertwright.config.changes import changes_to
from bertwright.config.ranges import above, at_least, below_one, seed
from bertwright.errors import ConfigError

_OF_MODEL = "Of the model's configuration, by the name there; unset: as its size has it."

OF_STEPS = (
    *("steps", "minutes", "optimizer.", "schedule.", "batch.", "compile", "parallel"),
    *("checkpoint.every", "log.every", "validation.every"),
)
"""The beginnings of keys of runs that are trained step by step."""


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW with bias correction (Loshchilov & Hutter 2019) and Muon (train/optim.py)."""

    matrices: Literal["adamw", "muon"] = "muon"
    """The optimizer of linear layers' weights; embeddings, norms and biases have AdamW."""
    matrix_learning_rate: float = 2e-3
    """The peak learning rate of Muon, scaled to be comparable with AdamW's."""
    learning_rate: float = 1e-3
    """The peak learning rate of AdamW, reached after warm-up."""
    beta1: float = 0.9
    """Decay of the running mean of gradients."""
    beta2: float = 0.999
    """Decay of the running mean of squared gradients."""
    eps: float = 1e-8
    """Added to the root of the mean squared gradient."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices; norms and biases have none."""
    layer_decay: float = 1.0
    """Factor of the learning rate from each layer to the one below, where they are pre-trained;
    ULMFiT: 1/2.6. Token embeddings are output weights too and have the rate of the top."""
    clip_norm: float = 1.0
    """Gradients are clipped to this norm; 0: never."""

    def __post_init__(self) -> None:
        at_least(self, 0, "learning_rate", "matrix_learning_rate", "eps")
        at_least(self, 0, "weight_decay", "clip_norm")
        below_one(self, "beta1", "beta2")
        above(self, 0, "layer_decay")


@dataclass(frozen=True)
class ScheduleConfig:
    """Warm-up, then decay, over the steps or the minutes of the run."""

    warmup: float = 0.06
    """Fraction of the run in which the learning rate rises."""
    curve: Literal["linear", "slanted", "inverse-sqrt"] = "linear"
    """linear, from 0 and to 0; slanted: ULMFiT's triangle, from a 32nd and back to it;
    inverse-sqrt: after warm-up as 1 / sqrt(step)."""

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
    """Tokens per forward and backward pass; unset: on a CPU 4,096 shared among its cores (each
    computes a micro-batch of its own), 1,024 at least; 65,536 on a GPU."""

    def __post_init__(self) -> None:
        at_least(self, 1, "tokens", "micro_tokens")


HoldOut = Literal["documents", "ends"]
"""What is held out of a corpus; see `data/split.py`."""


@dataclass(frozen=True)
class ValidationConfig:
    """Held-out documents, and how often the loss on them is computed."""

    share: float = 0.01
    """Fraction of documents held out."""
    hold_out: HoldOut | None = None
    """documents: whole documents, chosen by their number; ends: the last part of each document,
    after a gap of ten sentences; unset: ends for a new run on fewer than 40 documents, if they are
    long enough."""
    tokens: int = 65536
    """Maximum tokens of held-out instances per validation."""
    every_minutes: float = 5.0
    """Minutes between two validations; there is always one at the end."""
    every_steps: int | None = None
    """Steps between two validations, in place of minutes."""

    def __post_init__(self) -> None:
        below_one(self, "share")
        at_least(self, 1, "tokens", "every_steps")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class CheckpointConfig:
    """How often a checkpoint is written, and how many are kept."""

    every_minutes: float = 10.0
    """Minutes between two checkpoints; there is always one at the end."""
    every_steps: int | None = None
    """Steps between two checkpoints, in place of minutes."""
    keep: int = 2
    """Number of newest checkpoints to keep."""

    def __post_init__(self) -> None:
        at_least(self, 1, "every_steps", "keep")
        at_least(self, 0, "every_minutes")


@dataclass(frozen=True)
class LogConfig:
    """What is logged during a run."""

    every_seconds: float = 10.0
    """Seconds between two lines of `metrics.jsonl` and of the screen."""
    every_steps: int | None = None
    """Steps between two lines, in place of seconds."""
    tensorboard: bool = False
    """Also write TensorBoard events to `RUN/tensorboard` (extra `tensorboard`)."""

    def __post_init__(self) -> None:
        at_least(self, 1, "every_steps")
        at_least(self, 0, "every_seconds")


@dataclass(frozen=True)
class RunConfig:
    """What decides a training run, whatever the system; a subclass adds the system's own keys."""

    presets: ClassVar[Mapping[str, Any]] = {}
    """The sizes that `model` may name, by name; a subclass gives them as `presets=`."""
    default_model: ClassVar[str] = ""
    """What `model` is where neither it nor `init` is given."""
    own_loop: ClassVar[bool] = False
    """Whether the system is counted or trained in passes of its own (`System.fit`)."""
    ignored: ClassVar[tuple[str, ...]] = ()
    """Keys that its runs do not read, by their beginnings, beside `OF_STEPS` where they have an own
    loop. A `config.toml` may hold them; the command line has no such options."""
    whole_documents: ClassVar[bool] = False
    """Whether a document is one example, as a pair or a story, that is never held out in part."""
    reads_pairs: ClassVar[bool] = False
    """Whether its shards are pairs of sentences (`data build --parallel`)."""
    use: ClassVar[str] = "inspect {run}"
    """The verb that shows what a trained model does, printed at the end of a run."""

    data: str
    """Folder of shards that `bertwright data build` wrote."""
    out: str
    """Folder to write the run to."""
    model: str | None = None
    """Size of the model, by name; unset: that of `init`, else the system's default."""
    init: str | None = None
    """Checkpoint to start from (continued pre-training); it determines the size."""
    steps: int | None = None
    """Length of the run in optimizer steps."""
    minutes: float | None = None
    """Length of the run in minutes of wall-clock time, validation included."""
    epochs: float | None = None
    """Length of the run in passes over the data."""
    seed: int = 1
    """Seed of weights, instances and dropout."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of matrix products; auto measures which is faster. Weights stay float32."""
    compile: bool = False
    """Compile the feed-forward layers with torch.compile (needs a C++ compiler; for GPUs)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device to train on; auto uses the GPU if there is one."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """With torchrun: ddp, each process holds all weights; fsdp, a shard of them (FSDP2)."""
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
    """Logging."""

    if TYPE_CHECKING:

        @property
        def architecture(self) -> Any:
            """Changes to the model, a section; see `changes_to`."""

    def __init_subclass__(
        cls, presets: Mapping[str, Any] | None = None, fixed: str = "", **defaults: Any
    ) -> None:
        """Enter the sizes of a system, and `architecture`, the section of changes to them; `fixed`
        and `defaults` as in `changes_to`."""
        super().__init_subclass__()
        if presets is not None:
            cls.presets = presets
            section = changes_to(type(next(iter(presets.values()))), fixed, **defaults)
            _declare(cls, "architecture", section, _OF_MODEL, default_factory=section)
        if cls.presets:
            names = f"{', '.join(cls.presets)}; unset: {cls.default_model}, or the size of `init`."
            _declare(cls, "model", str | None, names, default=None)

    def __post_init__(self) -> None:
        lengths = ("epochs",) if self.own_loop else ("steps", "minutes", "epochs")
        given = [name for name in ("steps", "minutes", "epochs") if getattr(self, name) is not None]
        if self.own_loop and not given:
            object.__setattr__(self, "epochs", 1.0)
            given = ["epochs"]
        if set(given) - set(lengths):
            raise ConfigError(
                f"a {self.default_model} is trained in passes over the data: expected --epochs, "
                f"--{given[0]} came"
            )
        if len(given) > 1:
            self.refuse_length(" and ".join(f"--{name}" for name in given))
        above(self, 0, *given)
        seed(self)
        if self.model is None and self.init is None:
            object.__setattr__(self, "model", self.default_model or None)
        if self.model is not None and self.presets and self.model not in self.presets:
            raise ConfigError(f"no model {self.model!r}; expected {', '.join(self.presets)}")
        micro = self.batch.micro_tokens
        if micro is not None and micro < self.longest_sequence:
            raise ConfigError(
                f"batch.micro_tokens is {micro}; one sequence may have {self.longest_sequence} "
                "tokens"
            )

    @classmethod
    def reads(cls, key: str) -> bool:
        """Whether the runs of the system read a key."""
        return not key.startswith((*cls.ignored, *(OF_STEPS if cls.own_loop else ())))

    def sources(self) -> dict[str, str]:
        """Return what the run starts from beside its data and `init`, by key: paths that the
        recipe opens."""
        return {}

    def require_length(self) -> None:
        """Raise ConfigError where the run has no length: after its data have been opened, as data
        that are not there are the first thing to say."""
        if self.steps is self.minutes is self.epochs is None:
            self.refuse_length("none of them")

    def refuse_length(self, came: str) -> None:
        """Raise ConfigError: not one length came, but this."""
        raise ConfigError(f"expected one of --steps, --minutes, --epochs; {came} came")

    @property
    def longest_sequence(self) -> int:
        """Tokens of the longest sequence that the run may see."""
        return 1

    def trained_length(self, phase: int) -> int | None:
        """Tokens whose positions are trained up to a phase of the run; None: no position is
        trained by itself."""
        return None

    def changes(self) -> dict[str, Any]:
        """What `architecture`, where a system's runs have it, changes of the model's sizes."""
        every = vars(self.architecture) if hasattr(self, "architecture") else {}
        return {name: value for name, value in every.items() if value is not None}

    def model_config(self, vocab_size: int) -> Any:
        """The model: the preset, what `architecture` changes, the vocabulary's size; a sequence
        must fit into its positions."""
        preset = self.presets[self.model or self.default_model]
        try:
            made: Any = replace(preset, vocab_size=vocab_size, **self.changes())
        except ConfigError as error:
            raise ConfigError(f"--architecture: {error}") from error
        length = getattr(self, "sequence_length", 0)
        room = getattr(made, "max_position_embeddings", length)
        if length > room:
            raise ConfigError(
                f"sequence_length is {length}; this model has {room} positions "
                "(architecture.max_position_embeddings)"
            )
        return made


def _declare(cls: type[RunConfig], name: str, kind: Any, help: str, **default: Any) -> None:
    """Give a class that becomes a dataclass a field."""
    cls.__annotations__[name] = kind
    setattr(cls, name, field(metadata={"help": help}, **default))
