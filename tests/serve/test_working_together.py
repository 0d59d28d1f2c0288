"""Many callers at once, models that change under them, and a device that fails."""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from bertwright.config.serve import ServeConfig
from bertwright.errors import BertwrightError
from bertwright.inference.backends.int8 import has_int8
from bertwright.inference.model import load
from bertwright.nn.products import has_bfloat16
from bertwright.serve import calls
from bertwright.serve.engine import loading
from bertwright.serve.engine.batching import FAILURES
from bertwright.serve.engine.engine import Engine
from bertwright.serve.engine.loading import load_engine
from bertwright.serve.service import Service
from tests.serve.conftest import with_server

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.slow
def test_answers_under_load_are_those_given_alone(full: Path) -> None:
    chance = random.Random(0)
    model = load(full, device="cpu")
    texts = [" ".join(chance.choices(LETTERS, k=chance.randint(1, 12))) for _ in range(300)]
    layers = [chance.choice([0, 1, 2, 3]) for _ in texts]
    alone = [
        model.embed([text], [layers[n]], normalize=bool(n % 2))[0] for n, text in enumerate(texts)
    ]
    filled = model.fill("a [MASK] c", 1)[0][0]

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        async def one(n: int) -> None:
            body = {"input": texts[n], "layers": layers[n], "normalize": bool(n % 2)}
            reply = await client.post("/embed", json=body)
            assert reply.status_code == 200, reply.text
            np.testing.assert_allclose(reply.json()["vectors"][0], alone[n], atol=1e-5)
            if n % 5 == 0:
                reply = await client.post("/fill-mask", json={"input": "a [MASK] c", "top_k": 1})
                (best,) = reply.json()["results"][0][0]
                assert best["token_str"] == filled[0]
                assert best["score"] == pytest.approx(filled[1], abs=1e-5)

        assert gc.get_freeze_count() > 10_000  # no request waits for a search through the models
        await asyncio.gather(*(one(n) for n in range(len(texts))))
        assert service.metrics.registry.get_sample_value("bertwright_batch_texts_count") < 300

    with_server(test, full)


@pytest.mark.slow
def test_swaps_under_load_fail_nobody(full: Path, bare: Path) -> None:
    vectors = {}
    for folder in (full, bare):
        found = load(folder, device="cpu").embed(["a b c"])[0]
        vectors[Engine("x", str(folder), load(folder, device="cpu")).sha256] = found
    assert len(vectors) == 2
    seen = set()

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        done = False

        async def caller() -> None:
            while not done:
                reply = await client.post("/embed", json={"input": "a b c"})
                assert reply.status_code == 200, reply.text
                found = reply.json()
                seen.add(found["sha256"])
                expected = vectors[found["sha256"]]
                np.testing.assert_allclose(found["vectors"][0], expected, atol=1e-5)
                await asyncio.sleep(0.005)  # else the loading threads hardly get a turn

        callers = [asyncio.create_task(caller()) for _ in range(4)]
        for n in range(6):
            service.folders["m"] = str((bare, full)[n % 2])
            await service.swap()
            await asyncio.sleep(0.02)
        done = True
        await asyncio.gather(*callers)
        for _ in range(200):  # what loaded the models has left: its threads would slow the device's
            if not (left := [t for t in threading.enumerate() if t.name.startswith("load")]):
                break
            await asyncio.sleep(0.02)
        assert not left

    with_server(test, f"m={full}")
    assert seen == set(vectors)


def test_one_that_cannot_be_loaded_keeps_no_other(
    full: Path, bare: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: httpx.AsyncClient, service: Service) -> None:
        service.folders["a"], before = "nothing-here", dict(service.engines)
        await service.swap()
        (logged,) = [each for each in caplog.records if each.levelname == "ERROR"]
        facts = vars(logged)["facts"]
        assert facts["model"] == "a"
        assert facts["error"].startswith("the old model stays: DataError('no folder nothing-here")
        assert [service.engines[name] is before[name] for name in ("a", "b")] == [True, False]

    with_server(test, f"a={full}", f"b={bare}")


