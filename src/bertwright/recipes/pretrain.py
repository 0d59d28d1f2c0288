"""Pre-train a model on shards, and write a run folder with checkpoints.

The data pass through these stages: corpus, ids (`data build`), batch
(`data/loading/epoch_loader.py`), encoder (`models/`), loss (its objectives), step
(`train/loop.py`), checkpoint (`checkpoint/`). The parts that are specific to a system (its
instances, objectives and initialization) come from its record (`models/system.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch

from bertwright.atomic import MANIFEST, disk_errors, refuse_source, sha256_file
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.memory import require_memory
from bertwright.checkpoint.opened import open_model
from bertwright.config.run import EvaluatedRun, PassRun, RunConfig, StepRun
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.loading.phase_loader import PhaseLoader
from bertwright.data.loading.phases import PassBudget
from bertwright.data.shards import Shards, open_shards, require_tokenizer
from bertwright.data.split import described
from bertwright.errors import BertwrightError, ConfigError
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.catalogue import completed, row_of
from bertwright.models.load import system_of, system_of_config, system_that
from bertwright.models.system import KnownWords, PretrainedEncoder, RunSources
from bertwright.nn.batch import Batch
from bertwright.nn.objective import Learner
from bertwright.nn.transformer.layers import TransformerLayer
from bertwright.process_settings import keep_few_kernels, keep_freed_memory
from bertwright.progress import silent
from bertwright.recipes import run_folder
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks, join_ranks
from bertwright.train.hardware import Hardware, choose_precision, micro_tokens, use_own_cores
from bertwright.train.log import Log, OnLog, summary_writer
from bertwright.train.loop import Trainer
from bertwright.train.loss_sums import mean_losses
from bertwright.train.optim import Optimizers, make_optimizers
from bertwright.train.passes import PassTrainer
from bertwright.train.schedule import Budget, rate_factor
from bertwright.train.state import Position, load_state
from bertwright.transfer.freezing import freeze_unread_pooler

Evaluate = Callable[[], dict[str, float]]


def pretrain(
    config: RunConfig,
    say: Callable[[str], None],
    overwrite: bool = False,
    resume: bool = False,
    on_log: OnLog = silent,
    verify: bool = True,
) -> Path:
    """Pre-train a model of any system, and return the run's folder.

    Under `torchrun`, every process calls this function, and the ranks share each step. The minutes
    of a run begin with its first step, after initialization and the measurement of the hardware.

    Args:
        config: the configuration of the run.
        say: prints a line.
        overwrite: whether to replace an existing run.
        resume: whether to continue the existing run; if there is none, a new run begins.
        on_log: called with each record of `metrics.jsonl`.
        verify: whether to compare the shards with the SHA-256 in their manifest; see
            `open_shards`.

    Raises:
        ConfigError: the folder already holds a run, or one with another configuration; or the
            settings do not fit each other.
        DataError: the shards cannot be used for training.
        BertwrightError: losses are not finite.
        Interrupted: a signal arrived; the run is saved.
    """
    if overwrite and resume:
        raise ConfigError("--overwrite begins from scratch, --resume continues: pass one of them")
    if config.log.tensorboard:
        summary_writer()
    keep_freed_memory()
    keep_few_kernels()
    use_own_cores()
    config = completed(config)
    run = Path(config.out)
    with (
        join_ranks(config.device, _parallel(config)) as ranks,
        disk_errors(run),
        contextlib.ExitStack() as stack,
    ):
        shards = open_shards(config.data, verify)
        if isinstance(config, StepRun):
            config.require_length()
        if config.sized_by is None:
            model = system_of(config).model(config, shards, RunSources())
            config = replace(config, architecture=model)
        if ranks.is_first:
            stack.enter_context(run_folder.alone(run))
        beginning = None
        if ranks.from_first(float(resume and run_folder.is_begun(run))):
            config, beginning = _resume(config, run, shards, ranks)
        elif ranks.is_first:
            _refuse_to_replace(config, run, overwrite, resume, say)
        if beginning is None:
            config = system_of(config).with_hold_out(config, shards)
        data_sha256 = sha256_file(shards.folder / MANIFEST)
        place = f"goes on from {beginning.opened.folder.name}" if beginning else "begins"
        ranks.require_same(f"{place} with data of the manifest {data_sha256[:12]}")
        training = _build(config, run, shards, ranks, beginning)
        position = _first_position(training, data_sha256)
        with _open_log(training, position, say, on_log) as log:
            if isinstance(training.config, PassRun):
                _train_by_passes(training, training.config, position, log)
            elif isinstance(training.config, StepRun):
                _train_by_steps(training, training.config, position, log)
    return run


def _parallel(config: RunConfig) -> Literal["ddp", "fsdp"]:
    """Return how the processes of a run share its weights; a run in passes has one process."""
    return config.parallel if isinstance(config, StepRun) else "ddp"


def _resume(
    config: RunConfig, run: Path, shards: Shards, ranks: Ranks
) -> tuple[RunConfig, run_folder.Beginning | None]:
    """Return the configuration of the existing run, and the checkpoint to continue from."""
    if ranks.is_first:
        run_folder.recover(run)
    ranks.wait()
    config = run_folder.with_choices_of(run, config)
    beginning = run_folder.check_same(config, run, shards)
    if beginning is not None and ranks.is_first:
        run_folder.mend_latest(run, beginning.opened.folder)
    return config, beginning


def _refuse_to_replace(
    config: RunConfig, run: Path, overwrite: bool, resume: bool, say: Callable[[str], None]
) -> None:
    """Raise ConfigError if a new run would replace something that must not be replaced."""
    for source in filter(None, (config.data, config.init)):
        refuse_source(run, source)
    if resume:
        say(f"{run} has no checkpoint to go on from: the run begins")
    again = resume and run_folder.is_beginning(run)
    run_folder.refuse_other_folder(run, overwrite or again, resumes=True)


def make_learner(config: RunConfig, shards: Shards) -> Learner:
    """Return the learner that a run starts from: a newly initialized one, or the checkpoint
    `config.init`.
    """
    system = system_of(config)
    names = system.heads(config)
    if config.init is not None:
        learner = _continued(config, config.init, shards, names)
    else:
        sources = open_sources(config)
        model = system.model(config, shards, sources)
        config.require_positions(model)
        with torch.device("meta"):
            require_memory(system.make_learner(model, names), "the model")
        learner = system.make_learner(model, names)
        system.initialize(learner, config, shards, sources)
    return _ready(config, learner)


def open_sources(config: RunConfig) -> RunSources:
    """Open the encoder and the word vectors that a run's configuration names by path.

    Raises:
        DataError: a path has no model, or no word vectors.
        ConfigError: the run would replace the encoder, or the encoder is of a system that the run
            cannot use.
    """
    paths = config.sources()
    encoder: PretrainedEncoder | None = None
    words: KnownWords | None = None
    if "encoder" in paths:
        refuse_source(Path(config.out), paths["encoder"])
        loaded = checkpoint.load(paths["encoder"], [])
        encoders = row_of(config).encoders
        system_that(lambda system: system.row.name in encoders, loaded.config, "--encoder")
        encoder = PretrainedEncoder(
            name=paths["encoder"],
            folder=loaded.opened.folder,
            config=loaded.config,
            weights=loaded.learner.encoder.state_dict(),
            tokenizer=loaded.opened.tokenizer,
        )
    if "word_vectors" in paths:
        words = open_words(paths["word_vectors"])
    return RunSources(encoder, words)


def _ready(config: RunConfig, learner: Learner) -> Learner:
    for parameter in learner.parameters():
        # Tensors read from a file may have another alignment in memory, and the products of such
        # matrices are rounded differently. Copies are aligned alike, so a run resumes bit for bit.
        parameter.data = parameter.data.clone()
    freeze_unread_pooler(learner)
    if isinstance(config, StepRun) and config.compile:
        for module in learner.encoder.modules():
            if isinstance(module, TransformerLayer):
                module.compile_parts()
    return learner


def _continued(config: RunConfig, init: str, shards: Shards, objectives: list[str]) -> Learner:
    """Return the learner of the checkpoint `init`.

    Raise an error if the checkpoint does not fit the shards or the configuration.
    """
    opened = open_model(init)
    folder = opened.folder
    require_tokenizer(shards, load_tokenizer(folder).fingerprint, f"the checkpoint {folder}")
    system, trained = system_of_config(opened.config), row_of(config)
    if system.row is not trained:
        raise ConfigError(
            f"{folder} is a {system.row.name}, which a run of {trained.name} cannot continue: "
            "leave --model out, or start without --init"
        )
    wanted = system.continued(config, opened.config, folder)
    config.require_positions(wanted)
    generator = torch.Generator().manual_seed(config.seed)
    return checkpoint.load(opened, objectives, generator, wanted).learner


@dataclass
class _Training:
    """The parts of a training run."""

    config: RunConfig
    run: Path
    """The run's folder."""
    shards: Shards
    hardware: Hardware
    beginning: run_folder.Beginning | None
    """The checkpoint to continue from; None for a new run."""
    learner: Learner
    optimizers: Optimizers
    batches: PhaseLoader | None
    """Provides the batches of steps; None if the system has its own training loop."""
    evaluate: Evaluate | None
    """Computes the loss on held-out text; None if nothing is held out."""
    length_before: int
    """The maximum sequence length of the model that the run begins with; 0 if there is none."""

    def trained_length(self, phase: int) -> int | None:
        """Return the sequence length up to which positions are trained after a phase.

        This includes positions that were trained before the run.
        """
        length = self.config.trained_length(phase)
        return None if length is None else max(length, self.length_before)

    def save(self, at: Position) -> None:
        """Write a checkpoint of the run at a position."""
        run_folder.save(
            self.config,
            self.run,
            self.learner,
            self.optimizers,
            self.shards,
            at,
            self.hardware.ranks,
            self.trained_length(at.data.phase),
        )


