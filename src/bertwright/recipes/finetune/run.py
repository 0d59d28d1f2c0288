"""Fine-tune a checkpoint on labelled files, and write a run folder.

Labelled files become instances (`setup.py`). For each seed, the encoder with new heads is trained
in steps (`train/loop.py`) and evaluated on dev (`training.py`); for frozen features, see
`frozen.py` and `fitted.py`. The weights of the best seed are saved as a Hugging Face folder, and
the results are written to `results.json` (`results.py`).
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.atomic import disk_errors, refuse_source
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.sentence_transformers.vectors import take_dense
from bertwright.checkpoint.spelling import spell_unknown_words
from bertwright.config.finetune import FinetuneConfig, rates_of
from bertwright.errors import ConfigError, Interrupted
from bertwright.models.load import continues_texts, system_of_config, system_that
from bertwright.nn.objective import Learner, Objective
from bertwright.process_settings import keep_few_kernels, keep_freed_memory
from bertwright.progress import OnProgress, silent
from bertwright.recipes import run_folder
from bertwright.recipes.finetune import results as task_results
from bertwright.recipes.finetune.defaults import (
    epochs_of,
    fixed_rate,
    is_fitted,
    layers_of,
    takes_seconds,
    transfer_of,
    usual_rate,
    without_effect,
)
from bertwright.recipes.finetune.fitted import Fitting, read_vectors
from bertwright.recipes.finetune.frozen import tabulate
from bertwright.recipes.finetune.rates import (
    Plan,
    choose_rate,
    key_of,
    plan_trials,
    read_tried,
)
from bertwright.recipes.finetune.setup import TaskSetup, TaskSpec, set_up
from bertwright.recipes.finetune.training import (
    EVALUATED,
    Diverged,
    SeedRun,
    TaskHardware,
    evaluate_task,
    train_seed,
)
from bertwright.recipes.finetune.training_file import TRAINING_FILES, training_files
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.head import Head
from bertwright.train.distributed import join_ranks
from bertwright.train.hardware import choose_precision, micro_tokens, use_own_cores
from bertwright.train.log import Log, OnLog
from bertwright.train.signals import SeveralRuns
from bertwright.transfer.features import FeatureTable
from bertwright.transfer.stepping import Stepping

FOR_TRAINING = 0.9
"""The fraction of the time of a run that training may take; the last evaluation on dev follows."""


def finetune(
    tasks: Sequence[TaskSpec],
    config: FinetuneConfig,
    say: Callable[[str], None],
    overwrite: bool = False,
    on_progress: OnProgress = silent,
    on_log: OnLog = silent,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Fine-tune a checkpoint on one task, or on several at once; return the content of
    `results.json`.

    Several tasks are trained as heads on the same encoder (multi-task learning). `on_progress` is
    called with the number of tokens processed over all seeds; for frozen features, with the number
    of tokens encoded. `seconds` is the maximum time of a run of one seed, with the choice of its
    learning rate.

    Raises:
        Diverged: every seed diverged.
        Interrupted: a signal arrived; the completed seeds are kept.
    """
    began = time.monotonic()
    keep_freed_memory()
    keep_few_kernels()
    use_own_cores()
    run, requested = Path(config.out), config
    with join_ranks(config.device) as ranks, disk_errors(run), contextlib.ExitStack() as stack:
        if ranks.world_size > 1 and (len(tasks) > 1 or config.transfer == "gradual"):
            raise ConfigError(
                "several tasks, and gradual unfreezing, run in one process; start without torchrun"
            )
        if not ranks.is_first:
            say = silent
        else:
            stack.enter_context(run_folder.alone(run))
            run_folder.refuse_other_folder(run, overwrite)
        opened = open_model(config.model)
        refuse_source(run, opened.source)
        encoder = checkpoint.load(opened).learner.encoder
        spec = encoder.spec
        spec.require_vectors()
        tokenizer = spell_unknown_words(opened.tokenizer, encoder)
        trained = opened.max_length
        config = replace(config, transfer=transfer_of(config, spec, tasks))
        fitted = layers_of(config, spec) if is_fitted(config, tasks) else None
        makes_vectors = any(kind_of(task.kind).vectors for task in tasks)
        vectors = opened.embedding if makes_vectors else None
        setups = [
            set_up(task, config, tokenizer, spec, say, trained, fitted, vectors) for task in tasks
        ]
        baselines = _baselines(setups, config, say)
        exact = fitted is not None and config.precision == "auto"
        precision, peak = choose_precision(ranks.device, "fp32" if exact else config.precision)
        micro = config.micro_tokens or micro_tokens(ranks.device)
        predicted = config.micro_tokens or max(micro, 8192)
        hardware = TaskHardware(ranks, precision, peak, micro, predicted)
        epochs = epochs_of(config, sum(len(s.train.examples) for s in setups))
        named = rates_of(config.learning_rate)
        rate = named[0] if named else usual_rate(config, spec.width)
        learner = new_learner(opened, config, setups, config.seed)
        parameters = sum(p.numel() for p in learner.encoder.parameters())
        if config.learning_rate == "auto":
            rate = fixed_rate(config, spec, parameters)
        config = replace(config, epochs=epochs, precision=precision)
        # Raise an error for settings that do not fit the model before anything is written.
        Stepping(learner, config, rate, epochs, 1)
        plan, tried, key = None, {}, ""
        if fitted is not None:  # without steps
            if unused := without_effect(config):
                say(
                    f"warning: {', '.join(unused)}: of no effect on a linear layer that is fitted "
                    "without steps; --epochs trains it in steps"
                )
            config = replace(config, epochs=None, learning_rate=None)
        elif len(named) > 1 or ranks.world_size == 1:
            cost = _cost(setups, config, ranks.world_size)
            plan = plan_trials(config, setups, parameters, cost, rate)
            config = replace(config, learning_rate=rate)
        else:
            config = replace(config, learning_rate=rate)
        if plan is not None:
            key = key_of(opened.folder, requested, setups)
            tried = read_tried(run, key) if ranks.world_size == 1 else {}
        if ranks.is_first:
            environment = run_folder.environment(hardware)
            environment[TRAINING_FILES] = training_files(tasks)
            run_folder.begin(run, environment, task_results.settings(tasks, requested))
            if len(tasks) > 1:
                task_results.write_tasks(run, tasks)
        ranks.wait()  # until the folder exists
        if ranks.is_first and config.baselines is not False:
            _untuned(baselines, setups, learner, hardware, say)
        seeds = _Seeds(
            opened, config, setups, run, hardware, fitted is not None, say, on_progress, on_log
        )
        if seconds is not None:
            seeds.seconds = max(0.0, FOR_TRAINING * seconds - (time.monotonic() - began))
        seeds.plan, seeds.tried, seeds.key = plan, tried, key
        runs, diverged, interrupted = seeds.train()
        config = seeds.config
        if not runs:
            again = f"{run} holds the log only: the same command with --overwrite starts again"
            if interrupted is not None:
                raise Interrupted(
                    interrupted.exit_code - 128, f"interrupted before a seed was finished; {again}"
                )
            raise Diverged(
                f"diverged: every seed ({', '.join(map(str, diverged))}) came to numbers that are "
                f"not finite; lower --learning-rate (it was {config.learning_rate:g}). {again}"
            )
        results = task_results.figures(
            config, setups, runs, diverged, baselines, spec.depth, seeds.trials
        )
        if ranks.is_first:
            best = max(runs, key=lambda each: each.score)
            # With frozen features, all seeds share the encoder of the first seed.
            learner = new_learner(opened, config, setups, config.seed)
            learner.load_state_dict(best.state, strict=config.transfer != "features")
            task_results.save(run, learner, opened, results, setups, best)
        if interrupted is not None:
            raise Interrupted(
                interrupted.exit_code - 128,
                f"interrupted in seed {config.seed + len(runs) + len(diverged)}; {run} holds the "
                f"{len(runs)} seeds before it, whole",
            )
        return results


