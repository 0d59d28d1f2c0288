"""Both clients against a server of written replies."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bertwright.errors import ConfigError
from bertwright.serve import client as client_file
from bertwright.serve.client import AsyncClient, Client, ServerError
from tests.serve.scripted_server import HANG, HANG_UP, Script, Server, says, trickled

BUSY = b'{"error": {"code": "busy", "message": "later"}}'
HTML = b"<html>no such server</html>"


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """`serving(script, ...)` is a running server."""
    running: list[Server] = []

    def start(*scripts: Script) -> Server:
        running.append(Server(*scripts))
        threading.Thread(target=running[-1].serve_forever, args=(0.02,), daemon=True).start()
        return running[-1]

    yield start
    for server in running:
        server.over.set()
        server.shutdown()
        server.server_close()


def ask(kind: type, url: str, size: int = 1, **settings: Any) -> Any:
    """The reply of `embed` to a text of `size` letters, by either client."""
    if kind is Client:
        with Client(url, **settings) as client:
            return client.embed("a" * size)

    async def asked() -> Any:
        async with AsyncClient(url, **settings) as client:
            return await client.embed("a" * size)

    return asyncio.run(asked())


both = pytest.mark.parametrize("kind", [Client, AsyncClient])
CALLS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "embed": (["a"], {"input": "a"}),
    "fill_mask": (["a"], {"input": "a"}),
    "classify": (["a"], {"input": "a"}),
    "tag": (["a"], {"input": "a"}),
    "answer": (["a", "b"], {"input": {"question": "a", "context": "b"}}),
    "rerank": (["a", ["b"]], {"query": "a", "documents": ["b"]}),
    "generate": (["a"], {"input": "a"}),
    "translate": (["a"], {"input": "a"}),
    "text2text": (["a"], {"input": "a"}),
    "similarity": ([["a", "b"]], {"input": ["a", "b"]}),
}


def test_both_have_the_same_names() -> None:
    def public(kind: type) -> dict[str, Any]:
        found = {name for name in dir(kind) if not name.startswith("_")} | {"__init__"}
        return {
            name: list(inspect.signature(getattr(kind, name)).parameters.values()) for name in found
        }

    assert public(Client) == public(AsyncClient)
    assert set(public(Client)) == {*CALLS, "ask", "close", "__init__"}
    assert vars(Client("http://x")).keys() == vars(AsyncClient("http://x")).keys()


@both
def test_every_method_asks_its_route(serving: Callable[..., Server], kind: type) -> None:
    server = serving(says(b'{"data": [{"id": "m"}]}'))

    async def asked() -> None:
        client = kind(server.url + "/below/", key="s\u00e9cret", model="m")
        for name, (words, _) in CALLS.items():
            found = getattr(client, name)(*words, more=1)
            assert (await found if kind is AsyncClient else found)["data"]
        found = client.ask("/v1/models")
        assert (await found if kind is AsyncClient else found) == {"data": [{"id": "m"}]}
        ended = client.close()
        assert (await ended if kind is AsyncClient else ended) is None

    asyncio.run(asked())
    *posts, get = server.seen
    for seen, (name, (_, body)) in zip(posts, CALLS.items(), strict=True):
        assert seen.line == f"POST /below/{name.replace('_', '-')} HTTP/1.1"
        assert json.loads(seen.body) == {**body, "more": 1, "model": "m"}
        assert seen.headers["authorization"] == "Bearer s\u00e9cret"  # in UTF-8
        assert seen.headers["host"] == server.url.removeprefix("http://")
        assert 29 < float(seen.headers["x-timeout"]) <= 30
    assert (get.line, get.body) == ("GET /below/v1/models HTTP/1.1", b"")
    assert server.connections == 1


@both
@pytest.mark.parametrize(
    "script",
    [
        HANG,
        trickled(b"HTTP/1.1 200 OK\r\nx-"),
        trickled(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        trickled(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b" "),
        trickled(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        trickled(b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    ],
    ids=["silence", "line", "headers", "body", "chunks", "no-length"],
)
def test_ends_in_time(serving: Callable[..., Server], kind: type, script: Script) -> None:
    server = serving(script)
    start = time.monotonic()
    with pytest.raises(ServerError, match=r"no reply \(timeout\): .* 0\.2 seconds") as caught:
        ask(kind, server.url, timeout=0.2)
    assert 0.19 < time.monotonic() - start < 4
    assert (caught.value.status, caught.value.code) == (0, "timeout")


@both
def test_ends_in_time_where_tls_does_not_begin(kind: type) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        with pytest.raises(ServerError, match="timeout"):
            ask(kind, f"https://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2, key="secret")
        assert time.monotonic() - start < 30
        with silent.accept()[0] as caller:
            assert caller.recv(1) == b"\x16"  # a handshake: no key leaves in clear


def test_many_at_once_end_in_time(
    serving: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_file, "MAX_CONNECTIONS", 1)
    server = serving(HANG)

    async def asked() -> list[Any]:
        async with AsyncClient(server.url, timeout=1) as client:
            return await asyncio.gather(
                *(client.embed("a") for _ in range(7)), return_exceptions=True
            )

    start = time.monotonic()
    errors = asyncio.run(asked())
    assert time.monotonic() - start < 5  # 7, had each its second from when it has a connection
    assert [error.code for error in errors] == ["timeout"] * 7


@both
@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (says(HTML, 200, "Content-Type: text/html"), 200, "type text/html"),
        (says(b"[1]"), 200, "unknown"),
        (says(b"\xff{}"), 200, "unknown"),
        (says(HTML, 301, "Location: http://there/"), 301, "leads to http://there/"),
        (says(b"", 204), 204, "unknown"),
        (says(HTML, 502), 502, "unknown"),
        (says(b'{"error": "no"}', 404), 404, "unknown"),
        (says(BUSY, 500), 500, "later"),
        (says(b'{"error": {"code": "bad", "message": "why"}}', 400), 400, r"\(bad\): why"),
    ],
)
def test_what_is_no_answer(
    serving: Callable[..., Server], kind: type, script: Script, status: int, said: str
) -> None:
    server = serving(script)
    with pytest.raises(ServerError, match=said) as caught:
        ask(kind, server.url)
    assert caught.value.status == status
    assert len(server.seen) == 1


@both
def test_tries_again_when_told(serving: Callable[..., Server], kind: type) -> None:
    date = "Retry-After: Wed, 21 Oct 2065 07:28:00 GMT"  # of no matter
    scripts = [says(BUSY, 503, date), says(BUSY, 429, "Retry-After: 0.6"), says(BUSY, 503)]
    server = serving(*scripts, says())
    assert ask(kind, server.url) == {"is": "right"}
    waits = [b.time - a.time for a, b in zip(server.seen, server.seen[1:], strict=False)]
    for wait, least in zip(waits, (0.05, 0.6, 0.2), strict=True):
        assert wait >= least


@both
@pytest.mark.parametrize(
    ("settings", "after", "count"),
    [({"retries": 0}, "0", 1), ({"retries": 2}, "0", 3), ({"timeout": 5}, "6", 1)],
)
def test_gives_up(
    serving: Callable[..., Server], kind: type, settings: Any, after: str, count: int
) -> None:
    server = serving(says(BUSY, 429, f"Retry-After: {after}"))
    start = time.monotonic()
    with pytest.raises(ServerError, match=r"429 \(busy\): later"):
        ask(kind, server.url, **settings)
    assert len(server.seen) == count
    assert time.monotonic() - start < 4


@both
@pytest.mark.parametrize(
    "script",
    [
        HANG_UP,
        [b"HTTP/1.1 200 OK\r\nContent-", None],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", None],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", None],
        [b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}", None],
        [b"SSH-2.0-server\r\n\r\n"],
    ],
)
def test_tries_again_when_a_connection_breaks(
    serving: Callable[..., Server], kind: type, script: Script
) -> None:
    server = serving(script, says())
    assert ask(kind, server.url) == {"is": "right"}
    assert len(server.seen) == 2
    with pytest.raises(ServerError, match=r"no reply \(unreachable\): "):
        ask(kind, serving(script).url, retries=1)


@both
def test_a_kept_connection_that_was_closed(serving: Callable[..., Server], kind: type) -> None:
    server = serving([*says(), None], says())
    client = kind(server.url, retries=0)

    async def asked() -> None:
        for _ in range(3):
            found = client.embed("a")
            assert (await found if kind is AsyncClient else found) == {"is": "right"}
            await asyncio.sleep(0.05)

    asyncio.run(asked())
    assert [seen.connection for seen in server.seen] == [1, 2, 2]
    asyncio.run(asked())  # another event loop; of no matter to a client that blocks
    expected = [2, 2, 2] if kind is Client else [3, 3, 3]
    assert [seen.connection for seen in server.seen[3:]] == expected
    if kind is Client:
        client.close()


@both
def test_a_no_before_all_was_sent(kind: type) -> None:
    def refuse() -> None:
        caller, _ = listening.accept()
        with caller:
            caller.recv(1000)
            caller.sendall(b"".join(map(bytes, says(BUSY, 413, "Connection: close"))))
            while caller.recv(1 << 20):  # as servers do: a reset would overtake the reply
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ServerError, match=r"413 \(busy\): later"):
            ask(kind, f"http://127.0.0.1:{listening.getsockname()[1]}", size=10_000_000, retries=0)
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_connections_of_its_own(serving: Callable[..., Server]) -> None:
    server = serving(says())
    with Client(server.url) as client:
        client.embed("a")
        client.embed("a")
        child = os.fork()
        if child == 0:
            try:
                client.embed("a")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        client.embed("a")
    assert [seen.connection for seen in server.seen] == [1, 1, 2, 1]


def test_a_call_that_was_given_up_leaves_nothing(serving: Callable[..., Server]) -> None:
    server = serving([9.0, *says(b'{"is": "late!"}')], says())

    async def asked() -> Any:
        async with AsyncClient(server.url) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.embed("a"), 0.5)
            return await client.embed("a")

    assert asyncio.run(asked()) == {"is": "right"}
    assert server.connections == 2


def test_each_of_many_gets_its_answer(serving: Callable[..., Server]) -> None:
    text = "x" * 40_000
    server = serving([b"HTTP/1.1 200 OK\r\nContent-Length: 40017\r\n\r\nECHO"])
    texts = [f"{n:04}" + text for n in range(60)]

    async def asked() -> list[Any]:
        async with AsyncClient(server.url) as client:
            return await asyncio.gather(*map(client.embed, texts))

    with Client(server.url) as client, ThreadPoolExecutor(8) as threads:
        blocking = list(threads.map(client.embed, texts))
    for replies in (blocking, asyncio.run(asked())):
        assert [reply["input"] for reply in replies] == texts


def test_needs_no_torch() -> None:
    program = (
        "import sys; from bertwright.serve.client import Client; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'fastapi', 'uvicorn')))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"url": url}
            for url in ("ftp://x", "nothing", "http://x:99999", "http://[::1", "http://:80", 3)
        ),
        *({"url": f"http://{more}"} for more in ("me:secret@x", "x/?a=b", "x/#a")),
        {"timeout": 0},
        {"timeout": "3"},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"retries": -1},
        {"retries": 1.5},
        {"key": b"a"},
        {"key": "a\r\nX: y"},
    ],
)
@both
def test_settings_that_cannot_be(kind: type, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        kind(**settings)
