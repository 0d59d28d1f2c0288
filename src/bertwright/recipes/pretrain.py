"""Pre-training as one function: shards in, a run folder with checkpoints out.

corpus -> ids (`data build`) -> batch (`data/loader.py`) -> encoder (`models/bert.py`) -> loss
(`objectives/`) -> step (`train/loop.py`) -> checkpoint (`checkpoint/`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from bertwright.atomic import MANIFEST, disk_errors, refuse_source, sha256_file
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.sources import read_config
from bertwright.config.bert import SIZES
from bertwright.config.bert_run import BertRun
from bertwright.data.loader import PretrainingData, TensorBatch, evaluation_data, to_tensors
from bertwright.data.shards import Shards, open_shards, require_tokenizer
from bertwright.errors import BertwrightError, ConfigError, DataError
from bertwright.machine import keep_few_kernels, keep_freed_memory
from bertwright.models.bert import Bert, training_flops
from bertwright.objectives.objective import Learner
from bertwright.recipes import run_folder
from bertwright.recipes.start import start
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks, join_ranks
from bertwright.train.hardware import Precision, choose_precision
from bertwright.train.log import Log, require_board
from bertwright.train.loop import LoopConfig, Trainer, mean_losses
from bertwright.train.loss_sums import Window
from bertwright.train.optim import make_optimizers
from bertwright.train.schedule import Budget, warmup_decay
from bertwright.train.state import Place, Position, load_state

Evaluate = Callable[[], dict[str, float]]


def pretrain(
    config: BertRun,
    say: Callable[[str], None],
    overwrite: bool = False,
    resume: bool = False,
    counts_start: bool = True,
) -> Path:
    """Pre-train BERT; the run's folder.

    Under `torchrun` every process calls this, and the ranks share each step.

    Args:
        config: the run.
        say: told each line for the screen.
        overwrite: replace a run that is there.
        resume: go on with the run that is there; it begins where none is.
        counts_start: whether what comes before the first step (first weights, measuring the
            machine) is of the run's minutes.

    Raises:
        ConfigError: the folder holds a run already, or one with another configuration.
        DataError: the shards cannot be trained from.
        BertwrightError: losses are not finite, or the time was over before the first step.
        Interrupted: a signal came; the run is saved.
    """
    if overwrite and resume:
        raise ConfigError("--overwrite begins anew, --resume goes on: pass one of them")
    if config.log.tensorboard:
        require_board()
    keep_freed_memory()
    keep_few_kernels()
    run = Path(config.out)
    with (
        join_ranks(config.device, config.parallel) as ranks,
        disk_errors(run),
        contextlib.ExitStack() as stack,
    ):
        shards = open_shards(config.data)
        if ranks.is_first:
            stack.enter_context(run_folder.alone(run))
        beginning = None
        if ranks.from_first(float(resume and run_folder.is_begun(run))):
            if ranks.is_first:
                run_folder.recover(run)
            ranks.wait()
            beginning = run_folder.check_same(config, run, shards)
        elif ranks.is_first:
            for source in filter(None, (config.data, config.init)):
                refuse_source(run, source)
            again = resume and run_folder.is_beginning(run)
            run_folder.refuse_other_folder(run, overwrite or again, resumes=True)
        data_sha256 = sha256_file(shards.folder / MANIFEST)
        place = f"goes on from {beginning.folder.name}" if beginning else "begins"
        ranks.require_same(f"{place} with data of the manifest {data_sha256[:12]}")
        _train(config, run, shards, data_sha256, ranks, say, beginning, counts_start)
    return run


def make_learner(config: BertRun, shards: Shards) -> Learner:
    """The learner a run starts from: new weights, or those of `config.init`."""
    objectives = _objectives(config)
    chance = torch.Generator().manual_seed(config.seed)
    if config.init is not None:
        learner = _continued(config, config.init, shards, objectives, chance)
    else:
        bert = config.bert(shards.vocab_size)
        learner = checkpoint.make_learner(bert, objectives)
        start(learner, config, shards, config.seed)
    return _ready(config, learner)


def _ready(config: BertRun, learner: Learner) -> Learner:
    """A learner as training wants it."""
    encoder = _encoder(learner)
    for parameter in learner.parameters():
        # What was read lies in the file's memory, at any address; products of matrices that are
        # aligned otherwise are rounded otherwise, and a run must go on bit for bit.
        parameter.data = parameter.data.clone()
    if "next_sentence" not in learner.objectives:
        encoder.pooler.requires_grad_(False)  # nothing teaches it
    if config.compile:
        for number in range(len(encoder.layers)):
            encoder.layer(number).feed_forward.compile(dynamic=True)
    return learner


def _continued(
    config: BertRun,
    init: str,
    shards: Shards,
    objectives: list[str],
    chance: torch.Generator,
) -> Learner:
    """The checkpoint to go on from, held against the shards and the configuration."""
    folder = checkpoint.find_checkpoint(init)
    require_tokenizer(shards, load_tokenizer(folder).fingerprint, f"the checkpoint {folder}")
    bert = read_config(folder)
    asked = {k: v for k, v in asdict(config.architecture).items() if v is not None}
    changed = {k: v for k, v in asked.items() if "dropout" in k}
    for name in asked.keys() - changed.keys():
        if asked[name] != getattr(bert, name):
            raise ConfigError(
                f"architecture.{name} is {asked[name]}, but {folder} has {getattr(bert, name)}; "
                "leave it out: --init brings the model's shape"
            )
    shape = config.bert(bert.vocab_size)
    if config.model and any(getattr(shape, name) != getattr(bert, name) for name in SIZES):
        raise ConfigError(
            f"{folder} has another shape than --model {config.model}; leave it out: --init brings "
            "the model's shape"
        )
    if config.longest_sequence > bert.max_position_embeddings:
        raise ConfigError(
            f"sequences of {config.longest_sequence} tokens do not fit {folder}, which has "
            f"positions for {bert.max_position_embeddings}; lower --instances.sequence-length"
        )
    return checkpoint.load(folder, objectives, chance, replace(bert, **changed)).learner


class Batches:
    """The batches of a run: short sequences first, then, if asked, a phase of long ones."""

    def __init__(self, config: BertRun, shards: Shards, ranks: Ranks) -> None:
        self._device = ranks.device
        self._world_size = ranks.world_size
        self._long_from = 1 - config.long_phase.share
        on_gpu = ranks.device.type == "cuda"
        micro = config.batch.micro_tokens or (65536 if on_gpu else 4096)
        self._micro = max(micro, config.longest_sequence)
        first = config.instances
        lengths = [first.sequence_length, config.long_phase.sequence_length]
        long_tokens = config.long_phase.batch_tokens or config.batch.tokens
        self._tokens = [config.batch.tokens, long_tokens]
        phases = 2 if config.long_phase.share else 1
        self.phases = [
            PretrainingData(
                shards,
                replace(first, sequence_length=length),
                config.masking,
                seed=config.seed + phase,
                validation_share=config.validation.share,
                rank=ranks.rank,
                world_size=ranks.world_size,
                prefetch=on_gpu,
            )
            for phase, length in enumerate(lengths[:phases])
        ]
        self.phases[0].tokens_in_epoch(0)  # data that gives no instances is an error now

    def step(self, place: Place, done: float) -> tuple[Sequence[TensorBatch], Place]:
        """The micro-batches at a place; a step with fewer sequences than ranks is passed over."""
        if done >= self._long_from and place.phase == 0:
            place = Place(phase=1)
        data, tokens = self.phases[place.phase], self._tokens[place.phase]
        passed = 0
        while len(data.positions(place.epoch, place.step, tokens)) < self._world_size:
            place, passed = self._next(place), passed + 1
            if passed > 2 * data.steps_in_epoch(place.epoch, tokens):
                raise ConfigError(
                    f"a step of {tokens} tokens holds no sequence for each of {self._world_size} "
                    "processes; raise --batch.tokens"
                )
        batches = data.step(place.epoch, place.step, tokens, self._micro)
        return [to_tensors(batch, self._device) for batch in batches], self._next(place)

    def steps_of_epochs(self, epochs: float) -> int:
        """Steps of so many passes over the first phase's instances."""
        data, tokens = self.phases[0], self._tokens[0]
        whole = int(epochs)
        steps = sum(data.steps_in_epoch(epoch, tokens) for epoch in range(whole))
        if epochs > whole:
            steps += round((epochs - whole) * data.steps_in_epoch(whole, tokens))
        return max(1, steps)

    def _next(self, place: Place) -> Place:
        data = self.phases[place.phase]
        if place.step + 1 < data.steps_in_epoch(place.epoch, self._tokens[place.phase]):
            return replace(place, step=place.step + 1)
        return replace(place, epoch=place.epoch + 1, step=0)


