"""Pre-training as one function: shards in, a run folder with checkpoints out.

corpus -> ids (`data build`) -> batch (`data/loader.py`) -> encoder (`models/bert.py`) -> loss
(`objectives/`) -> step (`train/loop.py`) -> checkpoint (`checkpoint/`).
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

import bertwright
from bertwright.atomic import atomic_folder, disk_errors, refuse_existing, write_manifest
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.huggingface import read_config
from bertwright.config import values
from bertwright.config.pretrain import PretrainConfig
from bertwright.data.loader import PretrainingData, TensorBatch, to_tensors
from bertwright.data.shards import Shards, open_shards, require_tokenizer
from bertwright.errors import ConfigError, DataError
from bertwright.models.bert import Bert, training_flops
from bertwright.nn.init import aim_heads, initialize
from bertwright.objectives.objective import Learner
from bertwright.text.tokenizer import load_tokenizer
from bertwright.train.distributed import Ranks, join_ranks
from bertwright.train.log import Log
from bertwright.train.loop import LoopConfig, Trainer, mean_losses
from bertwright.train.machine import Precision, choose_precision, keep_freed_memory
from bertwright.train.optim import make_adamw
from bertwright.train.schedule import Budget
from bertwright.train.state import Place, Position, encode_state, load_state

CONFIG = "config.toml"
# What may change between the sessions of one run: how it is told and kept, not what it is.
_FREE_KEYS = ("log.", "checkpoint.")


def pretrain(
    config: PretrainConfig,
    say: Callable[[str], None],
    overwrite: bool = False,
    resume: bool = False,
) -> Path:
    """Pre-train BERT; the run's folder.

    Under `torchrun` every process calls this, and the ranks share each step.

    Args:
        config: the run.
        say: told each line for the screen.
        overwrite: replace a run that is there.
        resume: go on with the run that is there; it begins where none is.

    Raises:
        ConfigError: the folder holds a run already, or one with another configuration.
        DataError: the shards cannot be trained from.
        Interrupted: a signal came; the run is saved.
    """
    keep_freed_memory()
    run = Path(config.out)
    with join_ranks(config.device) as ranks:
        shards = open_shards(config.data)
        beginning = None
        if resume and (run / CONFIG).is_file():
            beginning = _check_same_run(config, run)
        elif ranks.is_first:
            refuse_existing(run, overwrite and (run / CONFIG).is_file())
        learner = make_learner(config, shards).to(ranks.device)
        precision, peak = choose_precision(ranks.device, config.precision)
        ranks.wait()
        with disk_errors(run):
            if ranks.is_first and beginning is None:
                _begin(config, run, precision, peak, ranks)
            _train(config, run, shards, learner, precision, peak, ranks, say, beginning)
    return run


def make_learner(config: PretrainConfig, shards: Shards) -> Learner:
    """The learner a run starts from: new weights, or those of `config.init`."""
    objectives = ["masked_lm"]
    if config.instances.objectives != "mlm":
        objectives.append("next_sentence")
    chance = torch.Generator().manual_seed(config.seed)
    if config.init is not None:
        learner = _continued(config, config.init, shards, objectives, chance)
    else:
        bert = config.bert(shards.vocab_size)
        learner = checkpoint.make_learner(bert, objectives)
        initialize(learner, bert.initializer_range, chance)
        if config.start == "neighbours":
            encoder = _encoder(learner)
            qkv = encoder.layer(0).attention.qkv.weight
            heads, std = bert.num_attention_heads, bert.initializer_range
            aim_heads(encoder.embeddings.position.weight, qkv, heads, std)
    encoder = _encoder(learner)
    if "next_sentence" not in objectives:
        encoder.pooler.requires_grad_(False)  # nothing teaches it
    if config.compile:
        for number in range(len(encoder.layers)):
            encoder.layer(number).feed_forward.compile(dynamic=True)
    return learner


def _continued(
    config: PretrainConfig,
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
    if config.longest_sequence > bert.max_position_embeddings:
        raise ConfigError(
            f"sequences of {config.longest_sequence} tokens do not fit {folder}, which has "
            f"positions for {bert.max_position_embeddings}; lower --instances.sequence-length"
        )
    return checkpoint.load_learner(folder, objectives, chance, replace(bert, **changed))


class Batches:
    """The batches of a run: short sequences first, then, if asked, a phase of long ones."""

    def __init__(self, config: PretrainConfig, shards: Shards, ranks: Ranks) -> None:
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

    def step(self, place: Place, done: float) -> tuple[Sequence[TensorBatch], Place]:
        """The micro-batches at a place; a step with fewer sequences than ranks is passed over."""
        if done >= self._long_from and place.phase == 0:
            place = Place(phase=1)
        data, tokens = self.phases[place.phase], self._tokens[place.phase]
        while len(data.positions(place.epoch, place.step, tokens)) < self._world_size:
            place = self._next(place)
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
    config: PretrainConfig,
    run: Path,
    shards: Shards,
    learner: Learner,
    precision: Precision,
    peak: float,
    ranks: Ranks,
    say: Callable[[str], None],
    beginning: Path | None,
) -> None:
    """Wire the parts together and run the loop."""
    adamw = config.optimizer
    optimizer = make_adamw(
        learner, adamw.learning_rate, (adamw.beta1, adamw.beta2), adamw.eps, adamw.weight_decay
    )
    position = Position()
    if beginning is not None:
        loaded = checkpoint.load_learner(beginning, list(learner.objectives))
        learner.load_state_dict(loaded.state_dict())
        position = load_state(beginning, learner, optimizer)
    batches = Batches(config, shards, ranks)
    steps = config.steps
    if config.epochs is not None:
        steps = batches.steps_of_epochs(config.epochs)
    seconds = 60 * config.minutes if config.minutes is not None else None
    encoder = _encoder(learner)
    log = None
    if ranks.is_first:
        resumed_at = position.step if beginning is not None else None
        log = Log(run, say, resumed_at, config.log.tensorboard)
        count = sum(p.numel() for p in encoder.parameters())
        say(f"{config.model}: {count:,} parameters, {precision} on {ranks.device.type}")
        if position.finished:
            say(f"{run} is finished already, at step {position.step:,}; nothing to do")
    trainer = Trainer(
        learner,
        optimizer,
        batches,
        Budget(steps, seconds),
        LoopConfig(
            seed=config.seed,
            precision=precision,
            peak=peak,
            optimizer=config.optimizer,
            schedule=config.schedule,
            log=config.log,
            validation=config.validation,
            checkpoint=config.checkpoint,
        ),
        ranks,
        log,
        flops=lambda b: training_flops(encoder.config, b.sequences.lengths, len(b.masked_labels)),
        evaluate=_validation(config, shards, learner, precision, ranks),
        save=lambda at: _save(config, run, learner, optimizer, shards, at, ranks),
    )
    if not position.finished:
        trainer.run(position)
    if log is not None:
        log.close()


def _validation(
    config: PretrainConfig, shards: Shards, learner: Learner, precision: Precision, ranks: Ranks
) -> Callable[[], dict[str, float]] | None:
    """Asks the held-out documents: always the same instances with the same masks."""
    if not config.validation.share:
        return None
    data = PretrainingData(
        shards,
        config.instances,
        replace(config.masking, probability=0.15),
        seed=0,
        split="dev",
        validation_share=config.validation.share,
        rank=ranks.rank,
        world_size=ranks.world_size,
        prefetch=False,
    )
    tokens = min(config.validation.tokens, data.tokens_in_epoch(0))
    micro = max(4096, config.instances.sequence_length)

    def batches() -> Iterator[TensorBatch]:
        for batch in data.step(0, 0, tokens, micro):
            yield to_tensors(batch, ranks.device)

    return lambda: mean_losses(learner, batches(), precision, ranks)


def _save(
    config: PretrainConfig,
    run: Path,
    learner: Learner,
    optimizer: torch.optim.Optimizer,
    shards: Shards,
    position: Position,
    ranks: Ranks,
) -> None:
    """Write a checkpoint, let `latest` name it, and drop the oldest."""
    if ranks.is_first:
        folder = run / checkpoint.CHECKPOINTS / f"step-{position.step:08d}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_folder(folder, overwrite=True) as partial:
            files = encode_state(position, learner, optimizer)
            card = _card(config, position)
            checkpoint.save(partial, learner, shards.tokenizer_folder, card, files)
            write_manifest(partial, {"format": 1, "step": position.step})
        checkpoint.write_latest(run, folder.name)
        for old in checkpoint.list_checkpoints(run)[: -config.checkpoint.keep]:
            shutil.rmtree(old)
    ranks.wait()


def _card(config: PretrainConfig, position: Position) -> str:
    """The model card of a checkpoint."""
    return (
        f"# {config.model}, pre-trained with Bertwright\n\n"
        f"Step {position.step:,}, {position.tokens:,} tokens, {position.seconds / 60:.1f} minutes; "
        f"objectives {config.instances.objectives}.\n\n"
        "```python\n"
        "import bertwright\n\n"
        "model = bertwright.load(FOLDER)\n"
        'model.fill("Paris is the [MASK] of France.")\n'
        "```\n\n"
        "or `transformers.AutoModelForPreTraining.from_pretrained(FOLDER)`.\n\n"
        f"## Configuration\n\n```toml\n{values.to_toml(config)}```\n"
    )


def _begin(
    config: PretrainConfig, run: Path, precision: Precision, peak: float, ranks: Ranks
) -> None:
    """Make the run's folder; what was there has been allowed to go."""
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    gpu = torch.cuda.get_device_name(ranks.device) if ranks.device.type == "cuda" else None
    environment = {
        "bertwright": bertwright.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.platform(terse=True),
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "world_size": ranks.world_size,
        "precision": precision,
        "peak_gflops": round(peak / 1e9, 1),
    }
    (run / "environment.json").write_text(json.dumps(environment, indent=1) + "\n")
    (run / CONFIG).write_text(values.to_toml(config), encoding="utf-8")


def _check_same_run(config: PretrainConfig, run: Path) -> Path | None:
    """The checkpoint to go on from; None where none was written yet.

    Raises:
        ConfigError: the run there has another configuration; names the differing keys.
    """
    saved = values.from_dict(PretrainConfig, values.read_toml(run / CONFIG), str(run / CONFIG))
    differing = [
        key
        for key in values.differing_keys(saved, config)
        if key != "out" and not key.startswith(_FREE_KEYS)
    ]
    if differing:
        was, now = (values.flatten(values.to_dict(each)) for each in (saved, config))
        changes = ", ".join(f"{k} (was {was.get(k)}, now {now.get(k)})" for k in differing)
        raise ConfigError(
            f"{run} was begun with another configuration: {changes}. Pass the same values, or "
            f"begin a new run with --init {run} --out ELSEWHERE"
        )
    if not checkpoint.list_checkpoints(run):
        return None
    return checkpoint.newest_verified(run)


def _encoder(learner: Learner) -> Bert:
    encoder = learner.encoder
    if not isinstance(encoder, Bert):
        raise DataError(f"the encoder is a {type(encoder).__name__}; expected a Bert")
    return encoder
