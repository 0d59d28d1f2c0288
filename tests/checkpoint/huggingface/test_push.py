"""Sending a model to the hub, to a server of our own."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bertwright.checkpoint.huggingface.push import push
from bertwright.cli.app import run
from bertwright.errors import BertwrightError, ConfigError, DataError
from tests import small_bert


class Receiver:
    """The part of the hub's protocol that sending takes."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.committed: dict[str, bytes] = {}
        self.refuses = False
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, reply = hub.reply(self.path, content)
                body = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def reply(self, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
        if self.refuses:
            return 401, {"error": "Invalid username or password."}
        if path == "/api/repos/create":
            self.created.append(json.loads(content))
            return 200, {"url": f"{self.url}/me/bert", "id": "me/bert", "name": "me/bert"}
        if "/preupload/" in path:
            files = json.loads(content)["files"]
            return 200, {
                "files": [
                    {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for each in files
                ]
            }
        if "/commit/" in path:
            for line in content.decode().splitlines():
                item = json.loads(line)
                if item["key"] == "file":
                    value = item["value"]
                    self.committed[value["path"]] = base64.b64decode(value["content"])
            return 200, {
                "success": True,
                "commitOid": "0" * 40,
                "commitUrl": f"{self.url}/me/bert/commit/{'0' * 40}",
                "hookOutput": "",
            }
        return 200, {"id": "me/bert", "sha": "0" * 40, "warnings": [], "errors": []}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    constants = pytest.importorskip("huggingface_hub.constants")
    made = Receiver()
    for name, value in {"ENDPOINT": made.url, "HF_HUB_OFFLINE": False}.items():
        monkeypatch.setattr(constants, name, value)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    yield made
    made.server.shutdown()


def test_it_is_listed_and_then_sent(
    receiver: Receiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = small_bert.write_model(tmp_path / "model", ["masked_lm"])
    (folder / "optimizer.safetensors").write_bytes(b"state")
    assert run(["push", str(folder), "hf:me/bert", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["url"] is None
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= listed["files"].keys()
    assert "optimizer.safetensors" not in listed["files"]
    assert not receiver.created

    done = push(folder, "hf:me/bert", send=True, private=True)
    assert done.url is not None
    assert receiver.created[0]["name"] == "bert"
    assert receiver.created[0]["organization"] == "me"
    assert receiver.committed.keys() == listed["files"].keys() == done.files.keys()
    assert receiver.committed["model.safetensors"] == (folder / "model.safetensors").read_bytes()


def test_what_cannot_be_sent(receiver: Receiver, tmp_path: Path) -> None:
    folder = small_bert.write_model(tmp_path / "model", ["masked_lm"])
    for name in ("me/bert", "hf:bert", "hf:me/bert@main", "hf:../x"):
        with pytest.raises(ConfigError, match="hf:ORG/NAME"):
            push(folder, name)
    with pytest.raises(DataError, match="none"):
        push(tmp_path / "none", "hf:me/bert")
    receiver.refuses = True
    with pytest.raises(BertwrightError, match="me/bert was not sent"):
        push(folder, "hf:me/bert", send=True)
    assert not receiver.committed
