"""Tiny models, of heads, of generation and of translation, and a server without a socket."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from bertwright.checkpoint.convert import convert
from bertwright.config.serve import ServeConfig
from bertwright.config.task import HeadConfig
from bertwright.inference.model import Model, load
from bertwright.models.gpt.config import GptConfig
from bertwright.models.transformer.config import TransformerConfig
from bertwright.serve.app import ROUTERS, make_app
from bertwright.serve.service import Service
from bertwright.tasks.choices.options import MultipleChoiceTask
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.span.options import SpanTask
from bertwright.tasks.tagging.options import TaggingTask
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask
from tests import small_bert
from tests.small_bert import CONFIG as SMALL

EXAMPLES: dict[str, dict[str, Any]] = {
    route.path: route.body_field.field_info.annotation.model_json_schema()["example"]
    for router in ROUTERS
    for route in router.routes
}
"""Of every route of models, the example of its schema."""
CONFIG = replace(SMALL, max_position_embeddings=16)
GPT = GptConfig(
    vocab_size=41,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=48,
)
TRANSFORMER = TransformerConfig(41, 24, 2, 4, 40, max_position_embeddings=48)
MORE: dict[str, dict[str, Any]] = {
    "/classify": {"task": "mood"},  # the model has several
    "/generate": {"model": "gpt"},
    "/translate": {"model": "mt"},
    "/v1/completions": {"model": "gpt"},
    "/text2text": {"model": "writer"},
    "/nearest": {"model": "words"},
}
"""What the examples of some routes need here beside."""
SHORT: dict[str, Any] = {"max_length": 12, "stride": 2}
TASKS = {
    "mood": ClassificationTask(labels=("bad", "good"), **SHORT),
    "mixed": ClassificationTask(labels=("x", "y", "z"), head=HeadConfig(layers="mix"), **SHORT),
    "score": RegressionTask(text2_column="text2", **SHORT),
    "names": TaggingTask(labels=("O", "B-A", "I-A"), scheme="iob2", **SHORT),
    "answer": SpanTask(**SHORT),
    "next": MultipleChoiceTask(**SHORT),
}


def write_model(folder: Path, seed: int, heads: bool) -> Path:
    """A folder of random weights."""
    objectives = ["masked_lm", "next_sentence"] if heads else []
    return small_bert.write_model(
        folder, objectives, CONFIG, tasks=TASKS if heads else {}, seed=seed
    )


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with every head."""
    return write_model(tmp_path_factory.mktemp("serve") / "full", 1, heads=True)


@pytest.fixture(scope="session")
def model(full: Path) -> Model:
    """The model with every head, in the library."""
    return load(full, device="cpu")


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder alone."""
    return write_model(tmp_path_factory.mktemp("serve") / "bare", 2, heads=False)


@pytest.fixture(scope="session")
def gpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that generates."""
    folder = tmp_path_factory.mktemp("serve") / "gpt"
    return small_bert.write_model(folder, ["next_token"], GPT, seed=3, std=0.4)


@pytest.fixture(scope="session")
def mt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that translates."""
    folder = tmp_path_factory.mktemp("serve") / "mt"
    return small_bert.write_model(folder, ["translation"], TRANSFORMER, seed=4, std=0.3)


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of `finetune generation`."""
    folder = tmp_path_factory.mktemp("serve") / "writer"
    task = GenerationTask(max_length=24, stride=2, options=GenerationOptions(max_target_tokens=12))
    config, tasks = replace(SMALL, max_position_embeddings=24), {"own": task}
    return small_bert.write_model(folder, [], config, tasks=tasks, seed=5, std=0.2, noise=0.3)


def until_ready(client: Any) -> None:
    """Wait for the models."""
    for _ in range(3000):  # a minute
        if client.get("/readyz").status_code == 200:
            return
        time.sleep(0.02)
    raise AssertionError("the server did not become ready")


def swap(client: Any) -> None:
    """Load the models again, as SIGHUP does."""
    client.portal.call(client.app.service.swap)


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of word vectors."""
    folder = tmp_path_factory.mktemp("serve") / "words"
    vectors = "bank 1 0 2\nshore 1 0 1\nmoney 0 2 2\nU.S. -1 0 -2\n"
    folder.with_suffix(".vec").write_text(vectors)
    convert(folder.with_suffix(".vec"), folder)
    return folder


@pytest.fixture(scope="session")
def client(
    full: Path, bare: Path, gpt: Path, mt: Path, writer: Path, words: Path
) -> Iterator[TestClient]:
    """A server of all models."""
    models = f"full={full}", f"bare={bare}", f"gpt={gpt}", f"mt={mt}", f"writer={writer}"
    models = *models, f"words={words}"
    config = ServeConfig(model=models, device="cpu", log_requests=False)
    with TestClient(make_app(config), raise_server_exceptions=False) as made:
        until_ready(made)
        yield made


@pytest.fixture
def served(full: Path) -> Iterator[Callable[..., TestClient]]:
    """A server of one model with other settings: `served(max_items=2)`."""
    open_clients: list[TestClient] = []

    def start(**settings: Any) -> TestClient:
        settings.setdefault("model", (f"full={full}",))
        app = make_app(ServeConfig(device="cpu", log_requests=False, **settings))
        made = TestClient(app, raise_server_exceptions=False)
        made.__enter__()
        open_clients.append(made)
        until_ready(made)
        return made

    yield start
    for made in open_clients:
        made.__exit__(None, None, None)


def check_no(reply: Any, *statuses: int) -> dict[str, Any]:
    assert reply.status_code in (statuses or range(400, 500)), reply.text
    assert len(reply.content) <= 2048
    assert "zebra" not in reply.text
    error: dict[str, Any] = reply.json()["error"]
    assert error["code"]
    assert error["message"]
    return error


def ask(client: TestClient, path: str, **body: Any) -> dict[str, Any]:
    reply = client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def streamed(client: TestClient, path: str, **body: Any) -> list[Any]:
    """The events of a stream, which ends as OpenAI's do."""
    reply = client.post(path, json={"model": "gpt", "stream": True, **body})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    *events, done, nothing = reply.text.split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    assert all(event.startswith("data: ") for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def figures(text: str) -> dict[str, float]:
    """By name and labels, without those of the process."""
    return {
        " ".join([sample.name.removeprefix("bertwright_"), *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("bertwright_") and not sample.name.endswith("_created")
    }


def with_server(
    test: Callable[[httpx.AsyncClient, Service], Any], *models: object, **settings: Any
) -> None:
    """Run a test over an application in its event loop."""
    config = ServeConfig(tuple(map(str, models)), device="cpu", log_requests=False, **settings)

    async def main() -> None:
        app = make_app(config)
        async with app.app.router.lifespan_context(app.app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                while not app.service.is_ready:
                    await asyncio.sleep(0.01)
                await test(client, app.service)

    asyncio.run(asyncio.wait_for(main(), 60))
