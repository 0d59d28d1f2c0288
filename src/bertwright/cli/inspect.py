"""`bertwright inspect`: show what a model's folder contains, without loading the model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bertwright.cli.options import Json
from bertwright.cli.output import print_fields, print_json, print_table


def inspect(model: Annotated[Path, Parameter(name="CKPT")], *, json: Json = False) -> None:
    """Show what a folder contains: format, sizes, parts, tasks, tokenizer, and problems.

    Args:
        model: A run, a checkpoint, a folder of Hugging Face, sentence-transformers or TensorFlow 1;
            or another source of convert: ELMo's published files, a file of word vectors (.vec,
            .txt, .bin) or an n-gram model (.arpa).
    """
    from bertwright.checkpoint.inspection import inspect as look

    found = look(model)
    if json:
        print_json(found.as_dict())
        return
    shown: dict[str, Any] = {
        "folder": found.folder,
        "format": found.format,
        "loads": found.loads if found.reason is None else f"no: {found.reason}",
        "architecture": found.architecture,
        **{key.replace("_", " "): value for key, value in found.sizes.items()},
        "tokens read at once": found.reads,
        "tokenizer": _listed(found.tokenizer),
        "manifest": found.manifest,
    }
    if found.embedding:
        shown["vectors"] = _listed(found.embedding)
    if found.left:
        shown["left by training"] = ", ".join(found.left)
    for name, task in found.tasks.items():
        shown[f"task {name}"] = _listed(task)
    shown |= {f"odd{' ' * number}": odd for number, odd in enumerate(found.odd)}
    print_fields(shown)
    if found.parts:
        rows = [(name, part["tensors"], part["parameters"]) for name, part in found.parts.items()]
        total = sum(part["tensors"] for part in found.parts.values())
        print_table(("part", "tensors", "parameters"), [*rows, ("all", total, found.parameters)])


def _listed(facts: dict[str, Any]) -> str:
    """Return facts as one line of text; a list is cut after 12 items."""
    words = []
    for key, value in facts.items():
        if isinstance(value, (list, tuple)):
            shown = " ".join(map(str, value[:12])) + (" ..." if len(value) > 12 else "")
        else:
            shown = f"{value:,}" if type(value) is int else str(value)
        words += [] if value == [] else [f"{key.replace('_', ' ')} {shown}"]
    return ", ".join(words)
