"""Mine hard negatives: texts that are near the first text of a pair and do not belong to it.

A text whose cosine is above 0.95 times that of the right text is probably right too, and is left
out (Moreira et al. 2024, "NV-Retriever", section 3: TopK-PercPos). If the cosine of the right text
is negative, the limit is 1.05 times it, which is below it too. The nearest of the remaining texts
are the hard negatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertwright.errors import ConfigError
from bertwright.inference.files.similar import nearest, search_prompts
from bertwright.inference.vectors.embed import Embedder, normalized
from bertwright.labelled.examples import SimilarityExample
from bertwright.progress import OnProgress, silent

BELOW = 0.95
"""The largest cosine of a hard negative, as a fraction of the cosine of the right text."""
MORE = 20
"""The number of texts that are ranked in addition to those requested, because some are left out."""
_AT_ONCE = 4096


def mine(
    embedder: Embedder,
    pairs: Sequence[SimilarityExample],
    corpus: Sequence[str] | None,
    count: int,
    query_prompt: str | None = None,
    corpus_prompt: str | None = None,
    on_progress: OnProgress = silent,
) -> list[list[str]]:
    """Return the hard negatives of each pair, at most `count`, the nearest first.

    Args:
        embedder: the embedder that computes the vectors.
        pairs: pairs of texts that belong together.
        corpus: the texts to search in addition to the second texts of the pairs; None: only those.
        count: the most hard negatives of a pair.
        query_prompt, corpus_prompt: the prompts of the first texts and of all other texts, as for
            `search_prompts`.
        on_progress: called with the number of tokens done.

    Raises:
        ConfigError: `count` is below 1.
    """
    if count < 1:
        raise ConfigError(f"count is {count}; expected 1 or more")
    of_query, of_corpus = search_prompts(embedder, query_prompt, corpus_prompt)
    second = [pair.text2 for pair in pairs]
    texts = list(dict.fromkeys(second if corpus is None else [*corpus, *second]))
    number = {text: row for row, text in enumerate(texts)}
    vectors = embedder.embed(texts, on_progress, prompt=of_corpus)
    first = list(dict.fromkeys(pair.text for pair in pairs))
    queries = embedder.embed(first, prompt=of_query)
    right: dict[str, set[int]] = {}
    for pair in pairs:
        right.setdefault(pair.text, set()).add(number[pair.text2])
    place = {text: row for row, text in enumerate(first)}
    found: list[list[str]] = []
    unit, unit_queries = normalized(vectors), normalized(queries)
    for start in range(0, len(pairs), _AT_ONCE):
        part = pairs[start : start + _AT_ONCE]
        asked = np.array([place[pair.text] for pair in part])
        rows, cosines = nearest(vectors, queries[asked], count + MORE)
        own = (unit[[number[pair.text2] for pair in part]] * unit_queries[asked]).sum(1)
        most = own - (1 - BELOW) * np.abs(own)
        for pair, near, values, limit in zip(part, rows, cosines, most, strict=True):
            kept = [
                texts[row]
                for row, value in zip(near.tolist(), values.tolist(), strict=True)
                if row not in right[pair.text] and texts[row] != pair.text and value <= limit
            ]
            found.append(kept[:count])
    return found
