"""`bertwright serve` under load, from this second process on loopback; prints one JSON object.

    python benchmarks/serve.py load --model MODEL --clients 1 8 64 --seconds 20
    python benchmarks/serve.py full --model MODEL --seconds 120
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
import random
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from http_load import Client, Seen, arrive, callers, quantiles
from machine import machine
from serve_process import WORDS, Raw, Server, make_texts
from uvloop import run


def measure(
    server: Server, texts: list[str], clients: int, seconds: float, model: str | None = None
) -> dict[str, Any]:
    """Single sentences by callers of whom each waits for its answer."""
    return run(_single_sentences(server, texts, clients, seconds, model))


async def _single_sentences(
    server: Server, texts: list[str], clients: int, seconds: float, model: str | None
) -> dict[str, Any]:
    await callers(clients, min(2.0, seconds), Seen(server.url, texts, model).ask)  # warm
    seen = Seen(server.url, texts, model)
    before = server.busy()
    took, after = await callers(clients, seconds, seen.ask), server.busy()
    if not seen.good:
        raise SystemExit(f"no request was answered; refused {len(seen.refused)}, {seen.others}")
    each = 1e6 / len(seen.good)
    spent = {f"{n}_us_per_request": (after[n] - before[n]) * each for n in before}
    return {"clients": clients, **seen.figures(took), **spent}


def load(args: argparse.Namespace) -> dict[str, Any]:
    """Single sentences by 1, 8 and 64 callers, and full batches."""
    texts = make_texts(args.texts)
    found: dict[str, Any] = {}
    with Server(args) as server:
        found["served"] = [
            measure(server, texts, clients, args.seconds, args.name) for clients in args.clients
        ]
        rate = run(full_batches(server.url, texts, args.seconds, args.name))
        found["full_batches"] = {"sentences_per_second": rate}
        found["batches"] = run(batches(server.url)) if server.process else {}
    return found


def full(args: argparse.Namespace) -> dict[str, Any]:
    """The raw model in a loop, full batches and 64 callers, in turns of 5 seconds: the speed of a
    machine that others use as well changes within a minute, and the shares are of neighbours."""
    texts = make_texts(args.texts)
    rows: list[list[float]] = []
    with Raw(args, texts) as raw, Server(args) as server:
        run(full_batches(server.url, texts, 2.0, args.name))  # warm
        for _ in range(max(1, round(args.seconds / 15))):
            single = measure(server, texts, 64, 5.0, args.name)["requests_per_second"]
            batched = run(full_batches(server.url, texts, 5.0, args.name))
            rows.append([raw.rate(5.0), batched, single])
    return {
        "raw": statistics.fmean(row[0] for row in rows),
        "full_batches": statistics.fmean(row[1] for row in rows),
        "callers_64": statistics.fmean(row[2] for row in rows),
        "full_over_raw": statistics.median(row[1] / row[0] for row in rows),
        "callers_over_full": statistics.median(row[2] / row[1] for row in rows),
    }


async def full_batches(url: str, texts: list[str], seconds: float, model: str | None) -> float:
    """Sentences a second in requests of 512, by two callers."""
    done = 0
    more = {"model": model} if model else {}
    parts = [[texts[(n * 512 + i) % len(texts)] for i in range(512)] for n in range(32)]
    client = Client(url)
    known = [
        client.make("/v1/embeddings", {"input": part, "encoding_format": "base64", **more})
        for part in parts
    ]

    async def ask(number: int) -> int:
        nonlocal done
        reply = await client.send(known[number % len(known)])
        done += 512 * (reply.status == 200)
        return reply.status

    took = await callers(2, seconds, ask)
    if not done:
        raise SystemExit("no full batch was answered")
    return done / took


async def batches(url: str) -> dict[str, float]:
    """Means of the batches so far."""
    client = Client(url)
    text = (await client.send(client.make("/metrics"))).body.decode()
    found = {}
    for what in ("texts", "tokens", "seconds"):
        total, count = (
            float(re.findall(rf"^bertwright_batch_{what}_{name} (\S+)", text, re.M)[0])
            for name in ("sum", "count")
        )
        found[what] = total / max(1.0, count)
    return found


def overload(args: argparse.Namespace) -> dict[str, Any]:
    """Five times as many requests a second as are answered at most; then how soon all is well.

    The peak is measured before and after, as machines are not the same at all minutes.
    """
    texts = make_texts(args.texts)
    with Server(args, "--queue-requests", "128") as server:
        idle = measure(server, texts, 1, min(3.0, args.seconds), args.name)
        peaks = [measure(server, texts, 64, min(20.0, args.seconds), args.name)]
        before = server.memory()
        over, recovery = run(_overload(server, texts, args, peaks[0], idle))
        after = server.memory()
        peaks.append(measure(server, texts, 64, min(20.0, args.seconds), args.name))
    share = over["requests_per_second"] / statistics.fmean(p["requests_per_second"] for p in peaks)
    return {
        "peaks": peaks,
        "overload": over,
        "goodput_share": share,
        "memory": [before, after],
        "recovery_seconds": recovery,
    }


async def _overload(
    server: Server,
    texts: list[str],
    args: argparse.Namespace,
    peak: dict[str, Any],
    idle: dict[str, Any],
) -> tuple[dict[str, Any], float]:
    """Figures of the flood, and seconds from its end to a request as fast as before it."""
    rate = 5 * peak["requests_per_second"]
    seen = Seen(server.url, texts, args.name)
    busy, start, own = server.busy(), time.monotonic(), time.process_time()
    waiting = await arrive(rate, args.seconds, seen.ask)
    end = time.monotonic()
    spent = {name: value - busy[name] for name, value in server.busy().items()}
    spent["generator"] = time.process_time() - own
    figures = {"rate": rate, **seen.figures(end - start), "core_seconds": spent}

    while True:
        reply = await seen.client.send(seen.requests[0])
        if reply.status == 200 and reply.seconds <= 2e-3 * idle["p99_ms"]:
            break
        await asyncio.sleep(0.01)
    recovery = time.monotonic() - end
    await asyncio.gather(*waiting)
    return figures, recovery


def flood(args: argparse.Namespace) -> dict[str, Any]:
    """Texts of 500 words without end, and one short text a second."""
    long = " ".join(random.Random(1).choices(WORDS, k=500))

    async def both(server: Server) -> dict[str, Any]:
        end, short, client = time.monotonic() + args.seconds, [], Client(server.url)
        many = client.make("/embed", {"input": long, "truncate": True})
        single = client.make("/embed", {"input": "a short text"})
        await client.send(single)

        async def ask(number: int) -> int:
            return (await client.send(many)).status

        async def now_and_then() -> None:
            while time.monotonic() < end:
                await asyncio.sleep(1)
                reply = await client.send(single)
                assert reply.status == 200
                short.append(reply.seconds)

        await asyncio.gather(callers(32, args.seconds, ask), now_and_then())
        mean = await batches(server.url)
        p99, batch = float(np.percentile(short, 99)), mean["seconds"]
        return {"short": quantiles("", short), "batches": mean, "p99_batches": p99 / batch}

    with Server(args) as server:
        return run(both(server))


def equal(args: argparse.Namespace) -> dict[str, Any]:
    """Answers under load beside those given alone."""
    texts = make_texts(args.texts, 500)

    async def answers(url: str) -> dict[str, Any]:
        worst, lost, done, client = 0.0, 0, 0, Client(url)
        requests = [client.make("/embed", {"input": text}) for text in texts]

        async def vector(number: int) -> np.ndarray[Any, Any] | None:
            reply = await client.send(requests[number % len(texts)])
            return np.array(json.loads(reply.body)["vectors"][0]) if reply.status == 200 else None

        alone = [await vector(number) for number in range(len(texts))]
        numbers = iter(range(args.requests))

        async def caller() -> None:
            nonlocal worst, lost, done
            for number in numbers:
                found, expected = await vector(number), alone[number % len(texts)]
                if found is None or expected is None:
                    lost += 1
                    continue
                worst = max(worst, float(np.abs(found - expected).max()))
                done += 1

        await asyncio.gather(*(caller() for _ in range(64)))
        return {"requests": done, "lost": lost, "largest_difference": worst}

    with Server(args) as server:
        return run(answers(server.url))


def swaps(args: argparse.Namespace) -> dict[str, Any]:
    """Hot swaps under load."""
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(args.other or args.model).resolve(), Path(args.model).resolve()]
        link = Path(folder) / "model"
        link.symlink_to(folders[1])
        with Server(argparse.Namespace(**{**vars(args), "model": link})) as server:
            return run(_swap_under_load(server, link, folders, args.swaps))


async def _swap_under_load(
    server: Server, link: Path, folders: list[Path], count: int
) -> dict[str, Any]:
    statuses: dict[int, int] = {}
    weights: dict[str, list[float]] = {}
    worst, done, swapped = 0.0, False, 0
    client = Client(server.url)
    request = client.make("/embed", {"input": "a short text"})

    async def caller() -> None:
        nonlocal worst
        while not done:
            reply = await client.send(request)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
            if reply.status == 200:
                found = json.loads(reply.body)
                known = weights.setdefault(found["sha256"], found["vectors"][0])
                difference = np.abs(np.array(known) - found["vectors"][0]).max()
                worst = max(worst, float(difference))

    tasks = [asyncio.create_task(caller()) for _ in range(8)]
    for number in range(count):
        new = link.with_name("new")
        new.symlink_to(folders[number % 2])
        new.replace(link)
        swapped += await asyncio.to_thread(server.swap)
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

    async def callers_watched(server: Server) -> int:
        end, done, client = time.monotonic() + args.seconds, 0, Client(server.url)
        requests = [client.make("/embed", {"input": text}) for text in texts]

        async def ask(number: int) -> int:
            nonlocal done
            reply = await client.send(requests[number % len(texts)])
            done += reply.status == 200
            return reply.status

        async def watch() -> None:
            while time.monotonic() < end:
                found = server.memory()
                rows.append((time.monotonic(), found["mb"], found["descriptors"]))
                await asyncio.sleep(min(2.0, args.seconds / 20))

        await asyncio.gather(callers(64, args.seconds, ask), watch())
        return done

    with Server(args) as server:
        done = run(callers_watched(server))
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

    async def with_slow_ones(server: Server) -> dict[str, Any]:
        idle = await asyncio.to_thread(measure, server, texts, 1, 5.0)
        port, lived = int(server.url.rpartition(":")[2]), []

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
        busy = await asyncio.to_thread(measure, server, texts, 1, 8.0)
        await asyncio.gather(*sockets)
        return {
            "sockets": len(lived),
            "longest_seconds": max(lived),
            "idle_p99_ms": idle["p99_ms"],
            "p99_ms": busy["p99_ms"],
        }

    with Server(args) as server:
        return run(with_slow_ones(server))


def start(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds from start to alive and to ready."""
    with Server(args) as server:
        return {"alive_seconds": server.alive, "ready_seconds": server.ready}


WHAT = {f.__name__: f for f in (load, full, overload, flood, equal, swaps, soak, slow, start)}


def main() -> None:
    """One measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--model", help="folder of a model")
    parser.add_argument("--other", help="another folder, for swaps")
    parser.add_argument("--url", help="of a server that runs already")
    parser.add_argument("--name", help="its model's name")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--texts", help="file of sentences, one a line")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--sockets", type=int, default=1000)
    args = parser.parse_args()
    if not args.model and not args.url:
        parser.error("give --model FOLDER or --url URL")
    if args.url and args.what not in ("load", "overload"):
        parser.error(f"{args.what} starts a server: give --model FOLDER in place of --url")
    found = {"machine": machine(), **vars(args), "found": WHAT[args.what](args)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
