"""Tiny runs of every system and a fine-tuned model of every kind, and what they compute.

    python tests/formats/make_runs.py --out FOLDER

trains the runs in `FOLDER/runs` and writes what they compute to `FOLDER/expected`; without `--out`
into `build/net/runs` and `build/net/expected`, which git ignores. It takes a minute on one core and
uses the command line and `import bertwright` alone, so that it needs no change when files move.
`net.sh COMMIT` makes them with the code of a commit, and `net.py` compares bit for bit what the
present code loads, computes, resumes, repeats and converts.

Every pre-training run is stored as one that stopped half-way: its newest checkpoint is that of half
its steps, and what `expected` holds of its end is what `--resume` must come to.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import platform
import random
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from threadpoolctl import threadpool_limits

import bertwright
from bertwright.cli.app import run as run_verb

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "build" / "net"
CLOCKED = (
    "seconds",
    "tokens_per_second",
    "examples_per_second",
    "utilization",
    "memory_gb",
    "cores",
)
"""Keys of a line of `metrics.jsonl` that depend on the computer and on the clock."""
Json = Any

# The text: documents of a small grammar, each about one subject and one place.

ANIMALS = ["cat", "dog", "horse", "goat", "hen", "fox", "owl"]
PEOPLE = ["baker", "farmer", "sailor", "teacher", "doctor", "painter"]
FOOD = ["apple", "bread", "cheese", "soup"]
THINGS = ["lamp", "book", "boat", "coat", "song", "letter"]
PLACES = ["old mill", "north hill", "river bank", "green field", "stone bridge"]
ADJECTIVES = ["red", "small", "kind", "quick", "quiet", "bright"]
VERBS = ["sees", "finds", "likes", "carries", "hides", "paints", "sells"]
ADVERBS = ["quickly", "quietly", "kindly", "brightly"]
TEXTS = [
    "the quick fox finds the red lamp near the old mill .",
    "a kind baker sells the bread .",
    "the owl sleeps quietly in the green field .",
    "it sees the boat",
    "the sailor carries the small letter near the river bank . it sleeps in the stone bridge .",
    "Horse",
]
PAIR = ("the goat likes the soup .", "it sleeps quietly .")
TREEBANK = [
    ("(S (NP (DT the) (NN {a})) (VP (VBZ {v}) (NP (DT the) (NN {t}))) (. .))"),
    ("(S (NP (DT a) (JJ {j}) (NN {a})) (VP (VBZ sleeps) (ADVP (RB {r}))) (. .))"),
    ("(S (NP (NP (DT the) (NN {a})) (PP (IN near) (NP (DT the) (NN {t})))) (VP (VBZ sleeps)))"),
]


def sentence(draw: random.Random, subject: str, place: str) -> str:
    """One sentence about a subject."""
    adjective = draw.choice([*ADJECTIVES, "", ""])
    thing = draw.choice(FOOD + THINGS)
    return draw.choice(
        (
            f"the {adjective} {subject} {draw.choice(VERBS)} the {thing} .",
            f"a {subject} {draw.choice(VERBS)} the {adjective} {thing} near the {place} .",
            f"it sleeps {draw.choice(ADVERBS)} in the {place} .",
            f"the {subject} {draw.choice(ADVERBS)} {draw.choice(VERBS)} the {thing} .",
        )
    ).replace("  ", " ")


def documents(seed: int, count: int) -> list[list[str]]:
    """Documents of 4 to 7 sentences."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        subject, place = draw.choice(ANIMALS + PEOPLE), draw.choice(PLACES)
        found.append([sentence(draw, subject, place) for _ in range(draw.randint(4, 7))])
    return found


