"""Read and write tokenizer folders: `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`.

The three files are in Hugging Face's format, so `tokenizers.Tokenizer.from_file` and
`transformers.BertTokenizerFast.from_pretrained` can read them. Folders of google-research/bert,
which have only `vocab.txt`, and of GPT, GPT-2 and RoBERTa, which have `vocab.json` and
`merges.txt`, are read too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.normalizers import BertNormalizer

from bertwright.errors import ConfigError, DataError
from bertwright.rows.open import no_folder
from bertwright.text.tokenizer.file_words import FILE_WORDS, UNKNOWN_ROW, FileKind

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
"""BERT's special tokens, in the order of their ids in vocabularies that are trained here, from
0.
"""

END_OF_TEXT = "<|endoftext|>"
"""GPT-2's only special token: it begins and ends a text, and stands for unknown tokens."""
ROBERTA_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
"""RoBERTa's special tokens, and those of XLM-R, CamemBERT and MPNet."""
ALBERT_TOKENS = {**SPECIAL_TOKENS, "pad_token": "<pad>", "unk_token": "<unk>"}
"""ALBERT's special tokens."""
STATIC_PART = "0_StaticEmbedding"
"""The folder within a folder of sentence-transformers that has a table of token vectors and its
tokenizer.
"""
_MERGES = "merges.txt"
_OF_BERT = (None, "BertTokenizer", "BertTokenizerFast")
"""The classes of transformers for BERT's tokenizers."""


@dataclass(frozen=True)
class BertRules:
    """How a BERT tokenizer normalizes text and splits words."""

    lowercase: bool = True
    strip_accents: bool | None = None
    """Whether accents are removed; None: if `lowercase`."""
    chinese_characters: bool = True
    max_word_characters: int = 100
    """The most characters of a word; a longer one is `[UNK]`."""

    @property
    def strips(self) -> bool:
        """Whether accents are stripped."""
        return self.lowercase if self.strip_accents is None else self.strip_accents


class UnusedMerges(UserWarning):
    """Warns that merges of a BPE were left out, because their tokens are not in its vocabulary."""


def make_backend(
    vocab: Sequence[str] | Mapping[str, int], rules: BertRules
) -> tokenizers.Tokenizer:
    """Return a WordPiece tokenizer over `vocab` (tokens in the order of their ids, or token -> id).

    Raises:
        DataError: the vocabulary lacks [UNK].
    """
    if not isinstance(vocab, Mapping):
        vocab = {token: index for index, token in enumerate(vocab)}
    if "[UNK]" not in vocab:
        raise DataError(
            f"the vocabulary has {len(vocab)} entries but not [UNK]; expected one token per line, "
            "including [UNK] (and [PAD], [CLS], [SEP] and [MASK] for a BERT)"
        )
    # added in the order of ids, so that loading does not renumber them
    special = sorted(set(SPECIAL_TOKENS.values()) & vocab.keys(), key=vocab.__getitem__)
    backend = tokenizers.Tokenizer(
        models.WordPiece(
            dict(vocab), unk_token="[UNK]", max_input_chars_per_word=rules.max_word_characters
        )
    )
    backend.normalizer = make_normalizer(rules)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if {"[CLS]", "[SEP]"} <= vocab.keys():
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[(token, vocab[token]) for token in ("[CLS]", "[SEP]")],
        )
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    backend.add_special_tokens([AddedToken(token, special=True) for token in special])
    return backend


def make_normalizer(rules: BertRules) -> BertNormalizer:
    """Return the normalizer that prepares text under `rules` before it is split into words."""
    return BertNormalizer(
        clean_text=True,
        handle_chinese_chars=rules.chinese_characters,
        strip_accents=rules.strip_accents,
        lowercase=rules.lowercase,
    )


