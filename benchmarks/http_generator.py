"""Requests of callers who wait for their answers, or that arrive at a fixed rate whatever comes.

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
PAUSE = 0.05
"""Seconds before a caller who got no answer asks again; the others wait as well."""


@dataclass(slots=True)
class Asked:
    """A connection, and the request that it carries."""

    socket: socket.socket
    start: float = 0.0
    buffer: bytes = b""


class Generator:
    """Connections to one server; one a request, and kept for others after its reply."""

    def __init__(
        self, host: str, port: int, requests: Sequence[bytes], told: Callable[[int, float], None]
    ) -> None:
        """Nothing is asked yet.

        Args:
            host: of the server.
            port: its port.
            requests: asked in turn.
            told: called with the status and seconds of each reply; 0 where the server hung up.
        """
        self.place, self.requests, self.told = (host, port), requests, told
        self.poll = select.epoll()
        self.free: list[Asked] = []
        self.waiting: dict[int, Asked] = {}
        """By number of its descriptor."""
        self.asked = 0
        self.again = False
        """Whether each answer is followed by a request, up to the time `until`."""
        self.until = 0.0

    def callers(self, count: int, seconds: float) -> float:
        """So many callers for so long, each asking again as soon as it is answered.

        Returns:
            Seconds until the last was answered.
        """
        start = time.monotonic()
        self.until, self.again = start + seconds, True
        for _ in range(count):
            self._ask()
        self.collect(float("inf"))
        self.again = False
        return time.monotonic() - start

    def arrive(self, rate: float, seconds: float) -> None:
        """Ask so many a second for so long; replies that are late may be collected after it."""
        start, sent = time.monotonic(), 0
        while (now := time.monotonic()) < start + seconds:
            due = int((now - start) * rate) + 1
            for _ in range(sent, due):
                self._ask()
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

    def _ask(self) -> None:
        request = self.requests[self.asked % len(self.requests)]
        self.asked += 1
        while self.free:
            asked = self.free.pop()
            if not _is_closed(asked.socket):
                break
            self._hang_up(asked)
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
            for gone in [each for each in self.free if each.socket.fileno() == number]:
                self.free.remove(gone)
                self._hang_up(gone)
            return
        try:
            data = asked.socket.recv(65536)
        except BlockingIOError:  # the number was another's when the poll named it
            return
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
        if self.again and time.monotonic() < self.until:
            if status != 200:
                time.sleep(PAUSE)
            self._ask()

    def _hang_up(self, asked: Asked) -> None:
        self.poll.unregister(asked.socket.fileno())
        asked.socket.close()


def _is_closed(connection: socket.socket) -> bool:
    """Whether the server hung up, as clients look before they use a connection again."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
