"""The server as a process: a socket, signals, slow clients, logs and exit codes; and the client."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import numpy as np
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from bertwright.cli.app import run
from bertwright.cli.serve import serve
from bertwright.errors import ConfigError
from bertwright.inference.model import load
from bertwright.serve.client import AsyncClient, Client, ServerError
from bertwright.serve.process import Server, log_json
from bertwright.serve.service import Service

RUN = ("-m", "bertwright")
HANGING = """
import sys, time
from bertwright.cli.app import run
from bertwright.serve.engine.engine import Engine
# the batches before the server is ready have many sequences; they take no time, so that a loaded
# machine does not exceed a short --batch-timeout with them
Engine.run = lambda self, works: [None] * len(works) if len(works[0].ids) > 1 else time.sleep(600)
sys.exit(run(sys.argv[1:]))
"""
NO_MEMORY = """
import sys
from bertwright.cli.app import run
from bertwright.serve.engine.engine import Engine
def run_out(self, works):
    raise MemoryError
Engine.run = run_out
sys.exit(run(sys.argv[1:]))
"""
SLOW_STEPS = """
import sys, time
from bertwright.cli.app import run
from bertwright.decoding.search import RowsInFlight
real = RowsInFlight.step
RowsInFlight.step = lambda self: (time.sleep(0.5), real(self))[1]
sys.exit(run(sys.argv[1:]))
"""
HANGING_LOAD = """
import sys, time
from bertwright.cli.app import run
from bertwright.serve.engine import loading
loading.load_engine = lambda *given: time.sleep(600)
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
        for _ in range(6000):  # two minutes
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
        return self.process.wait(60)


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
        assert client.ask("/v1/models")["data"][0]["id"] == "full"
        with pytest.raises(ServerError, match=r"400 \(bad_request\): input: String") as caught:
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


def test_logs_of_others_are_a_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "captureWarnings", lambda capture: None)
    for name in ("bertwright.serve", "uvicorn", "asyncio", "py.warnings"):
        for fact in ("handlers", "propagate", "level"):
            logger = logging.getLogger(name)
            monkeypatch.setattr(logger, fact, getattr(logger, fact))
    log_json()
    logging.getLogger("asyncio").error("never retrieved\nfuture: ValueError('zebra')")
    logging.getLogger("py.warnings").warning("a.py:1: UserWarning: so\n  warn('zebra')")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["never retrieved", "a.py:1: UserWarning: so"]
    assert "zebra" not in str(lines)


def test_hangup_loads_models_anew(server: Process) -> None:
    server.process.send_signal(signal.SIGHUP)
    assert server.wait_for("model swapped")["model"] == "full"
    assert Client(server.url).embed("a")["vectors"]


@pytest.mark.slow
def test_terminate_answers_what_is_at_work(full: Path, tmp_path: Path) -> None:
    made = Process(tmp_path / "log", "--model", f"m={full}")
    made.wait_for("ready")
    url, results, stop = made.url, [], threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                reply = Client(url, retries=0, timeout=60).embed("a b c")
                results.append(len(reply["vectors"]))
            except ServerError as error:
                results.append(error.status)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(1200):  # a minute
        if results.count(1) > 3:
            break
        time.sleep(0.05)
    code = made.end()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert code == 0
    assert set(results) <= {0, 1}, "0: a new connection that was refused when all was over"
    assert results.count(1) > 3
    assert [line["event"] for line in made.lines()].count("draining") == 1


@pytest.mark.slow
def test_terminate_says_no_to_what_outlasts_the_time(full: Path, tmp_path: Path) -> None:
    words = ("--model", f"m={full}", "--drain-seconds", "1")
    made = Process(tmp_path / "log", *words, program=("-c", HANGING))
    made.wait_for("ready")
    seen: list[tuple[int, str]] = []

    def ask() -> None:
        with pytest.raises(ServerError) as caught:
            Client(url, retries=0, timeout=60).embed("a")
        seen.append((caught.value.status, caught.value.code))

    url, asker = made.url, threading.Thread(target=ask)
    asker.start()
    time.sleep(0.3)
    made.process.send_signal(signal.SIGTERM)
    asker.join(60)
    assert seen == [(503, "draining")]
    assert made.process.wait(60) == 0
    assert [line["status"] for line in made.lines() if line["event"] == "request"] == [503]


