"""`bertwright embed`, `whiten`, `plot` and `similar`: options, output, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults, write_defaults
from bertwright.cli.app import run
from bertwright.inference.model import load
from tests.cli.conftest import JsonOf, Ran
from tests.raising import assert_names
from tests.small_bert import write_model

ROWS = [("a b", "x"), ("c d e", "y"), ("a b a", "x"), ("the j", "z")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_model(tmp_path_factory.mktemp("cli") / "model", ()))


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "in.csv"
    path.write_text("text,kind\n" + "".join(f"{a},{b}\n" for a, b in ROWS), encoding="utf-8")
    return str(path)


def test_layers_and_json(model: str, table: str, tmp_path: Path, ran: Ran) -> None:
    out = tmp_path / "v.npy"
    words = ["embed", "--model", model, "--input", table, "--out", out, "--json"]
    found = json.loads(ran(*words, "--layers", "0,-1", "--pooling", "max").out)
    assert found["shape"] == [4, 48]
    assert found["layers"] == [0, 3]
    right = load(model).embed([a for a, _ in ROWS], [0, -1], "max")
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)
    ran(*words, "--layers", "1", "--layers=-1", "--overwrite")
    right = load(model).embed([a for a, _ in ROWS], [1, 3])
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)


def test_a_sentence_transformers_folder_brings_its_own_way(
    tmp_path: Path, table: str, ran: Ran
) -> None:
    folder = write_model(tmp_path / "model", ())
    write_defaults(folder, EmbeddingDefaults("cls", True, 6), 24)
    out = tmp_path / "v.npy"
    words = ["embed", "--model", folder, "--input", table, "--out", out, "--json"]
    assert json.loads(ran(*words).out)["pooling"] == "cls"
    right = load(folder).embed([a for a, _ in ROWS], [-1], "cls", normalize=True)
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)
    ran(*words, "--pooling", "mean", "--no-normalize", "--overwrite")
    right = load(folder).embed([a for a, _ in ROWS], [-1], "mean", normalize=False)
    np.testing.assert_allclose(np.load(out), right, atol=1e-5)


def test_prompts_of_a_folder(tmp_path: Path, table: str, ran: Ran) -> None:
    folder, out = write_model(tmp_path / "model", ()), tmp_path / "v.npy"
    told = {"query": "the j ", "passage": "x "}
    write_defaults(folder, EmbeddingDefaults("mean", False, 9, prompts=told), 24)
    plain, texts = load(folder), [a for a, _ in ROWS]
    words = ["embed", "--model", folder, "--input", table, "--out", out, "--json"]

    def check(prompt: str, *options: str) -> None:
        shown = ran(*words, *options, "--overwrite")
        assert json.loads(shown.out)["prompt"] == prompt
        assert (f"before every text: {prompt!r}" in shown.err) is bool(prompt)
        right = plain.embed([prompt + text for text in texts], [-1], prompt="")
        np.testing.assert_allclose(np.load(out), right, atol=1e-5)

    check("")
    check("the j ", "--prompt-name", "query")
    check("-- ", "--prompt", "-- ")
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps({"prompts": told, "default_prompt_name": "passage"}))
    check("x ")
    check("", "--prompt", "")


def test_what_is_left_out_is_said(
    tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_model(tmp_path / "model", ())
    write_defaults(folder, EmbeddingDefaults("mean", False, 9, dimensions=7), 24)
    out = tmp_path / "v.npy"
    words = ["embed", "--model", str(folder), "--input", table, "--out", str(out)]
    assert run(words) == 0
    assert np.load(out).shape == (4, 7)
    assert "dimensions" not in capsys.readouterr().err
    assert run([*words, "--layers", "-2", "--overwrite"]) == 0
    assert np.load(out).shape == (4, 24)
    assert "dimensions" in capsys.readouterr().err


def test_similar_puts_the_usual_prompts_before(tmp_path: Path, table: str, ran: Ran) -> None:
    """As `encode_query` and `encode_document` of sentence-transformers do."""
    folder = write_model(tmp_path / "model", ())
    told = {"query": "the j ", "passage": "x ", "other": "y "}
    write_defaults(folder, EmbeddingDefaults("mean", False, 9, prompts=told), 24)
    plain, texts = load(folder), [a for a, _ in ROWS]
    words = ["similar", "--model", folder, "--corpus", table, "c d", "--json"]
    for options, query, corpus in (
        ([], "the j ", "x "),
        (["--query-prompt", "", "--corpus-prompt", "y "], "", "y "),
        (["--query-prompt", "x ", "--corpus-prompt", ""], "x ", ""),
    ):
        shown = ran(*words, *options)
        (found,) = json.loads(shown.out)["queries"]
        vectors = plain.embed([query + "c d", *(corpus + text for text in texts)], [-1])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        best = np.argsort(-(vectors[1:] @ vectors[0]), kind="stable")
        assert [each["row"] - 1 for each in found["found"]] == best.tolist()
        np.testing.assert_allclose(
            [each["cosine"] for each in found["found"]], (vectors[1:] @ vectors[0])[best], atol=1e-5
        )
        assert (f"before every query: {query!r}" in shown.err) is bool(query)
        assert (f"before every text: {corpus!r}" in shown.err) is bool(corpus)
    np.save(tmp_path / "v.npy", plain.embed(texts, [-1]))
    words += ["--vectors", tmp_path / "v.npy"]
    printed = ran(*words, "--corpus-prompt", "x", code=2)
    assert_names(printed.err, "--corpus-prompt", "--vectors")
    assert "before every text" not in ran(*words).err


@pytest.mark.parametrize("option", ["--whitening", "--whiten"])
def test_whitening_and_back(
    model: str, table: str, tmp_path: Path, ran: Ran, json_of: JsonOf, option: str
) -> None:
    file = str(tmp_path / "w.npz")
    words = ["whiten", "--model", model, "--input", table, "--out", file, "--dimensions", "2"]
    assert_names(ran(*words).out, "2 dimensions", "4 texts")
    assert "exists already" in ran(*words, code=2).err
    told = json_of(*words, "--overwrite")
    assert told == {"out": file, "texts": 4, "dimensions": 2}
    out = tmp_path / "v.npy"
    ran("embed", "--model", model, "--input", table, option, file, "--out", out)
    whitened = np.load(out)
    assert whitened.shape == (4, 2)
    np.testing.assert_allclose(np.cov(whitened.T, bias=True), np.eye(2), atol=1e-2)


def test_a_plot(model: str, table: str, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    page = tmp_path / "p.html"
    words = ["plot", "--model", model, "--input", table, "--out", page, "--color", "kind"]
    words += ["--projection", "tsne"]
    assert "4 texts" in ran(*words).out
    assert "<bdi>x</bdi> (2)" in page.read_text(encoding="utf-8")
    assert "exists already" in ran(*words, code=2).err
    told = json_of(*words, "--overwrite")
    assert told == {"out": str(page), "texts": 4, "projection": "tsne"}


def test_a_plot_is_of_the_vectors_that_were_asked(
    model: str, table: str, tmp_path: Path, ran: Ran
) -> None:
    pages = []
    for options in ([], ["--layers", "0"], ["--pooling", "cls"]):
        page = tmp_path / f"{len(pages)}.html"
        ran("plot", "--model", model, "--input", table, "--out", page, *options)
        pages.append(page.read_text(encoding="utf-8"))
    assert len(set(pages)) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plot", "--out", "p.txt"], ".html"),
        (["whiten", "--out", "w.npy"], ".npz"),
        (["plot", "--out", "p.html", "--pooling", "none"], "--pooling none"),
        (["whiten", "--out", "w.npz", "--pooling", "none"], "--pooling none"),
        (["whiten", "--out", "w.npz", "--whitening", "x.npz"], "--whitening"),
        (["whiten", "--out", "w.npz", "--dimensions", "25"], "25; expected 1 to 24"),
        (["plot", "--out", "p.html", "--dtype", "int8"], "--dtype"),
        (["plot", "--out", "p.html", "--pooling", "first-last", "--layers", "2"], "--layers"),
        (["plot"], "--out"),
        (["whiten"], "--out"),
    ],
)
def test_what_plot_and_whiten_refuse(
    model: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: Ran,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in ran(*words, "--model", model, "--input", table, code=2).err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ([], 2, "--out"),
        (["--out", "/dev/null", "--overwrite"], 2, "/dev/null"),
        (["--out", "v.txt"], 2, ".npy"),
        (["--out", "v.npy", "--color", "kind"], 2, "--color"),
        (["--out", "v.npy", "--layers", "last"], 2, "expected numbers"),
        (["--out", "v.npy", "--layers", "4"], 2, "layer 4"),
        (["--out", "v.npy", "--pooling", "first-last", "--layers", "2"], 2, "--layers"),
        (["--out", "v.npy", "--pooling", "none"], 2, ".parquet"),
        (["--out", "v.npy", "--text", "nothing"], 4, "'nothing'"),
        (["--out", "v.npy", "--backend", "openvino"], 2, "--exported DIR"),
        (["--out", "v.npy", "--dimensions", "25"], 2, "25; expected 1 to 24"),
        (["--out", "v.jsonl", "--pooling", "none", "--dimensions", "2"], 2, "--dimensions"),
        (["--out", "v.npy", "--prompt-name", "query"], 2, "'query'"),
        (["--out", "v.npy", "--prompt-name", "q", "--prompt", "a"], 2, "--prompt-name"),
    ],
)
def test_what_is_refused(
    model: str,
    table: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: Ran,
    change: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ran("embed", "--model", model, "--input", table, *change, code=code)
    assert message in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_similar(model: str, table: str, tmp_path: Path, ran: Ran, json_of: JsonOf) -> None:
    words = ["similar", "--model", model, "--corpus", table, "c d e", "--top", "2"]
    (found,) = json_of(*words)["queries"]
    assert found["query"] == "c d e"
    assert next(each["row"] for each in found["found"]) == 2
    assert found["found"][0]["cosine"] == pytest.approx(1, abs=1e-5)
    assert "1.0000" in ran(*words).out
    out = tmp_path / "v.npy"
    embed = ["embed", "--model", model, "--input", table, "--out", out, "--dtype", "int8"]
    ran(*embed)
    again = json_of(*words, "--vectors", out)["queries"][0]
    assert [each["row"] for each in again["found"]] == [each["row"] for each in found["found"]]
    assert ran(*words, "--vectors", out).err == ""
    np.save(tmp_path / "others.npy", np.random.default_rng(1).normal(size=(4, 24)))
    said = ran(*words, "--vectors", tmp_path / "others.npy").err
    assert re.search(r"warning: .*row \d of .*another model", said)


def test_similar_refuses(model: str, table: str, tmp_path: Path, ran: Ran) -> None:
    words = ["similar", "--model", model, "--corpus", table]
    assert "query" in ran(*words, code=2).err
    error = ran(*words[:-1], tmp_path / "nothing", "a", code=4).err
    assert_names(error, "--corpus", tmp_path / "nothing")
    np.save(tmp_path / "v.npy", np.zeros((3, 24), np.float32))
    words += ["a", "--vectors"]
    assert "3 vectors" in ran(*words, tmp_path / "v.npy", code=4).err
    np.savez(tmp_path / "v.npz", np.zeros((4, 24)))
    assert "v.npz" in ran(*words, tmp_path / "v.npz", code=4).err
    np.save(tmp_path / "v.npy", np.zeros((4, 24), np.int8))
    np.save(tmp_path / "v.npy.scales.npy", np.ones((2, 12), np.float32))
    error = ran(*words, tmp_path / "v.npy", code=4).err
    assert_names(error, "float32 (2, 24)", ".scales.npy", "float32 (2, 12)")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.float32(1), "[n, W]"),
        (np.zeros((4, 24), np.complex64), "complex64"),
        (np.zeros((4, 24), bool), "bool"),
        (np.zeros((4, 24), np.int8), "scales"),
    ],
)
def test_similar_refuses_arrays_that_are_no_vectors(
    model: str, table: str, tmp_path: Path, ran: Ran, array: np.ndarray, message: str
) -> None:
    path = tmp_path / "v.npy"
    np.save(path, array)
    words = ["similar", "--model", model, "--corpus", table, "a", "--vectors"]
    assert message in ran(*words, path, code=4).err


def test_pooling_none_is_tokens(model: str, table: str, tmp_path: Path, ran: Ran) -> None:
    out = tmp_path / "v.jsonl"
    words = ["embed", "--model", model, "--input", table, "--out", out, "--json"]
    assert json.loads(ran(*words, "--pooling", "none").out)["pooling"] == "none"
    first = out.read_text(encoding="utf-8").partition("\n")[0]
    assert json.loads(first)["tokens"] == ["[CLS]", "a", "b", "[SEP]"]


def test_equal_texts_have_no_whitening(model: str, tmp_path: Path, ran: Ran) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "w.npz"
    source.write_text("a b\n" * 9, encoding="utf-8")
    words = ["whiten", "--model", model, "--input", source, "--out", out]
    assert "are all the same" in ran(*words, code=4).err
    assert not out.exists()


def test_a_scales_file_is_not_replaced_unasked(
    model: str, table: str, tmp_path: Path, ran: Ran
) -> None:
    out, scales = tmp_path / "v.npy", tmp_path / "v.npy.scales.npy"
    scales.write_bytes(b"mine")
    words = ["embed", "--model", model, "--input", table, "--out", out, "--dtype", "int8"]
    assert "exists already" in ran(*words, code=2).err
    assert scales.read_bytes() == b"mine"
    ran(*words, "--overwrite")
    assert np.load(scales).shape == (2, 24)


def test_a_model_without_a_tokenizer(table: str, tmp_path: Path, ran: Ran) -> None:
    folder = write_model(tmp_path / "model", ())
    for name in ("tokenizer.json", "vocab.txt"):
        (folder / name).unlink()
    words = ["embed", "--model", folder, "--input", table, "--out", tmp_path / "v.npy"]
    assert "without a tokenizer" in ran(*words, code=4).err
    (folder / "sentencepiece.bpe.model").write_bytes(b"")
    assert "sentencepiece.bpe.model" in ran(*words, code=4).err
