"""A file of pairs becomes the shards, and the vocabulary, of two files of the same lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bertwright.cli.app import run
from bertwright.data.shards import open_shards

ENGLISH = ["a green door", "", "the “small” house, it\u2028is", "she sings 'ja'", "x" * 50]
GERMAN = ["eine grüne Tür", "", "das „kleine“ Haus", "sie singt \x85 laut", "y" * 40]
BOTH = list(zip(ENGLISH, GERMAN, strict=True))
OBJECTS = [{"id": n, "en": a, "de": b or None} for n, (a, b) in enumerate(BOTH)]


def lines_of(name: str) -> list[str]:
    if name.startswith("nested"):
        return [json.dumps({"translation": {"en": a, "de": b}}) for a, b in BOTH]
    if ".jsonl" in name:
        return [json.dumps(each, ensure_ascii=False) for each in OBJECTS]
    if ".csv" in name:
        return ["en,de", *(f'"{a}","{b}"' for a, b in BOTH)]
    return [f"{a}\t{b}" for a, b in BOTH]


def write(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist(OBJECTS), path)
        return path
    data = "".join(f"{line}\n" for line in lines_of(name)).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def bytes_of(shards: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted(shards.iterdir())
        if file.is_file() and file.suffix != ".json"
    }


@pytest.fixture(scope="module")
def of_two_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A vocabulary and shards of two files of lines."""
    folder = tmp_path_factory.mktemp("lines")
    files = [str(folder / "train.en"), str(folder / "train.de")]
    for file, texts in zip(files, (ENGLISH, GERMAN), strict=True):
        Path(file).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    words, shards = folder / "words", folder / "shards"
    train = ["tokenizer", "train", *files, "--vocab-size", "200", "--min-frequency", "1"]
    assert run([*train, "--out", str(words)]) == 0
    build = ["data", "build", *files, "--parallel", "--tokenizer", str(words)]
    assert run([*build, "--out", str(shards)]) == 0
    return words, shards


@pytest.mark.parametrize(
    "name",
    ["a.tsv", "a.csv", "a.jsonl", "nested.jsonl", "a.parquet", "a.tsv.gz", "nested.jsonl.gz"],
)
def test_vocabulary_and_shards_equal_those_of_two_files(
    tmp_path: Path,
    of_two_files: tuple[Path, Path],
    name: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words, shards = of_two_files
    file, out = str(write(tmp_path, name)), tmp_path / "pairs"
    train = ["tokenizer", "train", file, "--vocab-size", "200", "--min-frequency", "1"]
    assert run([*train, "--out", str(tmp_path / "words")]) == 0
    said = capfd.readouterr().err
    assert f"data build {file} --parallel" in said
    assert "source" in said
    for each in ("vocab.txt", "tokenizer.json"):
        assert (tmp_path / "words" / each).read_bytes() == (words / each).read_bytes()

    build = ["data", "build", file, "--tokenizer", str(words), "--out", str(out)]
    assert run(build) == 2
    assert "--parallel" in capfd.readouterr().err
    assert run([*build, "--parallel"]) == 0
    assert bytes_of(out) == bytes_of(shards) != {}
    counts = open_shards(out).manifest["counts"]
    assert counts == open_shards(shards).manifest["counts"]
    assert counts["documents_lost"] == 1
    assert open_shards(out).manifest["parallel"] is True


def test_the_columns_are_named_by_options(
    tmp_path: Path, of_two_files: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    words, shards = of_two_files
    file, out = tmp_path / "a.tsv", str(tmp_path / "pairs")
    rows = [f"{n}\t{b}\tyes\t{a}" for n, (a, b) in enumerate(BOTH)]
    file.write_text("\n".join(["number\tSatz\tok\tPhrase", *rows]), encoding="utf-8")
    build = ["data", "build", str(file), "--tokenizer", str(words), "--out", out]
    assert run([*build, "--parallel"]) == 4
    command = f"data build {file} --tokenizer {words} --out {out} --parallel --source Satz"
    assert command in capfd.readouterr().err
    named = ["--source", "Phrase", "--target", "Satz"]
    assert run([*build, *named]) == 2
    assert "--parallel" in capfd.readouterr().err
    assert run([*build, "--parallel", *named]) == 0
    assert bytes_of(Path(out)) == bytes_of(shards)

    train = ["tokenizer", "train", str(file), "--vocab-size", "200", "--out", f"{out}-words"]
    assert run(train) == 4
    assert f"--out {out}-words --source Satz --target Phrase" in capfd.readouterr().err
    assert run([*train, *named, "--text-column", "Satz"]) == 2
    assert run([*train, str(file), *named]) == 2
    capfd.readouterr()
    assert run([*train, *named]) == 0
    assert "--parallel --source Phrase --target Satz" in capfd.readouterr().err


def test_a_side_that_is_empty_is_named(
    tmp_path: Path, of_two_files: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "a.jsonl", tmp_path / "pairs"
    file.write_text('{"en": "a", "de": "b"}\n{"en": "a", "de": "\u200b"}\n', encoding="utf-8")
    build = ["data", "build", str(file), "--parallel", "--tokenizer", str(of_two_files[0])]
    assert run([*build, "--out", str(out)]) == 4
    said = capfd.readouterr().err
    assert f"{file}, line 2" in said
    assert "'de' is empty" in said
    assert not out.exists()
    assert run([*build, "--out", str(file), "--overwrite"]) == 2
    assert run([*build, str(file), "--source", "en", "--target", "de", "--out", str(out)]) == 2
