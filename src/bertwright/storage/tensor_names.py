"""Map our parameters to the names of tensors in files, in both directions.

Mappings are strict: a file holds a part (the encoder, the pooler, an objective, a task head) either
completely or not at all, and a tensor that belongs to no part is an error. `models/layout.py`
defines the names in a model's files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bertwright.errors import IntegrityError

_LONGEST_MESSAGE = 400


class ParameterMapping(NamedTuple):
    """One of our parameters and the tensors of a file that are concatenated to make it."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    """Whether the file holds the transposed matrix."""


Parts = dict[str, list[ParameterMapping]]
"""Part (`encoder`, `pooler`, an objective, a task) -> its parameters."""


@dataclass(frozen=True)
class Report:
    """What was done with each tensor of a folder, by its name there."""

    parts: tuple[str, ...]
    """The parts in the folder, then the names of its task heads."""
    matched: tuple[str, ...]
    """The tensors that were read."""
    missing: tuple[str, ...]
    """The tensors of parts that the folder does not hold."""
    unused: tuple[str, ...]
    """The tensors of other heads, which were not read."""
    started: tuple[str, ...] = ()
    """The parts of the model that are not in the folder and were initialized."""
    left: tuple[str, ...] = ()
    """Descriptions of training state beside the weights (optimizer slots, the step)."""

    def __str__(self) -> str:
        lists = {
            f"{len(self.matched)} tensors read": self.parts,
            "not in the file": self.missing,
            "initialized": self.started,
            "in the file, not used": self.unused,
            "left by training, not loaded": self.left,
        }
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in lists.items() if names)


class Naming(Protocol):
    """The names of a layout, as `match` uses them."""

    @property
    def model_type(self) -> str:
        """The `model_type` in `config.json`."""

    @property
    def repeats(self) -> Mapping[str, str]:
        """Tied tensors that files may hold a second time -> the tensor that each must equal."""

    def current_name(self, name: str) -> str | None:
        """Return the current name of a tensor in a file; None: the tensor is ignored."""

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the tensors of a file that belong to no part and are an error; see `Layout`."""


class Match(NamedTuple):
    """The parameters of a folder, by the names in its files."""

    mappings: list[ParameterMapping]
    """A mapping for each of our parameters in the files."""
    repeats: list[tuple[str, str]]
    """Pairs of tensors in the files that must be equal."""
    report: Report


def to_foreign(state: Mapping[str, Tensor], parts: Parts) -> dict[str, Tensor]:
    """Return copies of a learner's parameters on the CPU, under the names of a file.

    Args:
        parts: the mappings of the model and of its task heads.
    """
    rest = dict(state)
    foreign: dict[str, Tensor] = {}
    for part, mappings in parts.items():
        absent = [mapping.ours for mapping in mappings if mapping.ours not in rest]
        if len(absent) == len(mappings) and part != "encoder":
            continue
        if absent:
            raise IntegrityError(f"{part} lacks {quote(absent)}, which its configuration requires")
        for ours, theirs, transposed in mappings:
            tensors = rest.pop(ours).detach().cpu().chunk(len(theirs))
            for name, x in zip(theirs, tensors, strict=True):
                foreign[name] = x.t().contiguous() if transposed else x.clone()
    if rest:
        raise IntegrityError(f"the format has no name for {quote(rest)}, so it cannot be written")
    return foreign


def match(form: Naming, names: Iterable[str], parts: Parts, where: str) -> Match:
    """Find each of our parameters among the tensor names of a folder, before any tensor is read.

    Args:
        form: the layout of the model.
        parts: the mappings of the model and of its task heads.
        where: names the folder in messages.
    """
    names = list(names)
    stored: dict[str, str] = {}
    for name in names:
        current = form.current_name(name)
        if current in stored:
            raise IntegrityError(
                f"{where} has one tensor twice, as {quote([stored[current], name])}"
            )
        if current is not None:
            stored[current] = name
    repeats = []
    for repeat, original in form.repeats.items():
        if repeat in stored and original in stored:
            repeats.append((stored.pop(repeat), stored[original]))
        elif repeat in stored:
            stored[original] = stored.pop(repeat)
    present, missing, matched = [], [], []
    for part, mappings in parts.items():
        needed = [name for mapping in mappings for name in mapping.theirs]
        absent = [name for name in needed if name not in stored]
        if needed and len(absent) == len(needed) and part != "encoder":
            missing += absent
            continue
        if absent:
            raise IntegrityError(
                f"{where} lacks {quote(absent)}, which its configuration requires: it was "
                "truncated, or its configuration and weights are of different models"
            )
        present.append(part)
        for mapping in mappings:
            matched.append(mapping._replace(theirs=tuple(map(stored.pop, mapping.theirs))))
    unknown = form.unknown(stored, names)
    if unknown:
        raise IntegrityError(
            f"{where} has {quote(unknown)}, which no {form.model_type} of its configuration has: "
            "its configuration and weights are of different models"
        )
    used = [name for mapping in matched for name in mapping.theirs]
    used += [repeat for repeat, _ in repeats]
    report = Report(tuple(present), tuple(used), tuple(missing), tuple(stored.values()))
    return Match(matched, repeats, report)


def stack(mapping: ParameterMapping, read: Mapping[str, Tensor]) -> Tensor:
    """Return one of our parameters, in float32 or integers, as a copy of the tensors of a file.

    A tensor that was read is a view of the memory-mapped file. Its alignment would change the
    rounding of sums, and a file that is truncated later would end the process.
    """
    tensors = [read[name] for name in mapping.theirs]
    tensors = [x.float() if x.is_floating_point() else x for x in tensors]
    if mapping.transposed:
        tensors = [x.t() for x in tensors]
        return torch.cat(tensors).contiguous()
    return tensors[0].clone() if len(tensors) == 1 else torch.cat(tensors)


def pair(ours: str, *theirs: str) -> list[ParameterMapping]:
    """Return the mappings of the weight and the bias of one module."""
    return [
        ParameterMapping(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs))
        for kind in ("weight", "bias")
    ]


def with_heads(parts: Parts, heads: Parts) -> Parts:
    """Return the parts of a model and of its task heads.

    A parameter that is stored with a head, like RoBERTa's pooler in a classifier, is removed from
    the other parts. A part whose tensors have the same names as those of a head, like ModernBERT's
    masked LM, is left out, because a file cannot hold both.
    """
    of_heads = {mapping.ours for mappings in heads.values() for mapping in mappings}
    names = {name for mappings in heads.values() for mapping in mappings for name in mapping.theirs}
    rest = {
        name: [mapping for mapping in mappings if mapping.ours not in of_heads]
        for name, mappings in parts.items()
        if names.isdisjoint(n for m in mappings if m.ours not in of_heads for n in m.theirs)
    }
    return rest | heads


def part_of(name: str) -> str:
    """Return the part that a parameter belongs to, given our name of it."""
    first, second, *_ = name.split(".")
    if first == "objectives":
        return second
    return "pooler" if second == "pooler" else "encoder"


def quote(names: Collection[str], most: int = 8) -> str:
    """Return names in quotes for a message; of more than `most`, the first, and how many follow."""
    listed = ", ".join(f"'{name}'" for name in list(names)[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


def clipped(error: Exception) -> str:
    """Return the message of an error, truncated because it may quote a value of any length."""
    message = str(error)
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}..."
