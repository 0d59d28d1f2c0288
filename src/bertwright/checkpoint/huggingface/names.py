"""Parameter names: ours and Hugging Face's BERT, one table read both ways, strict both ways.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `bert.embeddings.*` |
| encoder | `encoder.layers.I.*` | `bert.encoder.layer.I.*` |
| pooler | `encoder.pooler.dense.*` | `bert.pooler.dense.*` |
| masked_lm | `objectives.masked_lm.*` | `cls.predictions.*` |
| next_sentence | `objectives.next_sentence.classifier.*` | `cls.seq_relationship.*` |
| a task by name | `objectives.NAME.classifier.*` | `classifier.*` |
| a span task | `objectives.NAME.qa_outputs.*` | `qa_outputs.*` |

Query, key and value are three tensors there and one here, `[3 H, H]`, stacked in this order. A part
is in a file whole or not at all. Also read: files without `bert.` (a bare encoder), `gamma` and
`beta` for a norm's weight and bias (TensorFlow's names), and the decoder written out again
although it is tied to the token embeddings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bertwright.errors import IntegrityError

PARTS = ("encoder", "pooler", "masked_lm", "next_sentence")

# Decoder tensors that repeat another tensor of the same file.
_REPEATS = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers that some versions of transformers wrote; they hold 0, 1, 2... and zeros.
_BUFFERS = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids"}
_BARE = ("embeddings.", "encoder.", "pooler.")
_HEADS = ("cls.", "classifier.", "qa_outputs.")


class Row(NamedTuple):
    """One of our parameters and the foreign tensors that are stacked to make it."""

    ours: str
    theirs: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What became of each tensor of a foreign file, by its foreign name."""

    parts: tuple[str, ...]
    """Parts that the folder holds, of `PARTS`, then the names of its task heads."""
    matched: tuple[str, ...]
    """Tensors that were read."""
    missing: tuple[str, ...]
    """Tensors of parts that the file does not hold."""
    unused: tuple[str, ...]
    """Tensors of other heads, left alone."""
    started: tuple[str, ...] = ()
    """Parts that were asked for, or that a BERT has, and that started anew."""
    left: tuple[str, ...] = ()
    """What training left beside the weights (slots of its optimizer, its step), in words."""

    def __str__(self) -> str:
        lines = [f"{len(self.matched)} tensors read: {', '.join(self.parts)}"]
        if self.missing:
            lines.append(f"not in the file: {', '.join(self.missing)}")
        if self.started:
            lines.append(f"started anew: {', '.join(self.started)}")
        if self.unused:
            lines.append(f"in the file, not used: {', '.join(self.unused)}")
        if self.left:
            lines.append(f"left by training, not loaded: {', '.join(self.left)}")
        return "; ".join(lines)


class Match(NamedTuple):
    """The table for one file, by the names in that file."""

    rows: list[Row]
    """One for each of our parameters that the file holds."""
    repeats: list[tuple[str, str]]
    """Pairs of tensors in the file that must be equal."""
    report: Report


def table(layers: int) -> dict[str, list[Row]]:
    """All rows of a BERT with so many layers, by part."""
    norm = "LayerNorm"
    encoder = [
        Row("encoder.embeddings.token.weight", ("bert.embeddings.word_embeddings.weight",)),
        Row("encoder.embeddings.position.weight", ("bert.embeddings.position_embeddings.weight",)),
        Row("encoder.embeddings.segment.weight", ("bert.embeddings.token_type_embeddings.weight",)),
        *pair("encoder.embeddings.norm", f"bert.embeddings.{norm}"),
    ]
    for index in range(layers):
        ours, theirs = f"encoder.layers.{index}", f"bert.encoder.layer.{index}"
        three = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        encoder += [
            *pair(f"{ours}.attention.qkv", *three),
            *pair(f"{ours}.attention.output", f"{theirs}.attention.output.dense"),
            *pair(f"{ours}.attention_norm", f"{theirs}.attention.output.{norm}"),
            *pair(f"{ours}.feed_forward.intermediate", f"{theirs}.intermediate.dense"),
            *pair(f"{ours}.feed_forward.output", f"{theirs}.output.dense"),
            *pair(f"{ours}.feed_forward_norm", f"{theirs}.output.{norm}"),
        ]
    head = "cls.predictions"
    return {
        "encoder": encoder,
        "pooler": pair("encoder.pooler.dense", "bert.pooler.dense"),
        "masked_lm": [
            *pair("objectives.masked_lm.transform", f"{head}.transform.dense"),
            *pair("objectives.masked_lm.norm", f"{head}.transform.{norm}"),
            Row("objectives.masked_lm.bias", (f"{head}.bias",)),
        ],
        "next_sentence": pair("objectives.next_sentence.classifier", "cls.seq_relationship"),
    }


