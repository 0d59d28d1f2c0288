"""BERT as google-research/bert publishes it: a TensorFlow 1 checkpoint and `bert_config.json`.

```
bert_config.json  vocab.txt
bert_model.ckpt.index  bert_model.ckpt.data-00000-of-00001
checkpoint                       a text file that names the newest, where training wrote several
```

| there | under Hugging Face's names (`huggingface/bert.py`) |
|---|---|
| `bert/encoder/layer_I/...` | `bert.encoder.layer.I...` |
| `.../kernel [in, out]` | `....weight [out, in]`, transposed |
| `.../LayerNorm/gamma`, `beta` | `....LayerNorm.weight`, `bias` |
| `bert/embeddings/*_embeddings` | `bert.embeddings.*_embeddings.weight` |
| `cls/predictions/output_bias` | `cls.predictions.bias` |
| `cls/seq_relationship/output_weights [2, H]`, `output_bias` | `cls.seq_relationship.*` |
| `output_weights [C, H]`, `output_bias` (run_classifier.py) | `classifier.*` |
| `cls/squad/output_weights [2, H]`, `output_bias` (run_squad.py) | `qa_outputs.*` |

A part is there whole or not at all, and nothing else may stand under `bert/`. What training left
(`*/adam_m`, `*/adam_v`, `global_step`) is recognised and reported, not loaded.

"gelu" meant the error function when the models were published, and its tanh approximation in the
last version of their code. It is read as the former, as transformers does, unless
`bertwright_hidden_act` stands beside it, which we write; their code passes over keys it does not
know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bertwright.checkpoint.format import pair, quote
from bertwright.checkpoint.huggingface.bert import BERT
from bertwright.checkpoint.tensorflow.tensor_bundle import (
    Entry,
    read_entries,
    read_tensor,
    write_bundle,
)
from bertwright.config.bert import BertConfig
from bertwright.errors import ConfigError, DataError, IntegrityError

CONFIG = "bert_config.json"
PREFIX = "bert_model.ckpt"
ACTIVATION = "bertwright_hidden_act"

_NEWEST = "checkpoint"
_SLOTS = ("adam_m", "adam_v")
_STEP = "global_step"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What the two task heads of google-research/bert are called, and the next-sentence head.
_OUTPUTS = {
    "cls.seq_relationship": "cls/seq_relationship/output_",
    "classifier": "output_",
    "qa_outputs": "cls/squad/output_",
}


class Variable(NamedTuple):
    """A tensor of a TensorFlow checkpoint, as Hugging Face's tensor of the same meaning."""

    file: Path
    shape: tuple[int, ...]
    """After transposing."""
    name: str
    """In the checkpoint."""
    entry: Entry
    transposed: bool


def foreign_name(name: str) -> tuple[str, bool]:
    """The name here of a Hugging Face tensor, and whether the matrix stands the other way round."""
    part, _, kind = name.rpartition(".")
    if part in _OUTPUTS:
        return f"{_OUTPUTS[part]}{'weights' if kind == 'weight' else 'bias'}", False
    if name == "cls.predictions.bias":
        return "cls/predictions/output_bias", False
    path = re.sub(r"\.layer\.(\d+)\.", r"/layer_\1/", f"{part}.").rstrip("./").replace(".", "/")
    if part.endswith("_embeddings"):
        return path, False
    if part.endswith("LayerNorm"):
        return f"{path}/{'gamma' if kind == 'weight' else 'beta'}", False
    return f"{path}/{'kernel' if kind == 'weight' else 'bias'}", kind == "weight"


def find_prefix(path: Path) -> Path | None:
    """The checkpoint that a path means, without `.index`; None if there is none.

    A path is a folder or a checkpoint's name with or without `.index`. Of several in a folder it
    is the one that `checkpoint` names, or `bert_model.ckpt`.

    Raises:
        DataError: several, and nothing tells which is meant.
    """
    if not path.is_dir():
        prefix = path.with_name(path.name.removesuffix(".index"))
        return prefix if prefix.with_name(f"{prefix.name}.index").is_file() else None
    found = sorted(file.name.removesuffix(".index") for file in path.glob("*.index"))
    if len(found) > 1:
        wanted = _newest(path)
        named = [name for name in (wanted, PREFIX) if name in found]
        if not named:
            raise DataError(
                f"{path} has the checkpoints {', '.join(found[:8])}; name one: {path / found[0]}"
            )
        found = named
    return path / found[0] if found else None