def _build(
    config: RunConfig,
    run: Path,
    shards: Shards,
    ranks: Ranks,
    beginning: run_folder.Beginning | None,
) -> _Training:
    """Build the learner, its optimizers and its data.

    Raises:
        ConfigError: the model, the data and the number of processes do not fit each other.
    """
    system = system_of(config)
    if beginning is None:
        learner = make_learner(config, shards).to(ranks.device)
        config = replace(config, architecture=learner.encoder.config)
    else:
        learner = checkpoint.load(beginning.opened, system.heads(config)).learner
        learner = _ready(config, learner).to(ranks.device)
    length_before = _length_before(config, beginning)
    ranks.shard(learner, list(dict.fromkeys(learner.encoder.stages()[1:])))
    hardware = _hardware(config, ranks, beginning)
    if isinstance(config, StepRun):
        optimizers = make_optimizers(learner, config.optimizer, hardware.precision)
        phases = system.trained_on(config, shards)
        tokens = config.batch.micro_tokens or micro_tokens(ranks.device)
        batches = PhaseLoader(phases, tokens, ranks.device, ranks.rank, ranks.world_size)
    else:
        optimizers, batches = Optimizers(), None
        if ranks.world_size > 1:
            raise ConfigError(
                f"{config.model or config.init} is trained by one process: start it without "
                "torchrun"
            )
    return _Training(
        config=config,
        run=run,
        shards=shards,
        hardware=hardware,
        beginning=beginning,
        learner=learner,
        optimizers=optimizers,
        batches=batches,
        evaluate=_validation(config, shards, learner, hardware),
        length_before=length_before,
    )