def write_folder(folder: Path, backend: tokenizers.Tokenizer, config: Mapping[str, Any]) -> None:
    """Write the three files into `folder`, which is created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    # not backend.save, which raises a bare Exception and not an OSError if the disk is full
    whole = backend.to_str(pretty=True)
    (folder / "tokenizer.json").write_text(whole, encoding="utf-8", newline="\n")
    text = json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
    token_of = {i: token for token, i in backend.get_vocab(with_added_tokens=True).items()}
    # a line for every id, because a missing line would shift all following ids
    lines = "".join(f"{token_of.get(i, f'[no token {i}]')}\n" for i in range(max(token_of) + 1))
    (folder / "vocab.txt").write_text(lines, encoding="utf-8", newline="\n")


def huggingface_config(rules: BertRules, vocab: Collection[str]) -> dict[str, Any]:
    """Return the `tokenizer_config.json` of a vocabulary that was trained here."""
    special = {name: token for name, token in SPECIAL_TOKENS.items() if token in vocab}
    published = len(special) == len(SPECIAL_TOKENS)
    return {
        **special,
        "tokenizer_class": "BertTokenizer" if published else "PreTrainedTokenizerFast",
        "do_lower_case": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.chinese_characters,
    }


def make_file_words(
    words: Sequence[str], kind: FileKind, special: Mapping[str, str], unknown_row: str | None
) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return the backend and the `tokenizer_config.json` for reading texts in the words of a file.

    The backend splits at blanks and looks words up as they are; this is what transformers does with
    the folder. Bertwright reads text as `file_words.py` describes.

    Args:
        words: tokens in the order of their ids.
        kind: the kind of file.
        special: `unk_token`, and `bos_token` and `eos_token` if the file has them.
        unknown_row: see `UNKNOWN_ROW`.
    """
    vocab = {word: index for index, word in enumerate(words)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token=special["unk_token"]))
    backend.pre_tokenizer = pre_tokenizers.Split(
        tokenizers.Regex(r"[ \t\n\r\x0b\x0c\x00]+"), "removed"
    )
    tokens = sorted({*special.values()}, key=vocab.__getitem__)
    backend.add_special_tokens([AddedToken(token, special=True) for token in tokens])
    return backend, {
        **special,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "do_lower_case": False,
        FILE_WORDS: kind,
        **({} if unknown_row is None else {UNKNOWN_ROW: unknown_row}),
    }


def holds_tokenizer(folder: Path) -> bool:
    """Return whether a folder has the files of a tokenizer that says its own rules."""
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt"))


def place_of_tokenizer(folder: Path) -> Path:
    """Return the folder that has the tokenizer's files: the folder itself, or that of a table of
    token vectors within a folder of sentence-transformers."""
    part = folder / STATIC_PART
    return part if (part / "tokenizer.json").is_file() else folder


def read_folder(folder: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """Return the backend and the `tokenizer_config.json` of a folder.

    Raises:
        ConfigError: there is no such folder, or no tokenizer in it.
        DataError: a file cannot be read, or is damaged.
    """
    if folder.is_file():
        raise ConfigError(f"{folder} is a file; give the folder that it is in: {folder.parent}")
    if not folder.is_dir():
        command = f"bertwright tokenizer train CORPUS --out {folder}"
        raise no_folder(ConfigError, folder, "the folder of a tokenizer or a model", command)
    folder = place_of_tokenizer(folder)
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            config.update(_read_json(folder / name))
    path = folder / "tokenizer.json"
    if path.is_file():
        text = _read(path)
        try:
            backend = _as_transformers(tokenizers.Tokenizer.from_str(text), config)
        except Exception as error:  # tokenizers raises bare Exception
            raise DataError(f"{path} is not a tokenizer: {error}") from error
        return backend, {**ends_config(backend), **config}
    if (folder / _MERGES).is_file():
        backend = _read_merges(folder)
        config = {**ends_config(backend), **config}
        begin = config.get("bos_token")
        if config.get("add_bos_token") is True and isinstance(begin, str) and begin:
            # transformers reads this key only if there is no tokenizer.json
            backend.post_processor = processors.TemplateProcessing(
                single=f"{begin} $A",
                pair=f"{begin} $A {begin} $B",
                special_tokens=[(begin, backend.token_to_id(begin))],
            )
        return backend, config
    if not (folder / "vocab.txt").is_file():
        raise ConfigError(
            f"{folder} holds neither tokenizer.json nor vocab.txt; train a tokenizer with "
            "`bertwright tokenizer train CORPUS --out DIR`"
        )
    if (folder / "added_tokens.json").is_file():
        raise DataError(
            f"{folder} adds tokens to vocab.txt by added_tokens.json, and has no tokenizer.json; "
            "make one: transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    vocab = read_vocab(folder / "vocab.txt")
    rules = _rules_of(config, vocab)
    backend = make_backend(vocab, rules)
    # transformers treats a folder that does not state its rules as uncased
    return backend, {**huggingface_config(rules, vocab), **config}


def split_by_bytes(backend: tokenizers.Tokenizer) -> None:
    """Make a tokenizer split text into GPT-2's words and bytes."""
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()


def ends_config(backend: tokenizers.Tokenizer, lowercase: bool = False) -> dict[str, Any]:
    """Return the names of special tokens for a folder that does not name them, as the published
    ones of GPT, GPT-2, RoBERTa and ALBERT do not; {} if they are not known.
    """
    found = backend.get_vocab(with_added_tokens=True).keys()
    if found >= set(ROBERTA_TOKENS.values()) and SPECIAL_TOKENS["cls_token"] not in found:
        words = isinstance(backend.model, models.WordPiece)  # MPNet's, which has [UNK] too
        return {**ROBERTA_TOKENS, **({"unk_token": backend.model.unk_token} if words else {})}
    if found >= set(ALBERT_TOKENS.values()) and SPECIAL_TOKENS["unk_token"] not in found:
        return dict(ALBERT_TOKENS)
    if not isinstance(backend.model, models.BPE):
        return {}
    if backend.token_to_id(END_OF_TEXT) is not None:
        # transformers' class for GPT-2 has fixed rules, which do not lower-case
        kind = "PreTrainedTokenizerFast" if lowercase else "GPT2Tokenizer"
        roles = ("bos_token", "eos_token", "unk_token")
        return {**dict.fromkeys(roles, END_OF_TEXT), "tokenizer_class": kind}
    return {"unk_token": "<unk>"} if backend.token_to_id("<unk>") is not None else {}


def _read_merges(folder: Path) -> tokenizers.Tokenizer:
    """Return the BPE of `vocab.json` and `merges.txt`: GPT-2's over bytes, or GPT's over
    lower-cased words with an end marker.
    """
    try:
        vocab, merges = models.BPE.read_file(str(folder / "vocab.json"), str(folder / _MERGES))
    except Exception as error:  # tokenizers raises bare Exception
        raise DataError(f"{folder} has no vocab.json and merges.txt of a BPE: {error}") from error
    known = [(a, b) for a, b in merges if a in vocab and b in vocab and a + b in vocab]
    if len(known) < len(merges):
        first = next(" ".join(pair) for pair in merges if pair not in set(known))
        warnings.warn(
            UnusedMerges(
                f"{folder / _MERGES} has {len(merges) - len(known):,} merges of tokens that are "
                f"not in vocab.json, such as {first!r}; they are left out"
            ),
            stacklevel=2,
        )
        merges = known
    if any(token.endswith("</w>") for token in vocab):
        backend = tokenizers.Tokenizer(
            models.BPE(vocab, merges, unk_token="<unk>", end_of_word_suffix="</w>")
        )
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix="</w>")
        return backend
    backend = tokenizers.Tokenizer(models.BPE(vocab, merges))
    split_by_bytes(backend)
    if vocab.keys() >= set(ROBERTA_TOKENS.values()):
        ends = (ROBERTA_TOKENS["sep_token"], ROBERTA_TOKENS["cls_token"])
        sep, cls = ((token, vocab[token]) for token in ends)
        backend.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=False)
        for token in sorted(ROBERTA_TOKENS.values(), key=vocab.__getitem__):
            # the mask takes the blank before it, as in transformers
            is_mask = token == ROBERTA_TOKENS["mask_token"]
            backend.add_special_tokens([AddedToken(token, special=True, lstrip=is_mask)])
    if END_OF_TEXT in vocab:
        backend.add_special_tokens([AddedToken(END_OF_TEXT, special=True)])
    return backend


