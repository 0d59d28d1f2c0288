"""ARPA files: both ways, by KenLM, and what is wrong in them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

import bertwright
from bertwright.checkpoint.convert import convert
from bertwright.cli.app import run as run_verb
from bertwright.config import values
from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.models.ngram import arpa as arpa_files
from tests.small_runs import WORDS


def test_arpa_both_ways_and_by_kenlm(shards: Shards, tmp_path: Path) -> None:
    run, arpa, again = tmp_path / "run", tmp_path / "m.arpa", tmp_path / "again"
    words = ["pretrain", "--model", "ngram", "--data", str(shards.folder), "--out", str(run)]
    assert run_verb([*words, "--architecture.order", "3", "--prune", "0", "0", "1"]) == 0
    assert values.read_toml(run / "config.toml")["prune"] == [0, 0, 1]
    assert run_verb(["convert", str(run), str(arpa), "--to", "arpa"]) == 0
    assert run_verb(["convert", str(arpa), str(again)]) == 0
    ours, theirs = bertwright.load(run), bertwright.load(again)
    texts = [
        ours.tokenizer.decode(shards.tokens(start, start + 9).tolist()) for start in range(0, 90, 9)
    ]
    texts.append("never seen")
    for one, other in zip(ours.score(texts), theirs.score(texts), strict=True):
        np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, rtol=1e-5)
    written = f"{WORDS[0].upper()} {WORDS[1]}"  # a file of n-grams has exact words
    assert theirs.tokenizer.encode(written).tokens == ["<s>", "<unk>", WORDS[1], "</s>"]
    kenlm = pytest.importorskip("kenlm")
    queried = kenlm.Model(str(arpa))
    for text, one in zip(texts, ours.score(texts), strict=True):
        scores = [score for score, *_ in queried.full_scores(text)]
        np.testing.assert_allclose(one.log_probabilities / math.log(10), scores, atol=1e-4)


ARPA = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.3
-0.5\t</s>
-0.4\ta\t-0.2

\\2-grams:
-0.1\t<s> a
-0.6\ta </s>

\\end\\
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\end\\\n", "", "truncated"),
        ("-0.6\ta </s>\n\n\\end\\\n", "", "2-gram 2 of 2"),
        ("ngram 2=2", "ngram 2=1", "line 13 of"),
        ("a </s>", "b </s>", "words of the 1-grams"),
        ("-0.6\ta", "x\ta", "logarithm"),
        ("a </s>", "<s> a", "twice"),
        ("-0.6\ta", "0.6\ta", "above 1"),
        ("\\data\\", "data", "no ARPA file"),
        ("ngram 1=4\n", "", "ngram 1="),
        ("\ta", "\t\xff", "iconv"),
        ("1=4", "1=400000000000", "it is truncated"),
        ("1=4", "1=4000000000000", "at most 12 digits"),
        ("-0.4\ta\t-0.2", "-0.4\ta\t1e300", "'a' with a back-off weight of 10^1e+300"),
    ],
)
def test_damaged_arpa_files(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ARPA
    path = tmp_path / "m.arpa"
    path.write_bytes(ARPA.replace(old, new).encode("latin-1"))
    with pytest.raises(DataError, match=re.escape(message)):
        convert(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_arpa_file_of_too_many_orders(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    path.write_text("\\data\\\n" + "".join(f"ngram {k}=1\n" for k in range(1, 200)))
    with pytest.raises(DataError, match=re.escape("ngram 33=1")):
        convert(path, tmp_path / "out")


def test_an_arpa_file_has_exact_words(tmp_path: Path) -> None:
    path, folder = tmp_path / "m.arpa", tmp_path / "out"
    path.write_text(
        ARPA.replace("\ta", "\tn't").replace(" a\n", " n't\n").replace("a </s>", "n't </s>")
    )
    assert run_verb(["convert", str(path), str(folder)]) == 0
    model = bertwright.load(folder)
    assert model.tokenizer.encode("n't N't\u3000n't").tokens == [
        *("<s>", "n't", "<unk>", "</s>"),
    ]
    (scored,) = model.score(["n't"])
    np.testing.assert_allclose(scored.log_probabilities / math.log(10), [-0.1, -0.6], rtol=1e-5)
    again = tmp_path / "again.arpa"
    assert run_verb(["convert", str(folder), str(again), "--to", "arpa"]) == 0
    assert convert(again, tmp_path / "twice").sizes["ngrams"] == [4, 2]
    assert model.generate("n't", max_new_tokens=3)[0][0].text.strip("n't ") == ""


def test_an_arpa_file_without_markers(tmp_path: Path) -> None:
    path, folder = tmp_path / "m.arpa", tmp_path / "out"
    path.write_text("\\data\\\nngram 1=2\n\n\\1-grams:\n-0.5\ta\n-0.25\tb\n\n\\end\\\n")
    done = convert(path, folder)
    assert done.sizes == {"ngrams": [4]}  # and <s>, <unk>
    assert [marker in " ".join(done.notes) for marker in ("<s>", "</s>", "<unk>")] == [True] * 3
    first, second = bertwright.load(folder).score(["a b", "a"])
    np.testing.assert_allclose(first.log_probabilities / math.log(10), [-0.5, -0.25], rtol=1e-5)
    np.testing.assert_allclose(second.log_probabilities / math.log(10), [-0.5], rtol=1e-5)


def test_an_arpa_file_that_says_more_than_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arpa_files, "_AT_FIRST", 4)
    path = tmp_path / "m.arpa"
    path.write_text("\\data\\\nngram 1=900000000000\n\\1-grams:\n" + "-1\ta\n" * 99)
    with pytest.raises(DataError, match="1-grams twice"):
        convert(path, tmp_path / "out")
    path.write_bytes(b"\\data\\" + bytes(2 << 20))
    with pytest.raises(DataError, match=r"line 1 .* more than 1 MB"):
        convert(path, tmp_path / "out")
