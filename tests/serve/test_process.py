"""The server as a process: a socket, signals, slow clients, logs and exit codes; and the client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.serve.client import AsyncClient, Client, ServerError

RUN = ("-m", "bertwright")
HANGING = """
import sys, time
from bertwright.cli.app import run
from bertwright.serve.engine import Engine
Engine.run = lambda self, works: time.sleep(600)
sys.exit(run(sys.argv[1:]))
"""


class Process:
    """`bertwright serve` on a free port."""

    def __init__(
        self, log: Path, *words: str, program: tuple[str, str] = RUN, **environment: str
    ) -> None:
        self.log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *program, "serve", "--port", "0", *words],
                stderr=file,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            )

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.read_text("utf-8").splitlines()
        return [json.loads(line) for line in text if line.startswith("{")]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        for _ in range(1500):
            found = [line for line in self.lines() if line["event"] == event]
            if len(found) >= count:
                return found[count - 1]
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.02)
        raise AssertionError(self.log.read_text("utf-8"))

    @property
    def port(self) -> int:
        return int(self.wait_for("listening")["address"].rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture(scope="module")
def server(full: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    log = tmp_path_factory.mktemp("process") / "log"
    made = Process(log, "--model", str(full), "--header-seconds", "0.5", "--body-seconds", "0.5")
    made.wait_for("ready")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait(10)


def test_client(server: Process, full: Path) -> None:
    model = load(full, device="cpu")
    with Client(server.url) as client:
        found = client.embed(["a b", "c"], layers=[2])
        np.testing.assert_allclose(found["vectors"], model.embed(["a b", "c"], [2]), atol=1e-5)
        assert client.fill_mask("a [MASK]", top_k=2)["results"][0][0][0]["token_str"]
        assert 0 <= client.next_sentence("a", "b")["results"][0]["probability"] <= 1
        assert client.tag("a b")["results"][0]["tags"]
        assert client.answer("a ?", "b c")["results"]
        assert client.rerank("a", ["b", "c"])["results"]
        assert client.similarity(["a", "b"])["similarities"]
        assert client.attention("a")["attentions"]
        assert client.tokens("a")["results"]
        assert client.tokenize("a")["results"]
        assert client.classify("a", task="mood")["results"]
        assert client.models()[0]["id"] == "full"
        with pytest.raises(ServerError, match=r"400 \(bad_request\): input must be") as caught:
            client.embed("")
        assert (caught.value.status, caught.value.code) == (400, "bad_request")

    async def both() -> list[dict[str, Any]]:
        client = AsyncClient(server.url)
        return list(await asyncio.gather(*(client.embed("a b") for _ in range(5))))

    for reply in asyncio.run(both()):
        np.testing.assert_allclose(reply["vectors"], model.embed(["a b"]), atol=1e-5)


def test_slow_clients_are_closed_and_others_are_not(server: Process) -> None:
    def connect(sent: bytes) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", server.port), 10)
        made.sendall(sent)
        return made

    head = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n"
    silent, partial, body = connect(b""), connect(head), connect(head + b"\r\n{")
    trickling = connect(b"G")
    start = time.monotonic()
    for letter in b"ET / HTTP":
        time.sleep(0.1)
        try:
            trickling.sendall(bytes([letter]))
        except OSError:
            break
    assert Client(server.url).embed("a")["vectors"]
    for slow in (silent, partial, trickling):
        slow.settimeout(10)
        try:
            assert slow.recv(100) == b""
        except ConnectionResetError:
            continue
    body.settimeout(10)
    said = b""
    while part := body.recv(4096):
        said += part
    assert said.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - start < 10
    for each in (silent, partial, trickling, body):
        each.close()


def test_logs_have_no_texts(server: Process) -> None:
    Client(server.url).embed("zebra q")
    with pytest.raises(ServerError):
        Client(server.url).embed("zebra " * 40)
    text = server.log.read_text("utf-8")
    assert "zebra" not in text
    request = [line for line in server.lines() if line["event"] == "request"][-2]
    assert request["route"] == "/embed"
    assert {"status", "seconds", "tokens", "model", "id", "time", "level"} <= set(request)


def test_hangup_loads_models_anew(server: Process) -> None:
    server.process.send_signal(signal.SIGHUP)
    assert server.wait_for("model swapped")["model"] == "full"
    assert Client(server.url).embed("a")["vectors"]


def test_terminate_answers_what_is_at_work(full: Path, tmp_path: Path) -> None:
    made = Process(tmp_path / "log", "--model", f"m={full}", "--drain-delay", "0.3")
    made.wait_for("ready")
    url, results, stop = made.url, [], threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                reply = Client(url, retries=0, timeout=10).embed("a b c")
                results.append(len(reply["vectors"]))
            except ServerError as error:
                results.append(error.status)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    code = made.end()
    stop.set()
    for thread in threads:
        thread.join(20)
    assert code == 0
    assert set(results) <= {0, 1}, "0: a new connection that was refused when all was over"
    assert results.count(1) > 3
    assert [line["event"] for line in made.lines()].count("draining") == 1


def test_a_device_that_hangs_ends_the_process(full: Path, tmp_path: Path) -> None:
    words = ("--model", f"m={full}", "--batch-timeout", "0.5")
    made = Process(tmp_path / "log", *words, program=("-c", HANGING))
    made.wait_for("ready")
    with pytest.raises(ServerError) as caught:
        Client(made.url, retries=0, timeout=60).embed("zebra")
    assert (caught.value.status, caught.value.code) == (503, "failing")
    assert made.process.wait(60) == 1
    assert {"batch does not end", "failing"} <= {line["event"] for line in made.lines()}
    assert "zebra" not in made.log.read_text("utf-8")


def test_settings_of_environment_file_and_command_line(full: Path, tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text('max_items = 3\nmax_tokens = 7\nhost = "127.0.0.1"\n')
    made = Process(
        tmp_path / "log",
        *("--config", str(tmp_path / "serve.toml"), "--max-characters", "50"),
        BERTWRIGHT_MODEL=f"named={full}",
        BERTWRIGHT_MAX_ITEMS="2",
        BERTWRIGHT_MAX_CHARACTERS="5",
    )
    made.wait_for("ready")
    client = Client(made.url)
    assert client.models()[0]["id"] == "named"
    for given, code in ((["a"] * 3, "too_many_items"), ("a " * 30, "too_many_characters")):
        with pytest.raises(ServerError) as caught:
            client.embed(given)
        assert caught.value.code == code
    with pytest.raises(ServerError) as caught:
        client.embed("a b c d e f g h")
    assert caught.value.code == "too_many_tokens"
    assert made.end() == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "there is no model to serve"),
        (["--model", "nothing-here"], 4, "no folder nothing-here"),
        (["--model", "a=x", "--model", "a=y"], 2, "two models are called a"),
        (["--model", "x", "--api-keys", "no-such-file"], 2, "cannot read the file of keys"),
        (["--model", "x", "--port", "99999"], 2, "expected 0 to 65535"),
        (["--model", "x", "--max-item", "2"], 2, "did you mean --max-items"),
    ],
)
def test_what_cannot_be_served(
    tmp_path: Path,
    words: list[str],
    code: int,
    said: str,
    command_line: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = command_line("serve", *words, cwd=tmp_path)
    assert (done.returncode, said in re.sub(r"\s+", " ", done.stderr)) == (code, True), done.stderr


def test_the_client_needs_no_torch() -> None:
    program = (
        "import sys; from bertwright.serve.client import Client; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'fastapi', 'orjson')))"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


class Moody(BaseHTTPRequestHandler):
    """429, then 503, then an answer."""

    protocol_version = "HTTP/1.1"
    seen: list[float]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.seen.append(time.monotonic())
        status = {1: 429, 2: 503}.get(len(self.seen), 200)
        body = b'{"error": {"code": "busy", "message": "later"}, "vectors": [[1]]}'
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0.3")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Nothing."""


@pytest.fixture
def moody() -> Iterator[tuple[str, list[float]]]:
    seen: list[float] = []
    server = HTTPServer(("127.0.0.1", 0), type("Own", (Moody,), {"seen": seen}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_client_tries_again(moody: tuple[str, list[float]]) -> None:
    url, seen = moody
    with Client(url) as client:
        assert client.embed("a")["vectors"] == [[1]]
    assert len(seen) == 3
    assert seen[1] - seen[0] >= 0.3


def test_the_client_gives_up(moody: tuple[str, list[float]]) -> None:
    url, seen = moody
    with Client(url, retries=0) as client, pytest.raises(ServerError, match="429"):
        client.embed("a")
    assert len(seen) == 1
    silent = socket.create_server(("127.0.0.1", 0))
    client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
    with pytest.raises(ServerError, match="TimeoutError"):
        client.embed("a")
    silent.close()
    for url, timeout in (("ftp://x", 1), ("nothing", 1), ("http://x", 0)):
        with pytest.raises(ConfigError):
            Client(url, timeout=timeout)