@pytest.mark.slow
def test_a_stream_ends_with_an_error_when_the_time_to_drain_is_over(
    gpt: Path, tmp_path: Path
) -> None:
    words = ("--model", f"m={gpt}", "--drain-seconds", "1")
    made = Process(tmp_path / "log", *words, program=("-c", SLOW_STEPS))
    made.wait_for("ready")
    body = {"input": "a", "max_new_tokens": 40, "sample": True, "seed": 1, "stream": True}
    with httpx.stream("POST", f"{made.url}/generate", json=body, timeout=60) as reply:
        lines = (line for line in reply.iter_lines() if line)
        assert json.loads(next(lines).removeprefix("data: "))["reason"] is None
        made.process.send_signal(signal.SIGTERM)
        *_, last = lines
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "draining"
    assert made.process.wait(60) == 0
    assert not [line for line in made.lines() if "ASGI" in line["event"]]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [((), 0), (("--load-timeout", "0.1"), 1)])
def test_a_load_that_hangs_does_not_keep_the_process(
    words: tuple[str, ...], code: int, full: Path, tmp_path: Path
) -> None:
    words = ("--model", f"m={full}", *words)
    made = Process(tmp_path / "log", *words, program=("-c", HANGING_LOAD))
    made.wait_for("listening")
    if code == 0:
        made.process.send_signal(signal.SIGTERM)
    assert made.process.wait(60) == code
    told = [line["error"] for line in made.lines() if line["event"] == "not loaded"]
    assert [f"loading {full} took more than 0.1 seconds" in each for each in told] == [True] * code


def test_hangup_waits_for_the_first_models_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[None] = []

    async def swap() -> None:
        asked.append(None)

    def read_keys() -> None:
        raise ConfigError("no file")

    async def hang_up() -> None:
        service = SimpleNamespace(engines={}, swap=swap, read_keys=read_keys)
        server = Server(uvicorn.Config("none"), cast(Service, service))
        server._swap()
        await asyncio.sleep(0.02)
        assert not asked
        service.engines = {"m": object()}
        await server._swaps

    asyncio.run(hang_up())
    assert asked == [None]
    (told,) = caplog.records
    assert (told.message, vars(told)["facts"]) == ("the old keys stay", {"error": "no file"})


def test_hangup_does_not_kill_before_the_server_listens_to_it() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        with pytest.raises(ConfigError, match="there is no model"):
            serve()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_address_that_cannot_be_used() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        for host, why in (
            ("127.0.0.1", "Address already in use"),
            ("192.0.2.1", ".*address.*"),
            ("2001:db8::1", ".*"),
        ):
            config = uvicorn.Config(app, host, port, lifespan="off", log_config=None)
            told = re.escape(f"[{host}]" if ":" in host else host)
            with pytest.raises(ConfigError, match=f"listen on {told}:{port}: {why}; .* --port"):
                asyncio.run(Server(config, cast(Service, SimpleNamespace()))._serve())


def test_whoever_starts_it_is_given_the_addresses_of_its_pages() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async def begin(host: str) -> str:
        lines: list[str] = []
        config = uvicorn.Config(app, host, 0, lifespan="off", log_config=None)
        config.load()
        server = Server(config, cast(Service, SimpleNamespace()), lines.append)
        server.lifespan = config.lifespan_class(config)
        await server.startup()
        await server.shutdown()
        (line,) = lines
        return line

    for host in ("127.0.0.1", "0.0.0.0"):
        line = asyncio.run(begin(host))
        assert re.match(r"(http://127.0.0.1:\d+)/ to try it out, \1/docs for the routes", line)


