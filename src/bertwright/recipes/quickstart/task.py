"""The labelled task of a quickstart: which package does this documentation belong to?

The labels are real: a module's package is known. Training examples are of the modules that
pre-training was on, test examples of those it held out. An example is a passage: sentences of one
module that follow one another, as many as it takes to have 12 words, truncated at 40. A held-out
sentence that occurs in a training module too is left out, and a passage that two labels or both
sides have is in neither. A package's name would give it away, so the names of all packages of the
task, and what they are known by (`np`, `PyTorch`), are replaced by "package" in every passage. The
labels are balanced, the passages drawn at random.

How many labels does it take? For each number of examples, on the same files: the pre-trained model
fine-tuned; the same model from random weights, fine-tuned with the same settings; the pre-trained
model frozen, with a linear layer on the mean of its last layer's vectors; TF-IDF + logistic
regression; and the most frequent label. Nothing is chosen by the test file: settings are fixed (a
learning rate of 3e-4 and 160 / sqrt(examples) epochs, between 3 and 20), and the last weights
count. One seed, and Wilson's 95 % intervals over the test examples.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from bertwright.atomic import disk_errors
from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig
from bertwright.errors import DataError, Interrupted
from bertwright.progress import OnProgress, silent
from bertwright.recipes.finetune.run import finetune
from bertwright.recipes.finetune.setup import TaskSpec
from bertwright.recipes.quickstart.run import HELD_OUT, SEED, Paths, package_of, read_modules
from bertwright.recipes.run_folder import ENVIRONMENT

MOST_LABELS = 8
FEWEST_LABELS = 3
FEWEST_TO_TRAIN, FEWEST_TO_TEST = 25, 15
"""Passages that a package must have to be a label."""
MOST_TO_TEST = 120
"""Test passages of each label, at most."""
WORDS = (12, 40)
"""A passage goes on until it has so many words, and is truncated at so many."""
LONGEST_WHOLE = 5
"""A name of so many letters or more is hidden inside longer words too: `NumPy's`, `pythonic`."""
HIDDEN = "package"
ALSO_CALLED: Mapping[str, tuple[str, ...]] = {
    "attr": ("attrs",),
    "huggingface_hub": ("hugging-face", "hf"),
    "matplotlib": ("pyplot", "plt", "mpl"),
    "networkx": ("nx",),
    "numpy": ("np",),
    "pandas": ("pd",),
    "python": ("py", "stdlib"),
    "sklearn": ("scikit-learn", "scikit"),
    "sympy": ("isympy",),
    "tensorflow": ("tf",),
    "torch": ("pytorch", "aten"),
}
"""What packages are called beside their names."""
SIZES = ((15.0, 6400), (3.0, 1600), (1.0, 400), (0.0, 100))
"""Labelled examples that so many minutes of pre-training pay for; all smaller sizes with them."""
LEARNING_RATE = 3e-4
FROZEN_RATE = 1e-3
"""Of the linear layer on frozen features; the usual 1e-2 overfits so few passages (57.8 in place of
59.9 % with 400)."""
NAME = "package"
"""Of the task; the seed's random numbers depend on it, too."""
LENGTH = 64
"""Tokens of a window: what the model was pre-trained on."""

LearningCurve = dict[str, Any]
"""`learning_curve.json`: `labels`, `sizes`, `epochs`, `test` {`file`, `examples`}, `methods` [{
`name`, `accuracy` [sizes], `intervals` [sizes][2], `degenerate` [sizes]}], `hidden`, `words`,
`model`, `command`; or `left_out`, the reason."""


class TooFewPackages(DataError):
    """This corpus makes no such task."""


@dataclass(frozen=True)
class Passage:
    """An example: a text and where it is from."""

    text: str
    label: str
    module: str


@dataclass(frozen=True)
class LabelledFiles:
    """The task as files."""

    labels: tuple[str, ...]
    train: tuple[tuple[int, Path], ...]
    """Examples and file of each size, the smallest first."""
    test: tuple[int, Path]


