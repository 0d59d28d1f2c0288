"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) as sacreBLEU computes them (Post 2018); and
whether a model translates in the direction of the pairs that it is to be evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import torch

from bertwright.data.to_device import make_inputs
from bertwright.errors import DataError, MissingExtra
from bertwright.inference.encode import ModelRunner
from bertwright.objectives.translation import TranslationBatch

PROBED = 32  # pairs whose direction is looked at
CLEAR = 1.0  # nats a token by which the other direction is likelier


def require_sacrebleu() -> Any:
    """The package; MissingExtra where it is not installed."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtra("translation", "sacrebleu", "--reference") from error
    return sacrebleu


def evaluate_translations(translations: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Figures of a whole test set of plain text, one reference each.

    Returns:
        `bleu` and `chrf` in percent, `brevity_penalty`, `sentences`, and `signature`: how BLEU was
        computed.
    """
    metrics = require_sacrebleu().metrics
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    found = bleu.corpus_score(list(translations), [list(references)])
    return {
        "sentences": len(translations),
        "bleu": round(found.score, 2),
        "chrf": round(chrf.corpus_score(list(translations), [list(references)]).score, 2),
        "brevity_penalty": round(found.bp, 4),
        "signature": str(bleu.get_signature()),
    }


@torch.inference_mode()
def require_direction(
    runner: ModelRunner, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Raise DataError where the model finds sources by far the likelier translation of references:
    the files are the wrong way round, or the model is of the other direction."""
    pairs = islice(zip(sources, references, strict=True), PROBED)
    texts = [text for pair in pairs if all(pair) for text in pair]
    longest = runner.spec.max_length
    framed = [runner.tokenizer.framing.one(ids) for ids in runner.tokenizer.encode_bare_ids(texts)]
    found = [
        (_loss(runner, source, target), _loss(runner, target, source))
        for source, target in zip(framed[::2], framed[1::2], strict=True)
        if longest is None or max(len(source), len(target)) <= longest
    ]
    if not found:
        return
    forward, back = (sum(losses) / len(found) for losses in zip(*found, strict=True))
    if forward > back + CLEAR:
        raise DataError(
            f"{runner.name} finds the texts by far the likelier translation of their references "
            f"({back:.1f} nats a token) than the other way round ({forward:.1f}): expected a model "
            "of this direction, or --input and --reference the other way round"
        )


def _loss(runner: ModelRunner, source: list[int], target: list[int]) -> float:
    """Nats a token of a framed target."""
    (_, read), (_, reads) = (
        make_inputs([0], [ids], None, runner.device) for ids in (source, target[:-1])
    )
    batch = SimpleNamespace(inputs=read, target=reads)
    batch.labels = torch.tensor(target[1:], device=runner.device)
    head = runner.learner.objectives["translation"]
    loss = head(runner.encoder(read), cast(TranslationBatch, batch))
    return float(loss.total) / len(batch.labels)
