"""One tokenizer, four witnesses: `tokenizers`, transformers, the published rules, our fast path."""

from __future__ import annotations

import json
import pickle
import random
import unicodedata
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from bertwright.errors import ConfigError, DataError
from bertwright.text.tokenizer.files import SPECIAL_TOKENS, BertRules
from bertwright.text.tokenizer.inspect import inspect_text
from bertwright.text.tokenizer.normalize import longest_match
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer, make_tokenizer
from tests.raising import assert_names, raises
from tests.text.published_rules import basic_tokenize
from tests.text.tokenizer.saved import saved_backend

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ["the", "cat", "sat", "un", "able", "mask", "want", "run", "café", "é", "мир", "木", "İ"]
PIECES = ["##able", "##ed", "##ing", "##s", "##ning", "##ми", "##é", "##́", "##あ"]
MARKS = ".,;:!?'\"()[]{}<>-_$^~@#\u2014\u2026\u201c\u3002\uff0c"
VOCAB = list(
    dict.fromkeys(
        [
            *SPECIAL_TOKENS.values(),
            *LETTERS,
            *LETTERS[:26].upper(),
            *MARKS,
            *("##" + c for c in LETTERS + "ABCXYZ"),
            *WORDS,
            *PIECES,
        ]
    )
)
RULES = [
    BertRules(),
    BertRules(lowercase=False),
    BertRules(strip_accents=False),
    BertRules(lowercase=False, strip_accents=True, chinese_characters=False),
    BertRules(max_word_characters=5),
]
HOSTILE = (
    "\x00\x01\x07\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u00a0\u00ad\u1680\u180e\u2000\u2003\u200b\u200d\u2028"
    "\u2029\u202e\u202f\u205f\u2060\u3000\ufeff\ufffd\ufffe\ue000\U000f0000\U000e0041\u0300\u0301\u0327"
    "\u0338\u05b0\u0e31\u1161\u11a8\uac00\u0130\u0131\u1e9e\u00df\u03a3\u03c2\ufb01\u2126\u212b\u01c5\u01f0"
    "\u3042\u30ab\u6728\u3400\uf900\U00020000\U0002a700\U0002b820\U0002ceb0\U0001f600\U0001f1e9\u0661"
    "\u0930\u094d\u2160\u00bd\u00b2\u2044\u2052\uff0b\uff21\uff3f\u3030\u30fb\u055a\u061d\u166d\u1734"
)
PLAIN = st.sampled_from(
    [*WORDS, *"aBz09 \n.,-[]", "unwanted", "[MASK]", "[CLS]", "##ing", "x" * 101]
)
TEXTS = st.lists(
    PLAIN | st.sampled_from(list(HOSTILE)) | st.characters(exclude_categories=["Cs"]), max_size=30
).map("".join)


@pytest.fixture(scope="module", params=RULES, ids=str)
def tokenizer(request: Any) -> Tokenizer:
    """A tokenizer under each set of rules."""
    return make_tokenizer(VOCAB, request.param)


def corpus_backend(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    """`tokenizers` alone, special tokens in a text cut like text."""
    backend = saved_backend(tokenizer)
    backend.encode_special_tokens = True
    return backend


def random_lines(count: int, seed: int) -> list[str]:
    """Lines of many scripts, with dirt."""
    rng = random.Random(seed)
    blocks = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0x97F)]
    blocks += [(0x3040, 0x30FF), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0x1F300, 0x1F6FF)]
    lines = []
    for _ in range(count):
        words = []
        for _ in range(rng.randrange(1, 12)):
            kind = rng.random()
            if kind < 0.6:
                words.append(rng.choice(WORDS) + rng.choice(["", "s", "ed", ".", ",", "ing!"]))
            elif kind < 0.97:
                low, high = rng.choice(blocks)
                words.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randrange(8))))
            else:
                words.append("".join(rng.choice(HOSTILE) for _ in range(4)))
        lines.append(rng.choice([" ", " ", "  ", "\t"]).join(words))
    return lines


# --- the fast path ------------------------------------------------------------------------------


@given(st.lists(TEXTS, max_size=4))
def test_corpus_ids_are_those_of_tokenizers(tokenizer: Tokenizer, texts: list[str]) -> None:
    backend = corpus_backend(tokenizer)
    expected = [e.ids for e in backend.encode_batch(texts, add_special_tokens=False)]
    for _ in range(2):  # cut, then remembered
        ids, lengths = tokenizer.encode_sentence_ids(texts)
        assert ids.dtype == np.uint32
        assert lengths.dtype == np.int64
        assert ids.tolist() == [index for part in expected for index in part]
        assert lengths.tolist() == [len(part) for part in expected]