def _first_position(training: _Training, data_sha256: str) -> Position:
    """Return the position to train from.

    A resumed run loads the state of its checkpoint. For a new run, the folder is written, with the
    SHA-256 of the data's manifest.
    """
    config, ranks = training.config, training.hardware.ranks
    if training.beginning is not None:
        return load_state(training.beginning.opened.folder, training.learner, training.optimizers)
    if ranks.is_first:  # all input has been checked by now
        environment = run_folder.environment(training.hardware)
        if isinstance(config, EvaluatedRun):
            held = config.validation
            environment["held_out"] = described(training.shards, held.fraction, held.hold_out)
        run_folder.begin(training.run, environment | {"data_sha256": data_sha256}, config)
    return Position()


@contextlib.contextmanager
def _open_log(
    training: _Training, position: Position, say: Callable[[str], None], on_log: OnLog
) -> Iterator[Log | None]:
    """Open the log of a run, print a description of the run, and close the log at the end.

    Yield the log in the first process, and None in the others.
    """
    if not training.hardware.ranks.is_first:
        yield None
        return
    titles = {k: cast(Any, v).title for k, v in training.learner.objectives.items()}
    log = Log(
        training.run,
        say,
        position.records,
        training.config.log.tensorboard,
        position.step,
        titles=titles,
        on_log=on_log,
    )
    with contextlib.closing(log):
        _print_beginning(training, position, say)
        yield log