def new_learner(
    opened: Opened, config: FinetuneConfig, setups: Sequence[TaskSetup], seed: int
) -> Learner:
    """Return the learner that a seed starts from: the checkpoint's encoder with new heads."""
    generator = torch.Generator().manual_seed(seed)
    folder, architecture = opened.folder, opened.config
    dropout: dict[str, Any] = {
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "dropout_scale": config.dropout_scale,
    }
    keys = {each.name for each in fields(architecture)}
    if config.dropout_scale is None:
        del dropout["dropout_scale"]
    elif "dropout_scale" not in keys:
        raise ConfigError(f"dropout_scale is for an AWD-LSTM, but {folder} is none: use dropout")
    architecture = replace(architecture, **{k: v for k, v in dropout.items() if k in keys})
    tasks = {setup.task_name: setup.task for setup in setups}
    auxiliary = ("next_token",) if config.language_model else ()
    if auxiliary and "next_token" not in system_of_config(architecture).objectives:
        raise ConfigError(
            f"language_model is {config.language_model:g}, but {folder} is no language model that "
            "predicts the next token; leave it out, or pass a GPT or an AWD-LSTM"
        )
    if any(kind_of(task.kind).generates for task in tasks.values()):
        system_that(continues_texts, architecture, "generation")
    loaded = checkpoint.load(opened, auxiliary, generator, architecture, tasks=tasks)
    learner = loaded.learner
    spell_unknown_words(setups[0].train.tokenizer, learner.encoder)
    learner.auxiliary = auxiliary
    learner.weights = dict.fromkeys(auxiliary, config.language_model)
    if config.random_start:
        learner.encoder.reset_parameters(generator)
    for setup in setups:
        head, is_new = learner.objectives[setup.task_name], setup.task_name in loaded.report.started
        if setup.class_weights is not None:
            head.class_weights = setup.class_weights
        kind = kind_of(setup.task.kind)
        if kind.generates and is_new and not config.random_start:
            # Start from the head that predicted tokens in pre-training, or from a new one.
            name = "next_token" if learner.encoder.spec.causal else "masked_lm"
            new = torch.Generator().manual_seed(seed)
            pretrained = checkpoint.load(opened, [name], new).learner.objectives[name]
            head.load_state_dict(pretrained.state_dict(), strict=False)
        if kind.vectors and is_new:
            take_dense(opened.embedding, head)
        if is_new:
            assert isinstance(head, Head)
            kind.start(head, setup.train.examples)
    return learner


