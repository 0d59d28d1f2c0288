"""The stored formats, each a record that recognizes, describes, reads and writes its files.

| format | weights | configuration |
|---|---|---|
| `huggingface` | `model.safetensors`, or shards with an index | `config.json` |
| tables of token vectors | `model.safetensors` | `config.json`, else sentence-transformers' |
| `tensorflow` | `NAME.index`, `NAME.data-*` | `bert_config.json`, else `config.json` |
| `elmo` | `*.hdf5` | `options.json` |
| `word2vec`, `fasttext`, `arpa` | one file | |

Bertwright's own checkpoints have the format `huggingface`. A folder of sentence-transformers is one
of `huggingface` with files that say how vectors are made (`checkpoint/sentence_transformers`).
"""

from __future__ import annotations

from pathlib import Path

from bertwright.checkpoint.formats.arpa import Arpa
from bertwright.checkpoint.formats.elmo import Elmo
from bertwright.checkpoint.formats.fasttext import FastText
from bertwright.checkpoint.formats.format import FileFormat, FolderFormat
from bertwright.checkpoint.formats.huggingface import HuggingFace
from bertwright.checkpoint.formats.static import Static
from bertwright.checkpoint.formats.tensorflow import TensorFlow
from bertwright.checkpoint.formats.word2vec import Word2Vec

HUGGINGFACE, TENSORFLOW = HuggingFace(), TensorFlow()
FOLDERS: tuple[FolderFormat, ...] = (Static(), HUGGINGFACE, TENSORFLOW)
"""The formats of folders in the order in which they are tried: if a folder has both kinds of
weights, its safetensors are read."""
ELMO = Elmo()
FILES: tuple[FileFormat, ...] = (FastText(), Word2Vec(), Arpa(), ELMO)
"""The formats of other programs in the order in which they are tried. fastText comes first, because
the name of its `.bin` is also that of a file of word vectors."""


def folder_format(source: Path) -> FolderFormat:
    """Return the format of a source. A folder without weights gets `HUGGINGFACE`."""
    if not source.is_dir():
        return TENSORFLOW
    return next((each for each in FOLDERS if each.recognize(source)), HUGGINGFACE)


def file_format(path: Path) -> FileFormat | None:
    """Return the format of the files of another program at a path; None if they are of none."""
    return next((each for each in FILES if each.recognize(path)), None)