def _train_by_passes(
    training: _Training, config: PassRun, position: Position, log: Log | None
) -> None:
    """Train a system that counts its text, or that has its own training loop."""
    fit = system_of(config).fit
    assert fit is not None
    assert log is not None
    budget = PassBudget(config.epochs, config.most_minutes, position.step, position.seconds)
    trainer = PassTrainer(
        learner=training.learner,
        passes=fit(config, training.shards, training.learner, budget),
        budget=budget,
        log=log,
        evaluate=training.evaluate,
        save=training.save,
    )
    if not position.finished:
        trainer.run(position)


def _train_by_steps(
    training: _Training, config: StepRun, position: Position, log: Log | None
) -> None:
    """Train step by step to the end of the run.

    Raises:
        BertwrightError: losses were not finite; the message names the checkpoint to continue from.
    """
    batches = training.batches
    assert batches is not None
    steps = config.steps
    if config.epochs is not None:
        steps = batches.steps_of_epochs(config.epochs)
    seconds = 60 * config.minutes if config.minutes is not None else None

    def begin_step(done: float, width: float) -> float:
        """Set the learning rates of a step, and return the learning rate of AdamW."""
        factor = rate_factor(config.schedule, done, width)
        training.optimizers.set_rates(factor)
        return config.optimizer.learning_rate * factor

    trainer = Trainer(
        learner=training.learner,
        optimizers=training.optimizers,
        begin_step=begin_step,
        clip_norm=config.optimizer.clip_norm,
        source=batches,
        budget=Budget(steps, seconds),
        seed=config.seed,
        hardware=training.hardware,
        log=log,
        evaluate=training.evaluate,
        save=training.save,
        when_to_log=config.log,
        when_to_validate=config.validation,
        when_to_save=config.checkpoint,
    )
    try:
        if not position.finished:
            position = trainer.run(position)
    except BertwrightError as error:
        if not trainer.diverged:
            raise
        raise BertwrightError(f"{error}; {_way_on(training.run, trainer.good)}") from error
    if trainer.skipped and trainer.good < position.step - 1:
        raise BertwrightError(
            f"the run ended while steps were left out, the last {trainer.skipped}; "
            f"{_way_on(training.run, trainer.good)}"
        )


def _way_on(run: Path, good: int) -> str:
    """Return advice for a run that diverged.

    `good` is the last step after which a loss was finite.
    """
    checkpoint_folder = run_folder.last_good(run, good)
    lower = "lower learning rates (--optimizer.learning-rate, --optimizer.matrix-learning-rate), "
    lower += "or --precision fp32"
    if checkpoint_folder is None:
        return f"no checkpoint of it gave a finite loss: begin from scratch with {lower}"
    return (
        f"the last checkpoint that gave a finite loss is {checkpoint_folder}: begin a new run "
        f"from it with --init, and {lower}"
    )


