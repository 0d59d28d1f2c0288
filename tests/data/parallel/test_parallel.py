"""Pairs of lines become pairs of sequences: source framed, target shifted by one, no padding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bertwright.cli.app import run
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.parallel.build import build_parallel, read_pairs
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards, open_shards
from bertwright.errors import DataError
from bertwright.nn.outputs.translation import TranslationBatch
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import load_tokenizer, make_tokenizer
from tests.small_runs import SPECIAL, WORDS, build_data

SOURCES = [" ".join(WORDS[n : n + 2 + n % 5]) for n in range(30)]
TARGETS = [" ".join(WORDS[n : n + 2 + n % 3]) for n in range(30, 60)]


def write(folder: Path, sources: list[str], targets: list[str]) -> tuple[Path, Path]:
    make_tokenizer([*SPECIAL, *WORDS]).save(folder / "tokenizer")
    paths = folder / "a.src", folder / "a.tgt"
    for path, lines in zip(paths, (sources, targets), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def build(folder: Path, sources: list[str], targets: list[str]) -> Shards:
    paths = write(folder, sources, targets)
    build_parallel(*paths, folder / "shards", folder / "tokenizer")
    return open_shards(folder / "shards")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return build(tmp_path_factory.mktemp("pairs"), SOURCES, TARGETS)


def texts_of(batch: TranslationBatch, shards: Shards) -> list[tuple[str, str]]:
    """The pairs of a batch; checks their framing."""
    tokenizer, special = load_tokenizer(shards.tokenizer_folder), shards.special
    sources = batch.inputs.ids.split(batch.inputs.sequences.lengths)
    reads = batch.target.ids.split(batch.target.sequences.lengths)
    labels = batch.labels.split(batch.target.sequences.lengths)
    for source, read, label in zip(sources, reads, labels, strict=True):
        assert (source[0], source[-1]) == (special["cls"], special["sep"])
        assert (read[0], label[-1]) == (special["cls"], special["sep"])
        assert (read[1:] == label[:-1]).all()
    return [
        (tokenizer.decode(source.tolist()), tokenizer.decode(label.tolist()))
        for source, label in zip(sources, labels, strict=True)
    ]


def test_an_epoch_holds_every_pair_once(shards: Shards) -> None:
    pairs = ParallelText(shards, np.arange(shards.num_documents), 12, seed=3)
    loader = EpochLoader(pairs)
    found: list[tuple[str, str]] = []
    for step in range(loader.steps_in_epoch(1, 64)):
        for batch in loader.step(1, step, 64, 32):
            assert batch.num_tokens <= 32 + pairs.longest
            lengths = [
                *zip(batch.inputs.sequences.lengths, batch.target.sequences.lengths, strict=True)
            ]
            assert lengths == sorted(lengths, reverse=True)
            found += texts_of(batch, shards)
    assert sorted(found) == sorted(zip(SOURCES, TARGETS, strict=True))
    assert pairs.lengths(1).sum() == loader.tokens_in_epoch(1)


def test_pairs_that_are_too_long_are_counted(shards: Shards) -> None:
    pairs = ParallelText(shards, np.arange(shards.num_documents), 6)
    longest = [max(len(s.split()), len(t.split())) for s, t in zip(SOURCES, TARGETS, strict=True)]
    assert pairs.left_out == sum(n > 4 for n in longest) > 0
    assert len(pairs.lengths(0)) + pairs.left_out == len(SOURCES)
    with pytest.raises(DataError, match="--sequence-length"):
        ParallelText(shards, np.arange(3), 3)


def test_shards_of_documents_are_no_pairs(tmp_path: Path) -> None:
    shards = open_shards(build_data(tmp_path))
    with pytest.raises(DataError, match="--parallel SOURCE TARGET"):
        ParallelText(shards, np.arange(3), 12)


def test_two_empty_lines_are_left_out(tmp_path: Path) -> None:
    shards = build(tmp_path, [SOURCES[0], " ", SOURCES[2]], [TARGETS[0], "", TARGETS[2]])
    assert shards.manifest["counts"]["documents_lost"] == 1
    batch = ParallelText(shards, np.arange(2), 12).batch(0, np.arange(2))
    assert sorted(texts_of(batch, shards)) == [(SOURCES[n], TARGETS[n]) for n in (0, 2)]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        (SOURCES[:4], TARGETS[:3], r"a\.tgt .*line 3"),
        (SOURCES[:3], TARGETS[:4], r"a\.src .*line 3"),
        (SOURCES[:3], [TARGETS[0], "", TARGETS[2]], r"line 2 of .*a\.tgt"),
        (["", *SOURCES[:2]], TARGETS[:3], r"line 1 of .*a\.src"),
        ([""], [""], "no pair"),
        ([SOURCES[0], "\u200b"], TARGETS[:2], r"line 2 of .*a\.src"),
    ],
)
def test_lines_that_do_not_match_are_named(
    tmp_path: Path, sources: list[str], targets: list[str], message: str
) -> None:
    paths = write(tmp_path, sources, targets)
    with pytest.raises(DataError, match=message):
        build_parallel(*paths, tmp_path / "shards", tmp_path / "tokenizer")
    assert not (tmp_path / "shards").exists()


def test_malformed_and_zero_bytes_are_counted_and_shift_no_line(tmp_path: Path) -> None:
    source, target = write(tmp_path, SOURCES[:3], TARGETS[:3])
    source.write_bytes(b"ba be\nba \xff\0 be\rba\r\nba\n")
    report = CorpusReport()
    pairs = list(read_pairs(source, target, report=report))
    assert [pair[1] for pair in pairs] == ["ba be", "ba \ufffd be\rba", "ba"]
    assert (report.zero_bytes, report.invalid_utf8) == (1, 1)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in write(tmp_path, SOURCES, TARGETS)]
    rest = ["--tokenizer", str(tmp_path / "tokenizer"), "--out", str(tmp_path / "shards")]
    assert run(["data", "build", "--parallel", *paths[:1], *rest]) == 2
    assert "--parallel SOURCE TARGET" in capsys.readouterr().err
    assert run(["data", "build", "--parallel", *paths, paths[0], *rest]) == 2
    assert "3 files" in capsys.readouterr().err
    assert run(["data", "build", "--parallel", *paths, *rest]) == 0
    assert "30 pairs" in capsys.readouterr().out


def test_a_vocabulary_is_trained_on_the_files_that_are_built(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / name) for name in ("train.en", "train.de")]
    Path(files[0]).write_text("a green door\na red door\n")
    Path(files[1]).write_text("eine grüne Tür\neine rote Tür\n")
    words, out = str(tmp_path / "words"), str(tmp_path / "pairs")
    train = ["tokenizer", "train", *files, "--vocab-size", "120", "--min-frequency", "1"]
    assert run([*train, "--out", words]) == 0
    assert f"data build {files[0]} {files[1]} --parallel" in capfd.readouterr().err
    assert {"door", "rote"} <= load_tokenizer(words).vocab.keys()
    build = ["data", "build", *files, "--tokenizer", words, "--out", out]
    assert run(build) == 2
    assert "--parallel" in capfd.readouterr().err
    assert run([*build, "--parallel"]) == 0
    assert open_shards(out).num_documents == 2
