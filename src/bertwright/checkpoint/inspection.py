"""Inspect a folder by its headers, without loading weights. Files of other programs
(`formats/catalogue.py`) are read completely, because only then is it known whether they are whole.

A folder that does not load is inspected too; the result states the reason.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertwright.atomic import MANIFEST, verify_manifest
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.formats.catalogue import file_format
from bertwright.checkpoint.formats.format import FileFormat
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.verify import check_links
from bertwright.errors import BertwrightError
from bertwright.storage import pickled
from bertwright.storage.model_folder import EXPORT, INDEX, WEIGHTS, read_json, short
from bertwright.storage.tensor_names import part_of, quote
from bertwright.text.tokenizer.files import holds_tokenizer
from bertwright.text.tokenizer.tokenizer import load_tokenizer


@dataclass
class Inspection:
    """A description of a folder."""

    folder: str
    format: str
    """`huggingface`, `tensorflow`, `sentence-transformers` or `pickle`; `onnx` or `openvino` for a
    folder that `bertwright export` wrote; `elmo`, `arpa`, `word vectors` or `fasttext` for files
    that `bertwright convert` reads."""
    loads: bool = False
    reason: str | None = None
    """The reason why it does not load."""
    architecture: str | None = None
    """The class that the configuration names, or its `model_type`."""
    sizes: dict[str, Any] = field(default_factory=dict)
    """The configuration, by the names of its fields."""
    reads: int | None = None
    """The number of tokens that it reads at once; None: any number."""
    parameters: int = 0
    parts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Each part -> its numbers of tensors and of parameters."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    """The tensors that belong to no part of the model."""
    left: tuple[str, ...] = ()
    """Descriptions of training state beside the weights."""
    embedding: dict[str, Any] | None = None
    """How sentence vectors are computed, if the folder defines it."""
    tokenizer: dict[str, Any] = field(default_factory=dict)
    manifest: str = "none"
    """`none`, `whole`, or the error that the check of the manifest raised."""
    odd: list[str] = field(default_factory=list)
    """Notes that a user may want to read before using it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a mapping, for JSON."""
        return asdict(self)


def inspect(path: str | Path) -> Inspection:
    """Return a description of a folder, or of a file that `bertwright convert` reads.

    Args:
        path: a path that `find.find_checkpoint` takes, a folder with a pickle or with ELMo's
            published files, or a file of word vectors or of n-grams.
    """
    path = Path(path)
    if (foreign := file_format(path)) is not None:
        return _inspect_foreign(path, foreign)
    opened = open_model(path)
    folder = opened.folder
    found = Inspection(str(opened.source), _format(opened))
    try:
        check_links(folder)
        found.sizes = asdict(opened.config)
        found.reads = opened.max_length
        names = opened.content.get("architectures")
        name = opened.content.get("model_type")
        if isinstance(names, list) and len(names) == 1:
            name = names[0]
        found.architecture = None if name is None else short(name, str)
        _look_at_weights(found, opened)
        _ = opened.verified
        found.loads = True
    except BertwrightError as error:
        found.reason = str(error)
    _look_at_tokenizer(found, folder, opened)
    _look_at_embedding(found, opened)
    if (folder / MANIFEST).is_file():
        try:
            verify_manifest(folder)
            found.manifest = "whole"
        except BertwrightError as error:
            found.manifest = str(error)
            found.odd.append(found.manifest)
    _look_at_files(found, folder)
    return found


def _inspect_foreign(path: Path, foreign: FileFormat) -> Inspection:
    """Return a description of files of another program. Most formats must be converted to load."""
    found = Inspection(str(path), foreign.described_as, architecture=foreign.architecture)
    if holds_tokenizer(path):
        _look_at_tokenizer(found, path)
    try:
        contents = foreign.describe(path)
        found.sizes, found.parameters = contents.sizes, contents.parameters
        found.odd += contents.notes
        if (path / MANIFEST).is_file():
            verify_manifest(path)
            found.manifest = "whole"
    except BertwrightError as error:
        found.reason = str(error)
    else:
        found.loads = foreign.used_as_is
        found.reason = None if found.loads else f"convert it first: bertwright convert {path} DST"
    return found


def _format(opened: Opened) -> str:
    source, exported = opened.source, opened.source / EXPORT
    if exported.is_file() and not (source / WEIGHTS).is_file():
        return short(read_json(exported).get("runtime"), str)
    if sentence_transformers.is_one(opened.folder):
        return "sentence-transformers"
    without_weights = source.is_dir() and not opened.format.recognize(source)
    return "pickle" if without_weights and _pickles(source) else opened.format.name


def _pickles(folder: Path) -> list[str]:
    """Return the names of the files that begin like a pickle."""
    return [p.name for p in sorted(folder.iterdir()) if p.is_file() and pickled.is_pickle(p)]


def _look_at_weights(found: Inspection, opened: Opened) -> None:
    """Add the parts and tasks of a model, after comparing its headers with the configuration as
    `load` does."""
    plan = checkpoint.plan(opened)
    parameters = plan.learner.state_dict()
    for ours, theirs, _ in plan.mappings:
        part = found.parts.setdefault(part_of(ours), {"tensors": 0, "parameters": 0})
        part["tensors"] += len(theirs)
        part["parameters"] += parameters[ours].numel()
    found.parameters = sum(part["parameters"] for part in found.parts.values())
    found.unused, found.left = plan.report.unused, plan.report.left
    found.tasks = {
        name: {
            "kind": task.kind,
            "labels": list(task.labels),
            "max_length": task.max_length,
            "network": task.head.network,
        }
        for name, task in plan.tasks.items()
    }
    if "pooler" in opened.system.mappings(opened.config).keys() - set(plan.report.parts):
        found.odd.append("no pooler: what needs one initializes it")
    if found.unused:
        found.odd.append(f"tensors that are not used: {quote(found.unused)}")
    if plan.repeats:
        found.odd.append("the decoder is written out again, although it is tied")


def _look_at_tokenizer(found: Inspection, folder: Path, opened: Opened | None = None) -> None:
    try:
        tokenizer = load_tokenizer(folder)
    except BertwrightError as error:
        found.odd.append(f"no tokenizer to use: {error}")
        return
    found.tokenizer = {"tokens": tokenizer.vocab_size}
    try:
        found.tokenizer |= {"kind": "WordPiece", **asdict(tokenizer.rules)}
    except BertwrightError:
        found.tokenizer["kind"] = "another than BERT's WordPiece"
    wanted = found.sizes.get("vocab_size", tokenizer.vocab_size)
    if tokenizer.vocab_size > wanted:
        reason = (
            f"the tokenizer has {tokenizer.vocab_size} tokens; the model has {wanted}: "
            "they do not belong together"
        )
        found.loads, found.reason = False, found.reason or reason
    elif tokenizer.vocab_size < wanted:
        found.odd.append(
            f"the model has {wanted} tokens, {wanted - tokenizer.vocab_size} more than the "
            "tokenizer; they are never used"
        )
    if opened is not None and (why := opened.other_vocabulary(tokenizer)):
        found.odd.append(why)


def _look_at_embedding(found: Inspection, opened: Opened) -> None:
    try:
        defaults = opened.embedding
    except BertwrightError as error:
        found.odd.append(str(error))
    else:
        if defaults is not None:
            found.embedding = asdict(defaults) | {
                "dense": [
                    f"{each.in_features} to {each.out_features}, {each.activation.split('.')[-1]}"
                    for each in defaults.dense
                ]
            }


def _look_at_files(found: Inspection, folder: Path) -> None:
    pickles = _pickles(folder)
    if pickles:
        found.odd.append(f"pickles, which are not opened: {', '.join(pickles[:8])}")
    if (folder / WEIGHTS).is_file() and (folder / INDEX).is_file():
        found.odd.append(f"{INDEX} beside {WEIGHTS}; only the latter is read")
