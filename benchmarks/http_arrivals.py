"""Requests that arrive at a fixed rate, whether answers come or not.

Sockets and epoll without an event loop: the generator shares its processors with the server, and a
task, a future and a timer a request would cost as much as the server's no.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

TICK = 0.005
"""Seconds between arrivals at least; those due in them come together."""


@dataclass(slots=True)
class Asked:
    """A connection, and the request that it carries."""

    socket: socket.socket
    start: float = 0.0
    buffer: bytes = b""


class Arrivals:
    """Connections to one server; one a request, and kept for others after its reply."""

    def __init__(
        self, host: str, port: int, requests: Sequence[bytes], told: Callable[[int, float], None]
    ) -> None:
        """Nothing is asked yet.

        Args:
            host, port: of the server.
            requests: asked in turn.
            told: called with the status and seconds of each reply; 0 where the server hung up.
        """
        self.place, self.requests, self.told = (host, port), requests, told
        self.poll = select.epoll()
        self.free: list[Asked] = []
        self.waiting: dict[int, Asked] = {}
        """By number of its descriptor."""

    def run(self, rate: float, seconds: float) -> None:
        """Ask so many a second for so long; replies that are late may be collected after it."""
        start, sent = time.monotonic(), 0
        while (now := time.monotonic()) < start + seconds:
            due = int((now - start) * rate) + 1
            for number in range(sent, due):
                self._ask(self.requests[number % len(self.requests)])
            sent = max(sent, due)
            self.collect(max(now + TICK, start + sent / rate))

    def collect(self, end: float) -> None:
        """Read replies until a time, or until none is awaited if that is infinite."""
        while (left := end - time.monotonic()) > 0:
            if left == float("inf") and not self.waiting:
                return
            for number, _ in self.poll.poll(min(left, 1.0)):
                self._read(number)

    def close(self) -> None:
        """Hang up."""
        for each in [*self.free, *self.waiting.values()]:
            each.socket.close()
        self.poll.close()

    def _ask(self, request: bytes) -> None:
        if self.free:
            asked = self.free.pop()
        else:
            asked = Asked(socket.create_connection(self.place))
            asked.socket.setblocking(False)
            self.poll.register(asked.socket.fileno(), select.EPOLLIN)
        asked.start = time.monotonic()
        self.waiting[asked.socket.fileno()] = asked
        try:
            asked.socket.sendall(request)
        except OSError:
            self._end(asked, 0)

    def _read(self, number: int) -> None:
        asked = self.waiting.get(number)
        if asked is None:  # the server hung up on one that was free
            gone = next(each for each in self.free if each.socket.fileno() == number)
            self.free.remove(gone)
            self._hang_up(gone)
            return
        try:
            data = asked.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._end(asked, 0)
            return
        buffer = asked.buffer = asked.buffer + data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        lines = buffer[: head + 2].lower()
        start = lines.index(b"\r\ncontent-length:") + 17
        length = int(lines[start : lines.index(b"\r", start)])
        if len(buffer) >= head + 4 + length:
            self._end(asked, int(buffer[9:12]), b"\r\nconnection: close" not in lines)

    def _end(self, asked: Asked, status: int, alive: bool = False) -> None:
        del self.waiting[asked.socket.fileno()]
        self.told(status, time.monotonic() - asked.start)
        asked.buffer = b""
        if alive:
            self.free.append(asked)
        else:
            self._hang_up(asked)

    def _hang_up(self, asked: Asked) -> None:
        self.poll.unregister(asked.socket.fileno())
        asked.socket.close()
