"""Read and write folders of sentence-transformers: a BERT, and how its tokens become one vector.

```
modules.json                       Transformer, Pooling, perhaps Dense, perhaps Normalize; or
                                   StaticEmbedding in place of the first two (read only)
sentence_bert_config.json          max_seq_length, with [CLS] and [SEP]
config_sentence_transformers.json  prompts, truncate_dim, similarity_fn_name
1_Pooling/config.json              how tokens are pooled
2_Dense/                           a layer that maps pooled vectors (dense.py); none, one or more
3_Normalize/
```

The Transformer is in the folder itself, as in all versions since 2. The formats of all these
versions are read; a folder is written in the oldest format that can express it. A part that changes
vectors and is not supported here is an error; it is never ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from bertwright.checkpoint.sentence_transformers.dense import (
    Dense,
    DenseLayer,
    read_config,
    read_layer,
    write_layer,
)
from bertwright.config.vectors import SimilarityFunction, VectorConfig, poolings_of
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.storage.model_folder import (
    WEIGHTS,
    check_settings,
    read_any_json,
    read_json,
    short,
    write_json,
    wrong,
)
from bertwright.text.tokenizer.files import STATIC_PART, read_folder
from bertwright.text.tokenizer.tokenizer import load_tokenizer

MODULES = "modules.json"
_SIZES = "sentence_bert_config.json"
_TOKENIZER = "tokenizer_config.json"
# Keys that change the token vectors, and the values with which they are computed as here.
_FIXED: dict[str, tuple[Any, ...]] = {
    "transformer_task": ("feature-extraction", None),
    "module_output_name": ("token_embeddings", None),
}
_READ = {"max_seq_length", "do_lower_case", "unpad_inputs", "modality_config", *_FIXED}
_OF_THE_MODEL = ("model_args", "model_kwargs")
_NO_MATTER = {"add_pooling_layer", "attn_implementation", "dtype", "torch_dtype"}
SETTINGS_FILE = "config_sentence_transformers.json"
_WIDTHS = ("word_embedding_dimension", "embedding_dimension")
_NAMES = ("module_input_name", "module_output_name")
SETTINGS = (MODULES, _SIZES, SETTINGS_FILE)
"""The files of settings beside a model."""
_OF_A_PART = ("config.json", WEIGHTS, "tokenizer.json")
_STATIC = "StaticEmbedding"
_MOST_PARTS = 64
_THEIRS = "sentence_transformers."
_LARGEST_PROMPT = 1 << 13
"""The maximum number of characters of a prompt."""

# The name of each pooling in sentence-transformers -> our name and the key of its flag. With flags,
# several poolings are concatenated in this order.
_MODES = {
    "cls": ("cls", "pooling_mode_cls_token"),
    "max": ("max", "pooling_mode_max_tokens"),
    "mean": ("mean", "pooling_mode_mean_tokens"),
    "mean_sqrt_len_tokens": ("mean-sqrt", "pooling_mode_mean_sqrt_len_tokens"),
    "weightedmean": ("weighted", "pooling_mode_weightedmean_tokens"),
    "lasttoken": ("last", "pooling_mode_lasttoken"),
}


@dataclass(frozen=True)
class EmbeddingDefaults:
    """How a folder of sentence-transformers defines that its vectors are computed."""

    pooling: str = "mean"
    """How the tokens, including [CLS] and [SEP], become one vector; see `VectorConfig.pooling`."""
    normalize: bool = False
    """Whether every vector is scaled to length 1."""
    max_length: int | None = 512
    """The maximum number of tokens of a text, with [CLS] and [SEP]; longer texts are truncated.
    None: any number."""
    layers: tuple[int, ...] = (-1,)
    """The layers whose vectors are pooled; a folder can only express the last."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The name of each prompt -> the text that is prepended to every text."""
    default_prompt_name: str | None = None
    """The name of the prompt that is prepended by default."""
    dense: tuple[Dense, ...] = ()
    """The dense layers that are applied to pooled vectors, in order."""
    dimensions: int | None = None
    """The number of first dimensions of a vector that are kept, before scaling; None: all."""
    similarity: SimilarityFunction = "cosine"
    """The function that compares vectors. It does not change the vectors."""

    def vectors(self) -> VectorConfig:
        """Return the `VectorConfig` with which the vectors of the folder are computed."""
        prompt = self.prompts.get(self.default_prompt_name or "", "")
        dense = self.dense[-1].out_features if self.dense else 0
        return VectorConfig(
            self.layers,
            self.pooling,
            self.normalize,
            truncate=True,
            max_length=self.max_length,
            prompt=prompt,
            dense=dense,
            dimensions=self.dimensions,
        )