def _as_transformers(
    backend: tokenizers.Tokenizer, config: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """Apply the rules of `tokenizer_config.json` if they differ from `tokenizer.json`, because
    transformers' class for BERT does so.
    """
    rules = backend.normalizer
    if isinstance(rules, BertNormalizer) and config.get("tokenizer_class") in _OF_BERT:
        for ours, key in (
            ("lowercase", "do_lower_case"),
            ("strip_accents", "strip_accents"),
            ("handle_chinese_chars", "tokenize_chinese_chars"),
        ):
            stated = config.get(key, getattr(rules, ours))
            if type(stated) is bool or (stated is None and ours == "strip_accents"):
                setattr(rules, ours, stated)
    return backend


def read_vocab(path: Path) -> dict[str, int]:
    """Return token -> id of a `vocab.txt`, where the id is the index of the token's line."""
    lines = _read(path).removesuffix("\n").split("\n")
    while len(lines) > 1 and not lines[-1].strip():  # blank lines at the end are not tokens
        lines.pop()
    return {line.rstrip("\r"): index for index, line in enumerate(lines)}


def _rules_of(config: Mapping[str, Any], vocab: Mapping[str, int]) -> BertRules:
    """Return the rules that a folder states; otherwise the case follows from capitals in the
    vocabulary.
    """
    # isalpha excludes [MASK], and <S> of the Chinese vocabulary
    words = (token.removeprefix("##") for token in vocab)
    cased = any(word.isalpha() and word != word.lower() for word in words)
    return BertRules(
        lowercase=bool(config.get("do_lower_case", not cased)),
        strip_accents=config.get("strip_accents"),
        chinese_characters=bool(config.get("tokenize_chinese_chars", True)),
    )


def _read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object from a file."""
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path} holds {type(value).__name__}; expected a JSON object")
    return value


def _read(path: Path) -> str:
    """Return the text of a file, with line ends unchanged."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise DataError(
            f"the tokenizer {path} cannot be read: {error.strerror}; make it readable"
        ) from error


def write_training(folder: Path, record: Mapping[str, Any]) -> None:
    """Write `training.json`, which says how a vocabulary was made, without wall-clock times."""
    timeless = {
        name: {key: value for key, value in part.items() if not key.startswith("seconds")}
        for name, part in record.items()
    }
    text = json.dumps(timeless, indent=2, ensure_ascii=False)
    (folder / "training.json").write_text(text + "\n", encoding="utf-8")
