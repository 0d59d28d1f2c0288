"""The labelled task of a quickstart: to which package does a passage of documentation belong?

The labels are known, because the package of each module is known. Training examples are from
modules that pre-training used, test examples from modules that it held out. An example is a
passage: consecutive sentences of one module, as many as are needed for 12 words, truncated to 40. A
held-out sentence that also occurs in a training module is left out, and so is a passage that occurs
with two labels, or in both training and test. The name of a package would reveal the label, so the
names of all packages of the task, and their common abbreviations (`np`, `PyTorch`), are replaced by
"package" in every passage. The labels are balanced, and the passages are drawn at random.

The task compares several methods for different numbers of labelled examples, on the same files: the
pre-trained model, fine-tuned; the same model with random weights, fine-tuned with the same
settings; the pre-trained model, frozen, with a linear layer on the mean of its last layer's
vectors; TF-IDF + logistic regression; and the most frequent label. Nothing is selected on the test
file: the settings are fixed (a learning rate of 3e-4 and 160 / sqrt(examples) epochs, between 3 and
20), and the last weights are used. There is one seed, and the intervals are Wilson's 95 % intervals
over the test examples.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from bertwright.tasks.texts.options import ClassificationOptions
from bertwright.train.signals import SeveralRuns

MOST_LABELS = 8
FEWEST_LABELS = 3
FEWEST_TO_TRAIN, FEWEST_TO_TEST = 25, 15
"""The minimum numbers of training and test passages of a package that becomes a label."""
MOST_TO_TEST = 120
"""The maximum number of test passages of each label."""
WORDS = (12, 40)
"""The minimum and the maximum number of words of a passage."""
LONGEST_WHOLE = 5
"""Names with at least this many letters are replaced inside longer words too: `NumPy's`,
`pythonic`.
"""
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
"""Other names by which packages are called."""
SIZES = ((15.0, 6400), (3.0, 1600), (1.0, 400), (0.0, 100))
"""Pairs of minutes and labelled examples: the largest number of examples for a quickstart of at
least so many minutes. All smaller numbers are used too.
"""
LEARNING_RATE = 3e-4
FROZEN_RATE = 1e-3
"""The learning rate of the linear layer on frozen features. The default of 1e-2 overfits
so few passages (with 400 examples, the accuracy is 57.8 % instead of 59.9 %).
"""
NAME = "package"
"""The name of the task. The random numbers of a seed depend on it too."""
LENGTH = 64
"""The number of tokens of a window: the sequence length of the model's pre-training."""

LearningCurve = dict[str, Any]
"""The content of `learning_curve.json`: `format`, `labels`, `sizes`, `epochs`, `learning_rate`,
`test` {`file`, `examples`}, `methods` [{`name`, `accuracy` [sizes], `intervals` [sizes][2],
`degenerate` [sizes]}], `hidden`, `words`, `model`, `command`; or `format` and `left_out`, the
reason why there is no task.
"""


class TooFewPackages(DataError):
    """Raised if the corpus does not have enough packages for the task."""


@dataclass(frozen=True)
class Passage:
    """An example: a text, its label, and the module that it is from."""

    text: str
    label: str
    module: str


@dataclass(frozen=True)
class LabelledFiles:
    """The files of the task."""

    labels: tuple[str, ...]
    train: tuple[tuple[int, Path], ...]
    """The number of examples and the file of each size, the smallest first."""
    test: tuple[int, Path]