def read_defaults(root: Path, content: Mapping[str, Any], width: int) -> EmbeddingDefaults:
    """Return how the vectors of a folder of sentence-transformers are computed.

    Args:
        content: the content of its `config.json`.
        width: the width of the encoder.
    """
    parts = _parts(root)
    kinds = [kind for kind, _ in parts]
    is_static, scaled = kinds[0] == _STATIC, kinds[-1] == "Normalize"
    first = [_STATIC] if is_static else ["Transformer", "Pooling"]
    inside = kinds[len(first) : len(kinds) - scaled]
    if kinds[: len(first)] != first or any(kind != "Dense" for kind in inside):
        more = f" and {len(kinds) - 8:,} more" if len(kinds) > 8 else ""
        raise DataError(
            f"{root / MODULES} has the parts {', '.join(kinds[:8])}{more}; only a Transformer and "
            "a Pooling, or a StaticEmbedding, perhaps Dense and perhaps a Normalize are read"
        )
    pooling = "mean" if is_static else _read_pooling(parts[1][1] / "config.json")
    if scaled:
        _check_normalize(parts[-1][1] / "config.json")
    dense = tuple(read_config(path) for kind, path in parts if kind == "Dense")
    if is_static:
        max_length, scaled = _read_static_settings(root, scaled)
    else:
        max_length = read_max_length(root, content)
        width *= len(poolings_of(pooling))
    width = _check_dense(width, dense)
    prompts, default, dimensions, similarity = _read_settings(root / SETTINGS_FILE)
    return EmbeddingDefaults(
        pooling,
        scaled,
        max_length,
        prompts=prompts,
        default_prompt_name=default,
        dense=dense,
        dimensions=None if dimensions is None or dimensions >= width else dimensions,
        similarity=similarity,
    )


def is_one(folder: Path) -> bool:
    """Return whether a folder is one of sentence-transformers."""
    return (folder / MODULES).is_file()


def folders_of(folder: Path) -> list[Path]:
    """Return the folder and, if it is one of sentence-transformers, the folders of its parts."""
    parts = [path for _, path in _parts(folder) if path.is_dir()] if is_one(folder) else []
    return list(dict.fromkeys([folder, *parts]))


def files_of(folder: Path) -> list[str]:
    """Return the names within a folder of sentence-transformers of the files that are read in
    addition to the model's: the settings, and the files of parts that have folders of their own."""
    parts = [path.name for _, path in _parts(folder) if path != folder]
    return [*SETTINGS, *(f"{part}/{name}" for part in parts for name in _OF_A_PART)]