def learning_curve(paths: Paths, minutes: float, on_progress: OnProgress = silent) -> LearningCurve:
    """Make the task, train on it in every way, and write the figures beside the run.

    A corpus of too few packages makes no task: the figures then say why.

    Args:
        minutes: of its pre-training; they say how many labelled examples there shall be.
        on_progress: called with the examples trained on, each once an epoch.

    Raises:
        Interrupted: a signal came; the pre-training run is whole.
    """
    unfinished = paths.folder / ".finetuning"
    found: LearningCurve
    try:
        files = write_task(paths, HELD_OUT, sizes_for(minutes))
        found = _compare(paths, files, unfinished, on_progress)
    except TooFewPackages as few:
        found = {"format": 1, "left_out": str(few)}
    except Interrupted as interrupted:
        raise Interrupted(
            interrupted.exit_code - 128,
            f"interrupted while fine-tuning; the pre-trained model in {paths.run} and "
            f"{paths.report} are whole",
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (paths.run / "learning_curve.json").write_text(text, encoding="utf-8")
    return found


def sizes_for(minutes: float) -> list[int]:
    """Numbers of labelled examples for a quickstart of so many minutes, rising."""
    return [size for least, size in reversed(SIZES) if minutes >= least]


def epochs_for(examples: int) -> int:
    """Passes over so many examples."""
    return min(20, max(3, round(160 / math.sqrt(examples))))


def _compare(
    paths: Paths, files: LabelledFiles, unfinished: Path, on_progress: OnProgress
) -> LearningCurve:
    """Every method on every size; runs that are not kept are written into `unfinished`."""
    sizes = [count for count, _ in files.train]
    epochs = [epochs_for(count) for count in sizes]
    test = str(files.test[1])
    precision = json.loads((paths.run / ENVIRONMENT).read_text(encoding="utf-8"))["precision"]
    tuned = FinetuneConfig(
        model=str(paths.run),
        out=str(unfinished),
        learning_rate=LEARNING_RATE,
        keep="last",
        evaluations_per_epoch=1e-9,  # at the end alone
        seed=SEED,
        precision=precision,  # as was measured to be faster here
        baselines=False,
    )
    methods: dict[str, dict[str, Any]] = {
        name: {"name": name, "accuracy": [], "intervals": [], "degenerate": []}
        for name in ("pretrained", "frozen", "random_start", "tfidf", "majority")
    }

    def add(name: str, accuracy: float, is_degenerate: bool) -> None:
        figures = methods[name]
        figures["accuracy"].append(accuracy)
        right = binomtest(round(accuracy * files.test[0]), files.test[0])
        figures["intervals"].append([*right.proportion_ci(method="wilson")])
        figures["degenerate"].append(is_degenerate)

    total = sum(2 * n * e + n for n, e in zip(sizes, epochs, strict=True))
    done = 0
    on_progress(done, total)
    for (count, path), passes in zip(files.train, epochs, strict=True):
        train = TaskFilesConfig(train=str(path), dev=test, max_length=LENGTH)
        task = TaskSpec(NAME, "classification", train)
        kept = str(paths.finetuned if count == sizes[-1] else unfinished)
        for name, seen, config in (
            ("pretrained", count * passes, replace(tuned, epochs=passes, out=kept, baselines=True)),
            ("frozen", count, replace(tuned, transfer="features", learning_rate=FROZEN_RATE)),
            ("random_start", count * passes, replace(tuned, epochs=passes, random_start=True)),
        ):
            results = finetune([task], config, silent, overwrite=True)
            add(name, results["summary"]["accuracy"]["mean"], results["degenerate"])
            for baseline, metrics in results["baselines"].items():  # of the first alone
                add(baseline, metrics["accuracy"], baseline == "majority")
            done += seen
            on_progress(done, total)
    return {
        "format": 1,
        "labels": list(files.labels),
        "sizes": sizes,
        "epochs": epochs,
        "learning_rate": LEARNING_RATE,
        "test": {"file": test, "examples": files.test[0]},
        "methods": list(methods.values()),
        "hidden": HIDDEN,
        "words": list(WORDS),
        "model": str(paths.finetuned),
        "command": f"bertwright finetune classification --model {paths.run} "
        f"--train {files.train[-1][1]} --dev {test} "
        f"--name {NAME} --max-length {LENGTH} --epochs {epochs[-1]} "
        f"--learning-rate {LEARNING_RATE:g} --keep last --precision {precision} "
        f"--evaluations-per-epoch 0.01 --out {paths.folder / 'again'}",
    }


def write_task(paths: Paths, validation_fraction: float, sizes: Sequence[int]) -> LabelledFiles:
    """Write the labelled files.

    Args:
        validation_fraction: of the modules that pre-training held out.
        sizes: how many training examples the files shall have, rising; each becomes a multiple of
            the number of labels, and no more than there are.

    Raises:
        TooFewPackages: fewer than three packages have passages enough.
    """
    modules = list(read_modules(paths, validation_fraction))
    trained_on = {_plain(s) for _, sentences, is_held in modules if not is_held for s in sentences}
    train: dict[str, list[Passage]] = {}
    test: dict[str, list[Passage]] = {}
    for entry, sentences, is_held in modules:
        label = package_of(entry)
        if is_held:
            sentences = [s for s in sentences if _plain(s) not in trained_on]
        side = (test if is_held else train).setdefault(label, [])
        side.extend(Passage(text, label, entry["module"]) for text in passages(sentences))
    labels = choose_labels(train, test)
    to_train, to_test = _drawn(train, test, labels, max(sizes) // len(labels))
    most, count = min(map(len, to_train)), min(MOST_TO_TEST, *map(len, to_test))
    if not most or not count:
        raise TooFewPackages("the packages here say nothing of their own in so few words")
    with disk_errors(paths.task):
        paths.task.mkdir(parents=True, exist_ok=True)
        files = [
            _write(paths.task, "train-{}.jsonl", to_train, each)
            for each in per_label(sizes, len(labels), most)
        ]
        return LabelledFiles(labels, tuple(files), _write(paths.task, "test.jsonl", to_test, count))


def passages(sentences: Sequence[str]) -> Iterator[str]:
    """Sentences that follow one another, joined to passages of `WORDS` words."""
    least, most = WORDS
    words: list[str] = []
    for sentence in sentences:
        words += sentence.split()
        if len(words) >= least:
            yield " ".join(words[:most])
            words = []


def choose_labels(
    train: Mapping[str, Sequence[Passage]], test: Mapping[str, Sequence[Passage]]
) -> tuple[str, ...]:
    """The packages with most passages to train on, in the order of their names.

    Raises:
        TooFewPackages: fewer than three have enough.
    """
    fitting = [
        label
        for label, found in train.items()
        if len(found) >= FEWEST_TO_TRAIN and len(test.get(label, ())) >= FEWEST_TO_TEST
    ]
    if len(fitting) < FEWEST_LABELS:
        raise TooFewPackages(
            f"{len(fitting)} packages here have documentation enough for a labelled task "
            f"({FEWEST_TO_TRAIN} passages to train on and {FEWEST_TO_TEST} in held-out modules); "
            f"expected {FEWEST_LABELS} or more: the more packages are installed, the more there is"
        )
    most = sorted(fitting, key=lambda label: (-len(train[label]), label))[:MOST_LABELS]
    return tuple(sorted(most))


def hider(labels: Sequence[str]) -> Callable[[str], str]:
    """A function that replaces what gives a label away by the word `package`."""
    parts = []
    for label in labels:
        for name in (label, *ALSO_CALLED.get(label, ())):
            spelled = r"[\s_-]?".join(map(re.escape, re.split(r"[-_]", name)))
            parts.append(rf"\w*{spelled}\w*" if len(name) >= LONGEST_WHOLE else rf"\b{spelled}\b")
    pattern = re.compile("|".join(parts), re.IGNORECASE)
    return lambda text: pattern.sub(HIDDEN, text)


def per_label(sizes: Sequence[int], labels: int, most: int) -> list[int]:
    """Examples of each label for training files of about these sizes; `most` are there, and stand
    for all sizes that are not."""
    return sorted({min(most, max(1, size // labels)) for size in sizes})


def _drawn(
    train: Mapping[str, Sequence[Passage]],
    test: Mapping[str, Sequence[Passage]],
    labels: Sequence[str],
    count: int,
) -> tuple[list[list[Passage]], list[list[Passage]]]:
    """Passages of each label to train on and to test with; what occurs twice is in none."""
    hide = hider(labels)
    generator = np.random.default_rng(1)

    def draw(found: Sequence[Passage], most: int) -> list[Passage]:
        """Up to `most` passages in random order, names hidden, none twice."""
        once: dict[str, Passage] = {}
        for index in generator.permutation(len(found)):
            if len(once) == most:
                break
            text = hide(found[index].text)
            once.setdefault(text, replace(found[index], text=text))
        return list(once.values())

    more = count + count // 10 + 10  # some occur twice
    drawn = [draw(train[label], more) for label in labels]
    drawn += [draw(test[label], 2 * MOST_TO_TEST) for label in labels]
    occurrences = Counter(passage.text for found in drawn for passage in found)
    alone = [[p for p in found if occurrences[p.text] == 1] for found in drawn]
    return alone[: len(labels)], alone[len(labels) :]


def _write(
    folder: Path, name: str, groups: Sequence[Sequence[Passage]], each: int
) -> tuple[int, Path]:
    """Write so many passages of each group, the groups in turn; how many they are, and the file."""
    rows = [passage for row in zip(*(g[:each] for g in groups), strict=True) for passage in row]
    path = folder / name.format(len(rows))
    lines = (json.dumps(vars(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    return len(rows), path


def _plain(sentence: str) -> str:
    """What two sentences share that say the same: their words."""
    return " ".join(re.findall(r"\w+", sentence.lower()))
