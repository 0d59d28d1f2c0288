"""What a folder is, read from its headers: no weights are loaded. Of files of other programs (word
vectors, ARPA) all is read, as nothing less says whether they are whole.

What does not load is inspected too; the reason is in the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from bertwright.atomic import MANIFEST, verify_manifest
from bertwright.checkpoint import arpa, checkpoint, elmo, sources
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.word_vectors import fasttext
from bertwright.checkpoint.word_vectors.convert import unknown_of
from bertwright.checkpoint.word_vectors.files import is_vector_file, read_vectors
from bertwright.errors import BertwrightError
from bertwright.models.catalogue import system_of_config
from bertwright.storage import pickled
from bertwright.storage.model_folder import CONFIG, EXPORT, INDEX, WEIGHTS, read_json, short
from bertwright.storage.tensor_names import part_of, quote
from bertwright.text.tokenizer.tokenizer import load_tokenizer


@dataclass
class Inspection:
    """What a folder is."""

    folder: str
    format: str
    """`huggingface`, `tensorflow`, `sentence-transformers`, `pickle`, or `onnx` or `openvino`, as
    `bertwright export` writes them; of what `bertwright convert` reads also `elmo`, `arpa`,
    `word vectors` and `fasttext`."""
    loads: bool = False
    reason: str | None = None
    """Why it does not load."""
    architecture: str | None = None
    """As its configuration calls it: its class, or its type."""
    sizes: dict[str, Any] = field(default_factory=dict)
    """The configuration, by the names of its class."""
    reads: int | None = None
    """Tokens that it reads at once; None: any number."""
    parameters: int = 0
    parts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Part -> tensors and parameters."""
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    """Tensors that no part of ours has."""
    left: tuple[str, ...] = ()
    """What training left, in words."""
    embedding: dict[str, Any] | None = None
    """How vectors are made, where the folder says so."""
    tokenizer: dict[str, Any] = field(default_factory=dict)
    manifest: str = "none"
    """`none`, `whole`, or what is wrong."""
    odd: list[str] = field(default_factory=list)
    """What a user may want to know before using it."""

    def as_dict(self) -> dict[str, Any]:
        """As a mapping, for JSON."""
        return asdict(self)


def inspect(path: str | Path) -> Inspection:
    """Look at a folder, or at a file that `bertwright convert` reads.

    Args:
        path: as `checkpoint.find_checkpoint` takes it, a folder with a pickle or with ELMo's
            published files, or a file of word vectors or of n-grams.

    Raises:
        DataError: there is no model of any kind.
        IntegrityError: a run whose checkpoints are all damaged.
    """
    path = Path(path)
    if (look := _look_for(path)) is not None:
        return _inspect_foreign(path, look)
    source = checkpoint.find_checkpoint(path)
    folder = sources.folder_of(source)
    found = Inspection(str(source), _format(source))
    try:
        sources.check_links(folder)
        config = sources.read_config(source)
        found.sizes = asdict(config)
        found.reads = sources.read_length(source, system_of_config(config).spec(config).max_length)
        content = sources.read_content(source)
        names = content.get("architectures")
        name = content.get("model_type")
        if isinstance(names, list) and len(names) == 1:
            name = names[0]
        found.architecture = None if name is None else short(name, str)
        _look_at_weights(found, source, config)
        checkpoint.verify_what_is_read(folder)
        found.loads = True
    except BertwrightError as error:
        found.reason = str(error)
    _look_at_tokenizer(found, folder)
    _look_at_embedding(found, folder)
    if (folder / MANIFEST).is_file():
        try:
            verify_manifest(folder)
            found.manifest = "whole"
        except BertwrightError as error:
            found.manifest = str(error)
            found.odd.append(found.manifest)
    _look_at_files(found, folder)
    return found


def _look_for(path: Path) -> Callable[[Inspection, Path], None] | None:
    """What inspects files of another program; None of any other path."""
    if fasttext.is_fasttext(path):
        return _look_at_fasttext
    if is_vector_file(path):
        return _look_at_vectors
    if arpa.is_arpa(path):
        return _look_at_arpa
    published = path.is_dir() and elmo.is_published(path) and not (path / CONFIG).is_file()
    return _look_at_elmo if published else None


