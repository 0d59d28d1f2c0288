"""BLEU's tokenizer and ROUGE's words, by the script of the references.

BLEU counts runs of up to four tokens. sacreBLEU's usual tokenizer, 13a, splits at blanks and at
punctuation, so that of a language without blanks a sentence is one token and BLEU is 0 or 100; its
documentation has `zh` for Chinese, `ja-mecab` for Japanese, and `char` where there is neither
(Post 2018). rouge-score keeps a to z and 0 to 9 alone, as Lin's script did for English.

Both packages belong to the extras `translation` and `generation`.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bertwright.config.task import BleuTokenize
from bertwright.errors import ConfigError, MissingExtra
from bertwright.text.scripts import words_of, writing


def bleu_of(
    wanted: BleuTokenize, references: Sequence[str], extra: str, what: str, **settings: Any
) -> Any:
    """sacreBLEU's `BLEU` with the wanted tokenizer; `auto`: the one for the references' script.

    Raises:
        MissingExtra: sacreBLEU, or what a named tokenizer needs, is not installed.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise MissingExtra(extra, "sacrebleu", what) from error
    names = bleu_tokenizers(references) if wanted == "auto" else [wanted]
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it warns of each text ending in " ."
    for name in names:
        try:
            return BLEU(tokenize=name, **settings)
        except (ImportError, RuntimeError) as error:  # of MeCab and its dictionary
            if name == names[-1]:
                raise ConfigError(
                    f"--bleu-tokenize {name} needs MeCab and its dictionary: pip install "
                    f"'sacrebleu[{name[:2]}]', or use --bleu-tokenize char"
                ) from error
    raise AssertionError("there is no tokenizer")


def bleu_tokenizers(references: Iterable[str]) -> list[BleuTokenize]:
    """sacreBLEU's tokenizers for texts of this script; the first that is installed is used."""
    match writing(references):
        case "han":
            return ["zh"]
        case "kana":
            return ["ja-mecab", "char"]
        case "other-without-blanks":
            return ["char"]
    return ["13a"]


def bleu_signature(bleu: Any, references: int) -> str:
    """How sacreBLEU computed a score, for so many references of each text (0: they vary)."""
    bleu.num_refs = references or -1
    return str(bleu.get_signature())


class _UnicodeWords:
    """Words of any script in lower case, as rouge-score takes a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        """The words of a text; characters where there are no blanks."""
        return words_of(unicodedata.normalize("NFC", text).lower())


def rouge_l_of(references: Iterable[str]) -> tuple[Callable[[Sequence[str], str], float], str]:
    """A function of (references, text) that returns the F1 of ROUGE-L against the best of them,
    and which words it compares.

    Of English (see `writing`) it is rouge-score's own, with its stemming; of other languages it
    compares Unicode words, of those without blanks characters, and does not stem.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise MissingExtra("generation", "rouge-score", "ROUGE-L of generated texts") from error
    script = writing(references)
    if script == "ascii":
        scorer, words = RougeScorer(["rougeL"], use_stemmer=True), "English, stemmed"
    else:
        scorer = RougeScorer(["rougeL"], tokenizer=_UnicodeWords())
        words = "Unicode words" if script == "blanks" else "characters"

    def rouge_l(targets: Sequence[str], text: str) -> float:
        return float(scorer.score_multi(targets, text)["rougeL"].fmeasure)

    return rouge_l, words
