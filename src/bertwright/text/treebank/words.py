"""Split a sentence into the words of the Penn Treebank.

Source: Robert MacIntyre's `tokenizer.sed` of the treebank (1995). Words keep their inner points,
commas and slashes (`U.S.`, `1,000`, `3/4`); only the last period of the sentence is a word of its
own. Contractions are two words (`did n't`, `can not`), and quotes become `` and ''.
"""

from __future__ import annotations

import re

_CURLY = str.maketrans({"“": "``", "„": "``", "”": "''", "’": "'", "‘": "`"})
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # quotes that open
        (r'^"', "`` "),
        (r"(``)", r" \1 "),
        (r"""([ (\[{<])("|'{2})""", r"\1 `` "),
        # marks; a colon or comma within a number stays
        (r"([:,])(\D)", r" \1 \2"),
        (r"([:,])$", r" \1 "),
        (r"\.\.\.", " ... "),
        (r"([;@#$%&?!…])", r" \1 "),
        (r"""([^.])(\.)([\])}>"']*)\s*$""", r"\1 \2\3 "),
        (r"([^'])' ", r"\1 ' "),
        (r"([\[\](){}<>])", r" \1 "),
        (r"(--|[—–])", r" \1 "),
        # quotes that close
        (r"''", " '' "),
        (r'"', " '' "),
        # contractions
        (r"([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
        (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
        (r"(?i)\b(can)(not)\b", r" \1 \2 "),
        (r"(?i)\b(d)('ye)\b", r" \1 \2 "),
        (r"(?i)\b(gim|lem)(me)\b", r" \1 \2 "),
        (r"(?i)\b(gon|wan)(na)\b", r" \1 \2 "),
        (r"(?i)\b(got)(ta)\b", r" \1 \2 "),
        (r"(?i)\b(more)('n)\b", r" \1 \2 "),
        (r"(?i) ('t)(is|was)\b", r" \1 \2 "),
    )
)


def split_sentence(text: str) -> list[str]:
    """Return the words of a sentence as in a treebank: `Mr. Vinken does n't pay $ 3.5 -- or so
    .`
    """
    text = " ".join(text.translate(_CURLY).split())
    for number, (pattern, replacement) in enumerate(_RULES):
        if number == _CLOSING:
            text = f" {text} "
        text = pattern.sub(replacement, text)
    return text.split()


_CLOSING = next(n for n, (pattern, _) in enumerate(_RULES) if pattern.pattern == "''")
"""From this rule on every word has a blank on both sides."""
