"""Folders of sentence-transformers: a BERT, and how its tokens become one vector.

```
modules.json                  its parts in order: Transformer, Pooling, perhaps Normalize
sentence_bert_config.json     max_seq_length, with [CLS] and [SEP]
1_Pooling/config.json         how tokens are pooled
2_Normalize/
```

The Transformer lies in the folder itself or, in the oldest ones, in `0_Transformer`. Read are the
forms of every version to date, written is the oldest that all of them read. A part that changes
vectors and that is not ours (a dense layer, a prompt before each text) is refused, never left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertwright.checkpoint.huggingface import read_any_json, read_json, short
from bertwright.errors import BertwrightError, DataError, IntegrityError

MODULES = "modules.json"
_SIZES = "sentence_bert_config.json"
_PROMPTS = "config_sentence_transformers.json"
_TOKENIZER = "tokenizer_config.json"
_POOLING, _NORMALIZE = "1_Pooling", "2_Normalize"

_MODES: dict[str, Literal["cls", "max", "mean"]] = {"cls": "cls", "max": "max", "mean": "mean"}
_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class EmbeddingDefaults:
    """How a folder wants its vectors made."""

    pooling: Literal["mean", "max", "cls"] = "mean"
    """How tokens become one vector, [CLS] and [SEP] among them."""
    normalize: bool = False
    """Whether every vector is scaled to length 1."""
    max_length: int = 512
    """Tokens of a text that are read, [CLS] and [SEP] among them; the rest is cut off."""
    layers: tuple[int, ...] = (-1,)
    """Which layers: always the last."""


def read_defaults(folder: str | Path) -> EmbeddingDefaults | None:
    """How vectors are made in a folder; None if it is none of sentence-transformers.

    Args:
        folder: the one with `modules.json`, or the one of its Transformer.

    Raises:
        DataError: parts or settings that would give other vectors here.
    """
    root = _root(Path(folder))
    if root is None:
        return None
    parts = _parts(root)
    kinds = [kind for kind, _ in parts]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise DataError(
            f"{root / MODULES} has the parts {', '.join(kinds)}; only a Transformer, a Pooling "
            "and perhaps a Normalize are read"
        )
    _refuse_prompt(root)
    transformer = parts[0][1]
    return EmbeddingDefaults(
        _read_pooling(parts[1][1] / "config.json"),
        len(kinds) == 3,
        _read_max_length(transformer),
    )


def is_part(folder: Path) -> bool:
    """Whether a folder is one of sentence-transformers, or the one of its Transformer."""
    return _root(folder) is not None


def model_folder(folder: Path) -> Path:
    """Where the BERT of a folder lies: `0_Transformer`, where `modules.json` says so, or itself."""
    if not (folder / MODULES).is_file():
        return folder
    return _parts(folder)[0][1]


def folders_of(folder: Path) -> list[Path]:
    """The folders that are read with one: of sentence-transformers the root and its parts."""
    root = _root(folder)
    if root is None:
        return [folder]
    parts = [place for _, place in _parts(root) if place.is_dir()]
    return list(dict.fromkeys([root, *parts]))


def write_defaults(folder: Path, defaults: EmbeddingDefaults, hidden_size: int) -> None:
    """Make a Hugging Face folder one of sentence-transformers."""
    places = [("Transformer", ""), ("Pooling", _POOLING)]
    places += [("Normalize", _NORMALIZE)] if defaults.normalize else []
    modules = [
        {"idx": n, "name": str(n), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, place) in enumerate(places)
    ]
    for _, place in places[1:]:
        (folder / place).mkdir()
    if defaults.normalize:
        _write(folder / _NORMALIZE / "config.json", {})  # an empty folder does not travel
    _write(folder / MODULES, modules)
    _write(folder / _SIZES, {"max_seq_length": defaults.max_length, "do_lower_case": False})
    flags = {flag: mode == defaults.pooling for flag, mode in _FLAGS.items()}
    _write(folder / _POOLING / "config.json", {"word_embedding_dimension": hidden_size, **flags})


def _root(folder: Path) -> Path | None:
    """The folder with `modules.json` that a folder belongs to."""
    if (folder / MODULES).is_file():
        return folder
    above = folder.absolute().parent
    if not (above / MODULES).is_file():
        return None
    try:
        return above if _parts(above)[0][1].name == folder.absolute().name else None
    except BertwrightError:  # a file of this name that is about something else
        return None


def _parts(root: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each part, in order."""
    path = root / MODULES
    listed = read_any_json(path)
    parts = []
    for part in listed if isinstance(listed, list) else []:
        kind, place = (part.get(k) for k in ("type", "path")) if isinstance(part, dict) else (0, 0)
        if not isinstance(kind, str) or not isinstance(place, str):
            raise DataError(f"{path} holds {short(part)}; expected a type and a path")
        if place and (Path(place).name != place or place == ".."):
            raise IntegrityError(f"{path} names {place!r}; a part is a folder beside it")
        parts.append((kind.rpartition(".")[2], root / place))
    if not parts:
        raise DataError(f"{path} holds {short(listed)}; expected a list of parts")
    return parts


def _read_pooling(path: Path) -> Literal["mean", "max", "cls"]:
    content = read_json(path)
    mode = content.get("pooling_mode")
    if mode is None:
        on = [mode for flag, mode in _FLAGS.items() if content.get(flag)]
        mode = on[0] if len(on) == 1 else on or "mean"
    elif isinstance(mode, list) and len(mode) == 1:
        mode = mode[0]
    if not isinstance(mode, str) or mode not in _MODES:
        raise DataError(f"the pooling of {path} is {short(mode)}; expected one of mean, max, cls")
    return _MODES[mode]


def _read_max_length(transformer: Path) -> int:
    """`max_seq_length`, or the tokenizer's; never more than the model's positions."""
    config = read_json(transformer / "config.json")
    sizes, tokenizer = (
        read_json(transformer / name) if (transformer / name).is_file() else {}
        for name in (_SIZES, _TOKENIZER)
    )
    if sizes.get("do_lower_case") and not tokenizer.get("do_lower_case", True):
        raise DataError(
            f"{transformer / _SIZES} wants texts in lower case before a tokenizer that tells "
            "cases apart; that is not read"
        )
    room = _tokens(config, "max_position_embeddings", transformer / "config.json") or 512
    length = _tokens(sizes, "max_seq_length", transformer / _SIZES)
    if length is None:
        length = _tokens(tokenizer, "model_max_length", transformer / _TOKENIZER)
    return room if length is None else min(length, room)


def _tokens(content: dict[str, Any], key: str, path: Path) -> int | None:
    """A number of tokens that a file tells; 1e30 is how tokenizers say that any will do."""
    value = content.get(key)
    if value is None:
        return None
    whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not whole or value < 3:
        raise DataError(
            f"'{key}' in {path} is {short(value)}; expected a whole number of tokens from 3 on"
        )
    return int(value)


def _refuse_prompt(root: Path) -> None:
    if not (root / _PROMPTS).is_file():
        return
    content = read_json(root / _PROMPTS)
    name, prompts = content.get("default_prompt_name"), content.get("prompts")
    if name is not None and isinstance(prompts, dict) and prompts.get(str(name)):
        raise DataError(
            f"{root / _PROMPTS} puts {short(prompts[str(name)])} before every text; that is not "
            "read: put it there yourself, and take 'default_prompt_name' out"
        )


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
