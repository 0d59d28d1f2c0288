"""Health, the list of models, keys and swaps: what needs no device."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from bertwright.config.serve import ServeConfig
from bertwright.errors import ConfigError
from bertwright.serve.app import make_app
from bertwright.serve.auth import ApiKeys
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.loading import ModelLoader
from bertwright.serve.service import Service
from tests.serve.conftest import swap


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/v1/models", "/", "/docs"])
def test_head(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == client.get(path).status_code == 200


def test_what_is_no_way_to_ask(client: TestClient) -> None:
    reply = client.post("/embed/", json={"input": "a"}, follow_redirects=False)
    assert reply.status_code == 404
    for path, allowed in (("/livez", "GET"), ("/embed", "POST")):
        reply = client.delete(path)
        assert (reply.status_code, reply.headers["allow"]) == (405, allowed)
    packed = gzip.compress(b'{"input": "a"}')
    reply = client.post("/embed", content=packed, headers={"Content-Encoding": "gzip"})
    assert (reply.status_code, "not compressed" in reply.text) == (400, True)


def test_models_that_are_being_loaded_are_not_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(self: Service) -> None:
        pass

    monkeypatch.setattr(Service, "start", start)
    with TestClient(make_app(ServeConfig(model=("m",), log_requests=False))) as client:
        for path in ("/v1/models", "/v1/models/m"):
            reply = client.get(path)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "loading")


def test_one_model(client: TestClient) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [client.get(f"/v1/models/{each['id']}").json() for each in listed] == listed
    for unknown in ("other", "a/b", "%2e%2e"):
        reply = client.get(f"/v1/models/{unknown}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
    described = client.get("/openapi.json").json()["paths"]["/v1/models/{name}"]
    assert list(described) == ["get"]
    assert described["get"]["parameters"][0]["name"] == "name"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("\ufeff one\t\n\n \n".encode(), b"one"),
        ("first\n\ufeff# no\ncl\u00e9\n".encode(), "cl\u00e9".encode()),
        ("\u043a\u043b\u044e\u0447\n".encode(), "\u043a\u043b\u044e\u0447".encode()),
    ],
    ids=["byte order mark", "UTF-8", "beyond Latin-1"],
)
def test_keys(tmp_path: Path, written: bytes, sent: bytes) -> None:
    (tmp_path / "keys").write_bytes(written)
    keys = ApiKeys(tmp_path / "keys")
    assert keys.allow(b"Bearer " + sent)
    assert keys.allow(b"bearer  " + sent + b" ")
    for wrong in (b"Bearer " + sent + b"x", b"Bearer ????", b"Bearer ", b"Basic " + sent, sent):
        assert not keys.allow(wrong)


def test_keys_are_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"old\r\n# no\r\n\r\n")
    service = Service(ServeConfig(model=("m",), api_keys=str(file)))
    for written, allowed in (("new\n", b"new"), ("# nothing\n", b"new"), ("last", b"last")):
        file.write_text(written)
        with suppress(ConfigError):
            service.read_keys()
        assert service.keys is not None
        told = [key for key in (b"old", b"new", b"last") if service.keys.allow(b"Bearer " + key)]
        assert told == [allowed]


def test_keys_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="file of keys"):
        ApiKeys(tmp_path / "keys")


def test_a_swap_that_fails_is_no_failure(
    served: Callable[..., TestClient],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = served()

    async def loaded(self: ModelLoader, name: str, folder: str) -> Engine:
        raise OSError("no room")

    monkeypatch.setattr(ModelLoader, "load", loaded)
    swap(client)
    (logged,) = [each for each in caplog.records if each.levelname == "ERROR"]
    facts = {"model": "full", "error": "the old model stays: OSError('no room')"}
    assert (logged.message, vars(logged)["facts"]) == ("not swapped", facts)
    assert client.post("/embed", json={"input": "a"}).status_code == 200
