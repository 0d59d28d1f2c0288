"""Web servers under clients that hold them up, beside `bertwright serve`'s own connection.

    python benchmarks/web_servers.py --model MODEL [--servers ours h11 ...] [--rounds 6]

Each serves the same application (`web_server_process.py`) to the clients of `web_attacks.py`, while
a caller sends one short text after the other. `pip install hypercorn granian` for those two. Prints
a JSON object, and the tables of it for README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop
from http_load import Client, callers
from machine import machine
from web_attacks import (
    FLOODS,
    SILENT,
    Aside,
    be_silent,
    flood,
    read_streams,
    send_wrong_heads,
)
from web_server_process import SECONDS, SERVERS

PROGRAM = Path(__file__).with_name("web_server_process.py")
PATIENCE = 3 * SECONDS
"""Seconds within which a server has to close a connection that does nothing."""
FLOOD_SECONDS = 4.0
DRAIN = 4
"""Seconds that streams may take to end after SIGTERM."""
STREAMS = [2.0] * 10 + [60.0] * 10
"""Seconds of the streams that are open then."""


class Process:
    """A server in a process of its own, once it is ready."""

    def __init__(self, name: str, model: str, drain: float = 30.0) -> None:
        command = [sys.executable, str(PROGRAM), name, model, "--drain", str(drain)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        while not uvloop.run(self._is_ready()):
            time.sleep(0.1)

    async def _is_ready(self) -> bool:
        client = Client(self.url)
        try:
            return (await client.send(client.make("/readyz"))).status == 200
        except OSError:
            return False

    def memory(self) -> float:
        """Resident MB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def descriptors(self) -> int:
        """The number of open files and sockets."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor(self) -> float:
        """Seconds of processor so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()


async def call_beside(server: Process, aside: Aside | None, seconds: float = 3.0) -> dict[str, Any]:
    """Send one short text after the other until `aside` is done; how long each waited, in ms."""
    client, waited, lost, most = Client(server.url), [], 0, 0.0
    request = client.make("/v1/embeddings", {"input": "a short text"})
    end = time.monotonic() + seconds
    while time.monotonic() < end if aside is None else not aside.is_done:
        start = time.monotonic()
        try:
            async with asyncio.timeout(10):
                reply = await client.send(request)
            lost += reply.status != 200
        except (OSError, TimeoutError):
            lost += 1
        waited.append((time.monotonic() - start) * 1000)
        most = max(most, server.memory())
        await asyncio.sleep(0.02)
    waited.sort()
    p99 = waited[int(len(waited) * 0.99)]
    return {"p50": statistics.median(waited), "p99": p99, "worst": waited[-1], "lost": lost} | {
        "calls": len(waited),
        "most_mb": most,
    }


def attack(name: str, model: str) -> dict[str, Any]:
    """Hold a server up in all ways, and give what became of it and of a caller beside."""
    found: dict[str, Any] = {}
    with Process(name, model) as server:
        uvloop.run(call_beside(server, None))
        found["alone"], found["mb"] = uvloop.run(call_beside(server, None)), server.memory()
        found["wrong"] = Aside(send_wrong_heads, server.port, PATIENCE).result()
        for title, silent in SILENT.items():
            time.sleep(SECONDS + 1)
            before = server.descriptors()
            aside = Aside(be_silent, server.port, silent, PATIENCE)
            if title == "reads nothing":  # such a client does not see that it was cut
                time.sleep(PATIENCE - 1)
                held = server.descriptors() - before
            caller = uvloop.run(call_beside(server, aside))
            result = aside.result()
            if title == "reads nothing":
                result["closed"] = silent.connections - max(0, held)
            found[title] = {**result, "caller": caller}
        for title, each in FLOODS.items():
            time.sleep(1)
            aside = Aside(flood, server.port, each, FLOOD_SECONDS)
            caller = uvloop.run(call_beside(server, aside))
            found[title] = {**aside.result(), "caller": caller}
        time.sleep(SECONDS + 1)
        found["mb_after"] = server.memory()
    return found


def end(name: str, model: str) -> dict[str, Any]:
    """Send SIGTERM while streams are open; how those ended, the exit code and the seconds."""
    with Process(name, model, DRAIN) as server:
        aside = Aside(read_streams, server.port, STREAMS)
        time.sleep(1)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        try:
            code: int | None = server.process.wait(DRAIN * 3)
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - start
        server.process.kill()
        ends = aside.result()
    short = STREAMS.count(min(STREAMS))
    return {"code": code, "seconds": took, "short": ends[:short], "long": ends[short:]}


