"""Evaluate language models on held-out text and on minimal pairs.

Perplexity is `exp(-mean log p)` over all predicted tokens, including the one for the end of a text;
it depends on the vocabulary. Bits per character do not: they are the same sum in bits, divided by
the characters of the text as it was read. Unknown words are easy to predict, so `side_by_side`,
which compares models of any vocabularies, adds the bits of their spelling (`spelling.py`).

Models with the same tokenizer are mixed by linear interpolation, `p = sum_m weight_m p_m`, with
given weights, or with those that maximize the likelihood of other held-out text.

Minimal pairs are a good and a bad sentence (BLiMP, Warstadt et al. 2020): a model is right if the
good one is more probable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.config.corpus import CorpusConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.encode import chunks
from bertwright.inference.files.texts import open_minimal_pairs
from bertwright.inference.model import Model
from bertwright.inference.score import TextScore, best_weights, is_pseudo, mix, score_ids
from bertwright.inference.spelling import Spelling, unknown_words, vocabulary_words
from bertwright.progress import OnProgress, silent
from bertwright.rows.open import size_on_disk
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.read import read_blocks, split_document
from bertwright.text.corpus.report import CorpusReport

OnScore = Callable[[dict[str, Any]], None]


def perplexity(
    models: Sequence[Model],
    files: Sequence[str],
    corpus: CorpusConfig = CorpusConfig(),  # noqa: B008 - frozen
    *,
    weights: Sequence[float] = (),
    tune: str | None = None,
    on_score: OnScore = silent,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Evaluate a language model, or several and their mixture.

    Args:
        models: one or more models with the same tokenizer.
        files: the files of the text.
        corpus: how the files are read.
        weights: the weights of the mixture, one for each model; empty: equal, or by `tune`.
        tune: a file to find the weights on, which is neither training text nor in `files`.
        on_score: called with each text's tokens and their log-probabilities, in order.
        on_progress: called with the bytes read.

    Raises:
        ConfigError: the models have different tokenizers, or the weights are invalid.
        DataError: there is no text, none of its words is in the vocabulary, or a model has no head
            that scores texts.
    """
    weights = _check(models, weights)
    tokenizer = models[0].tokenizer
    if tune is not None:
        tuned = [scores for _, scores in _scored(models, [tune], corpus, CorpusReport())]
        texts = [np.stack([score.log_probabilities for score in scores]) for scores in tuned]
        weights = best_weights(np.concatenate(texts, 1))
    report, characters, known, tokens, unknown = CorpusReport(), 0, 0, 0, 0
    # log-probabilities of all tokens, and of the unknown ones, for each model and the mixture
    totals = np.zeros((len(models) + (len(models) > 1), 2))
    size = size_on_disk(find_files(files))
    for number, (text, scores) in enumerate(_scored(models, files, corpus, report)):
        characters += len(text)
        if len(scores) > 1:
            scores = [*scores, mix(scores, weights)]
        last = scores[-1]
        is_unknown = np.asarray(last.tokens) == tokenizer.special.get("unk", -1)
        tokens, unknown = tokens + len(last.tokens), unknown + int(is_unknown.sum())
        rows = np.stack([each.log_probabilities for each in scores])
        totals += np.stack([rows.sum(1), rows[:, is_unknown].sum(1)], 1)
        known += sum(token not in tokenizer.special_ids for token in last.tokens)
        on_score(
            {
                "text": number,
                "log_probability": last.log_probability,
                "perplexity": last.perplexity,
                "tokens": tokenizer.tokens_of(last.tokens),
                "log_probabilities": last.log_probabilities,
            }
        )
        on_progress(report.position, size)
    if not tokens:
        raise DataError(f"{', '.join(files)}: no text has a token to predict")
    if unknown and not known:
        raise DataError(
            f"{', '.join(files)}: none of the {unknown:,} words is in the vocabulary of "
            f"{models[0].runner.name}: is it text of another language or form?"
        )
    measured = [
        {
            "loss": -total / tokens,
            "perplexity": math.exp(-total / tokens),
            "perplexity_of_known": math.exp((of_unknown - total) / max(1, tokens - unknown)),
            "bits_per_character": -total / math.log(2) / max(1, characters),
        }
        for total, of_unknown in totals.tolist()
    ]
    return {
        "files": list(files),
        "texts": report.documents,
        "characters": characters,
        "tokens": tokens,
        "unknown": unknown,
        "pseudo": is_pseudo(models[0].runner),
        "models": [
            {"model": model.runner.name, "weight": weight, **metrics}
            for model, weight, metrics in zip(models, weights, measured, strict=False)
        ],
        **measured[-1],
    }


def have_one_vocabulary(models: Sequence[Model]) -> bool:
    """Return whether all models have the same tokenizer, so that they can be mixed."""
    return len({model.tokenizer.fingerprint for model in models}) == 1