def _train(
    config: BertRun,
    run: Path,
    shards: Shards,
    data_sha256: str,
    ranks: Ranks,
    say: Callable[[str], None],
    beginning: run_folder.Beginning | None,
    counts_start: bool,
) -> None:
    """Wire the parts together and run the loop."""
    began = time.monotonic()
    if beginning is None:
        learner = make_learner(config, shards).to(ranks.device)
    else:
        learner = checkpoint.load(beginning.folder, _objectives(config)).learner
        learner = _ready(config, learner).to(ranks.device)
    ranks.shard(learner, _encoder(learner).layers)
    precision, peak = _precision(config, ranks, beginning)
    optimizers = make_optimizers(learner, config.optimizer, precision)
    batches = Batches(config, shards, ranks)
    steps = config.steps
    if config.epochs is not None:
        steps = batches.steps_of_epochs(config.epochs)
    seconds = 60 * config.minutes if config.minutes is not None else None
    evaluate = _validation(config, shards, learner, precision, ranks)
    # Ranks that began apart have one clock.
    spent = ranks.from_first(counts_start * (time.monotonic() - began))
    position = Position(seconds=spent, window=Window(seconds=spent))
    if beginning is not None:
        position = load_state(beginning.folder, learner, optimizers)
    elif ranks.is_first:  # all that could be wrong with the input has been looked at
        environment = run_folder.environment(ranks, precision, peak)
        run_folder.begin(run, environment | {"data_sha256": data_sha256}, config)
    encoder = _encoder(learner)
    log = None
    if ranks.is_first:
        log = Log(run, say, position.records, config.log.tensorboard, position.step)
        count = sum(p.numel() for p in encoder.parameters())
        name = config.init or config.model or "BERT"
        on = ranks.device.type
        if ranks.world_size > 1:
            on += f", {ranks.world_size} processes ({ranks.parallel})"
        elif config.parallel == "fsdp":
            on += " (fsdp shards nothing in one process: torchrun --nproc-per-node N starts N)"
        say(f"{name}: {count:,} parameters, {precision} on {on}")
        if beginning is not None:
            _tell_beginning(run, beginning, position, say)

    def begin_step(done: float, width: float) -> float:
        factor = warmup_decay(done, config.schedule.warmup, width)
        optimizers.set_rates(factor)
        return config.optimizer.learning_rate * factor

    trainer = Trainer(
        learner,
        optimizers,
        batches,
        Budget(steps, seconds),
        LoopConfig(
            seed=config.seed,
            precision=precision,
            peak=peak,
            clip_norm=config.optimizer.clip_norm,
            log=config.log,
            validation=config.validation,
            checkpoint=config.checkpoint,
        ),
        ranks,
        log,
        flops=lambda b: training_flops(
            encoder.config, b.sequences.lengths, len(b.masked_labels), learner.tokens_read(b)
        ),
        evaluate=evaluate,
        save=lambda at: run_folder.save(config, run, learner, optimizers, shards, at, ranks),
        begin_step=begin_step,
    )
    try:
        if not position.finished:
            position = trainer.run(position)
    except BertwrightError as error:
        if not trainer.diverged:
            raise
        raise BertwrightError(f"{error}; {_way_on(run, trainer.good)}") from error
    finally:
        if log is not None:
            log.close()
    if trainer.skipped and trainer.good < position.step - 1:
        raise BertwrightError(
            f"the run ended while steps were left out, the last {trainer.skipped}; "
            f"{_way_on(run, trainer.good)}"
        )


