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

import bertwright
from bertwright.atomic import sha256_file
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.find import find_checkpoint
from bertwright.checkpoint.inspection import inspect
from bertwright.checkpoint.tokenizer_folder import find_tokenizer
from bertwright.cli.app import run
from bertwright.config.hub import could_be_id, id_of
from bertwright.errors import ConfigError, DataError, MissingExtra
from bertwright.inference.model import load
from bertwright.inference.word_vectors.table import open_words
from bertwright.serve.engine.folder import check_folder
from bertwright.serve.engine.loading import load_engine
from bertwright.text.tokenizer.tokenizer import load_tokenizer, make_tokenizer
from tests import small_bert

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """The part of the hub's protocol that fetching takes, over folders by id."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}
        self.fetched: list[str] = []
        """Files whose content was requested."""
        self.requests: list[str] = []
        """Paths of all requests."""
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.handle(self)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def handle(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.requests.append(path)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hf:bert-tiny-one", "hf:org/bert", "hf:org/bert@main"])
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
    for name in ("bert-tiny-one", "bert-base-uncased", "hf:org/bert"):
        shutil.copytree(tmp_path / "original", tmp_path / name)
        assert find_checkpoint(name) == Path(name)
    assert not hub.fetched


def test_a_tokenizer_alone(hub: Hub) -> None:
    folder = find_tokenizer(Path("hf:bert-tiny-one"))
    assert (folder / "tokenizer.json").is_file()
    assert "model.safetensors" not in hub.fetched


def test_what_is_no_id() -> None:
    names = ("runs/mine", "/a", "./a", "a b", "..", "bert", "bert-base-uncased", "org/name")
    assert [id_of(each) for each in names] == [None] * len(names)
    assert id_of("hf:org/name") == "org/name"


def test_what_could_be_an_id() -> None:
    for name in ("bert-base-uncased", "all-MiniLM-L6-v2", "google-bert/bert-base-cased"):
        assert could_be_id(name)
    for name in ("/a/b", "./a", "runs/mine/model", "hf:gpt2", "a b", "..", "shards/"):
        assert not could_be_id(name)


def entries(name: str, folder: Path) -> dict[str, Callable[[], object]]:
    """Every way by which a model, or a tokenizer, is named from Python."""
    text = folder / "text.txt"
    text.write_text("a b. c d.\n\ne f. g h.\n" * 9)
    make_tokenizer(small_bert.VOCABULARY).save(folder / "vocabulary")
    rows = [("a b", "x"), ("b a", "y")] * 4
    return {
        "load": lambda: bertwright.load(name),
        "load_tokenizer": lambda: bertwright.load_tokenizer(name),
        "inspect": lambda: inspect(name),
        "convert": lambda: convert(Path(name), folder / "converted", "huggingface"),
        "open_words": lambda: open_words(name),
        "find_tokenizer": lambda: load_tokenizer(find_tokenizer(Path(name))),
        "build_data": lambda: bertwright.build_data(
            text, out=folder / "built", tokenizer=name, progress=False
        ),
        "init": lambda: bertwright.pretrain(
            bertwright.build_data(
                text, out=folder / "shards", tokenizer=folder / "vocabulary", progress=False
            ),
            out=folder / "run",
            init=name,
            steps=1,
            progress=False,
        ),
        "finetune": lambda: bertwright.finetune(
            "classification", model=name, train=rows, out=folder / "tuned", progress=False
        ),
        "evaluate": lambda: bertwright.evaluate(name, rows, progress=False),
        "serve": lambda: check_folder(name),
        "reload": lambda: load_engine("m", name),
    }


ENTRIES = (
    *("load", "load_tokenizer", "inspect", "convert", "open_words", "find_tokenizer"),
    *("build_data", "init", "finetune", "evaluate", "serve", "reload"),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-tiny-one", "org/bert", "bert-base-uncased"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_no_entry_asks_the_hub_without_hf(hub: Hub, tmp_path: Path, entry: str, name: str) -> None:
    hub.folders["bert-base-uncased"] = hub.folders["org/bert"]  # so that asking would succeed
    with pytest.raises((ConfigError, DataError), match=f"{name}: .*bertwright .* hf:{name}"):
        entries(name, tmp_path)[entry]()
    assert not hub.requests


def test_a_folder_that_is_misspelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "vocabulary").mkdir()
    for given in ("runs/mien", "rnus/mine", "mine"):
        with pytest.raises(DataError, match="did you mean runs/mine"):
            load(given)
    with pytest.raises(ConfigError, match=r"did you mean vocabulary.*tokenizer train"):
        bertwright.load_tokenizer("vocabulray")
    with pytest.raises(DataError, match=r"pretrain .*--model bert-mini"):
        load("bert-mini")  # the name of a size
    (tmp_path / "words.vec").write_text("1 2\na 1 2\n")
    with pytest.raises(DataError, match=r"words\.vec is a file.*convert words.vec"):
        load("words.vec")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fill", "--model", "gpt2", "a [MASK]"], "bertwright fill --model hf:gpt2 'a [MASK]'"),
        (["fill", "--model=gpt2", "a"], "bertwright fill --model=hf:gpt2 a"),
        (["serve", "--model", "m=gpt2"], "bertwright serve --model m=hf:gpt2"),
        (
            ["tokenizer", "inspect", "--tokenizer", "gpt2", "a"],
            "bertwright tokenizer inspect --tokenizer hf:gpt2 a",
        ),
    ],
)
def test_the_command_line_prints_the_command_that_works(
    words: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) in (2, 4)
    assert capsys.readouterr().err.rstrip().endswith(expected)


@pytest.mark.parametrize("name", ["hf:nothing-here", "hf:org/nothing-here"])
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
        load("hf:bert-tiny-one")
    assert "pytorch_model.bin" not in hub.fetched


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"fetching a/b .*pip install .bertwright\[hub\]"):
        load("hf:a/b")


@pytest.mark.slow
def test_the_command_line(hub: Hub, tmp_path: Path, command_line: Callable[..., object]) -> None:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    for name in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "HF_TOKEN"):
        environment.pop(name, None)
    done = command_line("fill", "a [MASK]", "--model", "hf:org/bert", env=environment)
    assert done.returncode == 0, done.stderr  # type: ignore[attr-defined]
