"""Fine-tune a checkpoint on labelled files, and write a run folder.

Labelled files become instances (`setup.py`). For each seed, the encoder with new heads is trained
in steps (`train/loop.py`) and evaluated on dev (`training.py`); for frozen features, see
`frozen.py` and `fitted.py`. The weights of the best seed are saved as a Hugging Face folder, and
the results are written to `results.json` (`results.py`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bertwright.atomic import disk_errors, refuse_source
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.spelling import spell_unknown_words
from bertwright.config.finetune import FinetuneConfig, rates_of
from bertwright.errors import ConfigError, Interrupted
from bertwright.nn.objective import Learner, Objective
from bertwright.process_settings import keep_few_kernels, keep_freed_memory
from bertwright.progress import OnProgress, silent
from bertwright.recipes import run_folder
from bertwright.recipes.finetune import results as task_results
from bertwright.recipes.finetune.defaults import (
    epochs_of,
    fixed_rate,
    is_fitted,
    layer_of_vectors,
    starts_fitted,
    takes_seconds,
    transfer_of,
    usual_rate,
    without_effect,
)
from bertwright.recipes.finetune.fitted import choose_reading
from bertwright.recipes.finetune.folds import of_folds
from bertwright.recipes.finetune.rates import Trials, key_of, read_tried
from bertwright.recipes.finetune.seeds import Seeds, new_learner
from bertwright.recipes.finetune.setup import Fold, TaskSetup, TaskSpec, comparing, set_up
from bertwright.recipes.finetune.training import (
    Diverged,
    SeedRun,
    TaskHardware,
    evaluate_task,
)
from bertwright.recipes.finetune.training_file import TRAINING_FILES, training_files
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.evaluate import Evaluation, evaluate
from bertwright.tasks.predictions import Prediction
from bertwright.train.distributed import join_ranks
from bertwright.train.hardware import choose_precision, micro_tokens, use_own_cores
from bertwright.train.log import OnLog
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
    of tokens encoded. `seconds` is the maximum time of a run of one seed and one learning rate.

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
        if config.pooling == "pooler" and not hasattr(opened.config, "pooler"):
            raise ConfigError(
                f"pooling is pooler, but {config.model} can have none; expected another, as mean"
            )
        parameters = sum(each.numel() for each in encoder.parameters())
        fitted = is_fitted(config, tasks)
        makes_vectors = any(kind_of(task.kind).vectors for task in tasks)
        vectors = opened.embedding if makes_vectors else None
        can_repeat = len(tasks) == 1 and ranks.world_size == 1
        by_folds = can_repeat and (fitted or config.transfer != "features")
        setups = []
        for task in tasks:
            reads = layer_of_vectors(config, spec, parameters, task, fitted)
            setups.append(
                set_up(task, config, tokenizer, spec, say, trained, reads, vectors, by_folds)
            )
        exact = fitted and config.precision == "auto"
        precision, peak = choose_precision(ranks.device, "fp32" if exact else config.precision)
        micro = config.micro_tokens or micro_tokens(ranks.device)
        predicted = config.micro_tokens or max(micro, 8192)
        hardware = TaskHardware(ranks, precision, peak, micro, predicted)
        setups = [_read_best(each, opened, config, hardware, say) for each in setups]
        baselines = _baselines(setups, config, say)
        examples = sum(len(each.train.examples) for each in setups)
        epochs = epochs_of(config, examples)
        named = rates_of(config.learning_rate)
        rate = named[0] if named else usual_rate(config, spec.width)
        learner, new = new_learner(opened, config, setups, config.seed)
        if config.learning_rate == "auto":
            steps = epochs * examples / config.batch_size
            rate = fixed_rate(config, spec, parameters, steps)
        config = replace(config, epochs=epochs, precision=precision)
        # Raise an error for settings that do not fit the model before anything is written.
        Stepping(learner, config, rate, epochs, 1)
        trials = None
        if fitted:  # without steps
            if unused := without_effect(config):
                say(
                    f"warning: {', '.join(unused)}: of no effect on a linear layer that is fitted "
                    "without steps; --epochs trains it in steps"
                )
            config = replace(config, epochs=None, learning_rate=None)
        else:
            config = replace(config, learning_rate=rate)
        if len(named) > 1:
            key = key_of(opened.folder, requested, setups)
            tried = read_tried(run, key) if ranks.world_size == 1 else {}
            trials = Trials(named, run, key, tried, config.seed, ranks.is_first)
        if ranks.is_first:
            environment = run_folder.environment(hardware)
            environment[TRAINING_FILES] = training_files(tasks)
            run_folder.begin(run, environment, task_results.settings(tasks, requested))
            if len(tasks) > 1:
                task_results.write_tasks(run, tasks)
        ranks.wait()  # until the folder exists
        if ranks.is_first and config.baselines is not False:
            _untuned(baselines, setups, learner, hardware, say)
        seeds = Seeds(opened, config, setups, run, hardware, fitted, say, on_progress, on_log)
        seeds.begin_fitted = [
            setup.task_name
            for setup in setups
            if setup.task_name in new
            and starts_fitted(
                config, setup.task, cast("Objective[Any]", learner.objectives[setup.task_name])
            )
        ]
        if seconds is not None:
            seeds.seconds = max(0.0, FOR_TRAINING * seconds - (time.monotonic() - began))
        seeds.rates = trials
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
            if not fitted and best.best_epoch == 0:
                say(
                    "training did not improve on the layer that was fitted on the encoder's frozen "
                    "vectors, so the model is this layer (epoch 0): --transfer features gives it "
                    "without training"
                )
            # With frozen features, all seeds share the encoder of the first seed.
            learner, _ = new_learner(opened, config, setups, config.seed)
            learner.load_state_dict(best.state, strict=config.transfer != "features")
            task_results.save(run, learner, opened, results, setups, best)
        if interrupted is not None:
            raise Interrupted(
                interrupted.exit_code - 128,
                f"interrupted in seed {config.seed + len(runs) + len(diverged)}; {run} holds the "
                f"{len(runs)} seeds before it, whole",
            )
        return results


def _read_best(
    setup: TaskSetup,
    opened: Opened,
    config: FinetuneConfig,
    hardware: TaskHardware,
    say: Callable[[str], None],
) -> TaskSetup:
    """Return the task with the head whose linear layer predicts the training labels best, if a head
    may read the texts of a pair together or compare their vectors.
    """
    compared = comparing(setup)
    if compared is None:
        return setup
    candidates = [setup, compared]
    learners = [new_learner(opened, config, [each], config.seed)[0] for each in candidates]
    pairs = list(zip(learners, candidates, strict=True))
    chosen = choose_reading(pairs, hardware, config.seed)
    how = "compared by their vectors" if chosen is compared else "read together"
    say(f"{setup.task_name}: the two texts of a pair are {how}: their frozen vectors say more so")
    return chosen


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
        found: Mapping[str, Sequence[Prediction]]
        if setup.folds:
            found = _baselines_by_folds(setup, config.seed)
        else:
            found = kind.baselines(setup.task, train, dev, config.seed, False)
        for name, predictions in found.items():
            evaluation = evaluate(
                setup.task, dev, predictions, main=setup.files.metric, intervals=False, worst=0
            )
            evaluations.setdefault(setup.task_name, {})[name] = evaluation
            say(f"baseline {name}: {evaluation.main} {evaluation.metrics[evaluation.main]:.4f}")
    return evaluations


def _baselines_by_folds(setup: TaskSetup, seed: int) -> dict[str, list[Prediction]]:
    """Return the predictions of the baselines, each fitted on the other folds."""
    kind, task = kind_of(setup.task.kind), setup.task

    def predictions(fold: Fold) -> Sequence[dict[str, Prediction]]:
        train, held = ([setup.train.examples[row] for row in rows] for rows in fold)
        found = kind.baselines(task, train, held, seed, False)
        return [{name: of[row] for name, of in found.items()} for row in range(len(held))]

    of_examples = of_folds(setup, predictions)
    return {name: [found[name] for found in of_examples] for name in of_examples[0]}