def write_defaults(
    folder: Path,
    defaults: EmbeddingDefaults,
    hidden_size: int,
    layers: Sequence[DenseLayer] | None = None,
) -> None:
    """Turn a Hugging Face folder into a folder of sentence-transformers.

    Args:
        folder: the folder, which contains the encoder.
        layers: the dense layers with their weights; None: they are read from the folders in
            `defaults`.
    """
    kinds = ["Pooling", *["Dense"] * len(defaults.dense), *["Normalize"] * defaults.normalize]
    named = [("Transformer", ""), *((k, f"{n}_{k}") for n, k in enumerate(kinds, 1))]
    modules = [
        {"idx": n, "name": str(n), "path": name, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, name) in enumerate(named)
    ]
    pooling = {"word_embedding_dimension": hidden_size, **_pooling_keys(defaults)}
    for _, name in named[1:]:
        (folder / name).mkdir()
    weights = map(read_layer, defaults.dense) if layers is None else layers
    for layer, (_, name) in zip(weights, named[2:], strict=False):
        write_layer(folder / name, layer)
    if defaults.normalize:
        write_json(folder / named[-1][1] / "config.json", {})  # git does not store an empty folder
    write_json(folder / MODULES, modules)
    write_json(folder / _SIZES, {"max_seq_length": defaults.max_length, "do_lower_case": False})
    write_json(folder / named[1][1] / "config.json", pooling)
    settings: dict[str, Any] = {}
    if defaults.prompts:
        settings |= {
            "prompts": dict(defaults.prompts),
            "default_prompt_name": defaults.default_prompt_name,
        }
    if defaults.dimensions is not None:
        settings["truncate_dim"] = defaults.dimensions
    if defaults.similarity != "cosine":  # which is also the default of sentence-transformers
        settings["similarity_fn_name"] = defaults.similarity
    if settings:
        write_json(folder / SETTINGS_FILE, settings)


def _pooling_keys(defaults: EmbeddingDefaults) -> dict[str, Any]:
    """Return the configuration of a pooling: as flags, which all versions read, if they can express
    it, else as `pooling_mode`."""
    theirs = {ours: name for name, (ours, _) in _MODES.items()}
    poolings = poolings_of(defaults.pooling)
    if defaults.pooling == "first-last" or not theirs.keys() >= set(poolings):
        raise ConfigError(
            f"sentence-transformers has no pooling {defaults.pooling!r}; expected one or more of "
            f"{', '.join(theirs)}"
        )
    modes = [theirs[each] for each in poolings]
    if modes == [mode for mode in _MODES if mode in modes]:
        return {flag: mode in modes for mode, (_, flag) in _MODES.items()}
    return {"pooling_mode": modes}


def _parts(root: Path) -> list[tuple[str, Path]]:
    """Return the kind and the folder of each part, in order."""
    path = root / MODULES
    listed = read_any_json(path)
    if isinstance(listed, list) and len(listed) > _MOST_PARTS:
        raise DataError(f"{path} lists {len(listed):,} parts; expected at most {_MOST_PARTS}")
    parts = []
    for part in listed if isinstance(listed, list) else []:
        kind, name = (part.get(k) for k in ("type", "path")) if isinstance(part, dict) else (0, 0)
        name = "" if name == "." else name  # model2vec names the folder itself so
        if not isinstance(kind, str) or not isinstance(name, str):
            raise DataError(f"{path} holds {short(part)}; expected a type and a path")
        if name and (Path(name).name != name or name == ".."):
            raise IntegrityError(f"{path} names {name!r}; a part is a folder beside it")
        theirs = kind.startswith(_THEIRS)  # another package may use the same class name
        parts.append((kind.rpartition(".")[2] if theirs else kind[:60], root / name))
    if not parts:
        raise DataError(f"{path} holds {short(listed)}; expected a list of parts")
    if parts[0][0] == "WordEmbeddings":
        raise DataError(_of_word_vectors(root, parts[0][1]))
    if parts[0][1] not in (root, root / STATIC_PART):
        raise DataError(
            f"{path} has its first part in {parts[0][1].name}, as before version 2 of "
            "sentence-transformers: load it there and save it again"
        )
    return parts


