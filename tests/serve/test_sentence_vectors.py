"""A folder of sentence-transformers with a prompt, a dense layer and fewer dimensions is served as
its folder says: what is left out would give other vectors without a word."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from bertwright.checkpoint.sentence_transformers.dense import Dense, DenseLayer, write_layer
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults, write_defaults
from bertwright.config.serve import ServeConfig
from bertwright.errors import DataError
from bertwright.inference.model import load
from bertwright.inference.vectors.compare import FUNCTIONS
from bertwright.serve.app import make_app
from bertwright.serve.engine.loading import load_engine
from tests.serve.conftest import until_ready, write_model

TEXTS = ["a b", "c the d e f g h i j k l m n", "z"]
PROMPT = "q a : "


@dataclass
class Served:
    """A folder and its server."""

    folder: Path
    client: TestClient

    def ask(self, path: str, **body: Any) -> Any:
        reply = self.client.post(path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def expected(self, **asked: Any) -> np.ndarray[Any, Any]:
        return load(self.folder, device="cpu").embed(TEXTS, **asked)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("mine")
    folder = write_model(root / "mine", 3, heads=False)
    write_dense(root / "layer", 4)
    defaults = EmbeddingDefaults(
        normalize=True,
        max_length=12,
        prompts={"query": PROMPT, "passage": "b "},
        default_prompt_name="query",
        dense=(Dense(24, 10, folder=root / "layer"),),
        dimensions=6,
    )
    write_defaults(folder, defaults, 24)
    config = ServeConfig(model=(str(folder),), device="cpu", log_requests=False)
    with TestClient(make_app(config), raise_server_exceptions=False) as client:
        until_ready(client)
        yield Served(folder, client)


def write_dense(folder: Path, seed: int) -> None:
    folder.mkdir(exist_ok=True)
    chance = torch.Generator().manual_seed(seed)
    weight, bias = torch.randn(10, 24, generator=chance), torch.randn(10, generator=chance)
    write_layer(folder, DenseLayer(Dense(24, 10), weight, bias))


def test_vectors_are_the_folders_own(mine: Served) -> None:
    expected = mine.expected()
    assert expected.shape == (3, 6)
    found = mine.ask("/embed", input=TEXTS, truncate=True)
    np.testing.assert_allclose(found["vectors"], expected, atol=1e-5)
    assert [each["input"] for each in found["truncated"]] == [1]
    found = mine.ask("/v1/embeddings", input=TEXTS)
    np.testing.assert_allclose([x["embedding"] for x in found["data"]], expected, atol=1e-5)
    found = mine.ask("/similarity", input={"source_sentence": TEXTS[0], "sentences": TEXTS[2:]})
    np.testing.assert_allclose(found["similarities"], [expected[0] @ expected[2]], atol=1e-5)
    default = mine.client.get("/v1/models/mine").json()["default"]
    assert (default["prompt"], default["width"]) == (PROMPT, 6)
    assert default["max_tokens"] == 12  # of the model's 16
    assert (default["layers"], default["normalize"]) == ([3], True)


def test_other_layers_and_poolings_leave_the_dense_layer_out(mine: Served) -> None:
    others: tuple[dict[str, Any], ...] = ({"layers": (1,)}, {"pooling": "cls+max"})
    same: tuple[dict[str, Any], ...] = ({"layers": (-1,), "pooling": "mean"}, {"normalize": False})
    for asked in (*others, *same):
        found = mine.ask("/embed", input=TEXTS, truncate=True, **asked)["vectors"]
        np.testing.assert_allclose(found, mine.expected(**asked), atol=1e-5)
        assert (len(found[0]) > 6) == (asked in others)
    by_number = mine.ask("/embed", input=TEXTS, truncate=True, layers=[3])
    np.testing.assert_allclose(by_number["vectors"], mine.expected(), atol=1e-5)
    reply = mine.client.post("/embed", json={"input": TEXTS, "truncate": True, "layers": [7]})
    assert reply.status_code == 400


def test_tokens_of_the_prompt_have_no_vector(mine: Served) -> None:
    model = load(mine.folder, device="cpu")
    made = model.embedder(model.vectors.over(dense=0)).embed_tokens(TEXTS[:1])[0]
    (found,) = mine.ask("/tokens", input=TEXTS[:1], layers=[-1], truncate=True)["results"]
    assert found["tokens"] == made.tokens == ["[CLS]", "a", "b", "[SEP]"]
    assert found["offsets"] == [list(each) for each in made.offsets]
    np.testing.assert_allclose(found["vectors"], made.vectors, atol=1e-5)


def test_tokens_are_cut_where_vectors_are(mine: Served) -> None:
    model = load(mine.folder, device="cpu")
    made = model.embedder(model.vectors.over(dense=0)).embed_tokens(TEXTS[1:2])[0]
    body = {"input": TEXTS[1:2], "layers": [-1]}
    reply = mine.ask("/tokens", **body, truncate=True)
    (found,), (cut,) = reply["results"], reply["truncated"]
    assert found["tokens"] == made.tokens
    np.testing.assert_allclose(found["vectors"], made.vectors, atol=1e-5)
    assert [cut] == mine.ask("/embed", **body, truncate=True)["truncated"]
    assert mine.client.post("/tokens", json=body).json()["error"]["code"] == "too_long"


def test_the_digest_is_of_the_dense_layer_too(mine: Served, tmp_path: Path) -> None:
    before = load_engine("m", str(mine.folder), "cpu").sha256
    other = shutil.copytree(mine.folder, tmp_path / "other")
    write_dense(other / "2_Dense", 5)
    assert load_engine("m", str(other), "cpu").sha256 != before


def test_prompts_that_a_caller_asks_for(mine: Served) -> None:
    for asked, prompt in (
        ({}, PROMPT),
        ({"prompt_name": "query"}, PROMPT),
        ({"prompt": "c "}, "c "),
        ({"prompt": ""}, ""),
    ):
        found = mine.ask("/embed", input=TEXTS, truncate=True, **asked)
        np.testing.assert_allclose(found["vectors"], mine.expected(prompt=prompt), atol=1e-5)


def test_prompts_of_cosines_and_of_tokens(mine: Served) -> None:
    for asked, prompt in (
        ({"prompt_name": "passage"}, "b "),
        ({"prompt": ""}, ""),
    ):
        vectors = mine.expected(prompt=prompt)
        found = mine.ask("/similarity", input=TEXTS, truncate=True, **asked)
        np.testing.assert_allclose(found["similarities"], vectors @ vectors.T, atol=1e-5)
        model = load(mine.folder, device="cpu")
        made = model.embedder(model.vectors.over(dense=0, prompt=prompt)).embed_tokens(TEXTS[:1])[0]
        found = mine.ask("/tokens", input=TEXTS[:1], layers=[-1], **asked)
        np.testing.assert_allclose(found["results"][0]["vectors"], made.vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("asked", "status", "reason"),
    [
        ({"prompt_name": "secret-name"}, 400, "prompt_name is one of the model's (query, passage)"),
        ({"prompt_name": "query", "prompt": "secret-text"}, 400, "without prompt"),
        ({"prompt": "secret" * 200}, 400, "prompt: String should have at most 1024 characters"),
        ({"prompt": "\0"}, 400, "without NUL"),
        ({"prompt": ["secret"]}, 400, "prompt: Input should be a valid string"),
        ({"prompt": "x" * 1000, "input": ["a"] * 2000}, 413, "2002000 characters; at most"),
    ],
)
def test_prompts_that_are_refused(mine: Served, asked: Any, status: int, reason: str) -> None:
    for path in ("/embed", "/similarity", "/tokens"):
        reply = mine.client.post(path, json={"input": TEXTS, "truncate": True, **asked})
        assert reply.status_code == status, reply.text
        assert reason in reply.text
        assert "secret" not in reply.text


def test_documents_are_ranked_by_vectors(mine: Served) -> None:
    documents, query = ["c the d", "z", "a b"], "b"
    model = load(mine.folder, device="cpu")
    vectors = [
        model.embed(texts, prompt=model.prompts[name], normalize=True)
        for texts, name in (([query], "query"), (documents, "passage"))
    ]
    expected = (vectors[0] @ vectors[1].T)[0]
    order = np.argsort(-expected)
    reply = mine.ask("/rerank", query=query, documents=documents)
    assert [each["index"] for each in reply["results"]] == order.tolist()
    found = [each["score"] for each in reply["results"]]
    np.testing.assert_allclose(found, expected[order], atol=1e-5)
    assert (reply["similarity"], reply["task"], reply["label"]) == ("cosine", None, None)
    assert reply["pooling"] == "mean"
    both: Any = {"top_n": 2, "return_documents": True}
    reply = mine.ask("/v1/rerank", query=query, documents=documents, **both)
    for each, index in zip(reply["results"], order[:2], strict=True):
        assert each["document"]["text"] == documents[index]
        assert each["relevance_score"] == pytest.approx(expected[index], abs=1e-5)
    assert mine.client.get("/v1/models/mine").json()["similarity"] == "cosine"


def test_long_texts_of_a_ranking(mine: Served) -> None:
    long = "c " * 30
    for query, documents, lost in (("a", ["b", long], [1]), (long, ["b", "c"], [0, 1])):
        body = {"query": query, "documents": documents}
        error = mine.client.post("/rerank", json=body).json()["error"]
        named = "document 1" if query == "a" else "the query"
        assert error["code"] == "too_long"
        assert error["message"].startswith(named)
        truncated = mine.ask("/rerank", **body, truncate=True)["truncated"]
        assert [each["input"] for each in truncated] == lost
        reply = mine.client.post("/v1/rerank", json=body)
        assert reply.headers["x-bertwright-truncated"] == str(len(lost))
    refused = mine.client.post("/rerank", json={"query": "a", "documents": ["b"], "task": "other"})
    assert refused.status_code == 400


def test_the_folder_chooses_the_function_that_ranks(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    query, documents = vectors[:1], vectors[1:]
    for function, expected in (
        ("dot", [query[0] @ each for each in documents]),
        ("euclidean", [-np.sqrt(((query[0] - each) ** 2).sum()) for each in documents]),
        ("manhattan", [-np.abs(query[0] - each).sum() for each in documents]),
    ):
        found = FUNCTIONS[function](query, documents)  # type: ignore[index]
        np.testing.assert_allclose(found, [expected], rtol=1e-5)
    folder = write_model(tmp_path / "dots", 3, heads=False)
    write_defaults(folder, EmbeddingDefaults(max_length=12, similarity="dot"), 24)
    config = ServeConfig(model=(str(folder),), device="cpu", log_requests=False)
    with TestClient(make_app(config)) as client:
        until_ready(client)
        reply = client.post("/rerank", json={"query": "a", "documents": ["b", "a"]}).json()
    query, *documents = load(folder, device="cpu").embed(["a", "b", "a"])
    scores = {each["index"]: each["score"] for each in reply["results"]}
    assert reply["similarity"] == "dot"
    np.testing.assert_allclose([scores[0], scores[1]], [query @ x for x in documents], rtol=1e-4)
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(settings.read_text().replace("dot", "angle"))
    with pytest.raises(DataError, match=r"similarity_fn_name.*angle.*cosine, dot"):
        load(folder, device="cpu").embed(["a"])
