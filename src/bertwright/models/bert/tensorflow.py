"""BERT as google-research/bert publishes it: a TensorFlow 1 checkpoint and `bert_config.json`.

```
bert_config.json  vocab.txt
bert_model.ckpt.index  bert_model.ckpt.data-00000-of-00001
checkpoint                       a text file that names it; TensorFlow reads it
```

| there | in a folder of transformers (`huggingface/bert.py`) |
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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout
from bertwright.storage.tensor_bundle import BundleEntry, read_entries, read_tensor, write_bundle
from bertwright.storage.tensor_names import ParameterMapping, Parts, quote

CONFIG = "bert_config.json"
PREFIX = "bert_model.ckpt"
ACTIVATION = "bertwright_hidden_act"

_SLOTS = ("adam_m", "adam_v")
_STEP = "global_step"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What the two task heads of google-research/bert are called, and the next-sentence head.
_OUTPUTS = {
    "cls.seq_relationship": "cls/seq_relationship/output_",
    "classifier": "output_",
    "qa_outputs": "cls/squad/output_",
}


class TensorFlowLayout(BertLayout):
    """BERT as google-research/bert stores it."""

    repeats: ClassVar[Mapping[str, str]] = {}

    def foreign_names(self, config: BertConfig) -> Parts:
        """All parameters by part, with the names of variables."""
        return _renamed(super().foreign_names(config))

    def current_name(self, name: str) -> str | None:
        """The same; None for what training left."""
        return None if _is_left(name) else name

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """All but those of other heads."""
        return [name for name in unused.values() if name.startswith("bert/")]

    def task_parts(self, tasks: Mapping[str, TaskConfig], pretrained: bool) -> Parts:
        """The one task of a model, if google-research/bert has a head like it."""
        return _renamed(super().task_parts(tasks, pretrained))


def _renamed(parts: Parts) -> Parts:
    """The same by the names of variables."""
    found: Parts = {}
    for part, mappings in parts.items():
        found[part] = []
        for ours, theirs, _ in mappings:
            names = tuple(map(_variable, theirs))
            found[part].append(ParameterMapping(ours, names, names[0].endswith("/kernel")))
    return found


def _variable(name: str) -> str:
    """What transformers' tensor is called here."""
    part, _, kind = name.rpartition(".")
    if part in _OUTPUTS:
        return f"{_OUTPUTS[part]}{'weights' if kind == 'weight' else 'bias'}"
    if name == "cls.predictions.bias":
        return "cls/predictions/output_bias"
    path = re.sub(r"\.layer\.(\d+)\.", r"/layer_\1/", f"{part}.").rstrip("./").replace(".", "/")
    if part.endswith("_embeddings"):
        return path
    if part.endswith("LayerNorm"):
        return f"{path}/{'gamma' if kind == 'weight' else 'beta'}"
    return f"{path}/{'kernel' if kind == 'weight' else 'bias'}"


def _is_left(name: str) -> bool:
    """Whether a variable is the optimizer's, not the model's."""
    return name.rpartition("/")[2] in _SLOTS or name == _STEP


def find_prefix(path: Path) -> Path | None:
    """The checkpoint that a path means, without `.index`; None if there is none.

    A path is a folder or a checkpoint's name with or without `.index`.

    Raises:
        DataError: a folder of several.
    """
    if not path.is_dir():
        prefix = path.with_name(path.name.removesuffix(".index"))
        return prefix if prefix.with_name(f"{prefix.name}.index").is_file() else None
    found = sorted(file.name.removesuffix(".index") for file in path.glob("*.index"))
    if len(found) > 1:
        raise DataError(
            f"{path} has the checkpoints {', '.join(found[:8])}; name one: {path / found[0]}"
        )
    return path / found[0] if found else None


def read_variables(prefix: Path) -> tuple[dict[str, BundleEntry], tuple[str, ...]]:
    """Every variable, and what training left among them, in words.

    Raises:
        DataError: a checkpoint of another model.
        IntegrityError: truncated or damaged.
    """
    entries = read_entries(prefix)
    if "bert/embeddings/word_embeddings" not in entries:
        kind = "TensorFlow 2 objects" if _OBJECT_GRAPH in entries else "another model"
        weights = sorted(name for name in entries if not _is_left(name))
        raise DataError(
            f"{prefix} is a checkpoint of {kind}, not of google-research/bert: it has "
            f"{quote(weights, 4) or 'no weights'} and no 'bert/embeddings/word_embeddings'"
        )
    words = []
    for slot in _SLOTS:
        count = sum(name.endswith(f"/{slot}") for name in entries)
        if count:
            words.append(f"{count} {slot}")
    if (step := entries.get(_STEP)) is not None:
        if not step.dtype.startswith("I") or step.shape not in ((), (1,)):
            raise IntegrityError(f"'{_STEP}' in {step.file} is no whole number")
        words.append(f"{_STEP} {int(read_tensor(_STEP, step)):,}")
    return entries, tuple(words)


def write(folder: Path, variables: Mapping[str, Tensor]) -> None:
    """Write `bert_model.ckpt` and `checkpoint`."""
    write_bundle(folder / PREFIX, variables)
    keys = ("model_checkpoint_path", "all_model_checkpoint_paths")
    text = "".join(f'{key}: "{PREFIX}"\n' for key in keys)
    (folder / "checkpoint").write_text(text, encoding="utf-8")


def check_task_head(architecture: str | None) -> None:
    """Raise ConfigError unless google-research/bert has a head like this one of transformers."""
    if architecture not in ("BertForSequenceClassification", "BertForQuestionAnswering"):
        raise ConfigError(
            "google-research/bert has heads for classes of texts and for spans only; "
            "convert this model to huggingface"
        )
