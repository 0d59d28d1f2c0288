"""Examine what a translation model has learned: seq2seq, Transformer, bert2rnd.

Held-out pairs, drawn at random, are translated by beam search and compared with their references
(BLEU and chrF of sacreBLEU; extra `translation`). The scores are shown with those of the copied
source, and with those of the translations compared with the references of other sources, where a
decoder that does not read its source scores no lower. Ten translations are shown, one from each
tenth of them by chrF, so that they are neither the best nor the worst.

The attention head that aligns best is the one whose attention lies most on source tokens that occur
with the target token in training pairs. The attention is weighted by the Dice coefficient of the
two tokens, `2 n(s, t) / (n(s) + n(t))`, where n is the number of pairs that contain them, and
averaged over the target tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bertwright.arrays import Float64s
from bertwright.config.generation import TranslationConfig
from bertwright.config.translation import TranslationRun
from bertwright.data.parallel.build import writes_trees
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.errors import BertwrightError, MissingExtra
from bertwright.inference.attention.maps import attention_maps
from bertwright.inference.translation.translate import (
    evaluate_translations,
    target_search,
)
from bertwright.recipes.learned.layers import senses_by_layer
from bertwright.recipes.learned.run import (
    FinishedRun,
    most_frequent_label,
    validation_labels,
)
from bertwright.report import sections
from bertwright.report.verdict import Verdict, pretraining_verdict

MOST_PAIRS, AT_ONCE = 200, 40
SECONDS = 10.0
"""The approximate time for translating pairs."""
MODEL, COPIED = "this model", "the source, copied"
OTHERS = "this model, against the references of other sources"
CLEAR = 5.0
"""The number of chrF points by which translations must score higher against their own references
than against others.
"""
SHOWN, DICE_PAIRS, LONGEST = 10, 20_000, 24


class ReferencePair(NamedTuple):
    """The ids of a source and its reference, without those of begin and end."""

    source: list[int]
    target: list[int]


class Translations(NamedTuple):
    """Held-out pairs and the model's translations, as texts."""

    sources: list[str]
    references: list[str]
    translations: list[str]
    pairs: list[ReferencePair]


def pairs_of(run: FinishedRun, split: Split, most: int) -> list[ReferencePair]:
    """Return up to `most` pairs of a split, drawn at random and always the same.

    Pairs that are too long for the run are left out.
    """
    assert isinstance(run.config, TranslationRun)
    shards, length = run.shards, run.config.sequence_length - 2
    documents = split_documents(shards, split, run.config.validation.fraction)
    drawn = np.random.default_rng(0).permutation(documents)
    pairs: list[ReferencePair] = []
    for document in drawn.tolist():
        pair = _pair(shards, document)
        if max(len(pair.source), len(pair.target)) <= length:
            pairs.append(pair)
        if len(pairs) == most:
            break
    return pairs


def _pair(shards: Shards, document: int) -> ReferencePair:
    first = int(shards.document_sentences[document])
    a, b, c = shards.sentence_tokens[first : first + 3].tolist()
    return ReferencePair(shards.tokens(a, b).tolist(), shards.tokens(b, c).tolist())


def translated(run: FinishedRun) -> Translations:
    """Translate held-out pairs, as many as `SECONDS` allow, but at least `AT_ONCE`."""
    runner, tokenizer = run.model.runner, run.tokenizer
    search = target_search(runner)
    pairs, done = pairs_of(run, "dev", MOST_PAIRS), Translations([], [], [], [])
    began = time.monotonic()
    for start in range(0, len(pairs), AT_ONCE):
        some = pairs[start : start + AT_ONCE]
        framed = [tokenizer.framing.one(pair.source) for pair in some]
        best = search.search(framed, TranslationConfig())
        done.sources.extend(tokenizer.decode(pair.source) for pair in some)
        done.references.extend(tokenizer.decode(pair.target) for pair in some)
        done.translations.extend(tokenizer.decode(each.ids) for each in best)
        done.pairs.extend(some)
        if time.monotonic() - began > SECONDS:
            break
    return done


def verdict(run: FinishedRun) -> Verdict:
    """Return whether the decoder predicts target tokens better than always the most frequent one,
    and whether its translations depend on their sources.
    """
    count = len(validation_labels(run.shards, run.config, "labels")) if run.last else 0
    known = run.once(_levels) if run.last else {}
    counts = {"translation.accuracy": count}
    return pretraining_verdict(run.records, known, counts, lambda: _reads_sources(run))