def test_the_addresses_are_told(caplog: pytest.LogCaptureFixture) -> None:
    places = ("127.0.0.1", 80), ("::1", 81, 0, 0)
    listeners = [SimpleNamespace(getsockname=lambda place=place: place) for place in places]
    with caplog.at_level("INFO", "bertwright.serve"):
        Server._log_started_message(cast(Server, None), listeners)
    assert vars(caplog.records[0])["facts"] == {"address": "127.0.0.1:80, [::1]:81"}


@pytest.mark.slow
def test_a_device_that_hangs_ends_the_process(full: Path, tmp_path: Path) -> None:
    words = ("--model", f"m={full}", "--batch-timeout", "3")
    made = Process(tmp_path / "log", *words, program=("-c", HANGING))
    made.wait_for("ready")
    with pytest.raises(ServerError) as caught:
        Client(made.url, retries=0, timeout=60).embed("zebra")
    assert (caught.value.status, caught.value.code) == (503, "failing")
    assert made.process.wait(60) == 1
    assert {"batch does not end", "failing"} <= {line["event"] for line in made.lines()}
    assert "zebra" not in made.log.read_text("utf-8")


@pytest.mark.slow
def test_a_device_without_room_for_a_batch_is_told_before_anybody_asks(
    full: Path, tmp_path: Path
) -> None:
    made = Process(tmp_path / "log", "--model", f"m={full}", program=("-c", NO_MEMORY))
    assert made.process.wait(60) == 1
    told = {line["event"]: line for line in made.lines() if "event" in line}
    assert "ready" not in told
    assert told["batch failed"]["error"] == "MemoryError"
    assert "--batch-tokens below 1,024" in made.log.read_text("utf-8")


@pytest.mark.slow
def test_settings_of_environment_file_and_command_line(full: Path, tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text('max_items = 3\nmax_tokens = 7\nhost = "127.0.0.1"\n')
    made = Process(
        tmp_path / "log",
        *("--config", str(tmp_path / "serve.toml"), "--max-characters", "50", "--keep-alive", "1"),
        BERTWRIGHT_MODEL=f"named={full}",
        BERTWRIGHT_MAX_ITEMS="2",
        BERTWRIGHT_MAX_CHARACTERS="5",
    )
    made.wait_for("ready")
    client = Client(made.url)
    assert client.ask("/v1/models")["data"][0]["id"] == "named"
    for given, code in ((["a"] * 3, "too_many_items"), ("a " * 30, "too_many_characters")):
        with pytest.raises(ServerError) as caught:
            client.embed(given)
        assert caught.value.code == code
    with pytest.raises(ServerError) as caught:
        client.embed("a b c d e f g h")
    assert caught.value.code == "too_many_tokens"
    with socket.create_connection(("127.0.0.1", made.port), 4) as idle:
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(iter(lambda: idle.recv(1000), b""))  # up to its end
    assert made.end() == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "there is no model to serve"),
        (["--model", "nothing-here"], 4, "no folder nothing-here"),
        (["--model", "."], 4, "holds neither config.json"),
        (["--model", "named", "--port", "0"], 4, "model without a tokenizer"),
        (["--model", "a=x", "--model", "a=y"], 2, "two models are called a"),
        (["--model", "x", "--api-keys", "no-such-file"], 2, "cannot read the file of keys"),
        (["--model", "x", "--port", "99999"], 2, "expected 0 to 65535"),
        (["--model", "x", "--max-item", "2"], 2, "did you mean --max-items"),
    ],
)
def test_what_cannot_be_served(
    bare: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    said: str,
) -> None:
    shutil.copytree(bare, tmp_path / "named", ignore=shutil.ignore_patterns("tokenizer*", "vocab*"))
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert run(["serve", *words]) == code
    finally:
        signal.signal(signal.SIGHUP, before)
    told = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert said in told
    assert "listening" not in told