def speed(names: list[str], model: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Requests a second of 64 callers, and ms of one, of all servers in turns.

    Of these the best turn counts, as other work on the machine can only take from them; of the
    processor's time for a request the median, and that of its ratio to the first server's.
    """
    servers = {name: Process(name, model) for name in names}
    rows: dict[str, dict[str, list[float]]] = {
        name: {"rate": [], "processor": [], "one": []} for name in names
    }
    for number in range(rounds + 1):
        for name in names if number % 2 else reversed(names):
            server, row = servers[name], rows[name]
            before = server.processor()
            done, took = uvloop.run(_many(server, 64, seconds))
            spent = server.processor() - before
            single, single_took = uvloop.run(_many(server, 1, seconds / 2))
            if number:  # the first round only warms
                row["rate"].append(done / took)
                row["processor"].append(1000 * spent / done)
                row["one"].append(1000 * single_took / single)
    for server in servers.values():
        server.__exit__()
    first = rows[names[0]]["processor"]
    figures = {}
    for name, row in rows.items():
        pairs = zip(row["processor"], first, strict=True)
        figures[name] = {
            "rate": max(row["rate"]),
            "one": min(row["one"]),
            "processor": statistics.median(row["processor"]),
            "processor_ratio": statistics.median(own / other for own, other in pairs),
        }
    return {"figures": figures, "rounds": rows}


async def _many(server: Process, count: int, seconds: float) -> tuple[int, float]:
    client, done = Client(server.url), 0
    request = client.make("/v1/embeddings", {"input": "a short text", "encoding_format": "base64"})

    async def ask(number: int) -> int:
        nonlocal done
        status = (await client.send(request)).status
        done += status == 200
        return status

    took = await callers(count, seconds, ask)
    return done, took


def print_tables(found: dict[str, Any]) -> None:
    """Print the tables of README.md: a row for each server."""
    attacks, ends, speeds = found["attacks"], found["ends"], found["speed"]["figures"]
    print(f"\nSeconds until all were closed (limit {SECONDS}), worst wait of a caller in ms:\n")
    _print_table([*SILENT, "wrong heads refused"], {name: _closed(attacks[name]) for name in ends})
    print(f"\nFloods of {FLOOD_SECONDS:g} seconds, median and worst wait of a caller in ms:\n")
    _print_table([*FLOODS], {name: _waits(attacks[name]) for name in ends})
    titles = ["streams at SIGTERM", "exit code, s", "MB when ready, at most"]
    titles += ["64 callers, requests/s", "one, ms", "processor, ms a request (ratio)"]
    print("\nThe end, memory and speed:\n")
    _print_table(titles, {name: _others(attacks[name], ends[name], speeds[name]) for name in ends})


def _print_table(titles: list[str], rows: dict[str, list[str]]) -> None:
    print("| | " + " | ".join(titles) + " |\n" + "|---" * (len(titles) + 1) + "|")
    for name, cells in rows.items():
        print(f"| {SERVERS[name].title} | " + " | ".join(cells) + " |")


def _closed(attacked: dict[str, Any]) -> list[str]:
    cells = []
    for title in SILENT:
        row = attacked[title]
        if row["closed"] < row["of"]:
            closed = f"{row['closed']} of {row['of']}" if row["closed"] else "never"
        else:
            closed = f"{row['longest']:.1f}" if row["longest"] else "all"
        cells.append(f"{closed}; {row['caller']['worst']:.0f}{_lost(row)}")
    passed = [name for name, status in attacked["wrong"].items() if status[:1] not in "45"]
    return [*cells, f"all but {', '.join(passed)}" if passed else "all"]


def _waits(attacked: dict[str, Any]) -> list[str]:
    rows = [attacked[title] for title in FLOODS]
    return [f"{r['caller']['p50']:.0f}, {r['caller']['worst']:.0f}{_lost(r)}" for r in rows]


def _lost(row: dict[str, Any]) -> str:
    lost = row["caller"]["lost"]
    return f" ({lost} lost)" if lost else ""


def _others(attacked: dict[str, Any], ended: dict[str, Any], speed: dict[str, Any]) -> list[str]:
    ways = [*ended["short"], *ended["long"]]
    most = max(attacked[title]["caller"]["most_mb"] for title in [*SILENT, *FLOODS])
    return [
        ", ".join(f"{ways.count(way)} {way}" for way in dict.fromkeys(ways)),
        f"{ended['code']}, {ended['seconds']:.1f}",
        f"{attacked['mb']:.0f}, {most:.0f}",
        f"{speed['rate']:,.0f}",
        f"{speed['one']:.1f}",
        f"{speed['processor']:.2f} ({speed['processor_ratio']:.2f})",
    ]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--model", required=True, help="folder of a model")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--rounds", type=int, default=6, help="of the speed")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn of the speed")
    parser.add_argument("--only", choices=("attacks", "ends", "speed"))
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(), **vars(args)}
    packages = {SERVERS[name].package for name in args.servers} | {"h11", "httptools", "uvloop"}
    found["versions"] = {package: version(package) for package in sorted(packages)}
    found |= {"attacks": {}, "ends": {}, "speed": {}}
    for name in args.servers:
        if args.only in (None, "attacks"):
            found["attacks"][name] = attack(name, args.model)
        if args.only in (None, "ends"):
            found["ends"][name] = end(name, args.model)
    if args.only in (None, "speed"):
        found["speed"] = speed(args.servers, args.model, args.rounds, args.seconds)
    print(json.dumps(found))
    if args.only is None:
        print_tables(found)


if __name__ == "__main__":
    main()
