"""A server that says, breaks and delays what a test writes down for it."""

from __future__ import annotations

import socketserver
import threading
import time
from typing import Any, NamedTuple

Script = list[bytes | float | None]
"""A reply: bytes are sent, a number is waited for in seconds, None hangs up."""
HANG: Script = [60.0]
HANG_UP: Script = [None]


class Seen(NamedTuple):
    """A request, when it came and on which connection."""

    time: float
    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


class Handler(socketserver.StreamRequestHandler):
    """One connection."""

    server: Server

    def handle(self) -> None:
        """Answer the n-th request with the n-th script, all further ones with the last."""
        server = self.server
        server.connections += 1
        number = server.connections
        while line := self.rfile.readline().decode().strip():
            headers = {}
            while header := self.rfile.readline().decode().strip():
                name, _, value = header.partition(": ")
                headers[name.lower()] = value
            body = self.rfile.read(int(headers.get("content-length", 0)))
            seen = Seen(time.monotonic(), number, line, headers, body)
            server.seen.append(seen)
            step = min(len(server.seen), len(server.scripts)) - 1
            for part in server.scripts[step]:
                if part is None:
                    return
                if isinstance(part, bytes):
                    self.wfile.write(part.replace(b"ECHO", body))
                elif server.over.wait(part):
                    return


class Server(socketserver.ThreadingTCPServer):
    """Listens on a free port."""

    daemon_threads = True
    request_queue_size = 200

    def __init__(self, *scripts: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts, self.connections, self.over = scripts, 0, threading.Event()
        self.seen: list[Seen] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """A client that went away."""


def says(content: bytes = b'{"is": "right"}', status: int = 200, *headers: str) -> Script:
    """A whole reply."""
    head = [f"HTTP/1.1 {status} x", f"Content-Length: {len(content)}", *headers, "", ""]
    return ["\r\n".join(head).encode() + content]


def trickled(*sent: bytes) -> Script:
    """The last piece by piece, for five seconds."""
    *first, last = sent
    return [*first, *(part for n in range(100) for part in (last[n % len(last) :][:1], 0.05))]