def _of_word_vectors(root: Path, part: Path) -> str:
    """Return the message of a folder whose first part is a table of word vectors, with the commands
    that write the table as text and convert it.
    """
    read = "torch.load(f'{d}/pytorch_model.bin', weights_only=True)"
    if (part / "model.safetensors").is_file():
        read = "safetensors.torch.load_file(f'{d}/model.safetensors')"
    program = (
        f"import json, safetensors.torch, torch; d = '{part}'; "
        "words = json.load(open(f'{d}/whitespacetokenizer_config.json'))['vocab']; "
        f"rows = {read}['emb_layer.weight'].tolist(); "
        "open('words.txt', 'w').writelines(f'{w} ' + ' '.join(map(str, r)) + '\\n' "
        "for w, r in zip(words, rows))"
    )
    return (
        f"{root} is a table of word vectors (WordEmbeddings). Write it as text and convert it: "
        f'python -c "{program}" && bertwright convert words.txt OUT'
    )


def _read_pooling(path: Path) -> str:
    """Return how tokens are pooled, as `VectorConfig.pooling` names it."""
    content = read_json(path)
    flags = {flag: content.get(flag, False) for _, flag in _MODES.values()}
    known = {"pooling_mode", "include_prompt", *flags, *_WIDTHS}
    unknown = sorted(set(content) - known)
    if unknown:
        raise DataError(f"{path} has the unknown key {short(unknown[0])}: that is not read")
    for key, value in flags.items():
        if type(value) is not bool:
            raise wrong(key, path, value, "true or false")
    if content.get("include_prompt", True) is not True:
        raise wrong("include_prompt", path, content["include_prompt"], "true")
    modes = content.get("pooling_mode")
    if modes is None:
        modes = [mode for mode, (_, flag) in _MODES.items() if flags[flag]] or ["mean"]
    listed = modes if isinstance(modes, list) else [modes]
    distinct = all(isinstance(mode, str) and mode in _MODES for mode in listed)
    if not listed or not distinct or len(set(listed)) < len(listed):
        raise DataError(
            f"the pooling of {path} is {short(modes)}; expected one or more of {', '.join(_MODES)}"
        )
    return "+".join(_MODES[mode][0] for mode in listed)


def _check_normalize(path: Path) -> None:
    """Raise DataError if anything other than the vector of a text is scaled."""
    content = read_json(path) if path.is_file() else {}
    for key, value in content.items():
        if key not in _NAMES or value not in ("sentence_embedding", None):
            raise DataError(f"{short(key)} in {path} is {short(value)}; that is not read")


def _check_dense(width: int, dense: tuple[Dense, ...]) -> int:
    """Return the width of vectors after dense layers, which must fit each other."""
    for layer in dense:
        if layer.in_features != width:
            raise DataError(
                f"'in_features' in {layer.folder / 'config.json'} is {layer.in_features:,}; it is "
                f"given vectors of {width:,} numbers"
            )
        width = layer.out_features
    return width


def _read_static_settings(folder: Path, scaled: bool) -> tuple[int | None, bool]:
    """Return the maximum number of tokens of a text for a table of token vectors (None: any
    number), and whether vectors are scaled to length 1.

    `StaticModel.encode` of model2vec, whose folders have a `config.json`, truncates to 512 tokens
    unless that says otherwise; sentence-transformers truncates as `tokenizer.json` says.
    """
    path = folder / "config.json"
    if path.is_file():
        content = read_json(path)
        length = _whole({"max_length": 512, **content}, "max_length", path, "tokens")
        scaled = content.get("normalize") is True
    else:
        backend, _ = read_folder(folder)
        length = None if backend.truncation is None else int(backend.truncation["max_length"])
    if length is not None:
        length += load_tokenizer(folder).framing.special_tokens()
    return length, scaled


