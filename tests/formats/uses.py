"""What is computed with a run, or with a folder of the files of another program."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

import bertwright
from tests.formats.configurations import CONVERTED, FINETUNED, MULTITASK
from tests.formats.observe import Json, answer_of, plain, scratch, verb, without
from tests.formats.sample_data import PAIR, TEXTS, files


def embed(name: str) -> Json:
    """Vectors: by default, of the embeddings, and with other settings."""
    model = bertwright.load(name)
    found = {"default": model.embed(TEXTS), "layer 0": model.embed(TEXTS[:2], layers=0)}
    found["max"] = model.embed(TEXTS[:2], layers=-1, pooling="max", normalize=True)
    return {key: value.tolist() for key, value in found.items()}


def encode(name: str) -> Json:
    """All layers of a text's tokens."""
    (found,) = bertwright.load(name).encode([TEXTS[1]])
    pooled = None if found.pooled is None else found.pooled.tolist()
    return {"tokens": found.tokens, "ids": found.ids, "offsets": [*map(list, found.offsets)],
            "layers": found.layers.tolist(), "pooled": pooled}  # fmt: skip


def embed_file(name: str) -> Json:
    """Vectors that `bertwright embed` writes."""
    with scratch() as folder:
        verb("embed", "--model", name, "--input", "data/dev.txt", "--out", folder / "vectors.npy")
        return np.load(folder / "vectors.npy")[:4].tolist()


def fill(name: str) -> Json:
    """Likely words."""
    blanks = bertwright.load(name).fill("the [MASK] sees the [MASK] near the old mill .", top=4)
    return [[list(each) for each in blank] for blank in blanks]


def next_sentence(name: str) -> Json:
    """Probabilities that one text follows another."""
    model = bertwright.load(name)
    return [model.next_sentence(*PAIR), model.next_sentence(TEXTS[3], TEXTS[5])]


def score(name: str) -> Json:
    """Log-probabilities of tokens."""
    found = bertwright.load(name).score(TEXTS[1:4])
    return [{"ids": each.tokens, "log": each.log_probabilities.tolist()} for each in found]


def perplexity(name: str) -> Json:
    """Of held-out text."""
    found = answer_of("perplexity", "data/dev.txt", "--model", name)
    return without(found, "model")


def generate(name: str) -> Json:
    """Texts that continue prompts: greedy, by beams, sampled."""
    model = bertwright.load(name)
    prompts = ["the quick fox", "a kind baker"]
    settings: dict[str, dict[str, Any]] = {
        "greedy": {},
        "beam": {"beam": 3, "num": 2},
        "sample": {"sample": True, "top_k": 20, "top_p": 0.95, "seed": 4, "num": 2},
    }
    return {
        how: [
            [{"text": each.text, "ids": each.ids, "score": each.score} for each in of_prompt]
            for of_prompt in model.generate(prompts, max_new_tokens=6, **given)
        ]
        for how, given in settings.items()
    }


def translate(name: str) -> Json:
    """Translations, greedy and by beams."""
    model = bertwright.load(name)
    return {
        f"beam {beam}": [
            {"text": each.text, "score": each.score, "reason": each.reason}
            for each in model.translate(TEXTS[:4], beam=beam, max_length=12)
        ]
        for beam in (1, 4)
    }


def parse(name: str) -> Json:
    """Trees of sentences."""
    return answer_of("parse", "the owl sleeps quietly .", "a dog sees it", "--model", name)


def answers(name: str) -> Json:
    """Answers to the questions of stories, and what was attended to."""
    lines = verb("answer", "data/questions.txt", "--model", name, "--json").splitlines()
    return [json.loads(line) for line in lines]


def nearest(name: str) -> Json:
    """The words nearest to words, and those that complete an analogy."""
    analogy = ("words", "analogy", "cat", "baker", "dog", "--model", name, "--top", 4)
    words = ("words", "nearest", "fox", "bread", "--model", name, "--top", 4)
    return [answer_of(*words), answer_of(*analogy)]


def attention(name: str) -> Json:
    """What attends to what in a short text."""
    maps = bertwright.load(name).attention(TEXTS[3])
    return [
        {"name": m.name, "rows": m.rows, "columns": m.columns, "weights": m.weights.tolist()}
        for m in maps
    ]


