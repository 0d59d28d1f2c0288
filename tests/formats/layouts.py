"""The stored layouts: what is computed with the folder of each, and which tokenizer it shares.

`layouts/NAME` holds the files of a layout and `expected.json`, what was computed with them when
they were written (`make_layouts.py`). `test_layouts.py` computes it again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bertwright
from tests.formats.observe import Json, answer_of, end_of, plain, verb, without
from tests.formats.sample_data import PAIR, TEXTS
from tests.formats.uses import fill, generate, next_sentence, score, translate

FOLDER = Path(__file__).resolve().parent
LAYOUTS_FOLDER, TOKENIZERS_FOLDER = FOLDER / "layouts", FOLDER / "tokenizers"
EXPECTED = "expected.json"
Use = Callable[[str], Json]

# What is computed with a folder, beside what `make_runs.py` computes with its runs.


def embed(name: str) -> Json:
    """Vectors of texts, by the settings of the folder and of the embeddings."""
    model = bertwright.load(name)
    return [model.embed(TEXTS[:3]).tolist(), model.embed(TEXTS[:1], layers=0).tolist()]


def vectors(name: str) -> Json:
    """Vectors by the settings of the folder."""
    return bertwright.load(name).embed(TEXTS).tolist()


def nearest(name: str) -> Json:
    """The words nearest to a word."""
    return bertwright.load(name).most_similar("the", 4)


def answer(name: str) -> Json:
    """The answer to the question of a story."""
    story = [
        "1 Mary went to the garden.",
        "2 John went to the kitchen.",
        "3 Where is Mary?\tgarden",
    ]
    Path("story.txt").write_text("\n".join(story) + "\n", "utf-8")
    return answer_of("answer", "story.txt", "--model", name)


INPUTS: dict[str, list[Any]] = {
    "tagging": [TEXTS[0].split(), TEXTS[2].split()],
    "span": [{"question": "who is it ?", "context": TEXTS[4]}],
    "multiple-choice": [
        {"text": TEXTS[0], "text2": "who sleeps ?", "choices": [TEXTS[1], TEXTS[2]]}
    ],
    "generation": ["the quick fox finds"],
    "similarity": [PAIR, (TEXTS[0], TEXTS[1])],
}
"""Kind of task -> inputs to predict; of the other kinds, texts."""


def predict(name: str) -> Json:
    """What each task of a fine-tuned model predicts."""
    model = bertwright.load(name)
    return {
        task: plain(
            [each.as_dict() for each in model.predict(INPUTS.get(of.kind, TEXTS[:2]), task)]
        )
        for task, of in model.tasks.items()
    }


def check(name: str) -> Json:
    """The figures that `data check` finds of shards."""
    return {each["name"]: each["value"] for each in answer_of("data", "check", name)["findings"]}


def resume(name: str) -> Json:
    """The log of a run that was stopped, to its end, and sums over its weights and moments."""
    verb("pretrain", "--config", f"{name}/config.toml", "--out", name, "--resume")
    return without(end_of(name), "bits")  # a hash, which no tolerance holds for


@dataclass(frozen=True)
class Layout:
    """One stored layout."""

    uses: tuple[Use, ...]
    """What is computed with its folder, in this order."""
    tokenizer: str | None = None
    """The folder of `tokenizers` with files that are not in its own folder."""
    file: str | None = None
    """For a format of another program, the file that is converted to a folder first."""
    inside: str = "."
    """Where its tokenizer lies within it."""


MASKED = (embed, fill)
LANGUAGE_MODEL = (embed, score, generate)
WORDS = (embed, nearest)
STEP = "checkpoints/step-00000006"
PASS = "checkpoints/step-00000003"

LAYOUTS = {
    # folders of transformers
    "bert": Layout((*MASKED, next_sentence), "wordpiece"),
    "roberta": Layout(MASKED, "wordpiece"),
    "distilbert": Layout(MASKED, "wordpiece"),
    "electra": Layout((embed,), "wordpiece"),
    "albert": Layout(MASKED, "wordpiece"),
    "mpnet": Layout(MASKED, "wordpiece"),
    "modernbert": Layout(MASKED, "wordpiece"),
    "openai-gpt": Layout(LANGUAGE_MODEL),
    "gpt2": Layout(LANGUAGE_MODEL),
    # folders of systems that no other program stores
    "transformer": Layout((embed, translate), "wordpiece"),
    "bert2rnd": Layout((embed, translate), "wordpiece"),
    "seq2seq": Layout((embed, translate), "word"),
    "awd-lstm": Layout((embed, score), "word"),
    "elmo": Layout((embed,), "word"),
    "nnlm": Layout((embed, score)),
    "ngram": Layout((score, generate), "word"),
    "fasttext": Layout(WORDS, "word"),
    "memory-network": Layout((embed, answer)),
    # files of other programs
    "tensorflow": Layout((embed, fill, next_sentence), "wordpiece"),
    "sentence-transformers": Layout((vectors,), "wordpiece"),
    "static": Layout((vectors,), "wordpiece"),
    "elmo-hdf5": Layout((embed,), "word", file="."),
    "word2vec-text": Layout(WORDS, file="vectors.txt"),
    "word2vec-binary": Layout(WORDS, file="vectors.bin"),
    "fasttext-binary": Layout(WORDS, file="vectors.bin"),
    "arpa": Layout((score,), file="ngram.arpa"),
    # fine-tuned models
    "classification": Layout((predict,), "wordpiece"),
    "heads": Layout((predict,), "wordpiece"),
    "networks": Layout((predict,), "wordpiece"),
    "generation": Layout((predict,), "wordpiece"),
    "similarity": Layout((predict, vectors), "wordpiece"),
    # data and runs
    "text-shards": Layout((check,), "wordpiece", inside="tokenizer"),
    "parallel-shards": Layout((check,), "wordpiece", inside="tokenizer"),
    "run-in-steps": Layout((embed, fill, resume), "wordpiece", inside=STEP),
    "run-in-passes": Layout((embed, nearest, resume), "wordpiece", inside=PASS),
}
"""Name -> the layout. The two runs read `text-shards`."""


def unpack(name: str) -> None:
    """Write the files of a layout to the folder NAME of the working directory."""
    copy_files(name, Path(name))
    if resume in LAYOUTS[name].uses:
        copy_files("text-shards", Path("shards/wordpiece"))


def copy_files(name: str, out: Path) -> None:
    """Copy the files of a layout, with those that it shares."""
    layout, ignored = LAYOUTS[name], shutil.ignore_patterns(EXPECTED)
    shutil.copytree(LAYOUTS_FOLDER / name, out, ignore=ignored)
    if layout.tokenizer is None:
        return
    (out / layout.inside).mkdir(exist_ok=True)
    for path in (TOKENIZERS_FOLDER / layout.tokenizer).iterdir():
        to = out / layout.inside / path.name
        if not to.exists():
            shutil.copy(path, to)


def compute(name: str) -> Json:
    """What is computed with the folder NAME of the working directory."""
    layout, folder = LAYOUTS[name], name
    if layout.file is not None:
        folder = f"converted-{name}"
        verb("convert", Path(name) / layout.file, folder)
    return {use.__name__: plain(use(folder)) for use in layout.uses}
