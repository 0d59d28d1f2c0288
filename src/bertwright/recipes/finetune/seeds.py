"""Train the seeds of a fine-tuning run one after the other.

Before the seeds, learning rates are tried if several are given (`rates.py`).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import Opened
from bertwright.checkpoint.sentence_transformers.vectors import take_dense
from bertwright.checkpoint.spelling import spell_unknown_words
from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import ConfigError, Interrupted
from bertwright.models.load import continues_texts, system_of_config, system_that
from bertwright.nn.objective import Learner, Objective
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.fitted import MOST_TO_START, Fitting, fit_start, read_vectors
from bertwright.recipes.finetune.folds import train_by_folds
from bertwright.recipes.finetune.frozen import tabulate
from bertwright.recipes.finetune.rates import Trials
from bertwright.recipes.finetune.setup import TaskSetup
from bertwright.recipes.finetune.training import (
    EVALUATED,
    Diverged,
    SeedOptions,
    SeedRun,
    TaskHardware,
    train_seed,
    weights_of,
)
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.head import Head
from bertwright.train.log import Log, OnLog
from bertwright.train.signals import SeveralRuns
from bertwright.transfer.features import FeatureTable
from bertwright.transfer.head_start import HeadStart

ONCE = 1e-9
"""The number of evaluations per epoch with which the only one is at the end."""
FOR_START = 0.2
"""The maximum fraction of the time of a run in which vectors are read to begin a head from."""


def new_learner(
    opened: Opened, config: FinetuneConfig, setups: Sequence[TaskSetup], seed: int
) -> tuple[Learner, Collection[str]]:
    """Return the learner that a seed starts from, the checkpoint's encoder with its heads or new
    ones, and the names of the tasks whose heads are new.
    """
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
    return learner, loaded.report.started


@dataclass
class Seeds:
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
    begin_fitted: Collection[str] = ()
    """The tasks whose heads begin as fitted layers."""
    rates: Trials | None = None
    """The learning rates to try on the first seed; None: there is one."""
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
                learner, _ = new_learner(self.opened, self.config, self.setups, self.config.seed)
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
            if self.rates is not None:
                self._choose_rate(self.rates, features)
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
        self, rates: Trials, features: tuple[FeatureTable, list[TaskSetup]] | None
    ) -> None:
        """Choose a learning rate by trials, and set it in the configuration."""
        seed, more = self.config.seed, len(rates.rates) - 1
        listed = ", ".join(f"{rate:g}" for rate in rates.rates)
        self.say(
            f"learning rate: {listed} each train seed {seed}, and dev selects one: "
            f"{more + self.config.seeds} trainings in place of {self.config.seeds}"
        )

        def train(rate: float, log: Log | None) -> SeedRun:
            return self._train(replace(self.config, learning_rate=rate), features, log)

        one = self._cost() / self.config.seeds
        try:
            chosen = rates.choose(train, self.say, lambda: self._count(one))
        except Interrupted as interrupted:
            raise Interrupted(
                interrupted.exit_code - 128,
                f"interrupted while learning rates were tried; {self.run} holds those that ended: "
                "the same command with --overwrite goes on with the others",
            ) from None
        self.config = replace(self.config, learning_rate=chosen.rate)
        self.trials, self.first = chosen.trials, chosen.first

    def _start(
        self,
        seed: int,
        setups: Sequence[TaskSetup],
        features: tuple[FeatureTable, list[TaskSetup]] | None,
        seconds: float | None,
    ) -> tuple[Learner, HeadStart | None]:
        """Return the learner that a seed starts from, and the fitted layers that its new heads
        begin as. With `features`, they replace its encoder, and heads are random.
        """
        learner, _ = new_learner(self.opened, self.config, setups, seed)
        if features is not None:
            heads = {n: h for n, h in learner.objectives.items() if isinstance(h, Objective)}
            return Learner(features[0], heads), None
        fitted = [setup for setup in setups if setup.task_name in self.begin_fitted]
        if not fitted:
            return learner, None
        some = None if seconds is None else FOR_START * seconds
        start = fit_start(learner, fitted, self.hardware, seed, silent, some)
        self._count(sum(_read_to_start(setup) for setup in fitted) / EVALUATED)
        return learner, start

    def _read_vectors(self) -> Fitting:
        """Encode all training examples once, and return the vectors on which heads are fitted."""
        learner, _ = new_learner(self.opened, self.config, self.setups, self.config.seed)
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
        log = None
        if self.hardware.ranks.is_first:
            if self.config.seeds > 1:
                last = self.config.seed + self.config.seeds - 1
                self.say(f"seed {seed} ({self.config.seed} to {last})")
            log = Log(self.run, self.say, keep=-1, labels={"seed": seed}, on_log=self.on_log)
        try:
            if fitting is not None:
                return fitting.train_seed(seed, log)
            return self._train(replace(self.config, seed=seed), features, log, self._left)
        finally:
            if log is not None:
                log.close()

    def _train(
        self,
        config: FinetuneConfig,
        features: tuple[FeatureTable, list[TaskSetup]] | None,
        log: Log | None,
        seconds: float | None = None,
    ) -> SeedRun:
        """Train the seed that a configuration names, in `seconds` at most."""
        if features is not None:  # training on them is fast, so it shows no progress
            return self._train_once(config, features[1], log, seconds, features)
        if not self.setups[0].folds:
            return self._train_once(config, self.setups, log, seconds)
        (setup,) = self.setups
        part = None if seconds is None else seconds / (len(setup.folds) + 1)
        to_choose = replace(config, evaluations_per_epoch=ONCE, patience=None)

        def evaluate(fold: TaskSetup) -> list[SeedRun]:
            found: list[SeedRun] = []
            self._train_once(to_choose, [fold], None, part, on_evaluation=found.append)
            return found

        def train(whole: bool) -> SeedRun:
            return self._train_once(config, [setup], log, part, has_dev=False, only_start=not whole)

        return train_by_folds(setup, config.seed, evaluate, train, log)

    def _train_once(
        self,
        config: FinetuneConfig,
        setups: Sequence[TaskSetup],
        log: Log | None,
        seconds: float | None,
        features: tuple[FeatureTable, list[TaskSetup]] | None = None,
        on_evaluation: Callable[[SeedRun], object] = silent,
        has_dev: bool = True,
        only_start: bool = False,
    ) -> SeedRun:
        """Train a new learner; with `only_start`, up to the fitted layers that it begins as."""
        began, seed = time.monotonic(), config.seed
        learner, start = self._start(seed, setups, features, seconds)
        if only_start and start is not None:
            start.place_fitted(learner)
            return SeedRun(seed, weights_of(learner))
        left = None if seconds is None else max(0.0, seconds - (time.monotonic() - began))
        on_tokens = self._count if features is None else silent
        options = SeedOptions(left, start, has_dev, on_evaluation, on_tokens)
        return train_seed(config, setups, learner, self.hardware, log, options)

    @property
    def _left(self) -> float | None:
        """The seconds that are left; None: no limit."""
        if self.seconds is None:
            return None
        return max(0.0, self.seconds - (time.monotonic() - self.began))

    def _count(self, tokens: float) -> None:
        """Add to the number of processed tokens, and report the progress of the run."""
        self.tokens += tokens
        more = 0 if self.rates is None else len(self.rates.rates) - 1
        total = int(self._cost() * (1 + more / self.config.seeds))
        self.on_progress(min(int(self.tokens), total), total)

    def _cost(self) -> float:
        """Return the cost of all seeds, including evaluations, in trained tokens."""
        config, setups = self.config, self.setups
        assert config.epochs is not None
        train = sum(each.train.num_tokens * each.files.weight for each in setups)
        dev = sum(each.dev.num_tokens for each in setups) / EVALUATED
        trainings, evaluations = 1, math.ceil(config.epochs * config.evaluations_per_epoch)
        if folds := setups[0].folds:  # each example is trained on by the other folds, and by all
            trainings, evaluations = len(folds), 1
        fitted = [each for each in setups if each.task_name in self.begin_fitted]
        start = (
            sum(trainings * _read_to_start(each) + each.dev.num_tokens for each in fitted)
            / EVALUATED
        )
        steps = trainings * train * config.epochs / self.hardware.ranks.world_size
        return (start + steps + dev * evaluations) * config.seeds


def _read_to_start(setup: TaskSetup) -> float:
    """Return about how many tokens are read to fit the start of a head."""
    part = min(1.0, MOST_TO_START / max(1, len(setup.train.instances)))
    return part * setup.train.num_tokens