def to_hugging_face(
    state: Mapping[str, Tensor], layers: int, heads: Mapping[str, list[Row]] | None = None
) -> dict[str, Tensor]:
    """A learner's parameters under Hugging Face's names, on the CPU, each with its own memory.

    Args:
        state: parameters by our names.
        layers: of its BERT.
        heads: rows of task heads, by the task's name.

    Raises:
        IntegrityError: `state` has a parameter that the table has not, or lacks one of a part.
    """
    rest = dict(state)
    foreign: dict[str, Tensor] = {}
    for part, rows in (table(layers) | dict(heads or {})).items():
        absent = [row.ours for row in rows if row.ours not in rest]
        if len(absent) == len(rows) and part != "encoder":
            continue
        if absent:
            raise IntegrityError(
                f"{part} lacks {quote(absent)}; the configuration tells of {layers} layers"
            )
        for row in rows:
            pieces = rest.pop(row.ours).detach().cpu().chunk(len(row.theirs))
            foreign |= {name: piece.clone() for name, piece in zip(row.theirs, pieces, strict=True)}
    if rest:
        raise IntegrityError(f"no Hugging Face name for {quote(rest)}: nothing may be left out")
    return foreign


def match(
    names: Iterable[str], layers: int, where: str, heads: Mapping[str, list[Row]] | None = None
) -> Match:
    """Find each of our parameters among the tensor names of a file, before any is read.

    Args:
        names: of the tensors.
        layers: that `config.json` tells of.
        where: names the file in messages.
        heads: rows of task heads, by the task's name.

    Raises:
        IntegrityError: a tensor is missing from a part, there twice, or no BERT of so many layers
            has it; the message quotes the names.
    """
    found = _canonical(list(names), where)
    repeats = []
    for repeat, original in _REPEATS.items():
        if repeat in found and original in found:
            repeats.append((found.pop(repeat), found[original]))
        elif repeat in found:
            found[original] = found.pop(repeat)
    parts, missing, rows_found = [], [], []
    for part, rows in (table(layers) | dict(heads or {})).items():
        wanted = [name for row in rows for name in row.theirs]
        absent = [name for name in wanted if name not in found]
        if len(absent) == len(wanted) and part != "encoder":
            missing += absent
            continue
        if absent:
            raise IntegrityError(
                f"{where} lacks {quote(absent)}; config.json tells of {layers} layers: "
                "the file was cut, or it is of another model"
            )
        parts.append(part)
        rows_found += [Row(row.ours, tuple(found.pop(t) for t in row.theirs)) for row in rows]
    bare = not rows_found[0].theirs[0].startswith("bert.")
    strays = [
        name
        for today, name in found.items()
        if today.startswith("bert.") or (bare and not today.startswith(_HEADS))
    ]
    if strays:
        raise IntegrityError(
            f"{where} has {quote(strays)}, which no BERT of {layers} layers has: "
            "config.json and the weights do not belong together"
        )
    used = tuple(name for row in rows_found for name in row.theirs)
    used += tuple(repeat for repeat, _ in repeats)
    report = Report(tuple(parts), used, tuple(missing), tuple(found.values()))
    return Match(rows_found, repeats, report)


def stack(row: Row, read: Mapping[str, Tensor]) -> Tensor:
    """Our float32 parameter, made of the file's tensors, in memory of its own.

    A tensor as read lies in the file's pages, anywhere: sums would be rounded by its alignment, and
    a file that is cut while it is used would end the process.
    """
    pieces = [read[name].float() for name in row.theirs]
    return pieces[0].clone() if len(pieces) == 1 else torch.cat(pieces)


def pair(ours: str, *theirs: str) -> list[Row]:
    """The weight and the bias of one module."""
    return [
        Row(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs))
        for kind in ("weight", "bias")
    ]


def part_of(name: str) -> str:
    """The part that a parameter is of, by our name."""
    first, second, *_ = name.split(".")
    if first == "objectives":
        return second
    return "pooler" if second == "pooler" else "encoder"


def is_buffer(name: str) -> bool:
    """Whether a tensor is one that some versions of transformers wrote and that nothing needs."""
    return name in _BUFFERS or f"bert.{name}" in _BUFFERS


def _canonical(names: list[str], where: str) -> dict[str, str]:
    """Today's name -> the name in the file, without buffers."""
    found: dict[str, str] = {}
    for name in names:
        today = name
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            today = today.removesuffix(old) + new if today.endswith(old) else today
        today = f"bert.{today}" if today.startswith(_BARE) else today
        if today in _BUFFERS:
            continue
        if today in found:
            raise IntegrityError(f"{where} has {quote([found[today], name])}: one tensor twice")
        found[today] = name
    return found


def quote(names: Collection[str], most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    listed = ", ".join(f"'{name}'" for name in list(names)[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed
