"""Translate texts, and evaluate translations.

Sources are read without padding, in the order of their length. The decoder keeps the state of the
tokens before (a KV cache, or an LSTM's state), and a source leaves the batch when its search ends.

Scores are `log p(target) / ((5 + length) / 6)^a` (Wu et al. 2016, equation 14), where a is the
length penalty. A target has at most 50 tokens more than its source (Vaswani et al. 2017, section
6.1).

Letters: B sources, R rows (beams), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from bertwright.config.generation import TranslationConfig
from bertwright.config.task import BleuTokenize
from bertwright.data.batch import token_batches
from bertwright.data.parallel.build import is_of_tree, writes_trees
from bertwright.data.to_device import make_inputs
from bertwright.decoding.search import BeamSteps, Hypothesis, beam_steps, finish
from bertwright.errors import DataError
from bertwright.inference.encode import ModelRunner, only_text
from bertwright.nn.finite import require_finite
from bertwright.nn.outputs.translation import Translation
from bertwright.nn.products import lay_out
from bertwright.tasks.text_metrics import bleu_of, bleu_signature
from bertwright.text.framing import ends_of

TEXTS = 512  # the texts of a group, so that those of a batch have nearly the same length
PROBED = 32  # the number of pairs whose direction is checked
CLEAR = 1.0  # nats per token by which the other direction must be more probable
LONGER, LONGER_TREE = 50, 300  # how many tokens longer than its source a target may be


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


class TargetDecoder:
    """A decoder (`search.Generates`) over sources of ids, longest first."""

    def __init__(self, runner: ModelRunner, head: Translation, begin: int) -> None:
        self.encoder, self.head, self._begin = runner.encoder, head, begin
        self.device = runner.device
        lay_out(runner.learner, head.weight)

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Return the logits of B sources, `[B, V]`, and the state of the decoder."""
        _, inputs = make_inputs(list(range(len(source))), source, None, self.device)
        state = self.head.decoder.begin(self.encoder(inputs))
        ids = torch.full((len(source),), self._begin, device=self.device)
        logits, state = self.advance(ids, state)
        require_finite(logits.amax(1), "logits")  # the maximum is NaN if any logit is
        return logits, state

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one token more for each row; see `Generates`."""
        x, state = self.head.decoder.advance(ids, state)
        return self.head.logits(x), state


def translate(
    runner: ModelRunner, groups: Iterable[Sequence[str]], config: TranslationConfig
) -> Iterator[Translated]:
    """Translate texts in order, each a sentence as in training; those of a group (`TEXTS`) are
    translated together.

    An empty or blank text stays as it is.

    Raises:
        DataError: the model is not a translation model, an input is not a text, or is longer than
            the model reads; names its number. The texts before it have been yielded.
    """
    require_translator(runner)
    done = 0
    for group in groups:
        some = [only_text(text) for text in group]
        read = [text if text.strip() else "" for text in some]
        targets = search_targets(runner, _framed(runner, read), config, done)
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


def search_targets(
    runner: ModelRunner,
    sources: Sequence[list[int]],
    config: TranslationConfig,
    done: int = 0,
) -> list[Hypothesis]:
    """Return the best target of each source of framed ids by beam search; empty for an empty
    source.

    `done` is the number of sources before these, for messages.

    Raises:
        DataError: a source is longer than the model reads; names its number.
    """
    longest = runner.spec.max_length
    for number, ids in enumerate(sources, done + 1):
        if longest is not None and len(ids) > longest:
            raise DataError(
                f"text {number} has {len(ids):,} tokens; this model reads {longest:,} at once: "
                "give it a sentence at a time"
            )
    targets = [Hypothesis(0.0, [], "stop")] * len(sources)
    full = [number for number, ids in enumerate(sources) if len(ids) > 2]
    tokens = max(1, runner.batch_tokens // config.beam)
    for batch in token_batches([len(sources[number]) for number in full], tokens):
        rows = [full[number] for number in batch]
        in_batch = [sources[row] for row in rows]
        limits = [target_limit(runner, len(ids), config.max_length) for ids in in_batch]
        steps = begin_targets(runner, in_batch, limits, config.beam, config.length_penalty)
        for row, (first, *_) in zip(rows, finish(steps), strict=True):
            targets[row] = first
    return targets


def target_limit(runner: ModelRunner, length: int, most: int | None = None) -> int:
    """Return the most tokens of the target of a framed source, including its end token."""
    most = most or length - 2 + (LONGER_TREE if writes_trees(runner.tokenizer) else LONGER)
    longest = runner.spec.max_length
    return most if longest is None else min(most, longest)


def begin_targets(
    runner: ModelRunner,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    beam: int,
    length_penalty: float,
) -> BeamSteps:
    """Begin a beam search for the targets of framed sources, longest first, of at most `limits`
    tokens.

    A parser's targets only consist of the tokens of trees.
    """
    head, tokenizer = runner.learner.objectives["translation"], runner.tokenizer
    ends = ends_of(tokenizer.special)
    assert isinstance(head, Translation)
    assert ends is not None  # otherwise the model could not have been trained
    begin, end = ends
    never = {*tokenizer.special.values(), *tokenizer.ids_without_token} - {end}
    if writes_trees(tokenizer):
        never |= {n for token, n in tokenizer.vocab.items() if not is_of_tree(token)} - {end}
    return beam_steps(
        TargetDecoder(runner, head, begin),
        sources,
        {end},
        limits,
        beam=beam,
        norm=lambda length: ((5 + length) / 6) ** length_penalty,
        never=never,
    )


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
            f"{runner.name} finds the texts by far the likelier translation of their references "
            f"({back:.1f} nats per token) than the other way round ({forward:.1f}): expected a "
            "model of this direction, or --input and --reference the other way round"
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
