"""The metrics of generated texts.

Rows with the same source are references of one example, as E2E has them.

- ROUGE-L (Lin 2004) as Google's rouge-score, F1 with stemming, against the best reference; of
  other languages than English, over Unicode words or characters (`text_metrics.py`). It selects the
  model: BLEU is 0 where no four tokens in a row are right, as at first;
- BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018; not smoothed but for exp), of all
  predictions together, its tokenizer chosen by the script of the targets or by `bleu_tokenize`;
- exact match, but for blanks around the text.

Where no prediction has a capital letter, as of an uncased model, BLEU and exact match compare in
lower case (`rules` says so).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from bertwright.arrays import Float64s
from bertwright.config.task import TaskConfig
from bertwright.labelled.examples import GenerationExample
from bertwright.tasks.metrics import Metrics, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.tasks.text_metrics import bleu_of, bleu_signature, rouge_l_of


def generation_metrics(
    task: TaskConfig,
    examples: Sequence[GenerationExample],
    predictions: Sequence[GenerationPrediction],
) -> Metrics:
    """BLEU, ROUGE-L and exact match of each source against all its targets."""
    all_targets = [cast(str, example.target) for example in examples]
    bleu = bleu_of(
        task.bleu_tokenize,
        all_targets,
        "generation",
        "BLEU of generated texts",
        effective_order=True,
    )
    rouge_l_best, rouge_words = rouge_l_of(all_targets)
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.source, []).append(row)
    lower = not any(any(map(str.isupper, each.text)) for each in predictions)
    lower &= any(any(map(str.isupper, target)) for target in all_targets)  # some scripts have none
    fold = str.lower if lower else str
    parts = np.zeros((len(examples), 13))  # a source counts where its first row stands
    errors: dict[int, float] = {}
    for own in rows.values():
        first = own[0]
        text = predictions[first].text
        targets = [cast(str, examples[row].target) for row in own]
        found = bleu.sentence_score(fold(text), [fold(each) for each in targets])
        overlap = rouge_l_best(targets, text)
        exact = fold(text).strip() in {fold(each).strip() for each in targets}
        parts[first] = *found.counts, *found.totals, found.sys_len, found.ref_len, overlap, exact, 1
        if not exact:
            errors[first] = 1 - overlap

    def formula(sums: Float64s) -> dict[str, Float64s]:
        scores = [
            bleu.compute_bleu(row[:4], row[4:8], row[8], row[9], "exp").score / 100
            for row in sums.astype(np.int64).tolist()
        ]
        rouge_l, exact = (ratio(sums[:, n], sums[:, 12]) for n in (10, 11))
        return {"rouge_l": rouge_l, "bleu": np.array(scores), "exact_match": exact}

    bleu.lowercase, bleu.effective_order = lower, False  # as the corpus is scored
    counts = {len(own) for own in rows.values()}
    firsts = [own[0] for own in rows.values()]
    return Metrics(
        main="rouge_l",
        statistic=of_sums(parts, formula),
        errors=errors,
        describe=lambda row: (cast(str, examples[row].target), predictions[row].text),
        degenerate=only_prediction(
            [examples[row].target for row in firsts], [predictions[row].text for row in firsts], str
        ),
        rules="lower case" if lower else None,
        signatures={
            "bleu": bleu_signature(bleu, counts.pop() if len(counts) == 1 else 0),
            "rouge_l": f"words:{rouge_words}",
        },
    )
