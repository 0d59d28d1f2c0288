"""Every route gives what the library gives, and says how it was made."""

from __future__ import annotations

import base64
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from bertwright.atomic import sha256_file
from bertwright.checkpoint.opened import open_model
from bertwright.config.vectors import VectorConfig
from bertwright.inference.model import Model
from bertwright.inference.vectors.compare import cosines
from bertwright.serve.engine.folder import weights_digest
from bertwright.serve.routes.vectors import store
from tests.serve.conftest import ask

TEXTS = ["a b c", "the d.", "e"]
ABOUT = {"model", "sha256", "layers", "pooling", "normalized", "tokens_used", "truncated"}


POOLINGS = ["mean", "cls", "max", "mean-max", "weighted", "first-last"]


@pytest.mark.parametrize(
    ("layers", "pooling", "normalize"),
    [*(([n], "mean", False) for n in (-2, 0, -1)), *(([3, 1], each, True) for each in POOLINGS)],
)
def test_embed(
    client: TestClient, model: Model, layers: list[int], pooling: Any, normalize: bool
) -> None:
    found = ask(client, "/embed", input=TEXTS, layers=layers, pooling=pooling, normalize=normalize)
    expected = model.embed(TEXTS, layers, pooling, normalize)
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-5)
    assert set(found) > ABOUT
    assert found["pooling"] == pooling
    assert found["normalized"] is normalize
    if pooling != "first-last":
        assert found["layers"] == [layer % 4 for layer in layers]
    assert found["tokens_used"] == sum(len(model.tokenizer.encode(text).ids) for text in TEXTS)
    assert found["truncated"] == []


def test_every_reply_names_its_weights(client: TestClient, bare: Path) -> None:
    of_full, of_bare = (ask(client, "/embed", input="a", model=m) for m in ("full", "bare"))
    assert of_full["sha256"] != of_bare["sha256"] == sha256_file(bare / "model.safetensors")
    assert (of_full["model"], of_bare["model"]) == ("full", "bare")
    assert ask(client, "/tokenize", input="a")["sha256"] == of_full["sha256"]


def test_what_is_not_read_changes_no_digest(full: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(full, folder)
    digest = weights_digest(open_model(folder))
    for name in ("pytorch_model.bin", "trainer.safetensors"):
        (folder / name).write_bytes(b"of a trainer")
    assert weights_digest(open_model(folder)) == digest
    with (folder / "heads.safetensors").open("ab") as file:
        file.write(b"more")
    assert weights_digest(open_model(folder)) != digest


def test_pairs_and_windows(client: TestClient, model: Model) -> None:
    found = ask(client, "/embed", input=[["a b", "c"], "a"])
    np.testing.assert_allclose(found["vectors"], model.embed([("a b", "c"), "a"]), atol=1e-5)
    long = " ".join("abcdefghij" * 4)
    found = ask(client, "/embed", input=["b", long], windows=True, pooling="weighted")
    expected = model.embed(["b", long], pooling="weighted")
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-5)


def test_dtypes_and_encodings(client: TestClient, model: Model) -> None:
    expected = model.embed(TEXTS)
    found = ask(client, "/embed", input=TEXTS, dtype="int8")
    assert found["dtype"] == "int8"
    vectors = np.array(found["vectors"]) * np.array(found["scales"])[:, None]
    np.testing.assert_allclose(vectors, expected, atol=float(np.abs(expected).max()) / 200)
    found = ask(client, "/embed", input=TEXTS, dtype="binary")
    assert found["width"] == 24
    bits = np.unpackbits(np.array(found["vectors"], np.uint8), axis=1)
    assert (bits == (expected > 0)).all()
    found = ask(client, "/embed", input=TEXTS, dtype="float16", encoding="base64")
    rows = [np.frombuffer(base64.b64decode(row), np.float16) for row in found["vectors"]]
    np.testing.assert_allclose(np.stack(rows), expected, atol=2e-3)


