"""A format: how the models of one `model_type` are built, configured and named in files.

the plain layout is ours: `config.json` has the fields of the configuration's dataclass, and
`model.safetensors` our own names (`encoder.*`, `objectives.NAME.*`). A format with foreign names
overrides what differs. Names are strict both ways: a part is in a file whole or not at all, and a
tensor that no part has is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from bertwright.errors import IntegrityError

_LONGEST_MESSAGE = 400


class ParameterMapping(NamedTuple):
    """One of our parameters and the tensors of a file that are stacked to make it."""

    ours: str
    theirs: tuple[str, ...]
    transposed: bool = False
    """Whether a file has the matrix the other way round."""


Parts = dict[str, list[ParameterMapping]]
"""Part (`encoder`, `pooler`, an objective, a task) -> its parameters."""


@dataclass(frozen=True)
class Report:
    """What became of each tensor of a folder, by the name it has there."""

    parts: tuple[str, ...]
    """Parts that the folder holds, then the names of its task heads."""
    matched: tuple[str, ...]
    """Tensors that were read."""
    missing: tuple[str, ...]
    """Tensors of parts that the folder does not hold."""
    unused: tuple[str, ...]
    """Tensors of other heads, which were not read."""
    started: tuple[str, ...] = ()
    """Parts that were requested, or that the encoder has, and that were initialized."""
    left: tuple[str, ...] = ()
    """What training left beside the weights (slots of its optimizer, its step), in words."""

    def __str__(self) -> str:
        told = {
            f"{len(self.matched)} tensors read": self.parts,
            "not in the file": self.missing,
            "initialized": self.started,
            "in the file, not used": self.unused,
            "left by training, not loaded": self.left,
        }
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names)


class Naming(Protocol):
    """What `match` must know of a layout of tensors."""

    @property
    def model_type(self) -> str:
        """The `model_type` in its `config.json`."""

    @property
    def repeats(self) -> Mapping[str, str]:
        """Tensor -> the one that it must equal, where files may hold a tied tensor twice."""

    def current_name(self, name: str) -> str | None:
        """The name today of a file's tensor; None: ignore it."""

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Of a file's tensors that no part has, those that are an error."""


class Match(NamedTuple):
    """The parameters of a folder, by the names in its files."""

    mappings: list[ParameterMapping]
    """One for each of our parameters that the files hold."""
    repeats: list[tuple[str, str]]
    """Pairs of tensors in the files that must be equal."""
    report: Report


def to_foreign(state: Mapping[str, Tensor], parts: Parts) -> dict[str, Tensor]:
    """A learner's parameters under the names of a file, on the CPU, each with its own memory.

    Args:
        state: parameters by our names.
        parts: of the model and of its task heads.

    Raises:
        IntegrityError: `state` has a parameter that no part has, or lacks one of a part.
    """
    rest = dict(state)
    foreign: dict[str, Tensor] = {}
    for part, mappings in parts.items():
        absent = [mapping.ours for mapping in mappings if mapping.ours not in rest]
        if len(absent) == len(mappings) and part != "encoder":
            continue
        if absent:
            raise IntegrityError(f"{part} lacks {quote(absent)}, which its configuration asks for")
        for ours, theirs, transposed in mappings:
            tensors = rest.pop(ours).detach().cpu().chunk(len(theirs))
            for name, x in zip(theirs, tensors, strict=True):
                foreign[name] = x.t().contiguous() if transposed else x.clone()
    if rest:
        raise IntegrityError(f"the format has no name for {quote(rest)}: nothing may be left out")
    return foreign


def match(form: Naming, names: Iterable[str], parts: Parts, where: str) -> Match:
    """Find each of our parameters among the tensor names of a folder, before any is read.

    Args:
        form: of the model.
        names: of the tensors.
        parts: of the model and of its task heads.
        where: names the folder in messages.

    Raises:
        IntegrityError: a tensor is missing from a part, there twice, or of no part; the message
            quotes the names.
    """
    names = list(names)
    found: dict[str, str] = {}
    for name in names:
        current = form.current_name(name)
        if current in found:
            raise IntegrityError(f"{where} has {quote([found[current], name])}: one tensor twice")
        if current is not None:
            found[current] = name
    repeats = []
    for repeat, original in form.repeats.items():
        if repeat in found and original in found:
            repeats.append((found.pop(repeat), found[original]))
        elif repeat in found:
            found[original] = found.pop(repeat)
    there, missing, matched = [], [], []
    for part, mappings in parts.items():
        wanted = [name for mapping in mappings for name in mapping.theirs]
        absent = [name for name in wanted if name not in found]
        if wanted and len(absent) == len(wanted) and part != "encoder":
            missing += absent
            continue
        if absent:
            raise IntegrityError(
                f"{where} lacks {quote(absent)}, which its configuration asks for: it was "
                "truncated, or its configuration and weights are of different models"
            )
        there.append(part)
        for mapping in mappings:
            matched.append(mapping._replace(theirs=tuple(map(found.pop, mapping.theirs))))
    unknown = form.unknown(found, names)
    if unknown:
        raise IntegrityError(
            f"{where} has {quote(unknown)}, which no {form.model_type} of its configuration has: "
            "its configuration and weights are of different models"
        )
    used = [name for mapping in matched for name in mapping.theirs]
    used += [repeat for repeat, _ in repeats]
    report = Report(tuple(there), tuple(used), tuple(missing), tuple(found.values()))
    return Match(matched, repeats, report)


def stack(mapping: ParameterMapping, read: Mapping[str, Tensor]) -> Tensor:
    """Our parameter, float32 or whole numbers, made of the file's tensors, in memory of its own.

    A tensor as read lies in the file's pages, anywhere: sums would be rounded by its alignment, and
    a file that is truncated while it is used would end the process.
    """
    tensors = [read[name] for name in mapping.theirs]
    tensors = [x.float() if x.is_floating_point() else x for x in tensors]
    if mapping.transposed:
        tensors = [x.t() for x in tensors]
        return torch.cat(tensors).contiguous()
    return tensors[0].clone() if len(tensors) == 1 else torch.cat(tensors)


def pair(ours: str, *theirs: str) -> list[ParameterMapping]:
    """The weight and the bias of one module."""
    return [
        ParameterMapping(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs))
        for kind in ("weight", "bias")
    ]


def part_of(name: str) -> str:
    """The part that a parameter is of, by our name."""
    first, second, *_ = name.split(".")
    if first == "objectives":
        return second
    return "pooler" if second == "pooler" else "encoder"


def quote(names: Collection[str], most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    listed = ", ".join(f"'{name}'" for name in list(names)[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed


def clipped(error: Exception) -> str:
    """The message of an error that may quote a value of any length."""
    message = str(error)
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}..."
