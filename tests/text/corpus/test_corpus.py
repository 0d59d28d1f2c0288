"""Every format to documents of sentences, and every kind of bad input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.config.corpus import CorpusConfig
from bertwright.config.values import to_dict
from bertwright.errors import DataError, MissingExtra
from bertwright.rows import lines, tables
from bertwright.rows.lines import read_text
from bertwright.text.corpus import documents
from bertwright.text.corpus.documents import split_documents
from bertwright.text.corpus.read import CorpusReport, read_blocks, read_documents, split_document
from tests.raising import raises
from tests.text.corpus.sample import DEFAULT, read, write

TEXT = "A title\nOne is here. Two is there.\n\nB title\nThree “é” came.\n"
DOCUMENTS = [["A title", "One is here.", "Two is there."], ["B title", "Three “é” came."]]


def test_blank_lines_separate(tmp_path: Path) -> None:
    found, report = read(write(tmp_path, "a.txt", TEXT))
    assert found == DOCUMENTS
    counts = {name: value for name, value in to_dict(report).items() if value}
    assert counts == {
        "files": 1,
        "bytes": len(TEXT.encode()),
        "position": len(TEXT.encode()),
        "documents": 2,
        "characters": len(TEXT.strip()) - 2,
        "sentences": 5,
    }
    assert json.loads(json.dumps(to_dict(report))) == to_dict(report)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        "\ufeff\n \n" + TEXT.replace("\n\n", "\n \t \n\n\n\u3000\n") + "\n\n  \n",
    ],
)
def test_line_ends_and_white_lines(tmp_path: Path, text: str) -> None:
    assert read(write(tmp_path, "a.txt", text))[0] == DOCUMENTS


def test_other_documents_and_sentences(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", TEXT)
    assert read(path, replace(DEFAULT, documents="file"))[0] == [DOCUMENTS[0] + DOCUMENTS[1]]
    by_line = read(path, replace(DEFAULT, documents="line"))[0]
    assert by_line == [
        ["A title"],
        ["One is here.", "Two is there."],
        ["B title"],
        DOCUMENTS[1][1:],
    ]
    by_sentence = read(path, replace(DEFAULT, sentences="line"))[0]
    assert by_sentence == [["A title", "One is here. Two is there."], DOCUMENTS[1]]


TEXTS = st.text(alphabet=st.sampled_from(list("ab。é😀 \t\n\r\n\n")), max_size=200)


@settings(max_examples=200)
@given(text=TEXTS, size=st.integers(1, 9), kind=st.sampled_from(["blank-line", "line", "file"]))
def test_blocks_cut_anywhere_give_the_same_documents(text: str, size: int, kind: str) -> None:
    """The stream is read in blocks of a few bytes: separators and characters are cut in two."""
    data = text.encode()

    class Dripping(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            return super().read(size)

    def found(stream: io.BytesIO) -> list[str]:
        report = CorpusReport()
        groups = split_documents(read_text(stream, "a", report), kind, report)
        assert not report.invalid_utf8
        return [document.strip() for group in groups for document in group if document.strip()]

    whole = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.strip() for line in whole.split("\n")]
    if kind == "line":
        expected = [[line] for line in lines if line]
    elif kind == "file":
        expected = [[line for line in lines if line]]
    else:
        expected = [[]]
        for line in lines:
            if line:
                expected[-1].append(line)
            elif expected[-1]:
                expected.append([])
    got = [[line.strip() for line in d.split("\n") if line.strip()] for d in found(Dripping(data))]
    assert got == [document for document in expected if document]


ROWS = ["One is here. Two is there.\nA new paragraph.\n\nAnother.", 'Say "é", he said.', "", "End."]
ROW_DOCUMENTS = [
    ["One is here.", "Two is there.", "A new paragraph.", "Another."],
    ['Say "é", he said.'],
    ["End."],
]


def make_rows(folder: Path, suffix: str) -> Path:
    path = folder / ("rows" + suffix)
    if suffix in (".jsonl", ".ndjson"):
        lines = [json.dumps({"id": 1, "text": text}) for text in ROWS]
        path.write_text("\n".join(lines) + "\n\n")
    elif suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["id", "text"], *[[1, text] for text in ROWS]])
    elif suffix == ".tsv":
        lines = ["id\ttext", *["1\t" + text.replace("\n", " ") for text in ROWS]]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pyarrow.table({"id": [1] * len(ROWS), "text": ROWS}), path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("packed", [False, True])
def test_rows_are_documents(tmp_path: Path, suffix: str, packed: bool) -> None:
    path = make_rows(tmp_path, suffix)
    if packed:
        path = write(tmp_path, path.name + ".gz", gzip.compress(path.read_bytes()))
    found, report = read(path)
    assert found == ROW_DOCUMENTS
    assert (report.documents, report.empty_documents, report.files) == (3, 1, 1)
    with pytest.raises(DataError, match=r"'body'.*'id', 'text'.*--text-col"):
        read(path, replace(DEFAULT, text_column="body"))
    raises(DataError, r"no column", read, path, replace(DEFAULT, text_column="i"))


@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_csv_of_other_separators(tmp_path: Path, begin: str) -> None:
    path = write(tmp_path, "a.csv", f'{begin}id;text\n1;"One, two; three."\n2;Four.\n'.encode())
    assert read(path)[0] == [["One, two; three."], ["Four."]]


def test_bad_rows(tmp_path: Path) -> None:
    bad = {
        "a.jsonl": ('{"text": "a"}\n{"text": ', r"a\.jsonl, line 2.*JSON"),
        "b.jsonl": ("[1]\n", r"line 1.*JSON object.*list"),
        "c.jsonl": ('{"text": 5}\n', r"row 1.*'text'.* int.*string"),
        "g.jsonl": ('{"text": ' + "1" * 6000 + "}\n", r"line 1.*integer"),
        "d.csv": ("id,text\n1,a\n2\n", r"line 3.*: 1; expected 2"),
        "f.csv": ("id,text\n1,Hello, world\n", r"line 2.*: 3; expected 2"),
        "g.csv": ("text,text\na,b\n", r"'text' twice"),
        "h.csv": ("id;text\n1;a;b\n", r"line 2.*: 3; expected 2"),
        "e.csv": ('text\n"never closed\n', r"e\.csv, line 2"),
        "f.parquet": ("PAR1 no more", r"Parquet"),
    }
    for name, (data, message) in bad.items():
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        raises(DataError, message, read, write(tmp_path, name, data))


def test_null_is_an_empty_document(tmp_path: Path) -> None:
    found, report = read(write(tmp_path, "a.jsonl", '{"text": null}\n{"text": "A."}\n'))
    assert (found, report.empty_documents) == ([["A."]], 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "%s"}\n' % ("b" * 3_000_000)),
        ("a.csv", 'text\n"%s\n"\n' % ("b" * 3_000_000)),
        ("b.csv", "text\n%s" % ('"' + "b\n" * 1000)),
        ("a.tsv", "text\n%s\n" % ("b" * 3_000_000)),
    ],
)
def test_a_row_too_long_to_hold_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    for place in (lines, tables):
        monkeypatch.setattr(place, "MAX_ROW_CHARACTERS", 1000)
    raises(DataError, r"line 2.* 1,000 characters", read, write(tmp_path, name, content))


def test_a_line_of_text_of_any_length_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_ROW_CHARACTERS", 1000)
    for begin in ("", '<doc id="1">\n'):
        found, report = read(write(tmp_path, "a.txt", begin + "word " * 600_000))
        assert sum(map(len, chain.from_iterable(found))) > 2_300_000
        assert report.documents_cut == 0


def test_lone_surrogates(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", r'{"text": "a \ud800 b \udc00 \ud83d\ude00 \ufffd"}')
    found, report = read(path)
    assert found == [["a � b � 😀 �"]]
    assert report.invalid_utf8 == 2


def test_invalid_utf8(tmp_path: Path) -> None:
    data = (
        b"Good \xe2\x82 text \xff here \xef\xbf\xbd and \xed\xa0\x80. "
        + b"More text. " * 10
        + b"\xc3"
    )
    path = write(tmp_path, "a.txt", data)
    found, report = read(path)
    assert found[0][0] == "Good � text � here � and ���."
    assert report.invalid_utf8 == 6
    assert report.invalid_places == [f"{path}, byte 5", f"{path}, byte 143"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", r"binary file.*16 bytes"),
        ("no mark, and two bytes each".encode("utf-16-le"), r"iconv -f UTF-16LE"),
        ("no mark, and two bytes each".encode("utf-16-be"), r"iconv -f UTF-16BE"),
        ("Some text".encode("utf-16"), r"iconv -f UTF-16"),
        (("这是一个文件。" * 50).encode("gb18030"), "malformed.*iconv -f"),
        (
            gzip.compress(b"x" * 99, mtime=0),
            r"binary file.*compressed",
        ),
        (b"", r"1 input.*0 bytes"),
        (b" \n\n \n", r"1 input.*5 bytes"),
    ],
)
def test_no_text(tmp_path: Path, data: bytes, message: str) -> None:
    raises(DataError, message, read, write(tmp_path, "a.txt", data))


def test_everything_left_out_says_why(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", TEXT)
    with pytest.raises(DataError, match=r"2 too short.*--min-char"):
        read(path, replace(DEFAULT, min_characters=1000))


def test_one_giant_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARACTERS", 1 << 16)
    text = "word " * 500_000
    found, report = read(write(tmp_path, "a.txt", text))
    assert report.documents_cut == report.documents - 1 > 30
    (blocks,) = read_blocks([str(tmp_path / "a.txt")], DEFAULT, CorpusReport(), 1 << 30)
    assert max(map(len, blocks)) <= 1 << 16
    assert max(len(sentence) for document in found for sentence in document) <= 4096
    assert report.sentences_cut > 500
    assert " ".join(" ".join(document) for document in found) == text.strip()
    found, report = read(write(tmp_path, "b.txt", "x" * 300_000))
    assert "".join("".join(document) for document in found) == "x" * 300_000


def test_a_file_without_blank_lines_shows(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "A line.\n" * 1200)
    assert read(path)[1].files_of_one_document == 1
    assert read(path, replace(DEFAULT, documents="file"))[1].files_of_one_document == 0


def test_blocks_are_fixed_and_compose(tmp_path: Path) -> None:
    for name in "abc":
        write(tmp_path, name + ".txt", "\n\n".join(f"Text {name} {n}. End." for n in range(100)))
    report = CorpusReport()
    blocks = list(read_blocks([str(tmp_path)], DEFAULT, report, block_characters=200))
    assert min(sum(map(len, block)) for block in blocks[:-1]) >= 200
    apart = CorpusReport()
    split = pickle.loads(pickle.dumps(split_document))
    found = [split(text, DEFAULT, apart) for block in blocks for text in block]
    whole, total = read(tmp_path)
    assert found == whole
    report.add(pickle.loads(pickle.dumps(apart)))
    assert report == total
    assert total.sentences == 600


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ('{"id": 1, "text": "One. Two."}\n{"text": "Three."}\n', [["One.", "Two."], ["Three."]]),
        ('\ufeff{"text" : "' + "Word. " * 9000 + '"}', [["Word."] * 9000]),
        ("{not JSON}\nat all\n", [["{not JSON}", "at all"]]),
    ],
)
def test_json_lines_come_through_standard_input_too(
    monkeypatch: pytest.MonkeyPatch, text: str, documents: list[list[str]]
) -> None:
    class Input:
        buffer = io.BufferedReader(io.BytesIO(text.encode()))  # type: ignore[type-var]

    monkeypatch.setattr(sys, "stdin", Input)
    assert read("-")[0] == documents
    Input.buffer = io.BufferedReader(io.BytesIO(b'{"not JSON}\n'))  # type: ignore[type-var]
    raises(DataError, "standard input, line 1.*JSON", read, "-")


def test_missing_extras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a.parquet", "PAR1")
    for name in ["pyarrow", "pyarrow.parquet", "datasets"]:
        monkeypatch.setitem(sys.modules, name, None)
    raises(MissingExtra, r'pip install "bertwright\[hf\]"', read, path)
    raises(MissingExtra, "hf:some/name.*datasets", read, "hf:some/name")


def test_a_dataset_of_the_hub_ends_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for `datasets`: the hub knows the name or not, and the connection breaks."""
    hub = pytest.importorskip("huggingface_hub")
    named: list[tuple[object, ...]] = []

    class Broken:
        column_names = ("text",)

        def select_columns(self, _: list[str]) -> Broken:
            return self

        def iter(self, _: int) -> Iterator[dict[str, list[str]]]:
            yield {"text": ["One.", "Two."]}
            raise RuntimeError("reset by peer")

    def load_dataset(name: str, subset: str | None, **settings: object) -> Broken:
        named.append((name, subset, settings["split"]))
        if subset is None:
            raise ValueError("Config name is missing.\nPick: ['a']\nExample of usage:\n...")
        return Broken()

    config = SimpleNamespace(HF_HUB_OFFLINE=False)
    stand_in = SimpleNamespace(load_dataset=load_dataset, config=config)
    monkeypatch.setitem(sys.modules, "datasets", stand_in)

    def repo_info(_: object, name: str, **settings: object) -> None:
        if name != "org/there":
            raise OSError("no network")

    monkeypatch.setattr(hub.HfApi, "repo_info", repo_info)
    raises(DataError, "org/other .*no network", read, "hf:org/other")
    assert not named  # it would try for half a minute
    raises(DataError, r"\['a'\].*hf:NAME@CONFIG:SPLIT", read, "hf:org/there")
    with pytest.raises(DataError, match=r"hf:org/there@a:dev .*row 2"):
        read("hf:org/there@a:dev")
    assert named == [("org/there", None, "train"), ("org/there", "a", "dev")]