def test_each_vector_is_stored_by_itself() -> None:
    vectors = np.array([[1, -4, 0, 2], [0.001, 0.002, 0, -0.001], [0] * 4], np.float32)
    stored, listed = store(vectors, "int8")
    scales = np.array(listed)[:, None]
    np.testing.assert_allclose(scales[:, 0], [4 / 127, 0.002 / 127, 1 / 127], rtol=1e-6)
    assert (np.abs(stored * scales - vectors) <= scales * 0.501).all()
    assert stored.dtype == np.int8
    assert store(vectors, "binary")[0].tolist() == [[0b1001_0000], [0b1100_0000], [0]]
    assert store(vectors, "float16")[0].dtype == np.float16


def test_truncation_is_asked_for_and_told(client: TestClient, model: Model) -> None:
    long = " ".join("abcdefghijklmnopqrst")
    refused = client.post("/embed", json={"input": ["a", long]})
    assert refused.status_code == 400
    assert "input 1 has 22 tokens; this model reads 16 at once" in refused.text
    found = ask(client, "/embed", input=["a", long], truncate=True)
    assert found["truncated"] == [{"input": 1, "tokens_cut": 6}]
    expected = model.embed([" ".join("abcdefghijklmn")])
    np.testing.assert_allclose(found["vectors"][1], expected[0], atol=1e-5)
    found = ask(client, "/embed", input=long, truncate=True, pooling="weighted")
    expected = model.embed([" ".join("abcdefghijklmn")], pooling="weighted")
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-5)
    pair = [long, "x"]
    assert client.post("/embed", json={"input": [pair]}).status_code == 400
    assert ask(client, "/embed", input=[pair], truncate=True)["truncated"] == [
        {"input": 0, "tokens_cut": 8}
    ]


def test_tokens(client: TestClient, model: Model) -> None:
    found = ask(client, "/tokens", input=TEXTS, layers=[2])["results"]
    for each, encoded in zip(found, model.encode(TEXTS), strict=True):
        assert each["tokens"] == encoded.tokens
        assert [tuple(pair) for pair in each["offsets"]] == encoded.offsets
        np.testing.assert_allclose(each["vectors"], encoded.layers[2], atol=1e-5)


def test_tokens_of_windows(client: TestClient, model: Model) -> None:
    long = " ".join("abcdefghij" * 4)
    asked: dict[str, Any] = {"layers": [3, 0], "normalize": True}
    config = VectorConfig((3, 0), normalize=True)
    made = model.embedder(config).embed_tokens(["a", long])
    reply = ask(client, "/tokens", input=["a", long], windows=True, **asked)
    for each, expected in zip(reply["results"], made, strict=True):
        assert each["tokens"] == expected.tokens
        assert [tuple(pair) for pair in each["offsets"]] == expected.offsets
        np.testing.assert_allclose(each["vectors"], expected.vectors, atol=1e-5)
    told = {key: reply[key] for key in ("layers", "pooling", "normalized", "truncated")}
    assert told == {"layers": [3, 0], "pooling": None, "normalized": True, "truncated": []}
    cut = ask(client, "/tokens", input=["a", long], truncate=True)
    assert cut["truncated"] == [{"input": 1, "tokens_cut": 26}]


def test_tokenize(client: TestClient, model: Model) -> None:
    reply = ask(client, "/tokenize", input=[["a b", "c"], "the d"])
    for found, texts in zip(reply["results"], (("a b", "c"), ("the d",)), strict=True):
        expected = model.tokenizer.encode(*texts)
        assert (found["ids"], found["tokens"]) == (expected.ids, expected.tokens)
        assert found["type_ids"] == expected.type_ids
        assert [tuple(each) for each in found["offsets"]] == expected.offsets
    assert reply["tokens_used"] == 6 + 4