def side_by_side(
    models: Sequence[Model],
    files: Sequence[str],
    corpus: CorpusConfig = CorpusConfig(),  # noqa: B008 - frozen
    *,
    spelling: Spelling | None = None,
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Evaluate language models with different vocabularies on the same text, in bits per character.

    The bits of an unknown word include its spelling, which one character model predicts for all
    models. The results can therefore be compared although the vocabularies differ.

    Args:
        spelling: the character model; None: it is fitted on the vocabularies of all models.

    Returns:
        `files`, `texts`, `characters`, and for each of `models`: `model`, `pseudo` (whether its
        bits are those of the pseudo-log-likelihood of a masked language model, which cannot be
        compared with the bits of other models), `tokens`, `unknown`, `bits_per_character` including
        the spelling of unknown words, `spelling_fraction` (the fraction of these bits that spelling
        takes), and `bits_per_character_of_tokens` without spelling.

    Raises:
        DataError: there is no text, or a model has no head that scores texts.
    """
    spelling = spelling or Spelling(vocabulary_words([model.tokenizer for model in models]))
    report = CorpusReport()
    texts = characters = 0
    sums = [{"tokens": 0, "unknown": 0, "bits": 0.0, "spelling": 0.0} for _ in models]
    size = size_on_disk(find_files(files))
    for block in read_blocks([str(Path(file)) for file in files], corpus, report, 1 << 18):
        documents = [split_document(text, corpus) for text in block]
        texts, characters = texts + len(block), characters + sum(map(len, block))
        for model, own in zip(models, sums, strict=True):
            tokenizer = model.tokenizer
            ids = []
            for sentences in documents:
                flat, lengths = tokenizer.encode_sentence_ids(sentences)
                ids.append(tokenizer.framing.one(flat.tolist()))
                ends = np.cumsum(lengths)
                for sentence, start, stop in zip(sentences, ends - lengths, ends, strict=True):
                    if (flat[start:stop] == tokenizer.unk_id).any():
                        words = unknown_words(tokenizer, sentence)
                        own["unknown"] += len(words)
                        own["spelling"] += sum(map(spelling.bits, words))
            for score in score_ids(model.runner, ids):
                own["tokens"] += len(score.tokens)
                own["bits"] -= score.log_probability / math.log(2)
        on_progress(report.position, size)
    if not characters:
        raise DataError(f"{', '.join(files)}: no text to score")
    return {
        "files": list(files),
        "texts": texts,
        "characters": characters,
        "models": [
            {
                "model": model.runner.name,
                "pseudo": is_pseudo(model.runner),
                "tokens": own["tokens"],
                "unknown": own["unknown"],
                "bits_per_character": (own["bits"] + own["spelling"]) / characters,
                "spelling_fraction": own["spelling"] / max(own["bits"] + own["spelling"], 1e-9),
                "bits_per_character_of_tokens": own["bits"] / characters,
            }
            for model, own in zip(models, sums, strict=True)
        ],
    }


def minimal_pairs(
    models: Sequence[Model],
    path: str,
    by: str | None = None,
    *,
    weights: Sequence[float] = (),
    on_progress: OnProgress = silent,
) -> dict[str, Any]:
    """Return how often the good sentence of a pair is more probable than the bad one.

    Args:
        models: one or more models with the same tokenizer.
        path: a table of pairs.
        by: a column by whose values the pairs are counted separately.
        weights: the weights of the mixture of several models.
        on_progress: called with the pairs done.

    Raises:
        ConfigError, DataError: as `perplexity`, or there is no such column.
    """
    weights = _check(models, weights)
    opened = open_minimal_pairs(path, by)
    right: dict[str, list[int]] = {}
    done = 0
    for chunk in chunks(opened.rows, 1024):
        texts = [text for pair, _ in chunk for text in pair]
        by_model = [model.score(texts) for model in models]
        scores = [
            mix(each, weights).log_probability if len(each) > 1 else each[0].log_probability
            for each in zip(*by_model, strict=True)
        ]
        for (_, group), of_good, of_bad in zip(chunk, scores[::2], scores[1::2], strict=True):
            counts = right.setdefault(group, [0, 0])
            counts[0] += of_good > of_bad
            counts[1] += 1
        done += len(chunk)
        on_progress(done, opened.total)
    pairs = sum(count for _, count in right.values())
    if not pairs:
        raise DataError(f"{path} has no pairs")
    return {
        "file": path,
        "models": [model.runner.name for model in models],
        "pairs": pairs,
        "accuracy": sum(count for count, _ in right.values()) / pairs,
        "by": {
            group: {"pairs": count, "accuracy": hits / count}
            for group, (hits, count) in right.items()
            if by is not None
        },
    }


def _check(models: Sequence[Model], weights: Sequence[float]) -> list[float]:
    """Return the weights of a mixture, after checking them and the models."""
    first = models[0]
    for model in models[1:]:
        if model.tokenizer.fingerprint != first.tokenizer.fingerprint:
            raise ConfigError(
                f"{model.runner.name} and {first.runner.name} have different tokenizers: only "
                "models of one vocabulary can be mixed; evaluate them one by one"
            )
    if len(models) > 1 and any(is_pseudo(model.runner) for model in models):
        raise ConfigError("a masked language model gives no probabilities that can be mixed")
    if weights and (
        len(weights) != len(models) or min(weights) < 0 or abs(sum(weights) - 1) > 1e-6
    ):
        raise ConfigError(
            f"weights are {', '.join(f'{weight:g}' for weight in weights)}; expected "
            f"{len(models)}, one for each model, that sum to 1"
        )
    return list(weights) or [1 / len(models)] * len(models)


def _scored(
    models: Sequence[Model],
    files: Sequence[str],
    corpus: CorpusConfig,
    report: CorpusReport,
) -> Iterator[tuple[str, list[TextScore]]]:
    """Yield documents as they were read, each with its score by every model."""
    tokenizer = models[0].tokenizer
    for block in read_blocks([str(Path(file)) for file in files], corpus, report, 1 << 18):
        ids = []
        for text in block:
            flat, _ = tokenizer.encode_sentence_ids(split_document(text, corpus))
            ids.append(tokenizer.framing.one(flat.tolist()))
        by_model = [score_ids(model.runner, ids) for model in models]
        for text, *scores in zip(block, *by_model, strict=True):
            yield text, scores