def _hardware(config: RunConfig, ranks: Ranks, beginning: run_folder.Beginning | None) -> Hardware:
    """Return the ranks with the precision of their matrix products, which is the same on all.

    A resumed run keeps its precision, also on a machine where another one is faster.
    """
    wanted: str = config.precision
    if wanted == "auto" and beginning is not None:
        wanted = beginning.precision
    precision, peak = choose_precision(ranks.device, wanted)
    in_bf16 = ranks.from_first(float(precision == "bf16"))
    return Hardware(ranks, "bf16" if in_bf16 else "fp32", ranks.from_first(peak))


def _length_before(config: RunConfig, beginning: run_folder.Beginning | None) -> int:
    """Return the maximum sequence length of the checkpoint or encoder that the run begins with.

    The result is 0 if there is neither.
    """
    if beginning is not None:
        return beginning.opened.max_length or 0
    if config.sized_by is None:
        return 0
    return open_model(config.sized_by).max_length or 0


def _print_beginning(training: _Training, position: Position, say: Callable[[str], None]) -> None:
    """Print the model and the hardware, and the step from which a resumed run continues."""
    config, ranks, beginning = training.config, training.hardware.ranks, training.beginning
    count = sum(p.numel() for p in training.learner.parameters())
    precision, on = training.hardware.precision, ranks.device.type
    if ranks.world_size > 1:
        on += f", {ranks.world_size} processes ({ranks.parallel})"
    elif _parallel(config) == "fsdp":
        on += " (fsdp shards nothing in one process: torchrun --nproc-per-node N starts N)"
    say(f"{config.init or config.model}: {count:,} parameters, {precision} on {on}")
    if beginning is None:
        _print_untrained_positions(training, say)
        return
    if position.finished:
        say(f"{training.run} is finished already, at step {position.step:,}; nothing to do")
        return
    if beginning.damaged:
        say(f"damaged, and skipped: {', '.join(beginning.damaged)}")
    say(f"going on after step {position.step:,}, from {beginning.opened.folder}")


def _print_untrained_positions(training: _Training, say: Callable[[str], None]) -> None:
    """Print the positions of the model that no sequence of the run reaches."""
    most, trained = training.learner.encoder.spec.max_length, training.trained_length(1)
    if most is not None and trained is not None and trained < most:
        say(
            f"positions {trained + 1} to {most} stay untrained: the model will read {trained} "
            "tokens at once, and longer texts in windows or not at all"
        )


def _validation(
    config: RunConfig, shards: Shards, learner: Learner, hardware: Hardware
) -> Evaluate | None:
    """Return the function that computes the loss on held-out text; None if nothing is held out."""
    if not isinstance(config, EvaluatedRun) or not config.validation.fraction:
        return None
    instances = system_of(config).evaluated_on(config, shards, "dev")
    if instances is None:
        return None
    ranks = hardware.ranks
    loader = EpochLoader(instances, ranks.rank, ranks.world_size)
    held_out = loader.sequences_in_epoch(0)
    tokens = min(config.validation.tokens, loader.tokens_in_epoch(0))
    least = ranks.world_size if ranks.is_sharded else 1
    if held_out < least:
        raise ConfigError(
            f"the held-out documents hold {held_out} sequences; with --parallel fsdp each of "
            f"{least} processes needs one: raise --validation.fraction"
        )
    while len(loader.positions(0, 0, tokens)) < least:
        tokens *= 2  # the requested tokens have too few sequences
    micro = max(4096, instances.longest)

    def batches() -> Iterator[Batch]:
        for batch in loader.step(0, 0, tokens, micro):
            yield batch.to(ranks.device)

    return lambda: mean_losses(learner, batches(), hardware)
