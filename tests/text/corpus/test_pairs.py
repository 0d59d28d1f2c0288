"""Which columns of a file of pairs are its source and its target, and what its rows hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.errors import ConfigError, DataError
from bertwright.rows import lines, tables
from bertwright.rows.open import open_bytes
from bertwright.text.corpus.pairs import Pair, clear_pairs, open_pairs, read_pair_rows
from bertwright.text.corpus.report import CorpusReport

ENGLISH = ["a green door", "the small house", "she sings"]
GERMAN = ["eine grüne Tür", "das kleine Haus", "sie singt"]
BOTH = list(zip(ENGLISH, GERMAN, strict=True))
IN_ORDER = [(text, other) for text, other in BOTH]
SWAPPED = [(other, text) for text, other in BOTH]


def write(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows_of(path: Path, source: str | None = None, target: str | None = None) -> list[Pair]:
    found = open_pairs(path, source, target)
    with open_bytes(path) as stream:
        return list(read_pair_rows(found, stream))


def texts_of(path: Path, *named: str) -> list[tuple[str, str]]:
    return [(source, target) for _, source, target in rows_of(path, *named)]


@pytest.mark.parametrize(
    ("header", "right"),
    [
        (None, IN_ORDER),
        ("en\tde", IN_ORDER),
        ("EN\tDE", IN_ORDER),
        ("source\ttarget", IN_ORDER),
        ("tgt_text\tsrc_text", SWAPPED),
        ("eng_Latn\tdeu_Latn", IN_ORDER),
    ],
)
def test_a_header_is_known_by_its_names(
    tmp_path: Path, header: str | None, right: list[tuple[str, str]]
) -> None:
    lines = [f"{text}\t{other}" for text, other in BOTH]
    path = write(tmp_path, "pairs.tsv", [*([header] if header else []), *lines])
    assert texts_of(path) == right
    note = open_pairs(path).note
    names = ENGLISH[:1] + GERMAN[:1] if header is None else header.split("\t")
    assert all(repr(name) in note for name in names)


@pytest.mark.parametrize(
    ("named", "right"),
    [
        (("German", "English"), SWAPPED),
        (("german", "english"), SWAPPED),
        (("English", "German"), IN_ORDER),
    ],
)
def test_options_name_the_columns_of_a_header(
    tmp_path: Path, named: tuple[str, str], right: list[tuple[str, str]]
) -> None:
    rows = [f'{n},"{text}",{other}' for n, (text, other) in enumerate(BOTH)]
    path = write(tmp_path, "pairs.csv", ["number,English,German", *rows])
    assert texts_of(path, *named) == right
    assert open_pairs(path, *named).note == ""


def test_numbers_name_the_columns_of_a_table_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.tsv", [f"{n}\t{a}\t{b}" for n, (a, b) in enumerate(BOTH, 17)])
    assert texts_of(path, "3", "2") == SWAPPED
    with pytest.raises(DataError, match="'4'"):
        open_pairs(path, "2", "4")
    path = write(tmp_path, "named.tsv", ["en\tde", *(f"{a}\t{b}" for a, b in BOTH)])
    assert texts_of(path, "2", "1") == SWAPPED
    assert "first line" in open_pairs(path, "2", "1").note


@pytest.mark.parametrize(
    ("objects", "named", "right"),
    [
        ([{"en": a, "de": b} for a, b in BOTH], (), IN_ORDER),
        ([{"id": str(n), "de": b, "en": a} for n, (a, b) in enumerate(BOTH)], (), SWAPPED),
        ([{"target": b, "source": a, "url": "x"} for a, b in BOTH], (), IN_ORDER),
        ([{"question": a, "reply": b, "score": 0.5} for a, b in BOTH], (), IN_ORDER),
        ([{"translation": {"de": b, "en": a}} for a, b in BOTH], (), SWAPPED),
        ([{"translation": {"de": b, "en": a}} for a, b in BOTH], ("en", "de"), IN_ORDER),
    ],
)
def test_objects_are_read_by_their_keys(
    tmp_path: Path,
    objects: list[dict[str, object]],
    named: tuple[str, ...],
    right: list[tuple[str, str]],
) -> None:
    lines = [json.dumps(each, ensure_ascii=False) for each in objects]
    assert texts_of(write(tmp_path, "pairs.jsonl", lines), *named) == right
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.Table.from_pylist(objects), tmp_path / "pairs.parquet")
    assert texts_of(tmp_path / "pairs.parquet", *named) == right


INDONESIAN = ["pintu hijau", "rumah kecil", "dia bernyanyi"]


@pytest.mark.parametrize("codes", [("id", "en"), ("pt_BR", "zh-Hans"), ("sr-Cyrl-RS", "xyz_Latn")])
def test_codes_of_languages(tmp_path: Path, codes: tuple[str, str]) -> None:
    rows = [f"{a}\t{b}" for a, b in zip(INDONESIAN, ENGLISH, strict=True)]
    path = write(tmp_path, "pairs.tsv", ["\t".join(codes), *rows])
    assert open_pairs(path).columns == codes
    assert len(rows_of(path)) == 3
    lines = [json.dumps(dict(zip(codes, row.split("\t"), strict=True))) for row in rows]
    assert open_pairs(write(tmp_path, "pairs.jsonl", lines)).columns == codes


IDS = {
    "id": ["17", "18", "19"],
    "uid": ["u3", "u7", "u11"],
    "key": [f"0a1b2c3d-0000-4000-8000-00000000000{n}" for n in range(3)],
}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("text", ["en", "msg", "txt"])
def test_ids_are_no_side_of_a_pair(tmp_path: Path, name: str, text: str) -> None:
    """Two names of two or three letters are not two languages."""
    rows = list(zip(IDS[name], ENGLISH, strict=True))
    path = write(tmp_path, "rows.csv", [f"{name},{text}", *map(",".join, rows)])
    with pytest.raises(DataError, match=f"'{name}', '{text}'.*--source"):
        open_pairs(path)
    assert clear_pairs([str(path)], "text") is None
    lines = [json.dumps({name: number, text: sentence}) for number, sentence in rows]
    with pytest.raises(DataError, match="--source"):
        open_pairs(write(tmp_path, "rows.jsonl", lines))


def test_ids_stand_beside_two_languages(tmp_path: Path) -> None:
    rows = [f"{n},{a},{b}" for n, (a, b) in enumerate(BOTH)]
    assert texts_of(write(tmp_path, "pairs.csv", ["id,en,de", *rows])) == IN_ORDER


def test_two_short_names_of_columns_are_not_two_languages(tmp_path: Path) -> None:
    path = write(tmp_path, "rows.csv", ["age,sex", "17,female", "80,male", "9,male"])
    assert clear_pairs([str(path)], "text") is None


@pytest.mark.parametrize(
    ("name", "lines", "options"),
    [
        # as ManyThings, Tatoeba and a table with a header of unknown names have them
        (
            "licensed.tsv",
            [f"{a}\t{b}\tby the user number {n}0 of a site" for n, (a, b) in enumerate(BOTH)],
            ("--source", "1", "--target", "2"),
        ),
        (
            "numbered.tsv",
            [f"{n}\teng\t{a}\t{n + 9}\tdeu\t{b}" for n, (a, b) in enumerate(BOTH)],
            ("--source", "3", "--target", "6"),
        ),
        (
            "named.csv",
            ["Phrase,Satz,Quality", *(f"{a},{b},0.{n}" for n, (a, b) in enumerate(BOTH))],
            ("--source", "Phrase", "--target", "Satz"),
        ),
        (
            "named.jsonl",
            [json.dumps({"page": "p", "Satz": b, "Phrase": a}) for a, b in BOTH],
            ("--source", "Satz", "--target", "Phrase"),
        ),
    ],
)
def test_columns_that_are_not_clear_are_guessed_in_the_error(
    tmp_path: Path, name: str, lines: list[str], options: tuple[str, ...]
) -> None:
    path = write(tmp_path, name, lines)
    with pytest.raises(DataError, match="--source NAME --target NAME") as caught:
        open_pairs(path)
    assert caught.value.options == options
    assert sorted(texts_of(path, options[1], options[3])) in (sorted(IN_ORDER), sorted(SWAPPED))


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a.tsv", ["a\tb", "c\td\te"], "line 2.*: 3; expected 2"),
        ("a.tsv", ["one column", "of text"], "one column"),
        ("a.tsv", ["source\ttarget\tsource", "a\tb\tc"], "'source' twice"),
        ("a.csv", ["en,de", 'a,"b', "c,d"], "line 2.*closed quotes"),
        ("a.jsonl", ['{"en": "a", "de": "b"}', '{"en": "a"'], "line 2.*JSON"),
        ("a.jsonl", ['{"en": "a", "de": "b"}', '{"en": "a"}'], "line 2.*'de'"),
        ("a.jsonl", ['{"en": "a", "de": "b"}', '{"en": "a", "de": ["b"]}'], "holds a list"),
        ("a.jsonl", ['{"en": "a", "de": "b"}', "[1]"], "line 2.*list"),
        ("a.jsonl", ['[{"en": "a", "de": "b"}, 1]'], "row 2"),
        ("a.jsonl", ['{"translation": {"en": "a", "de": "b"}}', "{}"], "line 2.*'translation'"),
        ("a.jsonl", [], "empty"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, lines: list[str], message: str
) -> None:
    path = write(tmp_path, name, lines)
    named = {"holds a list": ("en", "de"), "'source' twice": ("source", "target")}.get(message, ())
    with pytest.raises(DataError, match=message):
        rows_of(path, *named)


def test_what_cannot_be_opened_as_pairs_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, "pairs.tsv", [f"{a}\t{b}" for a, b in BOTH])
    for named in (("1", None), (None, "2"), ("1", "1")):
        with pytest.raises(ConfigError, match="--source"):
            open_pairs(path, *named)
    with pytest.raises(ConfigError, match=r"lines\.txt.*\.tsv"):
        open_pairs(write(tmp_path, "lines.txt", ENGLISH))
    with pytest.raises(DataError, match="standard input"):
        open_pairs(Path("-"))
    with pytest.raises(DataError, match=r"pairs\.tsv"):
        open_pairs(tmp_path / "pair.tsv")


def test_malformed_and_zero_bytes_are_counted(tmp_path: Path) -> None:
    path, report = tmp_path / "pairs.tsv", CorpusReport()
    path.write_bytes(b"a\tb\nc\0\t\xffd\n")
    with open_bytes(path) as stream:
        rows = list(read_pair_rows(open_pairs(path), stream, report))
    assert rows == [(1, "a", "b"), (2, "c", "\ufffdd")]
    assert (report.zero_bytes, report.invalid_utf8) == (1, 1)
    assert report.invalid_places == [f"{path}, byte 6"]


def test_line_ends_and_empty_rows_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("\ufeffa b\tc\r\n \t\r\n\r\n d\te f \r\n".encode())
    assert [row for row in rows_of(path) if any(row[1:])] == [(1, "a b", "c"), (4, "d", "e f")]


def test_a_line_that_is_too_long_to_hold_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (lines, tables):
        monkeypatch.setattr(place, "MAX_ROW_CHARACTERS", 200)
    long = "x" * 1_500_000
    path = write(tmp_path, "pairs.tsv", ["a\tb", f"{long}\t{long}"])
    with pytest.raises(DataError, match="line 2"):
        rows_of(path)
    path = write(tmp_path, "pairs.csv", ["a,b", f'"{long}', f'{long}",c'])
    with pytest.raises(DataError, match="line 2"):
        rows_of(path)


@pytest.mark.parametrize(
    ("name", "lines", "are_pairs"),
    [
        ("a.tsv", [f"{a}\t{b}" for a, b in BOTH], True),
        ("a.tsv", ["en\tde", "x\ty"], True),
        ("a.jsonl", [json.dumps({"translation": {"en": "x", "de": "y"}})], True),
        ("a.jsonl", [json.dumps({"text": a, "other": b}) for a, b in BOTH], False),
        ("a.tsv", ["text\tother", *(f"{a}\t{b}" for a, b in BOTH)], False),
        ("a.tsv", [f"{a}\t{'good' if a < 'c' else 'bad'}" for a in ENGLISH * 3], False),
        ("a.tsv", [f"{a}\t0.{n}" for n, a in enumerate(ENGLISH)], False),
        ("a.tsv", ENGLISH, False),
        ("a.txt", ENGLISH, False),
    ],
)
def test_a_corpus_is_a_file_of_pairs_only_if_it_is_clear(
    tmp_path: Path, name: str, lines: list[str], are_pairs: bool
) -> None:
    path = str(write(tmp_path, name, lines))
    assert (clear_pairs([path], "text") is not None) == are_pairs
    assert clear_pairs([path], "body") is None
    assert clear_pairs([path, path], "text") is None