def inspect(name: str) -> Json:
    """What `bertwright inspect` says of the folder."""
    return answer_of("inspect", name)


def predictions(name: str) -> Json:
    """What a fine-tuned model predicts of its dev file, and how it is evaluated."""
    kind, _ = FINETUNED[name.removeprefix(CONVERTED)]
    of_tasks = MULTITASK if kind == "multitask" else {"task": {**files(kind)}}
    found = {}
    for task, of_task in of_tasks.items():
        # auto measures the processor, and may choose otherwise another time
        given = ("--model", name, "--task", task, "--precision", "fp32")
        with scratch() as folder:
            verb("predict", *given, "--input", of_task["dev"], "--out", folder / "out.jsonl")
            lines = (folder / "out.jsonl").read_text("utf-8").splitlines()
        evaluated = answer_of("evaluate", *given, "--data", of_task["dev"], "--no-intervals")
        found[task] = {"lines": [json.loads(each) for each in lines], "evaluated": evaluated}
    return found


def library_predictions(name: str) -> Json:
    """What `Model.predict` gives for inputs that are in no file."""
    model = bertwright.load(name)
    inputs: dict[str, list[Any]] = {
        "pair": [PAIR, (TEXTS[0], TEXTS[1])],
        "tagging": [TEXTS[0].split(), TEXTS[2].split()],
        "span": [{"question": "who is it ?", "context": TEXTS[4]}],
        "multiple-choice": [
            {"text": TEXTS[0], "text2": "who sleeps ?", "choices": [TEXTS[1], TEXTS[2]]}
        ],
        "generation": ["the quick fox finds"],
    }
    kind, _ = FINETUNED[name.removeprefix(CONVERTED)]
    task = "topics" if kind == "multitask" else None
    found = model.predict(inputs.get(kind, TEXTS), task)
    return plain([each.as_dict() for each in found])


LANGUAGE_MODEL: tuple[Callable[[str], Json], ...] = (score, perplexity, generate)
ENCODER: tuple[Callable[[str], Json], ...] = (inspect, embed, encode)
WORDS: tuple[Callable[[str], Json], ...] = (inspect, embed, nearest)
MASKED = (*ENCODER, fill, next_sentence, score, attention)
TRANSLATION = (*ENCODER, translate)
USES: dict[str, tuple[Callable[[str], Json], ...]] = {
    "bert": (*MASKED, embed_file),
    "bert-paper": (*ENCODER, fill, next_sentence, attention),
    "bert-continued": (*ENCODER, fill),
    "bert-ltr": (*ENCODER, *LANGUAGE_MODEL, attention),
    "gpt": (*ENCODER, *LANGUAGE_MODEL, attention),
    "gpt2": (*ENCODER, *LANGUAGE_MODEL, attention, embed_file),
    "elmo": (*ENCODER, nearest),
    "elmo-forward": ENCODER,
    "awd-lstm": (inspect, embed, score, perplexity, embed_file),
    "nnlm": (inspect, embed, score, perplexity),
    "ngram": (inspect, *LANGUAGE_MODEL),
    "ngram-add-k": (inspect, *LANGUAGE_MODEL),
    "word2vec": WORDS,
    "word2vec-cbow": (*WORDS, embed_file),
    "fasttext": WORDS,
    "fasttext-cbow": WORDS,
    "glove": WORDS,
    "transformer": TRANSLATION,
    "parser": (*ENCODER, parse),
    "bert2rnd": (*TRANSLATION, attention),
    "seq2seq": (inspect, embed, translate, attention),
    "seq2seq-additive": (inspect, embed, translate),
    "cove": (inspect, embed, translate),
    "memory-network": (inspect, embed, answers),
    "bert-tensorflow": MASKED,
    "bert-sentence-transformers": (inspect, embed),
    "elmo-published": ENCODER,
    "vectors-text": WORDS,
    "vectors-binary": WORDS,
    "vectors-fasttext": WORDS,
    "vectors-fasttext-cbow": WORDS,
    "arpa": (inspect, score, perplexity),
}
"""Name of a run, or of a folder of foreign files -> what is computed with it."""


USES |= dict.fromkeys(FINETUNED, (predictions, library_predictions))

# Running.