def learning_curve(paths: Paths, minutes: float, on_progress: OnProgress = silent) -> LearningCurve:
    """Make the task, train every method on it, and write the learning curve to the run's folder.

    If the corpus has too few packages for a task, the learning curve has the reason instead.

    Args:
        paths: the paths of the quickstart.
        minutes: the minutes of its pre-training, which determine the numbers of labelled examples.
        on_progress: called with the number of training examples processed, summed over epochs.

    Raises:
        Interrupted: a signal arrived; the pre-training run is complete.
    """
    unfinished = paths.folder / ".finetuning"
    curve: LearningCurve
    try:
        files = write_task(paths, HELD_OUT, sizes_for(minutes))
        curve = _compare(paths, files, unfinished, on_progress)
    except TooFewPackages as few:
        curve = {"format": 1, "left_out": str(few)}
    except Interrupted as interrupted:
        raise Interrupted(
            interrupted.exit_code - 128,
            f"interrupted while fine-tuning; the pre-trained model in {paths.run} and "
            f"{paths.report} are whole",
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    text = json.dumps(curve, indent=1, ensure_ascii=False) + "\n"
    (paths.run / "learning_curve.json").write_text(text, encoding="utf-8")
    return curve


def sizes_for(minutes: float) -> list[int]:
    """Return the numbers of labelled examples for a quickstart of `minutes`, in ascending order."""
    return [size for least, size in reversed(SIZES) if minutes >= least]


def epochs_for(examples: int) -> int:
    """Return the number of epochs for a number of training examples."""
    return min(20, max(3, round(160 / math.sqrt(examples))))


def _compare(
    paths: Paths, files: LabelledFiles, unfinished: Path, on_progress: OnProgress
) -> LearningCurve:
    """Return the learning curve: the results of every method for every size.

    Runs that are not kept are written to `unfinished`.
    """
    sizes = [count for count, _ in files.train]
    epochs = [epochs_for(count) for count in sizes]
    test = str(files.test[1])
    precision = json.loads((paths.run / ENVIRONMENT).read_text(encoding="utf-8"))["precision"]
    tuned = FinetuneConfig(
        model=str(paths.run),
        out=str(unfinished),
        learning_rate=LEARNING_RATE,
        keep="last",
        evaluations_per_epoch=1e-9,  # only at the end
        seed=SEED,
        precision=precision,  # as measured by pre-training
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
        task = TaskSpec(NAME, "classification", train, ClassificationOptions())
        out = str(paths.finetuned if count == sizes[-1] else unfinished)
        for name, seen, config in (
            ("pretrained", count * passes, replace(tuned, epochs=passes, out=out, baselines=True)),
            ("frozen", count, replace(tuned, transfer="features", learning_rate=FROZEN_RATE)),
            ("random_start", count * passes, replace(tuned, epochs=passes, random_start=True)),
        ):
            with SeveralRuns() as runs:
                results = finetune([task], config, silent, overwrite=True)
                runs.heed()
            add(name, results["summary"]["accuracy"]["mean"], results["degenerate"])
            for baseline, metrics in results["baselines"].items():  # only the first run has them
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
    """Write the labelled files of a quickstart.

    Args:
        paths: the paths of the quickstart.
        validation_fraction: the fraction of the modules that pre-training held out.
        sizes: the numbers of training examples, in ascending order. Each is rounded to a multiple
            of the number of labels, and limited to the available examples.

    Raises:
        TooFewPackages: fewer than three packages have enough passages.
    """
    with disk_errors(paths.task):
        return write_labelled(paths.task, read_modules(paths, validation_fraction), sizes)


def write_labelled(
    folder: Path,
    documents: Iterable[tuple[Mapping[str, Any], Sequence[str], bool]],
    sizes: Sequence[int],
) -> LabelledFiles:
    """Write labelled files of passages from modules.

    Args:
        folder: the folder to write to.
        documents: for each module, its entry in the index, its sentences, and whether it is held
            out.
        sizes: the numbers of training examples; see `write_task`.

    Raises:
        TooFewPackages: fewer than three packages have enough passages.
    """
    modules = list(documents)
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
        raise TooFewPackages("a package here has no passage that occurs in it alone")
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        _write(folder, "train-{}.jsonl", to_train, each)
        for each in per_label(sizes, len(labels), most)
    ]
    return LabelledFiles(labels, tuple(files), _write(folder, "test.jsonl", to_test, count))


def passages(sentences: Sequence[str]) -> Iterator[str]:
    """Yield passages of consecutive sentences, with the numbers of words that `WORDS` allows."""
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
    """Return the packages with the most training passages, sorted by name.

    Raises:
        TooFewPackages: fewer than three packages have enough passages.
    """
    fitting = [
        label
        for label, of_label in train.items()
        if len(of_label) >= FEWEST_TO_TRAIN and len(test.get(label, ())) >= FEWEST_TO_TEST
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
    """Return a function that replaces names that reveal a label with the word `package`."""
    parts = []
    for label in labels:
        for name in (label, *ALSO_CALLED.get(label, ())):
            spelled = r"[\s_-]?".join(map(re.escape, re.split(r"[-_]", name)))
            parts.append(rf"\w*{spelled}\w*" if len(name) >= LONGEST_WHOLE else rf"\b{spelled}\b")
    pattern = re.compile("|".join(parts), re.IGNORECASE)
    return lambda text: pattern.sub(HIDDEN, text)


def per_label(sizes: Sequence[int], labels: int, most: int) -> list[int]:
    """Return the numbers of examples of each label for training files of about these sizes.

    Numbers above `most`, the number of available examples, are replaced by it.
    """
    return sorted({min(most, max(1, size // labels)) for size in sizes})


def _drawn(
    train: Mapping[str, Sequence[Passage]],
    test: Mapping[str, Sequence[Passage]],
    labels: Sequence[str],
    count: int,
) -> tuple[list[list[Passage]], list[list[Passage]]]:
    """Draw training and test passages of each label; passages that occur twice are left out."""
    hide = hider(labels)
    generator = np.random.default_rng(1)

    def draw(of_label: Sequence[Passage], most: int) -> list[Passage]:
        """Return up to `most` distinct passages in random order, with names replaced."""
        once: dict[str, Passage] = {}
        for index in generator.permutation(len(of_label)):
            if len(once) == most:
                break
            text = hide(of_label[index].text)
            once.setdefault(text, replace(of_label[index], text=text))
        return list(once.values())

    more = count + count // 10 + 10  # more than needed, because some occur twice
    drawn = [draw(train[label], more) for label in labels]
    drawn += [draw(test[label], 2 * MOST_TO_TEST) for label in labels]
    occurrences = Counter(passage.text for of_label in drawn for passage in of_label)
    unique = [[p for p in of_label if occurrences[p.text] == 1] for of_label in drawn]
    return unique[: len(labels)], unique[len(labels) :]


def _write(
    folder: Path, name: str, groups: Sequence[Sequence[Passage]], each: int
) -> tuple[int, Path]:
    """Write `each` passages of each group, alternating between groups.

    Return the number of all passages and the path of the file.
    """
    rows = [passage for row in zip(*(g[:each] for g in groups), strict=True) for passage in row]
    path = folder / name.format(len(rows))
    lines = (json.dumps(vars(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    return len(rows), path


def _plain(sentence: str) -> str:
    """Return the lower-cased words of a sentence, with which sentences are compared."""
    return " ".join(re.findall(r"\w+", sentence.lower()))
