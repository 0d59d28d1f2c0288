"""Texts to their translations, and their evaluation.

Sources are read without padding in the order of their length; the decoder keeps what it has
computed of the tokens before (a KV cache, an LSTM's state), and a source leaves the batch when its
search ends.

Scores are `log p(target) / ((5 + length) / 6)^a` (Wu et al. 2016, equation 14), a the length
penalty; a target has at most 50 tokens more than its source (Vaswani et al. 2017, section 6.1).

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

TEXTS = 512  # of a group, so that those of a batch are of nearly one length
PROBED = 32  # pairs whose direction is looked at
CLEAR = 1.0  # nats a token by which the other direction is likelier
LONGER, LONGER_TREE = 50, 300  # tokens that a target may have more than its source


@dataclass(frozen=True)
class Translated:
    """The translation of a text."""

    source: str
    text: str
    """Its translation; empty where the source is."""
    score: float
    """Its log-probability over its length to the power of the penalty."""
    reason: Literal["stop", "length"]
    """`stop`: it is whole; `length`: it ended at the maximum."""


class TargetDecoder:
    """`search.Generates` over sources of ids, longest first."""

    def __init__(self, runner: ModelRunner, head: Translation, begin: int) -> None:
        self.encoder, self.head, self._begin = runner.encoder, head, begin
        self.device = runner.device
        lay_out(runner.learner, head.weight)

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """B sources -> `[B, V]`, and the state of the decoder."""
        _, inputs = make_inputs(list(range(len(source))), source, None, self.device)
        state = self.head.decoder.begin(self.encoder(inputs))
        ids = torch.full((len(source),), self._begin, device=self.device)
        logits, state = self.advance(ids, state)
        require_finite(logits.amax(1), "logits")  # NaN is larger than all
        return logits, state

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """See `Generates`."""
        x, state = self.head.decoder.advance(ids, state)
        return self.head.logits(x), state


def translate(
    runner: ModelRunner, groups: Iterable[Sequence[str]], config: TranslationConfig
) -> Iterator[Translated]:
    """Translate texts in order, one sentence each as in training, those of a group (`TEXTS`)
    together; an empty text and one of blanks stay as they are.

    Raises:
        DataError: no translation model, no text, or one that is longer than the model reads; its
            number is named. What came before it has been yielded.
    """
    require_translator(runner)
    done = 0
    for group in groups:
        some = [only_text(text) for text in group]
        read = [text if text.strip() else "" for text in some]
        found = search_targets(runner, _framed(runner, read), config, done)
        for text, best in zip(some, found, strict=True):
            target = runner.tokenizer.decode(best.ids).strip() if text.strip() else text
            yield Translated(text, target, best.score, best.reason)
        done += len(some)


def _framed(runner: ModelRunner, texts: Sequence[str]) -> list[list[int]]:
    return [runner.tokenizer.framing.one(ids) for ids in runner.tokenizer.encode_bare_ids(texts)]


def translates(runner: ModelRunner) -> bool:
    """Whether a model translates; a parser has the head too, and writes trees."""
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
    """The best target of each source of framed ids by beam search, `done` of which came before;
    that of an empty one is empty.

    Raises:
        DataError: a source that is longer than the model reads; its number is named.
    """
    longest = runner.spec.max_length
    for number, ids in enumerate(sources, done + 1):
        if longest is not None and len(ids) > longest:
            raise DataError(
                f"text {number} has {len(ids):,} tokens; this model reads {longest:,} at once: "
                "give it a sentence at a time"
            )
    found = [Hypothesis(0.0, [], "stop")] * len(sources)
    full = [number for number, ids in enumerate(sources) if len(ids) > 2]
    tokens = max(1, runner.batch_tokens // config.beam)
    for batch in token_batches([len(sources[number]) for number in full], tokens):
        rows = [full[number] for number in batch]
        own = [sources[row] for row in rows]
        limits = [target_limit(runner, len(ids), config.max_length) for ids in own]
        steps = begin_targets(runner, own, limits, config.beam, config.length_penalty)
        for row, (first, *_) in zip(rows, finish(steps), strict=True):
            found[row] = first
    return found


def target_limit(runner: ModelRunner, length: int, most: int | None = None) -> int:
    """Tokens that the target of a framed source may have, its end included."""
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
    """A beam search for the targets of framed sources, longest first, of `limits` tokens at most; a
    parser's are of tokens of trees alone."""
    head, tokenizer = runner.learner.objectives["translation"], runner.tokenizer
    ends = ends_of(tokenizer.special)
    assert isinstance(head, Translation)
    assert ends is not None  # or it could not be trained
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
    """sacreBLEU's BLEU with a tokenizer for these references; MissingExtra where it is not
    installed."""
    return bleu_of(tokenize, references, "translation", "--reference")


def evaluate_translations(
    translations: Sequence[str], references: Sequence[str], tokenize: BleuTokenize = "auto"
) -> dict[str, Any]:
    """BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a whole test set of plain text, one
    reference each, in percent, as sacreBLEU computes them (Post 2018); `signature` says how."""
    bleu = bleu_for(references, tokenize)
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    found = bleu.corpus_score(list(translations), [list(references)])
    return {
        "sentences": len(translations),
        "bleu": round(found.score, 2),
        "chrf": round(chrf.corpus_score(list(translations), [list(references)]).score, 2),
        "brevity_penalty": round(found.bp, 4),
        "signature": bleu_signature(bleu, 1),
    }


@torch.inference_mode()
def require_direction(
    runner: ModelRunner, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Raise DataError where sources are by far the likelier translation of references: the files
    are the wrong way round, or the model is of the other direction."""
    require_translator(runner)
    pairs = islice(zip(sources, references, strict=True), PROBED)
    texts = [text for pair in pairs if all(pair) for text in pair]
    longest = runner.spec.max_length
    framed = _framed(runner, texts)
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
    labels = torch.tensor(target[1:], device=runner.device)
    batch: Any = SimpleNamespace(inputs=read, target=reads, labels=labels)
    loss = runner.learner.objectives["translation"](runner.encoder(read), batch)
    return float(loss.total) / len(labels)