def test_special_tokens_in_a_corpus_are_text(tokenizer: Tokenizer) -> None:
    ids, _ = tokenizer.encode_sentence_ids(["[MASK] [PAD] the [CLS]x[SEP]"])
    added = tokenizer.special_ids - {tokenizer.unk_id}
    assert not added.intersection(ids.tolist())
    lower = make_tokenizer(VOCAB)
    found = lower.tokens_of(lower.encode_sentence_ids(["[MASK]"])[0])
    assert found == ["[", "mask", "]"]


def test_lone_surrogates_vanish(tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode_sentence_ids(["ca\ud800t", "\udfff"])
    assert tokenizer.tokens_of(ids) == ["cat"]
    assert lengths.tolist() == [1, 0]
    assert tokenizer.encode("ca\ud800t the").offsets[1:3] == [(0, 4), (5, 8)]


# --- against the published rules ----------------------------------------------------------------


def differs_from_published(character: str) -> bool:
    """The exceptions that docs/howto/tokenizer.md lists, generously."""
    category = unicodedata.category(character)
    # Unicode 8 or newer, private use, unassigned, one typing error, and the final sigma
    new = category[0] in "MPCS" and not character.isascii() and character not in HOSTILE[:40]
    return new or category in ("Co", "Cn") or character in "\u03a3" or ord(character) >= 0x10000


@given(TEXTS.map(lambda t: "".join(c for c in t if not differs_from_published(c))))
def test_pieces_are_those_of_the_published_rules(tokenizer: Tokenizer, text: str) -> None:
    rules = tokenizer.rules
    words = basic_tokenize(text, rules.lowercase, rules.strip_accents, rules.chinese_characters)
    expected = []
    for word in words:
        short = len(word) <= rules.max_word_characters
        cut = longest_match(word, tokenizer.vocab) if short else None
        expected.extend([tokenizer.unk_id] if cut is None else cut)
    assert tokenizer.encode_sentence_ids([text])[0].tolist() == expected


def exceptions(codes: Iterable[int], rules: BertRules) -> dict[str, list[int]]:
    """Category -> the code points on which `tokenizers` and the published rules differ."""
    normalizer = saved_backend(make_tokenizer(VOCAB, rules)).normalizer
    pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    found: dict[str, list[int]] = {}
    for code in codes:
        if 0xD800 <= code <= 0xDFFF:
            continue
        text = f"a{chr(code)}b"
        cut = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
        if [w for w, _ in cut] != basic_tokenize(text, rules.lowercase, rules.strip_accents):
            found.setdefault(unicodedata.category(chr(code)), []).append(code)
    return found


def test_exceptions_below_the_last_of_the_old_scripts() -> None:
    found = exceptions(range(0x700), BertRules())
    assert found == {"Po": [0x61D]}


@pytest.mark.slow
@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the list was made with Unicode 14 (3.11)"
)
def test_exceptions_are_the_ones_listed() -> None:
    with_names = [*range(0x32000), *range(0xE0000, 0xE1000)]
    unassigned, private = range(0x32000, 0xE0000, 997), range(0xF0000, 0x10FFFE, 997)
    assert exceptions(unassigned, BertRules()) == {}
    assert exceptions(private, BertRules()) == {"Co": [*private]}
    found = exceptions(with_names, BertRules())
    counts = {category: len(codes) for category, codes in found.items()}
    assert counts.pop("Co") == 6400
    assert found["Lo"] == list(range(0x2B820, 0x2B920))
    assert counts == {
        "Po": 94, "Mn": 384, "Cf": 13, "So": 1, "Mc": 2, "Cn": 55, "Ps": 4, "Pe": 4, "Pd": 2,
        "Lo": 256,
    }  # fmt: skip


# --- the files ----------------------------------------------------------------------------------