def _cost(setups: Sequence[TaskSetup], config: FinetuneConfig, ranks: int) -> float:
    """Return the cost of all seeds, including evaluations, in trained tokens."""
    assert config.epochs is not None
    train = sum(each.train.num_tokens * each.files.weight for each in setups)
    dev = sum(each.dev.num_tokens for each in setups) / EVALUATED
    evaluations = math.ceil(config.epochs * config.evaluations_per_epoch)
    return (train * config.epochs / ranks + dev * evaluations) * config.seeds


@dataclass
class _Seeds:
    """The seeds of a run, which are trained one after the other."""

    opened: Opened
    config: FinetuneConfig
    setups: list[TaskSetup]
    run: Path
    hardware: TaskHardware
    fitted: bool
    """Whether linear heads are fitted on frozen vectors, without steps."""
    say: Callable[[str], None]
    on_progress: OnProgress
    on_log: OnLog
    plan: Plan | None = None
    """The learning rates to try before the seeds."""
    tried: Mapping[float, dict[str, Any]] = field(default_factory=dict)
    """The trials that an earlier command completed, by their rates."""
    key: str = ""
    """The key with which the trials are written, so that a later command can reuse them."""
    tokens: float = 0.0
    """The number of tokens processed, for the seeds and the trials."""
    trials: list[dict[str, Any]] = field(default_factory=list)
    """The results of the trials."""
    first: SeedRun | None = None
    """The first seed, if a trial trained it."""
    seconds: float | None = None
    """The maximum time of all, if there is one seed; None: no limit."""

    def train(self) -> tuple[list[SeedRun], list[int], Interrupted | None]:
        """Train all seeds.

        Returns:
            The completed seeds, of which only the best has its weights; the numbers of the seeds
            that diverged; and the interruption, if there was one.
        """
        features = fitting = None
        self.began = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix=".features-", dir=self.run) as temporary,
            SeveralRuns() as signals,
        ):
            if self.fitted:
                fitting = self._read_vectors()
            elif self.config.transfer == "features":
                learner = new_learner(self.opened, self.config, self.setups, self.config.seed)
                self.say("encoding all examples once: the features are frozen")
                file = Path(temporary) / "table"
                half = None if self.seconds is None else self.seconds / 2
                features = tabulate(
                    learner,
                    self.setups,
                    self.hardware,
                    file,
                    self.on_progress,
                    self.config.seed,
                    half,
                )
            if self.plan is not None:
                self._choose_rate(self.plan, features)
            runs: list[SeedRun] = []
            diverged: list[int] = []
            for seed in range(self.config.seed, self.config.seed + self.config.seeds):
                try:
                    signals.heed()
                    first, self.first = self.first, None
                    runs.append(first or self._train_seed(seed, features, fitting))
                except Interrupted as interrupted:
                    return runs, diverged, interrupted
                except Diverged as error:
                    diverged.append(seed)
                    self.say(f"warning: diverged: lower --learning-rate ({error})")
                    continue
                best = max(runs, key=lambda each: each.score)
                for each in runs:
                    if each is not best:
                        each.state = {}
        return runs, diverged, None

    def _choose_rate(
        self, plan: Plan, features: tuple[FeatureTable, list[TaskSetup]] | None
    ) -> None:
        """Choose a learning rate by trials, and set it in the configuration."""
        seed = self.config.seed
        if features is not None:
            plan = replace(plan, setups=features[1])
        self.say(plan.sentence)
        try:
            chosen = choose_rate(
                plan,
                lambda: self._new_learner(seed, plan.setups, features),
                self.hardware,
                self.run,
                self.tried,
                self.key,
                self.say,
                self._count if features is None else silent,
                self._left,
            )
        except Interrupted as interrupted:
            raise Interrupted(
                interrupted.exit_code - 128,
                f"interrupted while learning rates were tried; {self.run} holds those that ended: "
                "the same command with --overwrite goes on with the others",
            ) from None
        self.config = replace(self.config, learning_rate=chosen.rate)
        self.trials, self.first = chosen.trials, chosen.first

    def _new_learner(
        self,
        seed: int,
        setups: Sequence[TaskSetup],
        features: tuple[FeatureTable, list[TaskSetup]] | None,
    ) -> Learner:
        """Return the learner that a seed starts from; with `features`, they replace its encoder."""
        learner = new_learner(self.opened, self.config, setups, seed)
        if features is None:
            return learner
        heads = {n: h for n, h in learner.objectives.items() if isinstance(h, Objective)}
        return Learner(features[0], heads)

    def _read_vectors(self) -> Fitting:
        """Encode all training examples once, and return the vectors on which heads are fitted."""
        learner = new_learner(self.opened, self.config, self.setups, self.config.seed)
        learner = learner.to(self.hardware.device).eval()
        self.say("the encoder is frozen: its vectors of all examples are computed once")
        seed, progress = self.config.seed, self.on_progress
        data = [
            read_vectors(learner, setup, self.hardware, seed, progress, self.seconds)
            for setup in self.setups
        ]
        for setup, frozen in zip(self.setups, data, strict=True):
            if self.seconds is not None:
                setup.facts["train"]["examples"] = len(np.unique(frozen.groups))
            rows, width = frozen.vectors.shape
            what = "words" if kind_of(setup.task.kind).scores_tokens else "examples"
            total = setup.train.examples
            some = "" if len(np.unique(frozen.groups)) == len(total) else ", a random part"
            self.say(
                f"{setup.task_name}: a linear layer is fitted on the standardized vectors of "
                f"{rows:,} {what}{some} ({width:,} features; layer {setup.task.head.layers}); "
                "--transfer finetune trains the encoder too"
            )
        return Fitting(learner, self.setups, self.hardware, data)

    def _train_seed(
        self,
        seed: int,
        features: tuple[FeatureTable, list[TaskSetup]] | None,
        fitting: Fitting | None,
    ) -> SeedRun:
        setups = self.setups if features is None else features[1]
        # Training on stored features is fast, so it shows no progress.
        on_tokens: Callable[[float], None] = self._count if features is None else silent
        log = None
        if self.hardware.ranks.is_first:
            if self.config.seeds > 1:
                last = self.config.seed + self.config.seeds - 1
                self.say(f"seed {seed} ({self.config.seed} to {last})")
            log = Log(self.run, self.say, keep=-1, labels={"seed": seed}, on_log=self.on_log)
        try:
            if fitting is not None:
                return fitting.train_seed(seed, log)
            learner = self._new_learner(seed, setups, features)
            return train_seed(
                self.config, setups, learner, seed, self.hardware, log, on_tokens, self._left
            )
        finally:
            if log is not None:
                log.close()

    @property
    def _left(self) -> float | None:
        """The seconds that are left; None: no limit."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - (time.monotonic() - self.began))

    def _count(self, tokens: float) -> None:
        """Add to the number of processed tokens, and report the progress of the run."""
        self.tokens += tokens
        more = 0.0 if self.plan is None else self.plan.tokens
        total = int(more + _cost(self.setups, self.config, self.hardware.ranks.world_size))
        self.on_progress(min(int(self.tokens), total), total)


def _untuned(
    baselines: dict[str, dict[str, Evaluation]],
    setups: Sequence[TaskSetup],
    learner: Learner,
    hardware: TaskHardware,
    say: Callable[[str], None],
) -> None:
    """Add the evaluation of the untrained model to the baselines of tasks of vectors."""
    for setup in setups:
        if not kind_of(setup.task.kind).vectors:
            continue
        run = SeedRun(0)
        evaluate_task(run, setup, learner.to(hardware.device), hardware)
        evaluation = run.evaluations[setup.task_name]
        baselines.setdefault(setup.task_name, {})["untuned"] = evaluation
        say(f"before training: {evaluation.main} {evaluation.score:.4f}")


def _baselines(
    setups: Sequence[TaskSetup], config: FinetuneConfig, say: Callable[[str], None]
) -> dict[str, dict[str, Evaluation]]:
    """Return the evaluations of the baselines on the dev examples, by task and by name."""
    evaluations: dict[str, dict[str, Evaluation]] = {}
    for setup in setups if config.baselines is not False else []:
        train, dev = setup.train.examples, setup.dev.examples
        kind = kind_of(setup.task.kind)
        if config.baselines is None and not takes_seconds(setup.task, (*train, *dev)):
            continue
        if not kind.has_baselines:
            say(f"{setup.task_name}: a task of the kind {setup.task.kind} has no baseline")
            continue
        for name, predictions in kind.baselines(setup.task, train, dev, config.seed, False).items():
            evaluation = evaluate(
                setup.task, dev, predictions, main=setup.files.metric, intervals=False, worst=0
            )
            evaluations.setdefault(setup.task_name, {})[name] = evaluation
            say(f"baseline {name}: {evaluation.main} {evaluation.metrics[evaluation.main]:.4f}")
    return evaluations
