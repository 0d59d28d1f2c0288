"""Models by their ids of the hub, from a server of our own and from the cache."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bertwright.atomic import sha256_file
from bertwright.checkpoint.checkpoint import find_checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.huggingface.hub import id_of
from bertwright.checkpoint.inspection import inspect
from bertwright.cli.options import find_tokenizer
from bertwright.errors import DataError, MissingExtra
from bertwright.inference.model import load
from tests import small_bert

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The part of the hub's protocol that fetching takes, over folders by id."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        self.fetched: list[str] = []
        """Files whose content was requested."""
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.handle(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def handle(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        status, headers, body = 404, {"X-Error-Code": "RepoNotFound"}, b""
        for name, folder in self.folders.items():
            files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
            names = [each.relative_to(folder).as_posix() for each in files]
            if path.startswith(f"/api/models/{name}/revision/"):
                status, headers, body = 200, {}, json.dumps({"id": name, "sha": REVISION}).encode()
            elif path.startswith(f"/api/models/{name}/tree/"):
                rows = [
                    {"type": "file", "path": each, "size": file.stat().st_size, "oid": "0" * 40}
                    for each, file in zip(names, files, strict=True)
                ]
                status, headers, body = 200, {}, json.dumps(rows).encode()
            elif path.startswith(start := f"/{name}/resolve/{REVISION}/"):
                file = folder / path.removeprefix(start)
                etag = f'"{sha256_file(file)}"'
                status, headers = 200, {"X-Repo-Commit": REVISION, "ETag": etag}
                body = file.read_bytes()
                if request.command == "GET":
                    self.fetched.append(path.removeprefix(start))
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(body)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with a model of both names, and an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants")
    made = Hub()
    folder = small_bert.write_model(tmp_path / "original", ["masked_lm", "next_sentence"])
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"x")
    for name in ("pytorch_model.bin", "tf_model.h5", "onnx/config.json"):
        (folder / name).write_bytes(b"x")
    made.folders = {"bert-tiny-one": folder, "org/bert": folder}
    template = made.url + "/{repo_id}/resolve/{revision}/{filename}"
    settings = {"ENDPOINT": made.url, "HUGGINGFACE_CO_URL_TEMPLATE": template}
    settings |= dict.fromkeys(("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"), str(tmp_path / "cache"))
    for name, value in {**settings, "HF_HUB_OFFLINE": False}.items():
        monkeypatch.setattr(constants, name, value, raising=False)
    monkeypatch.chdir(tmp_path)
    yield made
    made.server.shutdown()


def go_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("name", ["bert-tiny-one", "hf:org/bert", "hf:org/bert@main"])
def test_a_model_is_fetched_once_and_then_found_offline(
    hub: Hub, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(tmp_path / "original").embed(["a b"])
    assert (load(name).embed(["a b"]) == expected).all()
    assert "model.safetensors" in hub.fetched
    assert {"config.json", "tokenizer.json", "vocab.txt"} <= set(hub.fetched)
    assert not [each for each in hub.fetched if each.endswith((".bin", ".h5")) or "onnx" in each]
    before = list(hub.fetched)
    load(name)
    assert hub.fetched == before
    go_offline(monkeypatch)
    hub.server.shutdown()
    assert (load(name).embed(["a b"]) == expected).all()
    assert inspect(name).loads
    convert(Path(name), tmp_path / "out", "huggingface")
    assert (load(tmp_path / "out").embed(["a b"]) == expected).all()


def test_a_folder_of_that_name_is_never_shadowed(hub: Hub, tmp_path: Path) -> None:
    for name in ("bert-tiny-one", "hf:org/bert"):
        shutil.copytree(tmp_path / "original", tmp_path / name)
        assert find_checkpoint(name) == Path(name)
    assert not hub.fetched


def test_a_tokenizer_alone(hub: Hub) -> None:
    folder = find_tokenizer(Path("bert-tiny-one"))
    assert (folder / "tokenizer.json").is_file()
    assert "model.safetensors" not in hub.fetched


def test_what_is_no_id() -> None:
    assert [id_of(each) for each in ("runs/mine", "/a", "./a", "a b", "..")] == [None] * 5
    assert id_of("hf:org/name") == "org/name"


@pytest.mark.parametrize("name", ["nothing-here", "hf:org/nothing-here"])
def test_without_such_a_model_or_a_network_the_message_has_the_command(
    hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = name.removeprefix("hf:")
    with pytest.raises(DataError, match=f"cannot be fetched .*404.*hf download {plain} --include"):
        load(name)
    go_offline(monkeypatch)
    with pytest.raises(DataError, match=f"HF_HUB_OFFLINE.*hf download {plain} --include"):
        load(name)


def test_a_model_of_pickles_alone(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "original" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"no weights in safetensors.*bertwright convert"):
        load("bert-tiny-one")
    assert "pytorch_model.bin" not in hub.fetched


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for name, before in (("nothing-here", "no folder nothing-here here; "), ("hf:a/b", "")):
        with pytest.raises(MissingExtra) as caught:
            load(name)
        assert str(caught.value).startswith(f"{before}fetching ")
        assert str(caught.value).endswith('pip install "bertwright[hub]"')


@pytest.mark.slow
def test_the_command_line(hub: Hub, tmp_path: Path, command_line: Callable[..., object]) -> None:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    for name in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN"):
        environment.pop(name, None)
    done = command_line("fill", "a [MASK]", "--model", "hf:org/bert", env=environment)
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