def assert_same(tokenizer: Tokenizer, folder: Path, lines: list[str]) -> None:
    """`tokenizers` and transformers read the folder and agree with us on ids and offsets."""
    transformers = pytest.importorskip("transformers")
    published = tokenizer.rules.max_word_characters == 100
    name = "BertTokenizerFast" if published else "PreTrainedTokenizerFast"
    fast = getattr(transformers, name).from_pretrained(str(folder))
    rust = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs = fast(lines, return_offsets_mapping=True)
    for line, ids, offsets, encoding in zip(
        lines,
        theirs["input_ids"],
        theirs["offset_mapping"],
        rust.encode_batch(lines),
        strict=True,
    ):
        ours = tokenizer.encode(line)
        assert ours.ids == ids == encoding.ids, repr(line)
        assert ours.offsets == [tuple(o) for o in offsets] == encoding.offsets, repr(line)
        assert ours.tokens == encoding.tokens


def test_written_files_load_everywhere(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    assert_same(tokenizer, tmp_path, [*random_lines(300, seed=1), *HOSTILE, "", " "])
    again = load_tokenizer(tmp_path)
    assert again.vocab == tokenizer.vocab
    assert again.rules == tokenizer.rules
    assert again.fingerprint == tokenizer.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES[:2], ids=str)
def test_twenty_thousand_lines(rules: BertRules, tmp_path: Path) -> None:
    tokenizer = make_tokenizer(VOCAB, rules)
    tokenizer.save(tmp_path)
    lines = random_lines(20_000, seed=2)
    assert_same(tokenizer, tmp_path, lines)
    expected = corpus_backend(tokenizer).encode_batch_fast(lines, add_special_tokens=False)
    ids, _ = tokenizer.encode_sentence_ids(lines)
    assert ids.tolist() == [index for encoding in expected for index in encoding.ids]


@pytest.mark.slow
def test_a_hundred_thousand_real_lines(shared: Path, tmp_path: Path) -> None:
    import lzma

    vocab = shared / "data" / "vocabularies" / "bert-base-uncased.txt"
    (tmp_path / "vocab.txt").write_bytes(vocab.read_bytes())
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.save(tmp_path)
    lines: list[str] = []
    for name in ("english-1", "chinese-1"):
        with lzma.open(shared / "data" / "corpora" / f"{name}.txt.xz", "rt") as file:
            lines += [line[:300] for _, line in zip(range(50_000), file, strict=False)]
    assert_same(tokenizer, tmp_path, lines)