@pytest.mark.slow
def test_a_load_that_hangs_keeps_no_other(
    full: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate, real = threading.Event(), loading.load_engine

    def hang(*given: Any) -> Engine:
        assert gate.wait(60)
        return real(*given)

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        before, loader = service.engines["m"], service.loader
        loader.config = replace(loader.config, load_timeout=0.05)
        monkeypatch.setattr(loading, "load_engine", hang)
        for _ in range(2):
            await service.swap()
            assert "took more than" in str(vars(caplog.records[-1])["facts"])
        assert service.is_busy
        assert (await client.post("/embed", json={"input": "a"})).status_code == 200
        gate.set()
        while service.is_busy:
            await asyncio.sleep(0.01)
        assert service.engines["m"] is before
        loader.config = replace(loader.config, load_timeout=60.0)
        await service.swap()
        assert service.engines["m"] is not before

    with_server(test, f"m={full}")


def test_a_device_that_fails_ends_the_server(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def test(client: httpx.AsyncClient, service: Service) -> None:
        service.on_end = lambda: ended.append(True)
        assert (await client.post("/embed", json={"input": "a"})).status_code == 200
        monkeypatch.setattr(Engine, "run", broken)
        for n in range(FAILURES):
            reply = await client.post("/embed", json={"input": "zebra"})
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            assert "zebra" not in reply.text
            assert bool(ended) == (n == FAILURES - 1)
        assert (await client.get("/readyz")).json() == {"ready": False, "why": "failing"}
        assert (await client.get("/livez")).status_code == 200

    def broken(*_: Any) -> Any:
        raise RuntimeError("zebra")

    with_server(test, full)
    assert ended == [True]


def test_too_many_requests_are_refused_at_the_door(full: Path) -> None:
    async def test(client: httpx.AsyncClient, service: Service) -> None:
        bodies = [{"input": f"{letter} b c"} for letter in LETTERS]
        replies = await asyncio.gather(*(client.post("/embed", json=body) for body in bodies))
        known = [reply.status_code for reply in replies]
        assert set(known) == {200, 429}
        assert known.count(200) >= 2
        refused = replies[known.index(429)]
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "busy"
        assert (await client.post("/embed", json=bodies[0])).status_code == 200

    with_server(test, full, queue_requests=2)


@pytest.mark.parametrize("is_known", [True, False])
def test_models_that_do_not_load_end_the_server(
    tmp_path: Path, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("none of ours")

    if not is_known:
        monkeypatch.setattr(loading, "load_engine", broken)

    async def main() -> None:
        ended = asyncio.Event()
        service = Service(ServeConfig(model=(str(tmp_path),)))
        service.on_end = ended.set
        await service.start()
        await asyncio.wait_for(ended.wait(), 20)
        assert service.error is not None
        assert not service.is_ready
        await service.stop()

    asyncio.run(main())


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("layer", [-2, -1])
def test_fewer_bits_are_near(served: Callable[..., TestClient], precision: str, layer: int) -> None:
    if not (has_int8() if precision == "int8" else has_bfloat16()):
        pytest.skip(f"this processor has no products in {precision}")
    body = {"input": ["a b", "c d e"], "layers": layer}
    exact = served().post("/embed", json=body).json()["vectors"]
    near = served(precision=precision).post("/embed", json=body).json()["vectors"]
    for one, other in zip(exact, near, strict=True):
        cosine = np.dot(one, other) / np.linalg.norm(one) / np.linalg.norm(other)
        assert cosine > 0.98


def test_large_replies_that_nobody_takes_are_bounded(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: httpx.AsyncClient, service: Service) -> None:
        monkeypatch.setattr(calls, "REPLIES", 16 * 24 * 4)
        large, small = {"input": ["a"] * 3}, {"input": "a"}
        assert (await client.post("/embed", json=large)).status_code == 200
        service.reply_bytes = 16 * 24 * 2  # of others
        reply = await client.post("/embed", json=large)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert (await client.post("/embed", json=small)).status_code == 200
        assert service.reply_bytes == 16 * 24 * 2

    with_server(test, full, queue_requests=4)


@pytest.mark.slow
def test_a_model_that_changes_while_it_is_loaded_is_not_served(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = tmp_path / "model", loading.load
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(full, folder)
        load_engine("m", str(folder), "cpu")

        def replaced(*given: Any, path: Path = folder / name, **options: Any) -> Any:
            found = real(*given, **options)
            shutil.copyfile(path, tmp_path / "new")
            (tmp_path / "new").replace(path)
            return found

        monkeypatch.setattr(loading, "load", replaced)
        with pytest.raises(BertwrightError, match="was changed while it was loaded"):
            load_engine("m", str(folder), "cpu")
        monkeypatch.undo()
