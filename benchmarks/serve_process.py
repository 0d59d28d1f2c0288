"""What `serve.py` measures: a server in a process of its own, texts for it, and the raw model."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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

    PROGRAM: tuple[str, ...] = ("-m", "bertwright")
    """What Python runs."""

    def __init__(self, args: argparse.Namespace, *words: str) -> None:
        self.url, self.process = args.url, None
        if self.url:
            return
        self.log = tempfile.NamedTemporaryFile("w+b", suffix=".log")  # noqa: SIM115
        command = [sys.executable, *self.PROGRAM, "serve", "--model", f"m={args.model}"]
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

    def swap(self) -> bool:
        """Have it load its model again, and wait; gives whether it could."""
        assert self.process is not None
        words = b'"event":"model swapped"', b'"event":"not swapped"'
        before = [self._log().count(word) for word in words]
        self.process.send_signal(signal.SIGHUP)
        while (now := [self._log().count(word) for word in words]) == before:
            self._check()
            time.sleep(0.01)
        return now[0] > before[0]

    def memory(self) -> dict[str, float]:
        """Resident MB and open descriptors."""
        if self.process is None:
            return {}
        folder = Path(f"/proc/{self.process.pid}")
        pages = int((folder / "statm").read_text().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return {"mb": size, "descriptors": len(os.listdir(folder / "fd"))}

    def busy(self) -> dict[str, float]:
        """Seconds of processor, of all its threads and of the event loop's."""
        if self.process is None:
            return {}
        found = {}
        for name, place in (("all", "stat"), ("loop", f"task/{self.process.pid}/stat")):
            words = Path(f"/proc/{self.process.pid}/{place}").read_text().rpartition(")")[2].split()
            found[name] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


class Raw:
    """The model without a server, in a process of its own: `Model.embed` of 512 at once."""

    PROGRAM = (
        "import json,sys,time; from bertwright import load;"
        "model, precision = sys.argv[1:]; texts = json.loads(sys.stdin.readline());"
        "maker = load(model).embedder(precision=precision); maker.embed(texts[:512]); n = 0\n"
        "for line in sys.stdin:\n"
        "    start, before = time.monotonic(), n\n"
        "    while time.monotonic() - start < float(line):\n"
        "        maker.embed([texts[(n + i) % len(texts)] for i in range(512)]); n += 512\n"
        "    print((n - before) / (time.monotonic() - start), flush=True)"
    )

    def __init__(self, args: argparse.Namespace, texts: list[str]) -> None:
        words = [sys.executable, "-c", self.PROGRAM, args.model, args.precision]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        self.ask(json.dumps(texts))
        self.rate(0.1)

    def rate(self, seconds: float) -> float:
        """Sentences a second, measured for so long."""
        self.ask(str(seconds))
        assert self.process.stdout is not None
        return float(self.process.stdout.readline())

    def ask(self, line: str) -> None:
        """Tell the process."""
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