def test_reads_a_vocabulary_alone_and_tells_its_case(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    cased = load_tokenizer(tmp_path)
    assert cased.rules.lowercase is False
    cased.save(tmp_path / "saved")  # transformers takes silence for an uncased vocabulary
    written = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert written["do_lower_case"] is False
    small = [token for token in VOCAB if token.startswith("[") or token == token.lower()]
    (tmp_path / "vocab.txt").write_text("\r\n".join(small), encoding="utf-8")
    assert load_tokenizer(tmp_path).rules.lowercase is True
    chinese = [*SPECIAL_TOKENS.values(), "<S>", "<T>", "中", "ar", "##ao"]  # as the published one
    (tmp_path / "vocab.txt").write_text("\n".join(chinese), encoding="utf-8")
    assert load_tokenizer(tmp_path).encode("Arao中").tokens[1:-1] == ["ar", "##ao", "中"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(tmp_path).rules.lowercase is False


def test_foreign_tokenizers_work_without_the_fast_path() -> None:
    backend = tokenizers.Tokenizer(
        tokenizers.models.BPE({"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "<m>": 4, "a": 5}, [])
    )
    backend.enable_truncation(2)
    names = dict(zip(SPECIAL_TOKENS, ["<pad>", "<unk>", "<s>", "</s>", "<m>"], strict=True))
    tokenizer = Tokenizer(backend, {**names, "mask_token": {"content": "<m>"}})
    ids, lengths = tokenizer.encode_sentence_ids(["aaa", "", "a\ud800"])
    assert (ids.tolist(), lengths.tolist()) == ([5] * 4, [3, 0, 1])
    assert len(tokenizer.fingerprint) == 64
    with pytest.raises(DataError, match="WordPiece"):
        _ = tokenizer.rules


def test_a_folder_of_added_tokens_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<e1>": len(VOCAB)}))
    raises(DataError, r"tokenizer\.json.*save_pretrained", load_tokenizer, tmp_path)


def test_folders_that_are_no_tokenizers(tmp_path: Path) -> None:
    for name in ("nothing", "."):
        with pytest.raises(ConfigError, match=r"tokenizer train|tokenizer\.json"):
            load_tokenizer(tmp_path / name)
    for name, content, message in (
        ("vocab.txt", b"\xff\xfe", "not UTF-8"),
        ("vocab.txt", b"the\ncat\n", r"2 entries.*\[UNK\]"),
        ("tokenizer.json", b"{", "tokenizer"),
        ("tokenizer_config.json", b"[]", "JSON object"),
    ):
        (tmp_path / name).write_bytes(content)
        raises(DataError, message, load_tokenizer, tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizer_config.json").symlink_to("/proc/self/mem")  # opens, but is not readable
    raises(DataError, r"tokenizer .*read", load_tokenizer, tmp_path)


# --- the rest of the face -----------------------------------------------------------------------


def test_encode_a_pair_with_a_mask() -> None:
    encoding = make_tokenizer(VOCAB).encode("The [MASK] sat.", "Wanted")
    assert encoding.tokens[:6] == ["[CLS]", "the", "[MASK]", "sat", ".", "[SEP]"]
    assert encoding.tokens[6:] == ["want", "##ed", "[SEP]"]
    assert encoding.type_ids == [0] * 6 + [1] * 3
    assert encoding.offsets[2] == (4, 10)
    assert encoding.word_ids[6:] == [0, 0, None]


def test_long_texts_are_encoded_in_pieces_with_the_same_result(tokenizer: Tokenizer) -> None:
    lines = [*random_lines(60, seed=5), "the [MASK]  sat [SEP]" * 5]
    text, pair = (" ".join(each) * 40 for each in (lines, lines[::-1]))
    assert len(text) > 1 << 16
    backend = saved_backend(tokenizer)
    for texts in ((text,), (text, pair)):
        ours, expected = tokenizer.encode(*texts), backend.encode(*texts)
        assert (ours.ids, ours.type_ids) == (expected.ids, expected.type_ids)
        assert ours.offsets == expected.offsets


def test_continuations_and_decoding() -> None:
    tokenizer = make_tokenizer(VOCAB)
    marks = tokenizer.is_continuation
    assert marks.shape == (tokenizer.vocab_size,)
    assert [token for token in VOCAB if marks[tokenizer.vocab[token]]] == [
        token for token in VOCAB if token.startswith("##")
    ]
    ids = tokenizer.encode("The unable cat.").ids
    assert tokenizer.decode(ids) == "the unable cat."


def test_fingerprint_depends_on_the_vocabulary_and_the_rules() -> None:
    prints = {make_tokenizer(VOCAB, rules).fingerprint for rules in RULES}
    prints.add(make_tokenizer([*VOCAB, "new"]).fingerprint)
    assert len(prints) == len(RULES) + 1


def test_travels_to_worker_processes() -> None:
    tokenizer = make_tokenizer(VOCAB)
    tokenizer.encode_sentence_ids(["the cat"])
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.fingerprint == tokenizer.fingerprint
    assert len(pickle.dumps(again)) == len(pickle.dumps(tokenizer))


def test_inspection_gives_reasons() -> None:
    tokenizer = make_tokenizer(VOCAB, BertRules(max_word_characters=12))
    text = "H\u00e9 \u2603! unwanted [MASK] \u043c\u0438\u043c " + "x" * 13
    words = inspect_text(tokenizer, text).words
    assert [word.text for word in words][:5] == ["H\u00e9", "\u2603", "!", "unwanted", "[MASK]"]
    assert (words[0].normalized, words[0].pieces) == ("he", ["h", "##e"])
    assert "\u2603 (U+2603)" in words[1].why
    assert (words[3].pieces[0], words[3].why) == ("un", "")
    assert words[4].why == "special token"
    assert "##\u0438" in words[5].why
    assert_names(words[6].why, "13 characters", "12")
    json.dumps(asdict(inspect_text(tokenizer, text)))
    assert inspect_text(tokenizer, "").words == []


def test_a_vocabulary_with_a_line_twice(tmp_path: Path) -> None:
    vocab = [*SPECIAL_TOKENS.values(), "a", "b", "a", "c"]
    (tmp_path / "vocab.txt").write_text("\n".join(vocab) + "\n")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("a b c").ids[1:-1] == [7, 6, 8]
    assert tokenizer.ids_without_token == [5]
    assert tokenizer.tokens_of([5, 6, 7]) == ["[UNK]", "b", "a"]
    assert make_tokenizer(VOCAB).ids_without_token == []
    tokenizer.save(tmp_path / "saved")
    (tmp_path / "saved" / "tokenizer.json").unlink()
    alone = load_tokenizer(tmp_path / "saved")  # no line is missing, so no id is another
    assert {t: i for t, i in alone.vocab.items() if i != 5} == tokenizer.vocab