def test_fill_mask(client: TestClient, model: Model) -> None:
    text = "a [MASK] c [MASK]"
    (found,) = ask(client, "/fill-mask", inputs=text, top_k=3)["results"]
    for blank, expected in zip(found, model.fill(text, 3), strict=True):
        assert [each["token_str"] for each in blank] == [token for token, _ in expected]
        scores = [each["score"] for each in blank]
        np.testing.assert_allclose(scores, [share for _, share in expected], atol=1e-5)
    assert found[1][0]["sequence"] == f"a [MASK] c {found[1][0]['token_str']}"
    long = "a [MASK] " + "b " * 30
    assert client.post("/fill-mask", json={"input": long}).status_code == 400
    reply = ask(client, "/fill-mask", input=long, truncate=True)
    assert reply["truncated"] == [{"input": 0, "tokens_cut": 18}]


def test_next_sentence(client: TestClient, model: Model) -> None:
    (found,) = ask(client, "/next-sentence", input=["a b", "c"])["results"]
    assert found["probability"] == pytest.approx(model.next_sentence("a b", "c"), abs=1e-5)
    pairs = [["a", "b"], ["c", "d e"]]
    found = ask(client, "/next-sentence", input=pairs)["results"]
    assert [each["probability"] for each in found] == pytest.approx(
        [model.next_sentence(*pair) for pair in pairs], abs=1e-5
    )


@pytest.mark.parametrize("task", ["mood", "mixed"])
def test_classify(client: TestClient, model: Model, task: str) -> None:
    inputs = ["a b", ["a", "b c"], "a b c d e f g h i j k l m n o p q r s t"]
    found = ask(client, "/classify", input=inputs, task=task)["results"]
    for each, expected in zip(found, model.predict(inputs, task), strict=True):
        scores = {one["label"]: one["score"] for one in each}
        assert scores == pytest.approx(expected.as_dict()["scores"], abs=1e-5)
        assert each[0]["label"] == expected.as_dict()["label"]


def test_regression_and_rerank(client: TestClient, model: Model) -> None:
    (found,) = ask(client, "/classify", input=[["a", "b"]], task="score")["results"]
    expected = model.predict([("a", "b")], "score")[0].as_dict()["value"]
    assert found == [{"label": "value", "score": pytest.approx(expected, abs=1e-5)}]
    documents = ["b", "c d", "e f g"]
    reply = ask(client, "/rerank", query="a", documents=documents)
    assert reply["task"] == "score"
    values = [p.as_dict()["value"] for p in model.predict([("a", d) for d in documents], "score")]
    order = sorted(range(3), key=lambda n: -values[n])
    assert [each["index"] for each in reply["results"]] == order
    reply = ask(client, "/rerank", query="a", documents=documents, task="mood", top_k=2)
    found = [p.as_dict()["scores"] for p in model.predict([("a", d) for d in documents], "mood")]
    shares = [each["good"] for each in found]
    order = sorted(range(3), key=lambda n: -shares[n])[:2]
    assert (reply["task"], reply["label"]) == ("mood", "good")
    assert [each["index"] for each in reply["results"]] == order
    assert [each["score"] for each in reply["results"]] == pytest.approx(
        [shares[n] for n in order], abs=1e-5
    )


def test_rerank_of_cohere_and_jina(client: TestClient, model: Model) -> None:
    documents = ["b", {"text": "c d"}, "e f g"]
    body = {"query": "a", "documents": documents, "max_chunks_per_doc": 3, "model": "full"}
    reply = ask(client, "/v1/rerank", **body)
    assert (reply["model"], reply["usage"]["total_tokens"]) == ("full", 18)
    texts = ["b", "c d", "e f g"]
    values = [p.as_dict()["value"] for p in model.predict([("a", t) for t in texts], "score")]
    order = sorted(range(3), key=lambda n: -values[n])
    assert [each["index"] for each in reply["results"]] == order
    scores = [each["relevance_score"] for each in reply["results"]]
    assert scores == pytest.approx([values[n] for n in order], abs=1e-5)
    assert not any("document" in each for each in reply["results"])
    assert len(ask(client, "/v1/rerank", **body, top_k=1, task="mood")["results"]) == 1
    reply = ask(client, "/v1/rerank", **body, top_n=2, return_documents=True, task="mood")
    assert [each["document"]["text"] for each in reply["results"]] == [
        texts[each["index"]] for each in reply["results"]
    ]
    assert len(reply["results"]) == 2
    assert all(0 < each["relevance_score"] < 1 for each in reply["results"])
    long = {"query": "a", "documents": ["b", "c " * 40]}
    cut = client.post("/v1/rerank", json=long)
    assert (cut.status_code, cut.headers["x-bertwright-truncated"]) == (200, "0"), cut.text