def rows_of(kind: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Labelled examples of a kind of task; a column a key."""
    draw = random.Random(f"{kind} {seed}")
    for number in range(count):
        subject, place = draw.choice(ANIMALS + PEOPLE), draw.choice(PLACES)
        while (text := sentence(draw, subject, place)).startswith("it"):
            pass
        words = text.split()
        other = draw.choice([w for w in ANIMALS + PEOPLE if w != subject])
        if kind == "classification":
            yield {"text": text, "label": "animal" if subject in ANIMALS else "person"}
        elif kind == "pair":
            same = number % 2 == 0
            second = sentence(draw, subject if same else other, place)
            yield {"sentence1": text, "sentence2": second, "label": ("other", "same")[same]}
        elif kind == "multi-label":
            names = {"animal": ANIMALS, "person": PEOPLE, "food": FOOD}
            yield {"text": text, "label": [k for k, of in names.items() if {*of} & {*words}]}
        elif kind == "regression":
            yield {"text": text, "score": len(words) / 2 + ("near" in words)}
        elif kind == "tagging":
            yield {"words": words, "tags": tags_of(words)}
        elif kind == "span":
            asked = number % 4 != 3
            question = f"who is in the text ? {subject if asked else other}"
            start = text.index(subject)
            answers = {"text": [subject], "answer_start": [start]}
            none: dict[str, Any] = {"text": [], "answer_start": []}
            yield {
                "id": f"q{seed}-{number}",
                "question": question,
                "context": text,
                "answers": answers if asked else none,
            }
        elif kind == "multiple-choice":
            choices = [sentence(draw, each, place) for each in (other, other)]
            right = draw.randrange(3)
            choices.insert(right, f"the {subject} sleeps .")
            yield {"text": text, "question": "who sleeps ?", "choices": choices, "label": right}
        elif kind == "generation":
            yield {"source": " ".join(words[:4]), "target": " ".join(words[:4][::-1])}
        else:
            raise ValueError(kind)


def tags_of(words: list[str]) -> list[str]:
    """Animals, people and places, in the scheme IOB2."""
    starts = {**dict.fromkeys(ANIMALS, "B-ANIMAL"), **dict.fromkeys(PEOPLE, "B-PERSON")}
    tags = [starts.get(word, "O") for word in words]
    for at in range(len(words) - 1):
        if " ".join(words[at : at + 2]) in PLACES:
            tags[at : at + 2] = ["B-PLACE", "I-PLACE"]
    return tags


def write_data() -> None:
    """Write the text, pairs, stories, trees and labelled files into `data`."""
    data = Path("data")
    data.mkdir()

    def write(name: str, lines: Iterable[str]) -> None:
        (data / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    text = documents(1, 56)
    write("text.txt", ("\n".join(each) + "\n" for each in text))
    write("dev.txt", ("\n".join(each) + "\n" for each in documents(2, 5)))
    sentences = list(dict.fromkeys(each for document in text for each in document))[:160]
    write("source.txt", sentences)
    write("target.txt", (" ".join(each.split()[::-1]) for each in sentences))
    draw = random.Random(3)
    trees = []
    for number in range(90):
        words = {"a": ANIMALS, "v": VERBS, "t": THINGS, "j": ADJECTIVES, "r": ADVERBS}
        chosen = {key: draw.choice(of) for key, of in words.items()}
        trees.append(TREEBANK[number % 3].format(**chosen))
    write("trees.mrg", trees)
    verb("data", "stories", "--out", data / "stories.txt", "--count", 90, "--seed", 1)
    verb("data", "stories", "--out", data / "questions.txt", "--count", 5, "--seed", 2)
    for kind in KINDS:
        for name, seed, count in (("train", 1, 24), ("dev", 2, 10)):
            rows = list(rows_of(kind, seed, count))
            if kind == "tagging":
                lines = []
                for row in rows:
                    pairs = zip(row["words"], row["tags"], strict=True)
                    lines.append("\n".join(f"{w} {t}" for w, t in pairs) + "\n")
                write(f"{kind}-{name}.conll", lines)
            elif kind in ("classification", "pair"):
                lines = ["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]
                write(f"{kind}-{name}.tsv", lines)
            else:
                write(f"{kind}-{name}.jsonl", map(json.dumps, rows))


KINDS = (
    "classification",
    "pair",
    "multi-label",
    "regression",
    "tagging",
    "span",
    "multiple-choice",
    "generation",
)

# Tokenizers and shards.

TOKENIZERS: dict[str, tuple[str, ...]] = {
    "wordpiece": ("data/text.txt", "--vocab-size", "120"),
    "word": ("data/text.txt", "--algorithm", "word", "--vocab-size", "120"),
    "unknown": (
        "data/text.txt", "--algorithm", "word", "--vocab-size", "120",
        "--special-tokens", "unknown",
    ),
    "bpe": ("data/text.txt", "--algorithm", "bpe", "--vocab-size", "110"),
    "byte-bpe": ("data/text.txt", "--algorithm", "byte-bpe", "--vocab-size", "300"),
    "character": ("data/text.txt", "--algorithm", "character", "--no-lowercase"),
    "stories": ("data/stories.txt", "--algorithm", "word", "--sentences", "line"),
}  # fmt: skip
"""Name -> what `tokenizer train` is given."""
SHARDS: dict[str, tuple[str, ...]] = {
    **{each: ("data/text.txt", "--tokenizer", each) for each in TOKENIZERS if each != "stories"},
    "pairs": ("data/source.txt", "data/target.txt", "--parallel", "--tokenizer", "wordpiece"),
    "word-pairs": ("data/source.txt", "data/target.txt", "--parallel", "--tokenizer", "word"),
    "stories": ("data/stories.txt", "--sentences", "line", "--tokenizer", "stories"),
}
"""Name -> what `data build` is given."""


def build_shards(out: Path, tokenizers: Path) -> None:
    """Train every tokenizer and build every folder of shards."""
    for name, words in TOKENIZERS.items():
        verb("tokenizer", "train", *words, "--workers", 1, "--out", tokenizers / name)
    for name, words in SHARDS.items():
        *given, tokenizer = words
        found = ["--tokenizer", tokenizers / tokenizer] if given.pop() else []
        verb("data", "build", *given, *found, "--workers", 1, "--out", out / name)
    verb("data", "trees", "data/trees.mrg", "--vocab-size", 90, "--out", out / "trees")


# Pre-training.

TRANSFORMER = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
}
FEED_FORWARD = {"intermediate_size": 12}
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
STEPS = {
    "steps": 12,
    "validation": {"fraction": 0.1, "tokens": 512, "every_steps": 6},
    "batch": {"tokens": 256, "micro_tokens": 128},
    "checkpoint": {"every_steps": 6},
    "log": {"every_steps": 1},
}
VECTORS = {"workers": 1, "epochs": 4}
BERT = {"architecture": {**TRANSFORMER, **FEED_FORWARD}, "instances": {"sequence_length": 32}}
PRETRAINED: dict[str, dict[str, Any]] = {
    "bert": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny", **BERT,
        "optimizer": {"learning_rate": 5e-3},
    },
    # as published: random weights, AdamW, dropout, sentence order, whole words, longer at the end
    "bert-paper": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny",
        "architecture": {**BERT["architecture"], **DROPOUT},
        "instances": {"sequence_length": 16, "objectives": "mlm+sop"},
        "long_phase": {"fraction": 0.3, "sequence_length": 32},
        "masking": {"whole_word": True},
        "start": {
            "aimed_heads": False, "counted_vectors": False, "frequency_bias": False,
            "embedding_std": 0.02,
        },
        "optimizer": {"matrices": "adamw", "layer_decay": 0.9},
    },
    "bert-continued": {
        **STEPS, "data": "shards/wordpiece", "init": "bert",
        "instances": {"sequence_length": 24, "objectives": "mlm"},
    },
    "bert-ltr": {
        **STEPS, "data": "shards/wordpiece", "model": "bert-tiny-ltr",
        "architecture": {**TRANSFORMER, **FEED_FORWARD}, "sequence_length": 24,
    },
    "gpt": {
        **STEPS, "data": "shards/bpe", "model": "gpt-mini", "architecture": TRANSFORMER,
        "sequence_length": 24, "burn_in": 4,
    },
    "gpt2": {
        **STEPS, "data": "shards/byte-bpe", "model": "gpt2-mini",
        "architecture": {**TRANSFORMER, **DROPOUT}, "sequence_length": 24,
        "schedule": {"curve": "inverse-sqrt", "warmup": 0.2},
    },
    "elmo": {
        **STEPS, "data": "shards/word", "model": "elmo-mini", "sequence_length": 16,
        "architecture": {"dim": 6, "projection_dim": 4, "output_size": 40, "cell_clip": 3.0,
                         "proj_clip": 3.0},
    },
    "elmo-forward": {
        **STEPS, "data": "shards/word", "model": "elmo-mini", "sequence_length": 16,
        "architecture": {"dim": 6, "projection_dim": 4, "direction": "forward",
                         "negative_samples": 20},
    },
    "awd-lstm": {
        **STEPS, "data": "shards/word", "model": "awd-lstm-small", "sequence_length": 16,
        "architecture": {"embedding_size": 10, "hidden_size": 14, "dropout_scale": 0.5},
        "schedule": {"curve": "slanted"},
    },
    "nnlm": {
        **STEPS, "data": "shards/character", "model": "nnlm-small", "sequence_length": 24,
        "architecture": {"hidden_size": 10, "context_size": 3, "direct_connections": True},
    },
    "ngram": {"data": "shards/word", "model": "ngram", "architecture": {"order": 3},
              "prune": [0, 0, 1], "validation": {"fraction": 0.1}},
    "ngram-add-k": {"data": "shards/unknown", "model": "ngram", "smoothing": "add-k",
                    "architecture": {"order": 2}, "validation": {"fraction": 0.1}},
    "word2vec": {**VECTORS, "data": "shards/unknown", "model": "word2vec-skip-gram",
                 "architecture": {"hidden_size": 10}},
    "word2vec-cbow": {
        **VECTORS, "data": "shards/word", "model": "word2vec-cbow", "subsample": 0.0,
        "architecture": {"hidden_size": 10, "loss": "hierarchical-softmax"},
    },
    "fasttext": {**VECTORS, "data": "shards/unknown", "model": "fasttext-skip-gram",
                 "architecture": {"hidden_size": 10, "buckets": 90}},
    "fasttext-cbow": {**VECTORS, "data": "shards/unknown", "model": "fasttext-cbow",
                      "architecture": {"hidden_size": 10, "buckets": 40, "max_n": 4}},
    "glove": {**VECTORS, "data": "shards/word", "model": "glove",
              "architecture": {"hidden_size": 10}},
    "transformer": {
        **STEPS, "data": "shards/pairs", "model": "transformer-small", "sequence_length": 24,
        "architecture": {**TRANSFORMER, **FEED_FORWARD},
        "optimizer": {"learning_rate": 1e-2},
    },
    "parser": {
        **STEPS, "data": "shards/trees", "model": "transformer-small", "sequence_length": 40,
        "architecture": {**TRANSFORMER, **FEED_FORWARD, "norm": "pre"},
        "optimizer": {"matrices": "muon", "learning_rate": 1e-2},
    },
    "bert2rnd": {
        **STEPS, "data": "shards/pairs", "model": "bert2rnd", "encoder": "bert",
        "architecture": {"num_decoder_layers": 1}, "sequence_length": 24,
    },
    "seq2seq": {
        **STEPS, "data": "shards/pairs", "model": "seq2seq-base", "sequence_length": 24,
        "architecture": {"embedding_size": 10, "hidden_size": 12, "attention": "multiplicative"},
        "optimizer": {"learning_rate": 1e-2},
    },
    "seq2seq-additive": {
        **STEPS, "data": "shards/pairs", "model": "seq2seq-small", "sequence_length": 24,
        "architecture": {"embedding_size": 8, "hidden_size": 12, "attention": "additive",
                         "input_feeding": False},
    },
    "cove": {
        **STEPS, "data": "shards/word-pairs", "model": "seq2seq-cove", "sequence_length": 24,
        "word_vectors": "glove",
        "architecture": {"embedding_size": 10, "hidden_size": 8, "attention": "multiplicative"},
    },
    "memory-network": {
        **STEPS, "data": "shards/stories", "model": "memory-network", "longest_story": 64,
        "architecture": {"hidden_size": 10, "memory_size": 6},
        "optimizer": {"learning_rate": 2e-2},
    },
}  # fmt: skip
"""Name of a run -> its configuration; `out` is the name."""

CONVERTED = "converted-"
"""What the name of a run's copy begins with that `bertwright convert` wrote."""

# Fine-tuning.

TUNED = {
    "epochs": 2.0, "learning_rate": 5e-3, "batch_size": 8, "max_length": 32, "stride": 8,
    "precision": "fp32", "device": "cpu", "seed": 3,
}  # fmt: skip
FEATURES = {**TUNED, "transfer": "features"}


def files(kind: str) -> dict[str, str]:
    """The labelled files of a kind."""
    suffix = {"tagging": "conll", "classification": "tsv", "pair": "tsv"}.get(kind, "jsonl")
    return {"train": f"data/{kind}-train.{suffix}", "dev": f"data/{kind}-dev.{suffix}"}


FINETUNED: dict[str, tuple[str, dict[str, Any]]] = {
    "task-classification": ("classification", {**TUNED, "model": "bert", "baselines": True}),
    "task-multi-label": ("multi-label", {**TUNED, "model": "bert", "multi_label": True}),
    "task-regression": ("regression", {**TUNED, "model": "bert", "seeds": 2}),
    "task-tagging": ("tagging", {**TUNED, "model": "bert", "context": "document"}),
    "task-span": ("span", {**TUNED, "model": "bert"}),
    "task-multiple-choice": ("multiple-choice", {**TUNED, "model": "bert"}),
    "task-generation": ("generation", {**TUNED, "model": "bert", "max_target_tokens": 12}),
    "task-multitask": ("multitask", {k: v for k, v in TUNED.items() if k not in
                                     ("max_length", "stride")} | {"model": "bert"}),
    "task-top": ("pair", {**TUNED, "model": "bert-paper", "transfer": "top-1", "pooling": "max",
                          "hidden_size": 6, "class_weights": "balanced"}),
    # GPT reads pairs and choices its own way, beside its language model
    "task-gpt-pair": ("pair", {**TUNED, "model": "gpt", "language_model": 0.5,
                               "both_orders": True}),
    "task-gpt-choice": ("multiple-choice", {**TUNED, "model": "gpt"}),
    "task-gpt2-generation": ("generation", {**TUNED, "model": "gpt2", "max_target_tokens": 12}),
    "task-ltr-regression": ("regression", {**TUNED, "model": "bert-ltr"}),
    # ELMo's mix under a biLSTM and a CRF; TagLM; ULMFiT; CoVe; word vectors
    "task-elmo": ("tagging", {**FEATURES, "model": "elmo", "layers": "mix", "crf": True,
                              "network": "bilstm"}),
    "task-crf": ("tagging", {**FEATURES, "model": "bert", "layers": "mix", "crf": True,
                             "network": "bilstm"}),
    "task-taglm": ("tagging", {**FEATURES, "model": "awd-lstm", "layers": "last", "crf": True,
                               "network": "taglm"}),
    "task-ulmfit": ("classification", {**TUNED, "model": "awd-lstm", "transfer": "gradual",
                                       "pooling": "last+max+mean", "hidden_size": 6}),
    "task-cove": ("classification", {**FEATURES, "model": "cove", "layers": "embeddings+last",
                                     "network": "bilstm"}),
    "task-fasttext": ("classification", {**FEATURES, "model": "fasttext"}),
    "task-word2vec-tagging": ("tagging", {**FEATURES, "model": "word2vec", "network": "bilstm"}),
    "task-transformer-span": ("span", {**TUNED, "model": "transformer"}),
}  # fmt: skip
"""Name of a run -> the name of its labelled files, and its configuration."""
UNITS = 4
"""Units of the LSTMs of stored heads."""
MULTITASK = {
    "topics": {"kind": "classification", **files("classification"), "max_length": 32, "stride": 8},
    "entities": {"kind": "tagging", **files("tagging"), "max_length": 32, "stride": 8,
                 "weight": 2.0},
    "grade": {"kind": "regression", **files("regression"), "max_length": 32, "stride": 8},
}  # fmt: skip

# Foreign files, and what is read from them.

FOREIGN: dict[str, tuple[str, str, str]] = {
    "bert-tensorflow": ("bert", "tensorflow", "foreign/bert-tensorflow"),
    "bert-sentence-transformers": (
        "bert",
        "sentence-transformers",
        "foreign/bert-sentence-transformers",
    ),
    "elmo-published": ("elmo", "elmo", "foreign/elmo"),
    "vectors-text": ("word2vec", "word2vec", "foreign/vectors.txt"),
    "vectors-binary": ("glove", "word2vec", "foreign/vectors.bin"),
    "vectors-fasttext": ("fasttext", "fasttext", "foreign/fasttext.bin"),
    "vectors-fasttext-cbow": ("fasttext-cbow", "fasttext", "foreign/fasttext-cbow.bin"),
    "arpa": ("ngram", "arpa", "foreign/ngram.arpa"),
}
"""Name of a folder that is read from a foreign file -> the run, `--to` and the file."""
# What is computed with a run.


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


USES |= dict.fromkeys(FINETUNED, (predictions, library_predictions))

# Running.


def plain(value: Any) -> Json:
    """Numbers of NumPy, tuples and paths as JSON has them."""
    return json.loads(
        json.dumps(value, default=lambda x: x.tolist() if hasattr(x, "tolist") else str(x))
    )


def verb(*words: object) -> str:
    """Run a command line and return what it printed.

    Raises:
        RuntimeError: it failed; with its messages.
    """
    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run_verb([str(word) for word in words])
    if code:
        raise RuntimeError(f"bertwright {' '.join(map(str, words))}: {code}\n{said.getvalue()}")
    return out.getvalue()


def answer_of(*words: object) -> Json:
    """Run a command line with `--json` and return the object that it printed."""
    return json.loads(verb(*words, "--json"))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the working directory that is removed at the end."""
    folder = Path(f"scratch-{os.getpid()}")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread computes: the same sums in the same order on every computer of a kind."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def computer() -> str:
    """What the last bits of results depend on: the processor and the libraries that compute."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        keys = ("vendor_id", "cpu family", "model\t", "flags")
        facts = dict.fromkeys(line for line in lines if line.startswith(keys))
        processor = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return f"{processor}, torch {torch.__version__}, numpy {np.__version__}"


def start(words: list[object], config: dict[str, Any]) -> None:
    """Run `pretrain` or `finetune` with a configuration."""
    with scratch() as folder:
        (folder / "config.toml").write_text(tomli_w.dumps(config), encoding="utf-8")
        verb(*words, "--config", folder / "config.toml")


def pretrain(name: str) -> Json:
    """Train a run of `PRETRAINED`, take it back to half of its steps, and return its end."""
    common = {"out": name, "seed": 3, "precision": "fp32", "device": "cpu"}
    start(["pretrain"], {**common, **PRETRAINED[name]})
    end = end_of(name)
    stop_half_way(name)
    return end


def finetune(name: str) -> Json:
    """Train a run of `FINETUNED`, make its head small, and return its end."""
    kind, config = FINETUNED[name]
    config = {"out": name, **config}
    if kind == "multitask":
        Path("tasks.toml").write_text(tomli_w.dumps(MULTITASK), encoding="utf-8")
        start(["finetune", kind, "--tasks", "tasks.toml"], config)
        Path("tasks.toml").unlink()
    else:
        start(["finetune", kind_of(name)], {**config, **files(kind)})
    (Path(name) / "model").unlink(missing_ok=True)
    end = {**end_of(name), "results": results_of(name)}
    shrink_head(name)
    return end


def kind_of(name: str) -> str:
    """The kind of a fine-tuned run, as `finetune` is given it."""
    kind, _ = FINETUNED[name]
    return {"pair": "classification", "multi-label": "classification"}.get(kind, kind)


def shrink_head(run: Path | str) -> None:
    """Cut a stored LSTM of a task's head from 256 units, which no option changes, to `UNITS`.

    The checkpoint is then one of `head.network_size` `UNITS`; its numbers are a part of those that
    were trained.
    """
    folder = newest(run)
    content = json.loads((folder / "task.json").read_text("utf-8"))
    heads = [
        task["head"] for task in content["tasks"].values() if task["head"]["network"] != "linear"
    ]
    if not heads:
        return
    for head in heads:
        head["network_size"] = UNITS
    (folder / "task.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    path = folder / "heads.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()

    def small(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if "characters" in name:
            return x
        sizes = (n // 256 * UNITS + n % 256 if n >= 256 else n for n in x.shape)
        return np.array(x[tuple(map(slice, sizes))], order="C")

    save_file({name: small(name, x) for name, x in load_file(path).items()}, path, metadata)
    manifest = json.loads((folder / "MANIFEST.json").read_text("utf-8"))
    for name, facts in manifest["files"].items():
        data = (folder / name).read_bytes()
        facts.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (folder / "MANIFEST.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def import_foreign(name: str, out: Path | str) -> None:
    """Read a foreign file as a folder of ours."""
    verb("convert", FOREIGN[name][2], out)


def export_foreign(name: str, out: Path | str) -> None:
    """Write a run as a foreign file."""
    source, to, _ = FOREIGN[name]
    verb("convert", source, out, "--to", to)


def newest(run: Path | str) -> Path:
    """The checkpoint that `latest` names."""
    folder = Path(run) / "checkpoints"
    return folder / (folder / "latest").read_text("utf-8").strip()


def records(run: Path | str) -> list[dict[str, Any]]:
    """Every line of the log, less what depends on the clock."""
    lines = (Path(run) / "metrics.jsonl").read_text("utf-8").splitlines()
    return [{k: v for k, v in json.loads(each).items() if k not in CLOCKED} for each in lines]


def config_of(run: Path | str) -> dict[str, Any]:
    """The configuration of a run, less the folder it was written to."""
    config = tomllib.loads((Path(run) / "config.toml").read_text("utf-8"))
    return {key: value for key, value in config.items() if key not in ("out", "tasks")}


def weights_of(run: Path | str) -> Json:
    """What identifies the tensors of the newest checkpoint, those of its optimizer too.

    `layout` is a hash of names, types and shapes, `bits` one of all numbers; `norm` and
    `projection` are two sums over the numbers for a comparison with a tolerance.
    """
    found: dict[str, Any] = {}
    for path in sorted(newest(run).glob("*.safetensors")):
        tensors = load_file(path)
        layout, bits, squares, projection = hashlib.sha256(), hashlib.sha256(), 0.0, 0.0
        for name, x in sorted(tensors.items()):
            layout.update(f"{name} {x.dtype} {x.shape}\n".encode())
            bits.update(x.tobytes())
            if x.dtype.kind == "f":
                wide = x.astype(np.float64).ravel()
                squares += float(wide @ wide)
                projection += float(wide @ np.cos(np.arange(len(wide))))
        found[path.name] = {
            "layout": layout.hexdigest()[:16],
            "bits": bits.hexdigest()[:16],
            "norm": squares**0.5,
            "projection": projection,
        }
    return found


def end_of(run: Path | str) -> Json:
    """What a finished run has come to: its log and its weights."""
    return {"records": records(run), "weights": weights_of(run)}


def results_of(run: Path | str) -> Json:
    """The figures of a fine-tuned run, less its settings, which `config_of` gives."""
    results = json.loads((Path(run) / "results.json").read_text("utf-8"))
    return without(results, "settings", *CLOCKED)


def without(value: Json, *keys: str) -> Json:
    """A JSON value without some keys at any depth."""
    if isinstance(value, dict):
        return {k: without(v, *keys) for k, v in value.items() if k not in keys}
    return [without(each, *keys) for each in value] if isinstance(value, list) else value


def stop_half_way(name: str) -> None:
    """Take a finished run back to the checkpoint before its last."""
    folder = Path(name) / "checkpoints"
    there = sorted(path for path in folder.iterdir() if path.is_dir())
    if len(there) > 1:
        shutil.rmtree(there[-1])
        there.pop()
    step = int(there[-1].name.removeprefix("step-"))
    (folder / "latest").write_text(f"{there[-1].name}\n", encoding="utf-8")
    (Path(name) / "model").unlink(missing_ok=True)  # a link, which not every system has
    log = Path(name) / "metrics.jsonl"
    lines = log.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    log.write_text("".join(kept), encoding="utf-8")


def as_text(expected: Json) -> str:
    """The text of a file of `expected`: a line a key of the first level."""
    lines = (
        f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in expected.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make(name: str) -> dict[str, Json]:
    """Make a run or a folder of foreign files, and return what is known of its making."""
    if name in FOREIGN:
        if not Path(FOREIGN[name][2]).exists():
            export_foreign(name, FOREIGN[name][2])
        import_foreign(name, name)
        return {}
    end = pretrain(name) if name in PRETRAINED else finetune(name)
    return {"config": config_of(name), "end": end}


def uses_of(name: str) -> dict[str, Json]:
    """What is computed with a run or a folder of foreign files, by the names of the functions."""
    return {use.__name__: plain(use(name)) for use in USES[name]}


def make_all(out: Path) -> None:
    """Make `out/runs` and `out/expected` again.

    Raises:
        SystemExit: there is a folder `out/runs` that is not of this file.
    """
    runs, expected = out / "runs", out / "expected"
    if runs.exists() and not expected.is_dir():
        raise SystemExit(f"{runs} was not written by make_runs.py: name another folder by --out")
    for folder in (runs, expected):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def write(name: str, content: Json) -> None:
        (expected / f"{name}.json").write_text(as_text(content), encoding="utf-8")

    os.chdir(runs)
    with one_thread():
        write_data()
        build_shards(Path("shards"), Path("tokenizers"))
        Path("foreign").mkdir()
        for name in USES:
            print(name, flush=True)
            write(name, plain({**make(name), **uses_of(name)}))
    write("computer", {"computer": computer()})  # the last: the folder is complete
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size:,} bytes")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default: %(default)s")
    make_all(parser.parse_args().out.resolve())


if __name__ == "__main__":
    main()
