"""What the Transformer of a sentence-transformers folder does with texts, by its own files.

`sentence_bert_config.json` tells how long they may be and what of the model is taken; where it is
silent, `tokenizer_config.json` tells. What would give other vectors here is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bertwright.checkpoint.huggingface.model import read_json, short
from bertwright.errors import DataError
from bertwright.text.tokenizer.tokenizer import load_tokenizer

SIZES = "sentence_bert_config.json"
_TOKENIZER = "tokenizer_config.json"
# What else a file may hold, and the values under which it is ours.
_HELD: dict[str, tuple[Any, ...]] = {
    "transformer_task": ("feature-extraction", None),
    "module_output_name": ("token_embeddings", None),
}
_READ = {"max_seq_length", "do_lower_case", "unpad_inputs", "modality_config", *_HELD}
_OF_THE_MODEL = ("model_args", "model_kwargs")
_NO_MATTER = {"add_pooling_layer", "attn_implementation", "dtype", "torch_dtype"}


def read_max_length(transformer: Path) -> int:
    """Tokens of a text: `max_seq_length`, or the tokenizer's; never more than there are positions.

    Raises:
        DataError: no number, or a setting that would give other vectors here.
    """
    config = read_json(transformer / "config.json")
    sizes, tokenizer = (
        read_json(transformer / name) if (transformer / name).is_file() else {}
        for name in (SIZES, _TOKENIZER)
    )
    _check(sizes, transformer / SIZES)
    if tokenizer.get("truncation_side", "right") != "right":
        raise DataError(
            f"'truncation_side' in {transformer / _TOKENIZER} is "
            f"{short(tokenizer['truncation_side'])}; long texts lose their end here, not their "
            "start: take the key out if that is as well"
        )
    if sizes.get("do_lower_case") and load_tokenizer(transformer).normalized("A") != "a":
        raise DataError(
            f"{transformer / SIZES} wants texts in lower case before a tokenizer that tells "
            "cases apart; that is not read"
        )
    room = _tokens(config, "max_position_embeddings", transformer / "config.json") or 512
    length = _tokens(sizes, "max_seq_length", transformer / SIZES)
    if length is None:
        length = _tokens(tokenizer, "model_max_length", transformer / _TOKENIZER)
    return room if length is None else min(length, room)


def whole(content: dict[str, Any], key: str, path: Path, of: str, least: int = 1) -> int | None:
    """A number that a file tells; 1e30 tokens is how tokenizers say that any will do.

    Raises:
        DataError: it is no whole number, or below `least`.
    """
    value = content.get(key)
    if value is None:
        return None
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    if not is_whole or value < least:
        raise DataError(
            f"'{key}' in {path} is {short(value)}; expected a whole number of {of} from {least} on"
        )
    return int(value)


def _tokens(content: dict[str, Any], key: str, path: Path) -> int | None:
    return whole(content, key, path, "tokens", 3)


def _check(sizes: dict[str, Any], path: Path) -> None:
    """Refuse another output than the last layer's tokens, and arguments that change vectors."""
    for key, allowed in _HELD.items():
        if sizes.get(key) not in allowed:
            raise DataError(
                f"'{key}' in {path} is {short(sizes[key])}; only {allowed[0]!r} is read"
            )
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