def _way_on(run: Path, good: int) -> str:
    """What to do when a run diverged: `good` is the last step after which a loss was finite."""
    there = run_folder.last_good(run, good)
    lower = "a lower --optimizer.learning-rate, or --precision fp32"
    if there is None:
        return f"no checkpoint of it gave a finite loss: begin anew with {lower}"
    return (
        f"the last checkpoint that gave a finite loss is {there}: begin a new run from it with "
        f"--init, and {lower}"
    )


def _precision(
    config: BertRun, ranks: Ranks, beginning: run_folder.Beginning | None
) -> tuple[Precision, float]:
    """Of matrix products, and the peak rate in it: the same on all ranks and in all sessions.

    A measurement may come out otherwise the next time, or on the next process.
    """
    asked: str = config.precision
    if asked == "auto" and beginning is not None:
        asked = beginning.precision
    precision, peak = choose_precision(ranks.device, asked)
    in_bf16 = ranks.from_first(float(precision == "bf16"))
    return "bf16" if in_bf16 else "fp32", ranks.from_first(peak)


def _tell_beginning(
    run: Path, beginning: run_folder.Beginning, position: Position, say: Callable[[str], None]
) -> None:
    if position.finished:
        say(f"{run} is finished already, at step {position.step:,}; nothing to do")
        return
    if beginning.damaged:
        say(f"damaged, and passed over: {', '.join(beginning.damaged)}")
    say(f"going on after step {position.step:,}, from {beginning.folder}")


def _validation(
    config: BertRun, shards: Shards, learner: Learner, precision: Precision, ranks: Ranks
) -> Evaluate | None:
    """Asks the held-out documents: always the same instances with the same masks."""
    if not config.validation.share:
        return None
    data = evaluation_data(shards, config, "dev", ranks.rank, ranks.world_size)
    tokens = min(config.validation.tokens, data.tokens_in_epoch(0))
    least = ranks.world_size if ranks.is_sharded else 1
    if len(data.plan(0)) < least:
        raise ConfigError(
            f"the held-out documents hold {len(data.plan(0))} sequences; with --parallel fsdp each "
            f"of {least} processes needs one: raise --validation.share"
        )
    while len(data.positions(0, 0, tokens)) < least:
        tokens *= 2  # fewer than one sequence were asked for
    micro = max(4096, config.instances.sequence_length)

    def batches() -> Iterator[TensorBatch]:
        for batch in data.step(0, 0, tokens, micro):
            yield to_tensors(batch, ranks.device)

    return lambda: mean_losses(learner, batches(), precision, ranks)


def _objectives(config: BertRun) -> list[str]:
    return ["masked_lm"] if config.instances.objectives == "mlm" else ["masked_lm", "next_sentence"]


def _encoder(learner: Learner) -> Bert:
    encoder = learner.encoder
    if not isinstance(encoder, Bert):
        raise DataError(f"the encoder is a {type(encoder).__name__}; expected a Bert")
    return encoder
