"""Chromium without a window, driven over its DevTools pipe: standard library only.

The pipe is two descriptors, 3 to write commands into and 4 to read from, JSON ended by NUL
(Chromium's `--remote-debugging-pipe`).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
NEEDED = "needs Chromium: apt-get install chromium"

PIPED = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 20) for fd in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the two pipes where Chromium looks for them."""

KEYS = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowDown": 40, "End": 35}

UNREADABLE = r"""
(() => {
  const parse = (text) => {
    const numbers = text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const by = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((c) => c * by), numbers[3] ?? 1];
  };
  const over = (a, b) => [0, 1, 2].map((k) => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, k) => {
    const v = c[k] / 255;
    return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0.05);
  const ground = (node) => {
    const below = node.parentElement ? ground(node.parentElement) : [255, 255, 255, 1];
    return over(parse(getComputedStyle(node).backgroundColor), below);
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    const skipped = node.closest(".unseen,noscript,option,[disabled],title");
    if (!walk.currentNode.data.trim() || skipped || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const below = ground(node);
    const ink = parse(node.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const pair = [light(over(ink, below)), light(below)].sort((a, b) => b - a);
    const ratio = pair[0] / pair[1];
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5))
      found.add(`${walk.currentNode.data.trim().slice(0, 20)}: ${ratio.toFixed(2)}`);
  }
  return [...found];
})()
"""
"""The texts of a page that stand out too little from what is behind them (WCAG 2.2, 1.4.3)."""


class Page:
    """One tab."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read = write, read
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.problems: list[str] = []
        """What the page's console said is wrong."""

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer}"
                return dict(answer["result"])

    def receive(self) -> dict[str, Any]:
        """The next message; complaints of the page are kept."""
        while b"\0" not in self.buffer:
            assert select.select([self.read], [], [], 40)[0], "Chromium says nothing"
            part = os.read(self.read, 1 << 20)
            assert part, "Chromium has ended"
            self.buffer += part
        raw, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(raw)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])
        return dict(message)

    def open(
        self,
        address: str,
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        state: str = "ready",
    ) -> None:
        """Go to an address in a window of that size, and wait until the page is ready, or in
        another state."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait(f"document.querySelector('main')?.dataset.state === '{state}'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 20) -> None:
        """Until an expression holds."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < end, f"never so: {script}\n{self.problems}"
            time.sleep(0.01)

    def text(self, selector: str) -> str:
        """What an element shows."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def press(self, key: str, modifiers: int = 0) -> None:
        """One key, down and up."""
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        more = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **code, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", **code)

    def type(self, text: str) -> None:
        """Text where the focus is."""
        self.send("Input.insertText", text=text)

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A new Chromium with a folder of its own, ended afterwards."""
    assert CHROMIUM
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    options = [
        "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
        "--disable-dev-shm-usage", "--disable-background-networking", "--no-default-browser-check",
        "--disable-quic", "--disable-component-update", "--disable-sync", "--disable-extensions",
        "--hide-scrollbars", f"--user-data-dir={profile}", "about:blank",
    ]  # fmt: skip
    if os.geteuid() == 0:
        options.insert(0, "--no-sandbox")
    words = [sys.executable, "-c", PIPED, str(to_read), str(from_write), CHROMIUM, *options]
    process = subprocess.Popen(
        words,
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    page = Page(to_write, from_read)
    try:
        targets = page.send("Target.getTargets")["targetInfos"]
        tab = next(t["targetId"] for t in targets if t["type"] == "page")
        page.session = page.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            page.send(f"{domain}.enable")
        page.send("Emulation.setFocusEmulationEnabled", enabled=True)
        yield page
        page.session = None
        page.send("Browser.close")
    finally:
        os.close(to_write)
        os.close(from_read)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
