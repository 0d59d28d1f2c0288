"""Words looked up and evaluated: nearest, analogies, Spearman's correlation, coverage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from bertwright.cli.app import run as run_verb
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference.model import load
from bertwright.inference.vectors.embed import Embedder
from bertwright.inference.vectors.words import WordTable
from bertwright.inference.word_vectors.evaluate import evaluate_words, read_word_test
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.word_vectors import fasttext_file
from bertwright.models.word_vectors.config import FastTextConfig
from bertwright.models.word_vectors.files import NamedVectors, write_binary
from bertwright.rows.lines import ByteCounts
from tests.small_bert import write_model

WORDS = ["man", "woman", "king", "queen", "Paris", "tea"]
VECTORS = np.array(
    [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1.1, 1], [-1, 0.2, 0], [0.1, -1, -1]], np.float32
)
TABLE = WordTable(WORDS, VECTORS)
PAIRS = "man\twoman\t9\nKING, queen ,7\nman king;6.5\nParis tea 1\nman nobody 3\n"


def cosine(one: str, other: str) -> float:
    a, b = VECTORS[WORDS.index(one)], VECTORS[WORDS.index(other)]
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_nearest_words() -> None:
    found = TABLE.nearest(VECTORS[0] * 7, 3, ["man"])
    expected = sorted(((cosine("man", w), w) for w in WORDS[1:]), reverse=True)[:3]
    assert [word for word, _ in found] == [word for _, word in expected]
    np.testing.assert_allclose([c for _, c in found], [c for c, _ in expected], rtol=1e-6)
    assert len(TABLE.nearest(VECTORS[0], 99, ["man"])) == len(WORDS) - 1


def test_pairs_by_rank_with_coverage(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("word1 word2 rating\n" + PAIRS)
    found = evaluate_words(TABLE, path)
    pairs = [("man", "woman"), ("king", "queen"), ("man", "king"), ("Paris", "tea")]
    expected = spearmanr([cosine(*pair) for pair in pairs], [9, 7, 6.5, 1]).statistic
    assert found.score == pytest.approx(expected)
    assert (found.metric, found.covered, found.total) == ("spearman", 4, 5)
    assert found.interval[0] <= found.score <= found.interval[1]


def test_rounding_errors_are_not_ranked(tmp_path: Path) -> None:
    table = WordTable(WORDS[:4], np.array([[1, 1], [1, 1.0000002], [1, 0.9999999], [1, 0]]))
    path = tmp_path / "pairs.txt"
    path.write_text("man woman 2\nman king 9\nman queen 1\n")
    assert evaluate_words(table, path).score == pytest.approx(spearmanr([1, 1, 0], [2, 9, 1])[0])


@pytest.mark.parametrize(
    "text",
    [
        "Word 1,Word 2,Human (mean)\nman,woman,8.5\nking,queen,2\n",
        "# of a paper\nword1\tword2\tPOS\tmean\nman\twoman\tN\t8,5\nking\tqueen\tN\t2\n",
        "a;b;c\nman;woman;8,5\nking;queen;2\n",
        "man woman 8,5\nking queen 2\n",
        "man, woman, 8,5\nking, queen, 2\n",
        '"a","b","c"\n"man","woman","8.5"\n"king","queen","2"\n',
    ],
)
def test_names_of_columns_and_decimal_commas(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    found = [(each.words, each.rating) for each in read_word_test(path)]
    assert found == [(("man", "woman"), 8.5), (("king", "queen"), 2.0)]


def test_analogies_leave_out_the_three_words(tmp_path: Path) -> None:
    path = tmp_path / "questions.txt"
    path.write_text(": royal\nman woman king queen\nMan king woman queen\n: other\nman tea a b\n")
    found = evaluate_words(TABLE, path)
    assert (found.metric, found.score, found.covered, found.total) == ("accuracy", 1.0, 2, 3)
    assert found.sections == {"royal": (2, 2), "other": (0, 0)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a b 1\nc d\n", "line 2 "),
        ("a b 1\n", "1 pairs"),
        ("a b\nc d\n", "line 2 "),
        (": s\na b c\n", "line 2 .*four words"),
        (": s\n", "0 .*questions"),
        ("x y 1\nu v 2\n", "2 lines.* 0 "),
    ],
)
def test_what_is_no_test_is_an_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "test.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        evaluate_words(TABLE, path)


def test_malformed_and_zero_bytes_are_counted(tmp_path: Path) -> None:
    path, counts = tmp_path / "test.txt", ByteCounts()
    path.write_bytes(b"a b\0 1\nd\xe9j c 2\n")
    assert [each.words for each in read_word_test(path, counts)] == [("a", "b"), ("d\ufffdj", "c")]
    assert (counts.zero_bytes, counts.invalid_utf8) == (1, 1)


def test_a_contextual_model_by_its_layers(tmp_path: Path) -> None:
    write_model(tmp_path / "model", ())
    model = load(tmp_path / "model")
    word = next(w for w in open_words(tmp_path / "model").words if w.isalpha())
    encoded = model.encode([word])[0]
    for layer in (0, 1):
        table = open_words(tmp_path / "model", layer)
        assert not any(each.startswith(("##", "[")) for each in table.words if len(each) > 2)
        np.testing.assert_allclose(
            table.vectors[table.row[word]], encoded.layers[layer, 1:-1].mean(0), rtol=1e-5
        )
    with pytest.raises(ConfigError, match="no layer 9"):
        open_words(tmp_path / "model", 9)


def test_an_unknown_word_is_refused_before_the_table_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "model", ())
    known = next(w for w in open_words(tmp_path / "model").words if w.isalpha())
    assert run_verb(["words", "nearest", known, "--model", str(tmp_path / "model")]) == 0

    def embed_tokens(*words: object) -> None:
        raise AssertionError("vectors were computed")

    monkeypatch.setattr(Embedder, "embed_tokens", embed_tokens)
    for words in (["nearest", known, "\u2603"], ["analogy", known, "\u2603", known]):
        assert run_verb(["words", *words, "--model", str(tmp_path / "model")]) == 4
        assert "'\u2603'" in capsys.readouterr().err


def test_which_tokens_continue_a_word_is_computed_once(tmp_path: Path) -> None:
    write_model(tmp_path / "model", ())
    tokenizer = load(tmp_path / "model").tokenizer
    assert tokenizer.is_continuation is tokenizer.is_continuation


def test_the_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, pairs = str(tmp_path / "v.bin"), tmp_path / "pairs.txt"
    write_binary(Path(file), NamedVectors(WORDS, VECTORS))
    pairs.write_text(PAIRS)

    def shown(*words: str) -> dict[str, object]:
        assert run_verb(["words", *words, "--model", file, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    assert shown("nearest", "king")["nearest"]["king"][0]["word"] == "queen"
    found = shown("analogy", "man", "king", "woman")["found"]
    assert found[0]["word"] == "queen"
    (result,) = shown("evaluate", str(pairs))["results"]
    assert result["covered"] == 4
    assert run_verb(["words", "nearest", "nobody", "--model", file]) == 4
    assert run_verb(["words", "evaluate", str(pairs), "--model", file, "--layer", "2"]) == 2
    assert run_verb(["words", "evaluate", str(pairs), "--model", file]) == 0
    assert "4 of 5" in capsys.readouterr().out


def test_words_of_a_damaged_folder_are_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write_binary(tmp_path / "v.bin", NamedVectors(WORDS, VECTORS))
    assert run_verb(["convert", str(tmp_path / "v.bin"), str(whole)]) == 0
    command = ["words", "nearest", "king", "--model"]
    assert run_verb([*command, str(whole)]) == 0
    for name in ("model.safetensors", "vocab.txt", "config.json", "tokenizer_config.json"):
        for damage in ("flip", "cut", "gone", "link"):
            folder = tmp_path / f"{name}-{damage}"
            shutil.copytree(whole, folder)
            path, content = folder / name, (folder / name).read_bytes()
            path.unlink()
            if damage == "flip":
                path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
            elif damage == "cut":
                path.write_bytes(content[:-4])
            elif damage == "link":
                path.symlink_to(whole / name)
            expected = {5, 4} if (name, damage) == ("config.json", "gone") else {5}
            assert run_verb([*command, str(folder)]) in expected, (name, damage)


def test_words_of_a_folder_whose_files_do_not_belong_together(tmp_path: Path) -> None:
    write_binary(tmp_path / "v.bin", NamedVectors(WORDS, VECTORS))
    folder = tmp_path / "model"
    assert run_verb(["convert", str(tmp_path / "v.bin"), str(folder)]) == 0
    (folder / "MANIFEST.json").unlink()
    with (folder / "vocab.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(IntegrityError, match=r"8 words.*7"):
        open_words(folder)


def test_the_words_of_a_file_of_fasttext(tmp_path: Path) -> None:
    own, counts = FastTextConfig(2, 3, buckets=50), np.array([5, 3])
    rows = np.random.default_rng(5).standard_normal((52, 3)).astype(np.float32)
    model = fasttext_file.FastTextFile(own, ["king", "queen"], counts, rows, rows[:2])
    path = tmp_path / "v.bin"
    fasttext_file.write(path, model)
    assert run_verb(["convert", str(path), str(tmp_path / "folder")]) == 0
    table, folder = open_words(path), open_words(tmp_path / "folder")
    assert table.words == ["king", "queen"] == folder.words
    np.testing.assert_allclose(table.vectors, folder.vectors, rtol=1e-6)
    np.testing.assert_array_equal(table.require("kings"), folder.require("kings"))
    # the form of 2016: no signature, no number of pruned words, no bytes before the matrices
    new = path.read_bytes()
    settings, sizes = 8 + 56, 8 + 56 + 12 + 8
    size = 4 * rows.size
    matrix = new[-(size + 17 + 4 * 6 + 17) :]
    words = new[sizes + 8 : len(new) - len(matrix)]
    old = new[8:settings] + new[settings:sizes] + words
    old += matrix[1 : 17 + size] + matrix[17 + size + 1 :]
    path.write_bytes(old)
    np.testing.assert_array_equal(open_words(path).vectors, table.vectors)
    path.write_bytes(old[:-9])
    with pytest.raises(DataError, match="truncated"):
        open_words(path)
