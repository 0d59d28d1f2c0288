"""Choose BLEU's tokenizer and ROUGE's words by the script of the references.

BLEU counts n-grams of up to four tokens. sacreBLEU's default tokenizer, 13a, splits at blanks and
punctuation. In a language without blanks, a sentence would therefore be one token, and BLEU would
be 0 or 100. For such languages, sacreBLEU's documentation recommends the tokenizers `zh` for
Chinese, `ja-mecab` for Japanese, and `char` for others (Post 2018). `ja-mecab` needs MeCab, so it
must be named; the default for Japanese is `char`. rouge-score keeps only the characters a to z and
0 to 9, as Lin's script did for English.

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
    """Return sacreBLEU's `BLEU` with the wanted tokenizer; `auto` chooses it by the references'
    script.

    Raises:
        MissingExtra: sacreBLEU is not installed.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise MissingExtra(extra, "sacrebleu", what) from error
    name = bleu_tokenizer(references) if wanted == "auto" else wanted
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it warns of each text ending in " ."
    try:
        return BLEU(tokenize=name, **settings)
    except (ImportError, RuntimeError) as error:  # MeCab or its dictionary is missing
        raise ConfigError(
            f"--bleu-tokenize {name} needs MeCab and its dictionary: pip install "
            f"'sacrebleu[{name[:2]}]', or use --bleu-tokenize char"
        ) from error


def bleu_tokenizer(references: Iterable[str]) -> BleuTokenize:
    """Return sacreBLEU's tokenizer for texts of this script.

    Japanese has `char` too. With `ja-mecab` where MeCab is installed, one model would have two
    scores on two machines.
    """
    match writing(references):
        case "han":
            return "zh"
        case "kana" | "other-without-blanks":
            return "char"
    return "13a"


def bleu_signature(bleu: Any, references: int) -> str:
    """Return sacreBLEU's signature, which describes how a score was computed.

    `references` is the number of references of each text; 0: it varies.
    """
    bleu.num_refs = references or -1
    return str(bleu.get_signature())


class _UnicodeWords:
    """Tokenizes text of any script into lower-cased words, with the interface that rouge-score
    expects.
    """

    def tokenize(self, text: str) -> list[str]:
        """Return the words of a text, or its characters if the script has no blanks."""
        return words_of(unicodedata.normalize("NFC", text).lower())


def rouge_l_of(references: Iterable[str]) -> tuple[Callable[[Sequence[str], str], float], str]:
    """Return a function that computes ROUGE-L, and a description of the words that it compares.

    The function takes references and a text, and returns F1 against the best reference. For English
    (see `writing`) it is rouge-score's own, with stemming. For other languages it compares Unicode
    words, or characters in scripts without blanks, and does not stem.
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
