"""Texts and pairs as sequences a model can read: whole, in windows, or cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bertwright.errors import DataError
from bertwright.inference.runner import windows
from bertwright.text.tokenizer.tokenizer import Tokenizer

Text = str | tuple[str, str]
"""A text or a pair."""


@dataclass
class Pieces:
    """Sequences with [CLS] and [SEP], and which text each is of."""

    ids: list[list[int]] = field(default_factory=list)
    types: list[list[int]] | None = None
    """Segments, if there are pairs."""
    owners: list[int] = field(default_factory=list)
    """Rising: a text has one piece or more."""
    starts: list[int] = field(default_factory=list)
    """Tokens of the text before the piece's."""
    cut: int = 0
    """Texts of which tokens were left out."""
    tokens_cut: int = 0


def make_pieces(
    tokenizer: Tokenizer, texts: Sequence[Text], longest: int, truncate: bool, paired: bool = True
) -> Pieces:
    """Cut texts into sequences of at most `longest` tokens.

    Args:
        tokenizer: the model's.
        texts: n texts and pairs.
        longest: tokens of a sequence, [CLS] and [SEP] too.
        truncate: leave out what is too much, at the end (of a pair: of the longer text); else a
            text is read in windows, and a pair is refused.
        paired: whether the model has a second segment.

    Raises:
        DataError: no list of texts, neither text nor pair, a pair that is too long, a pair for a
            model without.
    """
    texts = listed(texts)
    pieces = Pieces()
    plain = [number for number, text in enumerate(texts) if isinstance(text, str)]
    bare = dict(zip(plain, tokenizer.encode_bare_ids([str(texts[n]) for n in plain]), strict=True))
    if len(plain) < len(texts):
        pieces.types = []
    for number, text in enumerate(texts):
        if number in bare:
            _add_text(pieces, tokenizer, number, bare[number], longest - 2, truncate)
        else:
            _add_pair(pieces, tokenizer, number, text, longest, truncate, paired)
    return pieces


def listed(texts: object) -> list[Text]:
    """Texts as a list: one alone, a sequence, a column, a table or array of one column.

    Raises:
        DataError: nothing of texts, or several columns.
    """
    if isinstance(texts, str):
        return [texts]
    shape = getattr(texts, "shape", None)
    if shape is not None and len(shape) != 1:
        if len(shape) != 2 or shape[1] != 1:
            raise DataError(
                f"the texts have the shape {list(shape)}; expected one column, or for pairs a list "
                "of two texts each"
            )
        texts = getattr(texts, "values", texts)[:, 0]  # type: ignore[index]
    if isinstance(texts, (bytes, Mapping)) or not isinstance(texts, Iterable):
        raise DataError(
            f"the texts are of type {type(texts).__name__}; expected a list of texts and pairs"
        )
    return list(texts)


def parts_of(number: int, text: object) -> list[str]:
    """A text alone, or the two of a pair.

    Raises:
        DataError: it is neither; names its number.
    """
    if isinstance(text, str):
        return [text]
    parts = list(text) if isinstance(text, (tuple, list)) else []
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise DataError(
            f"text {number} is of type {type(text).__name__}; expected str, or two of them"
        )
    return parts


def only_text(text: object) -> str:
    """The text that it is; DataError if it is none."""
    if not isinstance(text, str):
        raise DataError(f"the text is of type {type(text).__name__}; expected one str")
    return text


def _add_text(
    pieces: Pieces, tokenizer: Tokenizer, number: int, ids: list[int], room: int, truncate: bool
) -> None:
    if truncate and len(ids) > room:
        pieces.cut += 1
        pieces.tokens_cut += len(ids) - room
        ids = ids[:room]
    for start, stop in windows(len(ids), room):
        pieces.ids.append([tokenizer.cls_id, *ids[start:stop], tokenizer.sep_id])
        pieces.owners.append(number)
        pieces.starts.append(start)
        if pieces.types is not None:
            pieces.types.append([0] * (stop - start + 2))


def _add_pair(
    pieces: Pieces,
    tokenizer: Tokenizer,
    number: int,
    pair: object,
    longest: int,
    truncate: bool,
    paired: bool,
) -> None:
    if not paired or longest < 5:
        raise DataError("this model reads no pairs: it has one segment or too few positions")
    a, b = (encoding.ids[1:-1] for encoding in map(tokenizer.encode, parts_of(number, pair)))
    over = len(a) + len(b) + 3 - longest
    if over > 0 and not truncate:
        raise DataError(
            f"pair {number} has {over + longest} tokens; this model reads {longest} at once: cut "
            "long pairs with --truncate (VectorConfig(truncate=True) of an Embedder), or embed "
            "their texts one by one"
        )
    if over > 0:
        pieces.cut += 1
        pieces.tokens_cut += over
        of_a, of_b = shares(len(a), len(b), longest - 3)
        a, b = a[:of_a], b[:of_b]
    pieces.ids.append([tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id])
    assert pieces.types is not None
    pieces.types.append([0] * (len(a) + 2) + [1] * (len(b) + 1))
    pieces.owners.append(number)
    pieces.starts.append(0)


def shares(a: int, b: int, room: int) -> tuple[int, int]:
    """How many of `a` and `b` to keep in `room`: half each, more where the other is short; the odd
    one is the longer text's, as in transformers, and the second's where they are equal."""
    half = (room + (a > b)) // 2
    of_a = min(a, max(half, room - b))
    return of_a, min(b, room - of_a)


def token_places(
    tokenizer: Tokenizer, text: Text, kept: int, prompt: str = ""
) -> tuple[list[str], list[tuple[int, int]], list[int]]:
    """The tokens of a piece, [CLS] and [SEP] too, their characters, and their rows in it.

    A text has lost its end, a pair that of the longer text, as `make_pieces` cuts them. The second
    text's characters count from its own start.

    Args:
        tokenizer: the model's.
        text: a text or a pair.
        kept: tokens of the piece.
        prompt: what stands before the text in the piece; tokens of it alone are left out.
    """
    first, *second = [text] if isinstance(text, str) else text
    parts = [tokenizer.encode(part) for part in (prompt + first, *second)]
    kept_of: tuple[int, ...] = (kept - 2,)
    if len(parts) == 2:
        a, b = (len(part.ids) - 2 for part in parts)
        kept_of = shares(a, b, kept - 3)
    tokens, offsets = parts[0].tokens[:1], parts[0].offsets[:1]
    for part, share in zip(parts, kept_of, strict=True):
        tokens += [*part.tokens[1 : 1 + share], part.tokens[-1]]
        offsets += [*part.offsets[1 : 1 + share], (0, 0)]
    rows, before, inside = list(range(len(tokens))), len(prompt), range(1, 1 + kept_of[0])
    if prompt:
        rows = [row for row in rows if row not in inside or offsets[row][1] > before]
        for row in inside:
            start, stop = offsets[row]
            offsets[row] = max(start - before, 0), stop - before
    return [tokens[row] for row in rows], [offsets[row] for row in rows], rows