def test_similarity(client: TestClient, model: Model) -> None:
    vectors = model.embed(TEXTS, normalize=True)
    found = ask(client, "/similarity", input=TEXTS)["similarities"]
    np.testing.assert_allclose(found, vectors @ vectors.T, atol=1e-5)
    found = ask(client, "/similarity", input={"source_sentence": TEXTS[0], "sentences": TEXTS[1:]})
    np.testing.assert_allclose(found["similarities"], vectors[1:] @ vectors[0], atol=1e-5)


def test_a_cosine_is_at_most_1() -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 24)).astype(np.float32)
    found = cosines(vectors, vectors * 3)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-6)
    assert (found.max(), found.min() < -0.5) == (1, True)
    assert cosines(vectors[:1], -vectors[:1]) >= -1


def test_attention(client: TestClient) -> None:
    found = ask(client, "/attention", input=["a b", "c"])
    maps = np.array(found["attentions"])
    count = len(found["tokens"])
    assert found["tokens_used"] == count
    assert maps.shape == (3, 4, count, count)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-3)
    two = ask(client, "/attention", input=["a b", "c"], layers=[3, 1])
    np.testing.assert_allclose(two["attentions"], maps[[2, 0]], atol=1e-4)
    assert two["layers"] == [3, 1]


def test_encode_of_bert_as_service(client: TestClient, model: Model) -> None:
    found = ask(client, "/encode", id=7, texts=TEXTS, is_tokenized=False)
    assert (found["id"], found["status"]) == (7, 200)
    np.testing.assert_allclose(found["result"], model.embed(TEXTS, [-2], "mean"), atol=1e-5)


def test_openai(client: TestClient, model: Model) -> None:
    expected = model.embed(TEXTS, normalize=True)
    body = {"input": TEXTS, "model": "full", "encoding_format": "base64", "user": "u"}
    body |= {"service_tier": "auto", "parameters": {"more": 1}}  # of no meaning here
    reply = client.post("/v1/embeddings", json=body)
    found = reply.json()
    assert set(found) == {"object", "data", "model", "usage"}
    rows = [np.frombuffer(base64.b64decode(d["embedding"]), np.float32) for d in found["data"]]
    np.testing.assert_allclose(np.stack(rows), expected, atol=1e-5)
    assert [d["index"] for d in found["data"]] == [0, 1, 2]
    assert reply.headers["x-bertwright-truncated"] == "0"
    for count in (5, 24):
        reply = client.post("/v1/embeddings", json={"input": TEXTS[0], "dimensions": count})
        short = expected[0][:count] / np.linalg.norm(expected[0][:count])
        np.testing.assert_allclose(reply.json()["data"][0]["embedding"], short, atol=1e-5)


def test_models_and_documents(client: TestClient) -> None:
    first, second, third, fourth, fifth, sixth = client.get("/v1/models").json()["data"]
    assert (first["id"], second["id"], third["id"]) == ("full", "bare", "gpt")
    assert (first["generates"], third["generates"], fourth["generates"]) == (False, True, False)
    assert (first["words"], sixth["words"]) == (False, True)
    assert first["heads"] == ["masked_lm", "next_sentence"]
    assert [task["kind"] for task in fifth["tasks"]] == ["generation"]
    assert {task["name"] for task in first["tasks"]} >= {"mood", "names", "answer"}
    assert "frame-ancestors 'none'" in client.get("/").headers["content-security-policy"]
    described = client.get("/openapi.json").json()
    assert "/embed" in described["paths"]


def test_the_page_of_the_routes_needs_no_network(client: TestClient) -> None:
    page = client.get("/docs")
    files = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert len(files) == 3
    for name in (*files, "openapi.json"):
        assert client.get(f"/{name}").status_code == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