def read_max_length(transformer: Path, content: Mapping[str, Any]) -> int:
    """Return the maximum number of tokens of a text: `max_seq_length`, or else the tokenizer's
    `model_max_length`, and at most the number of positions in the content of `config.json`.
    """
    sizes, tokenizer = (
        read_json(transformer / name) if (transformer / name).is_file() else {}
        for name in (_SIZES, _TOKENIZER)
    )
    _check_sizes(sizes, transformer / _SIZES)
    if tokenizer.get("truncation_side", "right") != "right":
        raise DataError(
            f"'truncation_side' in {transformer / _TOKENIZER} is "
            f"{short(tokenizer['truncation_side'])}; Bertwright truncates the end of "
            "long texts, and this folder truncates the start. Remove the key to accept that"
        )
    if sizes.get("do_lower_case") and load_tokenizer(transformer).normalized("A") != "a":
        raise DataError(
            f"{transformer / _SIZES} wants texts in lower case before a tokenizer that tells "
            "cases apart; that is not read"
        )
    room = _tokens(content, "max_position_embeddings", transformer / "config.json") or 512
    length = _tokens(sizes, "max_seq_length", transformer / _SIZES)
    if length is None:
        length = _tokens(tokenizer, "model_max_length", transformer / _TOKENIZER)
    return room if length is None else min(length, room)


def _whole(content: Mapping[str, Any], key: str, path: Path, of: str, least: int = 1) -> int | None:
    """Return a whole number in a file; None if the key is missing or null. Floats such as 1e30 are
    accepted, because tokenizers express with them that there is no limit."""
    value = content.get(key)
    if value is None:
        return None
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not is_whole or value < least:
        raise wrong(key, path, value, f"a whole number of {of} from {least} on")
    return int(value)


def _tokens(content: Mapping[str, Any], key: str, path: Path) -> int | None:
    return _whole(content, key, path, "tokens", 3)


def _check_sizes(sizes: dict[str, Any], path: Path) -> None:
    """Raise DataError if an output other than the last layer's token vectors is used, or if an
    argument of the model changes the vectors."""
    check_settings(sizes, path, "Transformer", _FIXED)
    taken = sizes.get("modality_config")
    of_text = taken.get("text") if isinstance(taken, dict) else taken
    if of_text is not None and (
        not isinstance(of_text, dict)
        or of_text.get("method") != "forward"
        or of_text.get("method_output_name") != "last_hidden_state"
    ):
        raise DataError(
            f"'modality_config' in {path} takes {short(of_text)} of the model; only its "
            "'last_hidden_state' is read"
        )
    for key, value in sizes.items():
        arguments = set(value) if isinstance(value, dict) and key in _OF_THE_MODEL else None
        if key not in _READ and value and not (arguments and arguments <= _NO_MATTER):
            raise DataError(f"'{key}' in {path} is {short(value)}: that is not read")


def _read_settings(
    path: Path,
) -> tuple[dict[str, str], str | None, int | None, SimilarityFunction]:
    """Return the prompts by name, the name of the default prompt, the number of dimensions that are
    kept, and the function that compares vectors.
    """
    content = read_json(path) if path.is_file() else {}
    prompts, default = content.get("prompts"), content.get("default_prompt_name")
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, dict):
        raise wrong("prompts", path, prompts, "texts by name")
    found: dict[str, str] = {}
    for name, text in prompts.items():
        text = "" if text is None else text
        if not isinstance(text, str) or len(text) > _LARGEST_PROMPT:
            raise DataError(
                f"the prompt {short(name)} in {path} is {short(text)}; expected a text of up to "
                f"{_LARGEST_PROMPT:,} characters"
            )
        found[name] = text
    if default is not None and (not isinstance(default, str) or default not in found):
        expected = f"the name of a prompt there ({short(list(found))})"
        raise wrong("default_prompt_name", path, default, expected)
    dimensions = _whole(content, "truncate_dim", path, "numbers")
    function = content.get("similarity_fn_name") or "cosine"
    if function not in get_args(SimilarityFunction):
        expected = f"one of {', '.join(get_args(SimilarityFunction))}"
        raise wrong("similarity_fn_name", path, function, expected)
    return found, default, dimensions, cast(SimilarityFunction, function)
