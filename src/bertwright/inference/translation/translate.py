"""Translate texts, and evaluate translations. The search is in `decoding/targets.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any, Literal

import torch

from bertwright.config.generation import TranslationConfig
from bertwright.config.task import BleuTokenize
from bertwright.data.batch import make_inputs
from bertwright.data.parallel.build import writes_trees
from bertwright.decoding.targets import TargetSearch
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, only_text
from bertwright.tasks.text_metrics import bleu_of, bleu_signature

TEXTS = 512  # the texts of a group, so that those of a batch have nearly the same length
PROBED = 32  # the number of pairs whose direction is checked
CLEAR = 1.0  # nats per token by which the other direction must be more probable


@dataclass(frozen=True)
class Translated:
    """The translation of a text."""

    source: str
    text: str
    """The translation; empty if the source is."""
    score: float
    """The log-probability divided by the length penalty."""
    reason: Literal["stop", "length"]
    """`stop`: the translation is complete; `length`: it reached the maximum length."""


def translate(
    runner: ModelRunner, groups: Iterable[Sequence[str]], config: TranslationConfig
) -> Iterator[Translated]:
    """Yield the translations of texts, in order; a group (of `TEXTS`) is translated at once.

    Each text is a sentence, as in training. An empty or blank text stays as it is.

    Raises:
        DataError: the model is not a translation model, an input is not a text, or is longer than
            the model reads; the message names its number. The translations of the groups before
            it have been yielded.
    """
    require_translator(runner)
    done = 0
    for group in groups:
        some = [only_text(text) for text in group]
        read = [text if text.strip() else "" for text in some]
        targets = target_search(runner).search(_framed(runner, read), config, done)
        for text, best in zip(some, targets, strict=True):
            target = runner.tokenizer.decode(best.ids).strip() if text.strip() else text
            yield Translated(text, target, best.score, best.reason)
        done += len(some)


def _framed(runner: ModelRunner, texts: Sequence[str]) -> list[list[int]]:
    return [runner.tokenizer.framing.one(ids) for ids in runner.tokenizer.encode_bare_ids(texts)]


def translates(runner: ModelRunner) -> bool:
    """Return whether a model translates. A parser has the same head, but generates trees."""
    return "translation" in runner.learner.objectives and not writes_trees(runner.tokenizer)


def require_translator(runner: ModelRunner) -> None:
    """Raise DataError if a model does not translate."""
    runner.require("translation", "translation")
    if not translates(runner):
        raise DataError(f"{runner.name} writes trees, not texts: use it by bertwright parse")


def target_search(runner: ModelRunner) -> TargetSearch:
    """Return the search for targets of a model that has a `translation` head."""
    longest = runner.spec.max_length
    return TargetSearch(runner.learner, runner.tokenizer, runner.batch_tokens, longest)


def bleu_for(references: Sequence[str], tokenize: BleuTokenize = "auto") -> Any:
    """Return sacreBLEU's BLEU with a tokenizer for these references.

    Raises:
        MissingExtra: sacreBLEU is not installed.
    """
    return bleu_of(tokenize, references, "translation", "--reference")


def evaluate_translations(
    translations: Sequence[str], references: Sequence[str], tokenize: BleuTokenize = "auto"
) -> dict[str, Any]:
    """Return BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a test set of plain text, in
    percent.

    Both are computed by sacreBLEU (Post 2018), with one reference each; `signature` describes how.
    """
    bleu = bleu_for(references, tokenize)
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)])
    return {
        "sentences": len(translations),
        "bleu": round(bleu_score.score, 2),
        "chrf": round(chrf.corpus_score(list(translations), [list(references)]).score, 2),
        "brevity_penalty": round(bleu_score.bp, 4),
        "signature": bleu_signature(bleu, 1),
    }


@torch.inference_mode()
def require_direction(
    runner: ModelRunner, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Raise DataError if the sources are a far more probable translation of the references than
    vice versa.

    Then the files are swapped, or the model translates in the other direction.
    """
    require_translator(runner)
    pairs = islice(zip(sources, references, strict=True), PROBED)
    texts = [text for pair in pairs if all(pair) for text in pair]
    longest = runner.spec.max_length
    framed = _framed(runner, texts)
    losses_of_pairs = [
        (_loss(runner, source, target), _loss(runner, target, source))
        for source, target in zip(framed[::2], framed[1::2], strict=True)
        if longest is None or max(len(source), len(target)) <= longest
    ]
    if not losses_of_pairs:
        return
    forward, back = (
        sum(losses) / len(losses_of_pairs) for losses in zip(*losses_of_pairs, strict=True)
    )
    if forward > back + CLEAR:
        raise DataError(
            f"--input and --reference seem to be swapped: {runner.name} gives {back:.1f} nats per "
            f"token in the reverse direction, and {forward:.1f} in this one. Swap them, or choose "
            "a model of this direction"
        )


def _loss(runner: ModelRunner, source: list[int], target: list[int]) -> float:
    """Return the loss of a framed target in nats per token."""
    (_, read), (_, reads) = (
        make_inputs([0], [ids], None, runner.device) for ids in (source, target[:-1])
    )
    labels = torch.tensor(target[1:], device=runner.device)
    batch: Any = SimpleNamespace(inputs=read, target=reads, labels=labels)
    loss = runner.learner.objectives["translation"](runner.encoder(read), batch)
    return float(loss.total) / len(labels)
