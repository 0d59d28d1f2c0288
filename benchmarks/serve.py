"""`bertwright serve` under load, from this second process on loopback; prints one JSON object.

    python benchmarks/serve.py load --model MODEL --clients 1 8 64 --seconds 20
    python benchmarks/serve.py overload --model MODEL --seconds 60
    python benchmarks/serve.py flood --model MODEL --seconds 30
    python benchmarks/serve.py equal --model MODEL --requests 100000
    python benchmarks/serve.py swaps --model MODEL --swaps 100
    python benchmarks/serve.py soak --model MODEL --seconds 1200
    python benchmarks/serve.py slow --model MODEL --sockets 1000
    python benchmarks/serve.py start --model MODEL

`--url` asks a server that runs already, of any kind that speaks OpenAI's /v1/embeddings (`load`,
`overload`), so others are measured by the same program in the same session. Texts are sentences of
our own in mixed lengths, or `--texts FILE`, one a line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

SENTENCE = "the old green quiet boat house letter saw walked river near and of a it was window"
WORDS = SENTENCE.split()


def make_texts(path: str | None, count: int = 2000) -> list[str]:
    """Sentences of 2 to 60 words, most of them short."""
    if path:
        lines = Path(path).read_text("utf-8").splitlines()
        return [line for line in lines if line.strip()][:count]
    chance = random.Random(0)
    lengths = [min(60, 2 + int(chance.expovariate(1 / 16))) for _ in range(count)]
    return [" ".join(chance.choices(WORDS, k=length)) for length in lengths]


class Server:
    """A server of ours in a process of its own, or one that runs already."""

    def __init__(self, args: argparse.Namespace, *words: str) -> None:
        self.url, self.process = args.url, None
        if self.url:
            return
        self.log = tempfile.NamedTemporaryFile("w+b", suffix=".log")  # noqa: SIM115
        command = [sys.executable, "-m", "bertwright", "serve", "--model", f"m={args.model}"]
        command += ["--port", "0", "--no-log-requests", "--precision", args.precision, *words]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(command, stderr=self.log)
        while not (found := re.search(rb'"address":"[^"]*:(\d+)"', self._log())):
            self._check()
            time.sleep(0.01)
        self.alive = time.monotonic() - self.begun
        self.url = f"http://127.0.0.1:{int(found[1])}"
        while b'"event":"ready"' not in self._log():
            self._check()
            time.sleep(0.01)
        self.ready = time.monotonic() - self.begun

    def _log(self) -> bytes:
        return Path(self.log.name).read_bytes()

    def _check(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(self._log().decode())

    def memory(self) -> dict[str, float]:
        """Resident MB and open descriptors."""
        if self.process is None:
            return {}
        folder = Path(f"/proc/{self.process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return {"mb": size, "descriptors": len(os.listdir(folder / "fd"))}

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


def open_client(url: str, clients: int) -> httpx.AsyncClient:
    """A client with a connection for each caller."""
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    return httpx.AsyncClient(base_url=url, limits=limits, timeout=60)


Ask = Callable[[int], Awaitable[Any]]


async def callers(count: int, seconds: float, ask: Ask) -> None:
    """So many callers, each asking again as soon as it is answered."""
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        while time.monotonic() < end:
            await ask(number)
            number += count

    await asyncio.gather(*(one(number) for number in range(count)))


class Caller:
    """One keep-alive connection that speaks just enough HTTP: httpx takes more of a processor than
    the server does, and there are two of them for both."""

    def __init__(self, url: str) -> None:
        self.host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        self.port = int(port)
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> int:
        """The status; the reply is read and thrown away."""
        if self.streams is None:
            self.streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self.streams
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        found = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", found)
        assert length is not None, "a reply without a length"
        await reader.readexactly(int(length[1]))
        if b"connection: close" in found:
            self.close()
        return int(found.split(b" ", 2)[1])

    def close(self) -> None:
        """Hang up."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def measure(
    url: str, texts: list[str], clients: int, seconds: float, model: str | None = None
) -> dict[str, Any]:
    """Requests a second and latencies of single sentences through /v1/embeddings."""
    good: list[float] = []
    refused: list[float] = []
    others: dict[str, int] = {}
    more = {"encoding_format": "base64", **({"model": model} if model else {})}
    bodies = [json.dumps({"input": text, **more}).encode() for text in texts]
    connections = [Caller(url) for _ in range(clients)]

    async def ask(number: int) -> None:
        start = time.monotonic()
        body = bodies[number % len(bodies)]
        status = await connections[number % clients].post("/v1/embeddings", body)
        took = time.monotonic() - start
        if status == 200:
            good.append(took)
        elif status == 429:
            refused.append(took)
            await asyncio.sleep(0.05)
        else:
            others[str(status)] = others.get(str(status), 0) + 1

    await callers(clients, min(2.0, seconds), ask)  # warm
    good.clear()
    refused.clear()
    start = time.monotonic()
    await callers(clients, seconds, ask)
    took = time.monotonic() - start
    for connection in connections:
        connection.close()
    return {
        "clients": clients,
        "requests_per_second": len(good) / took,
        **quantiles("", good),
        "refused": len(refused),
        **quantiles("refused_", refused),
        "other_statuses": others,
    }


def quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    """p50 and p99 in milliseconds."""
    if not seconds:
        return {}
    return {f"{name}p{q}_ms": float(np.percentile(seconds, q)) * 1e3 for q in (50, 99)}


def load(args: argparse.Namespace) -> dict[str, Any]:
    """Single sentences by 1, 8 and 64 callers, and the raw model in a loop."""
    texts = make_texts(args.texts)
    found: dict[str, Any] = {}
    if args.model:
        found["raw"] = raw(args, texts)
    with Server(args) as server:
        found["served"] = [
            asyncio.run(measure(server.url, texts, clients, args.seconds, args.name))
            for clients in args.clients
        ]
        found["full_batches"] = asyncio.run(full_batches(server.url, texts, args))
    return found


def raw(args: argparse.Namespace, texts: list[str]) -> dict[str, Any]:
    """The model without a server, in a process of its own: `Embedder.embed` of 512 at once."""
    program = (
        "import json,sys,time; from bertwright.inference.embedder import Embedder;"
        "model, precision, seconds = sys.argv[1:]; texts = json.load(sys.stdin);"
        "maker = Embedder.load(model, precision=precision); maker.embed(texts[:256]);"
        "start = time.monotonic(); n = 0\n"
        "while time.monotonic() - start < float(seconds):\n"
        "    maker.embed([texts[(n + i) % len(texts)] for i in range(512)]); n += 512\n"
        "print(n / (time.monotonic() - start))"
    )
    words = [sys.executable, "-c", program, args.model, args.precision, str(args.seconds)]
    done = subprocess.run(words, input=json.dumps(texts), text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return {"sentences_per_second": float(done.stdout)}


async def full_batches(url: str, texts: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """Requests of 512 sentences, two callers."""
    done = 0
    more = {"model": args.name} if args.name else {}
    async with open_client(url, 2) as client:

        async def ask(number: int) -> None:
            nonlocal done
            given = [texts[(number * 512 + n) % len(texts)] for n in range(512)]
            body = {"input": given, "encoding_format": "base64", **more}
            done += 512 * ((await client.post("/v1/embeddings", json=body)).status_code == 200)

        start = time.monotonic()
        await callers(2, args.seconds, ask)
        return {"sentences_per_second": done / (time.monotonic() - start)}


def overload(args: argparse.Namespace) -> dict[str, Any]:
    """Five times the callers that fill the queue; then how soon all is as before."""
    texts = make_texts(args.texts)
    with Server(args, "--queue-requests", "64") as server:
        peak = asyncio.run(measure(server.url, texts, 64, min(20.0, args.seconds), args.name))
        before = server.memory()
        over = asyncio.run(measure(server.url, texts, 320, args.seconds, args.name))
        after = server.memory()
        start = time.monotonic()
        client = httpx.Client(base_url=server.url, timeout=60)
        while client.post("/v1/embeddings", json={"input": "a", **_model(args)}).status_code != 200:
            time.sleep(0.01)
        recovery = time.monotonic() - start
    share = over["requests_per_second"] / peak["requests_per_second"]
    return {
        "peak": peak,
        "overload": over,
        "goodput_share": share,
        "memory": [before, after],
        "recovery_seconds": recovery,
    }


def flood(args: argparse.Namespace) -> dict[str, Any]:
    """Texts of 500 words without end, and one short text a second."""
    long = " ".join(random.Random(1).choices(WORDS, k=500))

    async def both(server: Server) -> dict[str, Any]:
        end, short = time.monotonic() + args.seconds, []
        async with open_client(server.url, 40) as client:
            await client.post("/embed", json={"input": "a"})

            async def ask(number: int) -> None:
                await client.post("/embed", json={"input": long, "truncate": True})

            async def now_and_then() -> None:
                while time.monotonic() < end:
                    await asyncio.sleep(1)
                    start = time.monotonic()
                    await client.post("/embed", json={"input": "a short text"})
                    short.append(time.monotonic() - start)

            await asyncio.gather(callers(32, args.seconds, ask), now_and_then())
            text = (await client.get("/metrics")).text
        total, count = (
            float(re.search(rf"^bertwright_batch_seconds_{name} (\S+)", text, re.M)[1])  # type: ignore[index]
            for name in ("sum", "count")
        )
        batch = total / count
        p99 = float(np.percentile(short, 99))
        return {"short": quantiles("", short), "batch_ms": batch * 1e3, "p99_batches": p99 / batch}

    with Server(args) as server:
        return asyncio.run(both(server))


def equal(args: argparse.Namespace) -> dict[str, Any]:
    """Answers under load beside those given alone."""
    texts = make_texts(args.texts, 500)

    async def run(url: str) -> dict[str, Any]:
        worst, lost, done = 0.0, 0, 0
        async with open_client(url, 64) as client:

            async def vector(text: str) -> np.ndarray[Any, Any] | None:
                reply = await client.post("/embed", json={"input": text})
                return np.array(reply.json()["vectors"][0]) if reply.status_code == 200 else None

            alone = [await vector(text) for text in texts]
            numbers = iter(range(args.requests))

            async def caller() -> None:
                nonlocal worst, lost, done
                for number in numbers:
                    found, expected = await vector(texts[number % len(texts)]), None
                    expected = alone[number % len(texts)]
                    if found is None or expected is None:
                        lost += 1
                        continue
                    worst = max(worst, float(np.abs(found - expected).max()))
                    done += 1

            await asyncio.gather(*(caller() for _ in range(64)))
        return {"requests": done, "lost": lost, "largest_difference": worst}

    with Server(args) as server:
        return asyncio.run(run(server.url))


def swaps(args: argparse.Namespace) -> dict[str, Any]:
    """Hot swaps under load."""
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("key\n")
        keys.flush()
        with Server(args, "--admin-keys", keys.name) as server:
            return asyncio.run(_swap_under_load(server.url, args))


async def _swap_under_load(url: str, args: argparse.Namespace) -> dict[str, Any]:
    statuses: dict[int, int] = {}
    weights: dict[str, list[float]] = {}
    worst, done = 0.0, False
    header = {"Authorization": "Bearer key"}
    folders = [args.other or args.model, args.model]
    async with open_client(url, 12) as client:

        async def caller() -> None:
            nonlocal worst
            while not done:
                reply = await client.post("/embed", json={"input": "a short text"})
                statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
                if reply.status_code == 200:
                    found = reply.json()
                    known = weights.setdefault(found["sha256"], found["vectors"][0])
                    difference = np.abs(np.array(known) - found["vectors"][0]).max()
                    worst = max(worst, float(difference))

        tasks = [asyncio.create_task(caller()) for _ in range(8)]
        swapped = 0
        for number in range(args.swaps):
            body = {"model": "m", "folder": folders[number % 2]}
            reply = await client.post("/admin/swap", json=body, headers=header)
            swapped += reply.status_code == 200
        done = True
        await asyncio.gather(*tasks)
    return {
        "swaps": swapped,
        "statuses": statuses,
        "models_seen": len(weights),
        "largest_difference": worst,
    }


def soak(args: argparse.Namespace) -> dict[str, Any]:
    """Memory and descriptors over time, by regression after the first fifth."""
    texts = make_texts(args.texts)
    rows: list[tuple[float, float, float]] = []

    async def run(server: Server) -> int:
        end, done = time.monotonic() + args.seconds, 0
        async with open_client(server.url, 16) as client:

            async def ask(number: int) -> None:
                nonlocal done
                await client.post("/embed", json={"input": texts[number % len(texts)]})
                done += 1

            async def watch() -> None:
                while time.monotonic() < end:
                    found = server.memory()
                    rows.append((time.monotonic(), found["mb"], found["descriptors"]))
                    await asyncio.sleep(min(2.0, args.seconds / 20))

            await asyncio.gather(callers(16, args.seconds, ask), watch())
        return done

    with Server(args) as server:
        done = asyncio.run(run(server))
    kept = rows[len(rows) // 5 :]
    hours = [(row[0] - rows[0][0]) / 3600 for row in kept]
    slope = statistics.linear_regression(hours, [row[1] for row in kept]).slope
    return {
        "requests": done,
        "mb_per_hour": slope,
        "mb": [kept[0][1], kept[-1][1]],
        "descriptors": [min(row[2] for row in kept), max(row[2] for row in kept)],
    }


def slow(args: argparse.Namespace) -> dict[str, Any]:
    """Sockets that say nothing, half a header, or a byte of a body now and then."""
    head = b"POST /embed HTTP/1.1\r\nhost: x\r\ncontent-length: 9999\r\n"
    texts = make_texts(args.texts)

    async def run(url: str) -> dict[str, Any]:
        idle = await measure(url, texts, 1, 5.0)
        port, lived = int(url.rpartition(":")[2]), []

        async def one(number: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            start = time.monotonic()
            first, drip = ((b"", b""), (head, b"x"), (head + b"\r\n{", b" "))[number % 3]
            writer.write(first)
            ended = asyncio.ensure_future(reader.read())
            while not (await asyncio.wait([ended], timeout=1))[0]:
                writer.write(drip)
            await asyncio.gather(ended, return_exceptions=True)  # closed or reset: both end it
            lived.append(time.monotonic() - start)
            writer.transport.abort()

        sockets = [asyncio.create_task(one(number)) for number in range(args.sockets)]
        busy = await measure(url, texts, 1, 8.0)
        await asyncio.gather(*sockets)
        return {
            "sockets": len(lived),
            "longest_seconds": max(lived),
            "idle_p99_ms": idle["p99_ms"],
            "p99_ms": busy["p99_ms"],
        }

    with Server(args) as server:
        return asyncio.run(run(server.url))


def start(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds from start to alive and to ready."""
    with Server(args) as server:
        return {"alive_seconds": server.alive, "ready_seconds": server.ready}


def _model(args: argparse.Namespace) -> dict[str, str]:
    return {"model": args.name} if args.name else {}


WHAT = {f.__name__: f for f in (load, overload, flood, equal, swaps, soak, slow, start)}


def main() -> None:
    """One measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--model", help="folder of a model")
    parser.add_argument("--other", help="another folder, for swaps")
    parser.add_argument("--url", help="of a server that runs already")
    parser.add_argument("--name", help="its model's name")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--texts", help="file of sentences, one a line")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--sockets", type=int, default=1000)
    args = parser.parse_args()
    if not args.model and not args.url:
        parser.error("give --model FOLDER or --url URL")
    print(json.dumps({"what": args.what, **vars(args), "found": WHAT[args.what](args)}))


if __name__ == "__main__":
    main()