def _inspect_foreign(path: Path, look: Callable[[Inspection, Path], None]) -> Inspection:
    """Inspect what `bertwright convert` reads; it does not load as it is."""
    found = Inspection(str(path), "word vectors")
    try:
        look(found, path)
    except BertwrightError as error:
        found.reason = str(error)
    else:
        found.reason = f"convert it first: bertwright convert {path} DST"
        if look in (_look_at_vectors, _look_at_fasttext):
            found.loads, found.reason = True, None  # bertwright words does
    return found


def _look_at_vectors(found: Inspection, path: Path) -> None:
    words, vectors, notes = read_vectors(path)
    found.sizes = {"words": len(words), "width": vectors.shape[1]}
    found.parameters = vectors.size
    found.odd += notes
    _look_at_unknown(found, words)


def _look_at_fasttext(found: Inspection, path: Path) -> None:
    found.format = "fasttext"
    model = fasttext.read(path)
    found.sizes = asdict(model.config)
    found.parameters = model.rows.size + model.output.size
    found.odd += fasttext.notes_of(model)
    _look_at_unknown(found, model.words)


def _look_at_unknown(found: Inspection, words: list[str]) -> None:
    """Say which row is that of unknown words."""
    own = unknown_of(words)
    found.sizes["unknown words"] = own or "no row of their own: the mean of all"


def _look_at_arpa(found: Inspection, path: Path) -> None:
    found.format = "arpa"
    words, tables, notes = arpa.read(path)
    found.sizes = {"words": len(words), "order": len(tables)}
    found.sizes |= {f"{k}-grams": len(table.keys) for k, table in enumerate(tables, 1)}
    found.odd += notes


def _look_at_elmo(found: Inspection, path: Path) -> None:
    found.format, found.architecture = "elmo", "Elmo"
    files = (path / "tokenizer.json", path / "vocab.txt")
    tokens = 1
    if any(file.is_file() for file in files):
        _look_at_tokenizer(found, path)
        tokens = found.tokenizer.get("tokens", 1)
    else:
        found.odd.append("no tokenizer: copy one of words into the folder before it is converted")
    config, _ = elmo.check(path, tokens)
    found.sizes = asdict(config)
    with torch.device("meta"):
        encoder = checkpoint.make_learner(config, []).encoder
    found.parameters = sum(parameter.numel() for parameter in encoder.parameters())
    if (path / MANIFEST).is_file():
        verify_manifest(path)
        found.manifest = "whole"


def _format(source: Path) -> str:
    exported = source / EXPORT
    if exported.is_file() and not (source / WEIGHTS).is_file():
        return short(read_json(exported).get("runtime"), str)
    if sentence_transformers.is_one(sources.folder_of(source)):
        return "sentence-transformers"
    layout = sources.layout_of(source)
    bare = source.is_dir() and not any((source / name).is_file() for name in (WEIGHTS, INDEX))
    return "pickle" if layout == "huggingface" and bare and _pickles(source) else layout


def _pickles(folder: Path) -> list[str]:
    """Names of files that begin as pickles do."""
    return [p.name for p in sorted(folder.iterdir()) if p.is_file() and pickled.is_pickle(p)]


def _look_at_weights(found: Inspection, source: Path, config: object) -> None:
    """Parts and tasks, held against the configuration as `load` does."""
    plan = checkpoint.plan(source, config)
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
    if "pooler" in plan.report.started:
        found.odd.append("no pooler: what needs one initializes it")
    if found.unused:
        found.odd.append(f"tensors that are not used: {quote(found.unused)}")
    if plan.repeats:
        found.odd.append("the decoder is written out again, although it is tied")


def _look_at_tokenizer(found: Inspection, folder: Path) -> None:
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
    if why := sources.other_vocabulary(folder, tokenizer):
        found.odd.append(why)


def _look_at_embedding(found: Inspection, folder: Path) -> None:
    try:
        defaults = sentence_transformers.read_defaults(folder)
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