def test_windows_1252_is_named(tmp_path: Path) -> None:
    text = "Ein größeres Gefäß für Öl – und „Käse“. " * 20
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    raises(DataError, "iconv -f WINDOWS-1252 -t UTF-8", read, tmp_path)
    quoted = "He said “Yes” and went on, in plain English words, to the end of a long line. " * 20
    (tmp_path / "a.txt").write_bytes(quoted.encode("cp1252"))
    raises(DataError, "iconv -f WINDOWS-1252 -t UTF-8", read, tmp_path)
    mixed = (text * 9).encode() + b"caf\xe9 " * 40  # UTF-8 with malformed words
    (tmp_path / "a.txt").write_bytes(mixed)
    assert read(tmp_path)[1].invalid_utf8 == 40


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "label,text,split\nx,a b.,train\ny,c.,test\n"),
        ("a.tsv", "label\ttext\tsplit\nx\ta b.\ttrain\n"),
        ("a.jsonl", '{"label": "x", "text": "a b.", "split": "train"}\n'),
    ],
)
def test_columns_that_are_not_read_are_named(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    report = CorpusReport()
    assert list(read_documents([str(path)], CorpusConfig(), report))
    whole = CorpusReport()
    whole.add(report)
    whole.add(report)  # of another worker, which read a part of the same file
    assert whole.unread_columns == [f"{path}: label, split"]
    assert any(str(path) in line and "label, split" in line for line in whole.remarks())
    path.write_text("text\na b.\n" if name.endswith("v") else '{"text": "a b."}\n')
    assert list(read_documents([str(path)], CorpusConfig(), alone := CorpusReport()))
    assert alone.unread_columns == []
