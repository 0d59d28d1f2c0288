"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) as sacreBLEU computes them (Post 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertwright.errors import MissingExtra


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