def read_variables(prefix: Path, config: BertConfig) -> tuple[dict[str, Variable], tuple[str, ...]]:
    """Hugging Face's name -> where it is, and what training left, in words.

    Variables that the table does not know keep their names, but for the dots in place of slashes.

    Args:
        prefix: of the checkpoint.
        config: in `bert_config.json`.

    Raises:
        DataError: a checkpoint of another model.
        IntegrityError: truncated or damaged.
    """
    entries = read_entries(prefix)
    left = {name for name in entries if name.rpartition("/")[2] in _SLOTS or name == _STEP}
    weights = [name for name in entries if name not in left]
    if "bert/embeddings/word_embeddings" not in weights:
        kind = "TensorFlow 2 objects" if _OBJECT_GRAPH in weights else "another model"
        raise DataError(
            f"{prefix} is a checkpoint of {kind}, not of google-research/bert: it has "
            f"{quote(sorted(weights), 4) or 'no weights'} and no "
            "'bert/embeddings/word_embeddings'"
        )
    theirs = {}
    for name in _table_names(config):
        foreign, transposed = foreign_name(name)
        theirs[foreign] = (name, transposed)
    variables = {}
    for foreign in weights:
        name, transposed = theirs.get(foreign, (foreign.replace("/", "."), False))
        entry = entries[foreign]
        if entry.dtype is None or not entry.dtype.is_floating_point:
            raise DataError(f"'{foreign}' in {prefix} is of type {entry.dtype}; expected reals")
        shape = entry.shape[::-1] if transposed else entry.shape
        variables[name] = Variable(entry.file, shape, foreign, entry, transposed)
    return variables, _left_in_words(left, entries)


def read(variable: Variable) -> Tensor:
    """A tensor, its bytes verified, as Hugging Face has it.

    Raises:
        IntegrityError: it was truncated or changed.
        DataError: it holds numbers that are not finite.
    """
    tensor = read_tensor(variable.name, variable.entry)
    if not torch.isfinite(tensor).all():
        raise DataError(f"'{variable.name}' in {variable.file} holds numbers that are not finite")
    return tensor.t().contiguous() if variable.transposed else tensor


def write(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `bert_model.ckpt` and `checkpoint`.

    Args:
        folder: where.
        tensors: by Hugging Face's names.
    """
    found = {}
    for name, tensor in tensors.items():
        foreign, transposed = foreign_name(name)
        found[foreign] = tensor.t() if transposed else tensor
    write_bundle(folder / PREFIX, found)
    keys = ("model_checkpoint_path", "all_model_checkpoint_paths")
    text = "".join(f'{key}: "{PREFIX}"\n' for key in keys)
    (folder / _NEWEST).write_text(text, encoding="utf-8")


def check_task_head(architecture: str | None) -> None:
    """Raise ConfigError unless google-research/bert has a head like this one of transformers."""
    if architecture not in ("BertForSequenceClassification", "BertForQuestionAnswering"):
        raise ConfigError(
            "google-research/bert has heads for classes of texts and for spans only; "
            "convert this model to huggingface"
        )


def _table_names(config: BertConfig) -> list[str]:
    mappings = [mapping for part in BERT.mappings(config).values() for mapping in part]
    mappings += [*pair("", "classifier"), *pair("", "qa_outputs")]
    return [name for mapping in mappings for name in mapping.theirs]


def _left_in_words(left: set[str], entries: Mapping[str, Entry]) -> tuple[str, ...]:
    words = []
    for slot in _SLOTS:
        count = sum(name.endswith(f"/{slot}") for name in left)
        if count:
            words.append(f"{count} {slot}")
    if _STEP in left:
        entry = entries[_STEP]
        whole = entry.dtype is not None and not entry.dtype.is_floating_point
        if not whole or entry.shape not in ((), (1,)):
            raise IntegrityError(f"'{_STEP}' in {entry.file} is no whole number")
        words.append(f"{_STEP} {int(read_tensor(_STEP, entry)):,}")
    return tuple(words)


def _newest(folder: Path) -> str | None:
    """The checkpoint that the text file `checkpoint` names; never outside of the folder."""
    path = folder / _NEWEST
    if not path.is_file() or path.stat().st_size > 1 << 20:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(r'^model_checkpoint_path:\s*"([^"\n]*)"', text, re.MULTILINE)
    return found[1].replace("\\", "/").rpartition("/")[2] if found else None
