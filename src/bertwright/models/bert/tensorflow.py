"""BERT in the files of google-research/bert: a TensorFlow 1 checkpoint and `bert_config.json`.

```
bert_config.json  vocab.txt
bert_model.ckpt.index  bert_model.ckpt.data-00000-of-00001
checkpoint                       a text file that names the checkpoint for TensorFlow
```

| there | in a folder of transformers (`models/bert/huggingface.py`) |
|---|---|
| `bert/encoder/layer_I/...` | `bert.encoder.layer.I...` |
| `.../kernel [in, out]` | `....weight [out, in]`, transposed |
| `.../LayerNorm/gamma`, `beta` | `....LayerNorm.weight`, `bias` |
| `bert/embeddings/*_embeddings` | `bert.embeddings.*_embeddings.weight` |
| `cls/predictions/output_bias` | `cls.predictions.bias` |
| `cls/seq_relationship/output_weights [2, H]`, `output_bias` | `cls.seq_relationship.*` |
| `output_weights [C, H]`, `output_bias` (run_classifier.py) | `classifier.*` |
| `cls/squad/output_weights [2, H]`, `output_bias` (run_squad.py) | `qa_outputs.*` |

A checkpoint holds either all variables of a part or none of them, and no other variables under
`bert/`. Training state (`*/adam_m`, `*/adam_v`, `global_step`) is recognized and reported, but not
loaded.

"gelu" meant the error function when the models were published, and the tanh approximation in the
last version of the code. It is read as the error function, as in transformers, unless the key
`bertwright_hidden_act` says otherwise. We write that key; google-research/bert ignores unknown
keys.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from torch import Tensor

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout
from bertwright.storage.tensor_bundle import BundleEntry, read_entries, read_tensor, write_bundle
from bertwright.storage.tensor_names import ParameterMapping, Parts, quote

PREFIX = "bert_model.ckpt"
ACTIVATION = "bertwright_hidden_act"

_SLOTS = ("adam_m", "adam_v")
_STEP = "global_step"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# The names of the next-sentence head and of the two task heads in google-research/bert.
_OUTPUTS = {
    "cls.seq_relationship": "cls/seq_relationship/output_",
    "classifier": "output_",
    "qa_outputs": "cls/squad/output_",
}


class TensorFlowLayout(BertLayout):
    """The layout of google-research/bert."""

    @property
    def repeats(self) -> Mapping[str, str]:
        return {}

    def foreign_names(self, config: BertConfig) -> Parts:
        """Return all parameters by part, with the names of their variables."""
        return _renamed(super().foreign_names(config))

    def current_name(self, name: str) -> str | None:
        """Return the name; None for training state."""
        return None if _is_left(name) else name

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the unused tensors under `bert/`; all others belong to other heads."""
        return [name for name in unused.values() if name.startswith("bert/")]

    def task_parts(
        self, tasks: Mapping[str, TaskConfig], pretrained: bool, pooled: bool = True
    ) -> Parts:
        """Return the head of the model's only task, if google-research/bert has such a head."""
        return _renamed(super().task_parts(tasks, pretrained, pooled))


def _renamed(parts: Parts) -> Parts:
    """Return the parts with the names of variables in place of those of transformers."""
    renamed: Parts = {}
    for part, mappings in parts.items():
        renamed[part] = []
        for ours, theirs, _ in mappings:
            names = tuple(map(_variable, theirs))
            renamed[part].append(ParameterMapping(ours, names, names[0].endswith("/kernel")))
    return renamed


def _variable(name: str) -> str:
    """Return the name of the variable for a tensor of transformers."""
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
    """Return whether a variable is training state rather than a weight."""
    return name.rpartition("/")[2] in _SLOTS or name == _STEP


def read_variables(prefix: Path) -> tuple[dict[str, BundleEntry], tuple[str, ...]]:
    """Return the entries of all variables, and descriptions of the training state among them."""
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
            raise IntegrityError(f"'{_STEP}' in {step.file} is not an integer")
        words.append(f"{_STEP} {int(read_tensor(_STEP, step)):,}")
    return entries, tuple(words)


def write(folder: Path, variables: Mapping[str, Tensor]) -> None:
    """Write `bert_model.ckpt` and `checkpoint`."""
    write_bundle(folder / PREFIX, variables)
    keys = ("model_checkpoint_path", "all_model_checkpoint_paths")
    text = "".join(f'{key}: "{PREFIX}"\n' for key in keys)
    (folder / "checkpoint").write_text(text, encoding="utf-8")


def check_task_head(architecture: str | None) -> None:
    """Raise ConfigError unless google-research/bert has the head of this class of transformers."""
    if architecture not in ("BertForSequenceClassification", "BertForQuestionAnswering"):
        raise ConfigError(
            "google-research/bert has heads for text classification and for spans only; convert "
            "this model with --to huggingface"
        )
