"""Compute the attention maps of a text, a pair or a translation: every layer and every head.

Letters: T tokens that attend, S tokens that are attended to, L layers, A heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from bertwright.arrays import Float32s
from bertwright.config.generation import TranslationConfig
from bertwright.data.batch import make_inputs
from bertwright.errors import DataError
from bertwright.inference.encode import (
    Ids,
    ModelRunner,
    Text,
    listed,
    parts_of,
    tokenize,
)
from bertwright.inference.translation.translate import target_search
from bertwright.nn.encoder import Encoded, HasAttentionMaps
from bertwright.nn.finite import require_finite
from bertwright.nn.outputs.translation import Decoder
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class AttentionMaps:
    """How much each token attends to each other token, by layer and head."""

    name: str
    """`encoder`, `decoder` or `encoder-decoder`: which tokens attend, and to which."""
    rows: list[str]
    """The T tokens that attend, as readable text. For `encoder-decoder` they are the tokens that
    are generated next, as in Bahdanau et al. 2014, figure 3; in `decoder` the same tokens are one
    row later.
    """
    columns: list[str]
    """The S tokens that are attended to."""
    weights: Float32s
    """`[L, A, T, S]`; each row of a map sums to 1."""


def require_attention(runner: ModelRunner) -> HasAttentionMaps:
    """Return the encoder if it has attention.

    Raises:
        DataError: the encoder has no attention.
    """
    if not isinstance(runner.encoder, HasAttentionMaps):
        raise DataError(
            f"{runner.name} has no attention: its encoder is a {type(runner.encoder).__name__}; "
            "expected a BERT, a GPT, a Transformer, or a seq2seq with attention"
        )
    return runner.encoder


def attention_maps(runner: ModelRunner, text: Text) -> list[AttentionMaps]:
    """Return the maps of a text or a pair.

    For a translation model, a pair is a source and its translation; for a source without a
    translation, the model's own translation is used.

    Returns:
        The maps of the encoder. For a translation model also those of the decoder, and of the
        decoder over the source.

    Raises:
        DataError: the model has no attention, the text has more tokens than the model reads at
            once, or the model reads no pairs.
    """
    (given,) = listed([text])
    source, *target = parts_of(0, given)
    heads = dict(runner.learner.objectives.items())
    decoder: Decoder | None = getattr(heads.get("translation"), "decoder", None)
    if decoder is None:
        require_attention(runner)
    tokenizer, spec = runner.tokenizer, runner.spec
    texts: list[Text] = [given if decoder is None else source]
    tokenized = tokenize(tokenizer, texts, spec.max_length, False, spec.reads_pairs)
    if len(tokenized.ids) > 1:
        raise DataError(
            f"the text has more tokens than {runner.name} reads at once ({spec.max_length}, "
            "special ones too): give less of it"
        )
    names = readable_tokens(tokenizer, tokenized.ids[0])
    all_maps = []
    ((_, encoded),) = list(runner.run(tokenized.ids, tokenized.segments, keep_layers=True))
    if isinstance(runner.encoder, HasAttentionMaps):
        (maps,) = maps_of(runner.encoder, encoded)
        all_maps.append(AttentionMaps("encoder", names, names, maps))
    if decoder is not None:
        ends = ends_of(tokenizer.special)
        begin, end = ([], []) if ends is None else ([ends[0]], [ends[1]])
        written = tokenizer.encode_bare_ids(target)
        if not target:
            (best,) = target_search(runner).search(tokenized.ids, TranslationConfig())
            written = [best.ids]
        ids: Ids = [[*begin, *written[0]]]
        read = readable_tokens(tokenizer, ids[0])
        _, inputs = make_inputs([0], ids, None, runner.device)
        with torch.inference_mode():
            to_target, to_source = decoder.attention_maps(encoded, inputs)
        if to_target:
            weights = torch.stack(to_target).cpu().numpy()
            all_maps.append(AttentionMaps("decoder", read, read, weights))
        generated = readable_tokens(tokenizer, [*ids[0][len(begin) :], *end])
        if to_source:
            weights = torch.stack(to_source).cpu().numpy()
            all_maps.append(AttentionMaps("encoder-decoder", generated, names, weights))
    if not all_maps:
        require_attention(runner)
    return all_maps


def maps_of(encoder: HasAttentionMaps, encoded: Encoded) -> Iterator[Float32s]:
    """Yield the maps of each sequence of a batch, `[L, A, T, T]`; `encoded` must have all
    layers.
    """
    for start, stop in pairwise(encoded.sequences.offsets):
        with torch.inference_mode():
            maps = [
                encoder.attention_map(number, x[start:stop]).cpu().numpy()
                for number, x in enumerate(encoded.layers[:-1], start=1)
            ]
        yield require_finite(np.stack(maps), "attention")


def maps_of_all(
    runner: ModelRunner, ids: Ids, segments: Ids | None = None
) -> Iterator[tuple[int, Float32s]]:
    """Yield the index of every sequence and its maps, `[L, A, T, T]`, in any order."""
    encoder = require_attention(runner)
    for rows, encoded in runner.run(ids, segments, keep_layers=True):
        yield from zip(rows, maps_of(encoder, encoded), strict=True)


def readable_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return tokens as readable text, for byte-level BPE too."""
    texts = [tokenizer.decode([each], skip_special_tokens=False).strip() for each in ids]
    return [
        token if not text or "\ufffd" in text else text
        for text, token in zip(texts, tokenizer.tokens_of(ids), strict=True)
    ]