def _reads_sources(run: FinishedRun) -> tuple[bool, str] | None:
    """Return whether translations depend on their sources, and their chrF in words; None if they
    are trees, or there is no package to compute it.
    """
    scores = None if writes_trees(run.tokenizer) else run.once(evaluated)
    if scores is None:
        return None
    own, other = (scores[name]["chrf"] for name in (MODEL, OTHERS))
    figures = f"chrF of its translations {own:.1f}, against other references {other:.1f}"
    if own > other + CLEAR:
        return True, figures
    return False, f"but it does not read the source yet: {figures}"


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: BLEU, translations, an alignment, and layers."""
    shown: list[sections.Section] = []
    parses = writes_trees(run.tokenizer)
    done = run.once(translated)
    if done.pairs and not parses:
        shown += _scores(run)
    if done.pairs:
        shown.append(_ten(done, parses))
    if (alignment := _alignment(run, done)) is not None:
        shown.append(alignment)
    if not parses and (probe := senses_by_layer(run)) is not None:
        probe["note"] += " These are the vectors that CoVe takes from a translation model."
        shown.append(probe)
    return {"baselines": run.once(_levels), "sections": shown}


def _levels(run: FinishedRun) -> dict[str, float]:
    """Return the accuracy of always the most frequent target token, by key of a record."""
    return {"translation.accuracy": most_frequent_label(run.shards, run.config, "labels")}


def evaluated(run: FinishedRun) -> dict[str, dict[str, Any]] | None:
    """Return BLEU and chrF of the model's translations, of the same translations against the
    references of other sources, and of the copied sources.

    The result is None if sacreBLEU is not installed, or if there are no pairs.
    """
    done = run.once(translated)
    if not done.pairs:
        return None
    others = [*done.references[1:], done.references[0]]
    try:
        return {
            MODEL: evaluate_translations(done.translations, done.references),
            OTHERS: evaluate_translations(done.translations, others),
            COPIED: evaluate_translations(done.sources, done.references),
        }
    except MissingExtra:
        return None


def _scores(run: FinishedRun) -> list[sections.Section]:
    """Return the table of BLEU and chrF; without sacreBLEU, a note on how to install it."""
    done, scores = run.once(translated), run.once(evaluated)
    if scores is None:
        note = "BLEU and chrF need sacreBLEU: pip install 'bertwright[translation]'."
        return [sections.table("BLEU and chrF", [], [], note)]
    model = scores[MODEL]
    rows = [
        [name, f"{found['bleu']:.1f}", f"{found['chrf']:.1f}"] for name, found in scores.items()
    ]
    note = (
        f"{len(done.pairs)} held-out pairs, drawn at random, as the tokenizer reads them (an "
        f"uncased one in lower case); beam 4. {model['signature']}"
    )
    return [sections.table("BLEU and chrF", ["", "BLEU", "chrF"], rows, note, numbers=(1, 2))]


def _ten(done: Translations, parses: bool) -> sections.Section:
    """Return a table with one translation from each tenth by quality, the worst tenth first."""
    quality = _quality(done)
    order = np.argsort(quality, kind="stable")
    count = min(SHOWN, len(order))
    middle = [order[(2 * n + 1) * len(order) // (2 * count)] for n in range(count)]
    rows = [
        [done.sources[n], done.translations[n], done.references[n], f"{quality[n]:.0f}"]
        for n in middle
    ]
    what = "trees" if parses else "translations"
    note = f"One of each tenth of the held-out {what}, the worst tenth first."
    columns = ["source", "translation", "reference", "chrF"]
    return sections.table(f"Ten {what}" if count == SHOWN else what.title(), columns, rows, note)


def _quality(done: Translations) -> list[float]:
    """Return the chrF of each translation; without sacreBLEU, the percentage of common words."""
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return [
            100 * len({*a.split()} & {*b.split()}) / max(1, len({*a.split()} | {*b.split()}))
            for a, b in zip(done.translations, done.references, strict=True)
        ]
    chrf = CHRF()
    return [
        float(chrf.sentence_score(a, [b]).score)
        for a, b in zip(done.translations, done.references, strict=True)
    ]


def _alignment(run: FinishedRun, done: Translations) -> sections.Section | None:
    """Return the attention over one held-out pair, of the attention head that aligns best.

    The result is None for a model without attention from target to source, or if no pair fits.
    """
    fitting = [pair for pair in done.pairs if len(pair.source) >= 4 and _short(pair)][:SHOWN]
    dice = _dice(run, fitting)
    weights: list[Float64s] = []
    tokenizer = run.tokenizer
    drawn = None
    for pair, own in zip(fitting, dice, strict=True):
        texts = tokenizer.decode(pair.source), tokenizer.decode(pair.target)
        try:
            maps = [m for m in attention_maps(run.model.runner, texts) if m.name != "encoder"]
        except BertwrightError:  # no attention at all
            return None
        over = [each for each in maps if each.name == "encoder-decoder"]
        if not over:
            return None
        attention = np.asarray(over[0].weights, np.float64)  # [L, A, T, S]
        if attention.shape[2:] != (len(pair.target) + 1, len(pair.source) + 2):
            continue  # the decoded text is tokenized differently
        inner = attention[:, :, :-1, 1:-1]
        weights.append((inner * own).sum(3).mean(2))  # [L, A]
        drawn = drawn or over[0]
    if not weights or drawn is None:
        return None
    mean = np.mean(weights, 0)
    layer, head = (int(n) for n in np.unravel_index(mean.argmax(), mean.shape))
    note = (
        f"Layer {layer + 1}, attention head {head + 1}, of {mean.shape[0]} x {mean.shape[1]}: the "
        "one whose attention lies most on source tokens that go with the target token in training "
        "pairs. A row is a target token as it is written, a column a token of the source; numbers "
        "are percent."
    )
    attention = drawn.weights[layer, head]
    return sections.heat("Alignment", drawn.rows, drawn.columns, attention.tolist(), note)


def _short(pair: ReferencePair) -> bool:
    return max(len(pair.source), len(pair.target)) <= LONGEST


def _dice(run: FinishedRun, wanted: Sequence[ReferencePair]) -> list[Float64s]:
    """Return the Dice coefficients of the target and source tokens of pairs, `[T, S]` each."""
    sources = {token for pair in wanted for token in pair.source}
    targets = {token for pair in wanted for token in pair.target}
    n_source, n_target = dict.fromkeys(sources, 0), dict.fromkeys(targets, 0)
    both: dict[tuple[int, int], int] = {}
    for pair in pairs_of(run, "train", DICE_PAIRS):
        s, t = sources.intersection(pair.source), targets.intersection(pair.target)
        for token in s:
            n_source[token] += 1
        for token in t:
            n_target[token] += 1
            for other in s:
                both[token, other] = both.get((token, other), 0) + 1
    return [
        np.array(
            [
                [2 * both.get((t, s), 0) / max(1, n_source[s] + n_target[t]) for s in pair.source]
                for t in pair.target
            ]
        )
        for pair in wanted
    ]
