"""The image of deploy/Dockerfile and the services of deploy/compose.yaml, without Docker.

Both are parsed and compared with what they name. A slow test runs the steps of the Dockerfile and
the commands of the services one after another, as Docker would: it installs the package from the
copied files, trains the quickstart, and serves it until the health check passes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from bertwright.cli.app import make_app
from bertwright.cli.reading import read
from bertwright.config.serve import ServeConfig
from tests.house.source import ROOT

DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
COMPOSE_TEXT = (ROOT / "deploy" / "compose.yaml").read_text("utf-8")
COMPOSE: Any = yaml.safe_load(COMPOSE_TEXT)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
INSTRUCTIONS = {
    *("FROM", "ARG", "ENV", "RUN", "COPY", "WORKDIR", "USER", "EXPOSE", "VOLUME", "LABEL"),
    *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, without comments."""
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.M).replace("\\\n", " ").splitlines()
    parts = (line.split(maxsplit=1) for line in lines if line.strip())
    return [(name, argument) for name, argument in parts]


STEPS = instructions(DOCKERFILE)


def arguments(name: str) -> list[str]:
    """Return the arguments of all instructions of a name."""
    return [argument for each, argument in STEPS if each == name]


def variables() -> dict[str, str]:
    """Return the environment of the image."""
    return dict(pair.split("=", 1) for text in arguments("ENV") for pair in shlex.split(text))


def command_of(service: str) -> list[str]:
    """Return the words that a service runs, `bertwright` first; without a command, the image's."""
    entrypoint, usual = (json.loads(arguments(name)[0]) for name in ("ENTRYPOINT", "CMD"))
    return [*entrypoint, *COMPOSE["services"][service].get("command", usual)]


def health_check() -> list[str]:
    """Return the words of the health check."""
    (check,) = arguments("HEALTHCHECK")
    words: list[str] = json.loads(check[check.index("CMD ") + 4 :])
    return words


def test_the_dockerfile_is_one() -> None:
    names = [name for name, _ in STEPS]
    assert names[0] == "FROM"
    assert set(names) <= INSTRUCTIONS
    for once in ("FROM", "ENTRYPOINT", "CMD", "HEALTHCHECK"):
        assert names.count(once) == 1


def test_its_python_is_one_of_ours() -> None:
    version = arguments("FROM")[0].removeprefix("python:").partition("-")[0]
    assert f"Programming Language :: Python :: {version}" in PYPROJECT["classifiers"]


def test_it_is_built_from_what_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    copied = {name for text in arguments("COPY") for name in text.split()[:-1]}
    assert "*" in ignored
    assert {name[1:] for name in ignored if name.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_it_installs_as_readme_does() -> None:
    (command,) = (text for text in arguments("RUN") if text.startswith("pip "))
    (what,) = (word for word in shlex.split(command)[2:] if not word.startswith("-"))
    assert f'pip install -e "{what}"' in (ROOT / "README.md").read_text("utf-8")
    assert what.strip(".[]") in PYPROJECT["optional-dependencies"]


def test_pyproject_chooses_the_version_of_torch() -> None:
    assert "torch" not in " ".join(arguments("RUN"))
    (index,) = arguments("ARG")
    name, _, address = index.partition("=")
    assert name == "PIP_EXTRA_INDEX_URL"  # pip reads it
    assert address.endswith("pytorch.org/whl/cpu")


def test_it_runs_as_a_user_who_owns_the_folder_of_runs() -> None:
    user = arguments("USER")[-1]
    made = " ".join(arguments("RUN"))
    assert re.search(rf"useradd .*{user}\b", made)
    owned = re.findall(rf"install --directory --owner {user} (\S+)", made)
    mounted = [text.split(":")[1] for text in COMPOSE["services"]["train"]["volumes"]]
    assert owned == mounted == [arguments("WORKDIR")[-1]]


def test_it_serves_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables().items():
        monkeypatch.setenv(name, value)
    entrypoint, command = (json.loads(arguments(name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert entrypoint == ["bertwright"]
    _, bound = read(make_app(words=command), command)
    config = bound.kwargs["config"]
    assert isinstance(config, ServeConfig)
    assert (config.model, config.host) == (("/model",), "0.0.0.0")
    assert str(config.port) == arguments("EXPOSE")[0]


def test_commands_of_services_are_understood() -> None:
    others = re.findall(r"^#.* run --rm (\S+) (.*)$", COMPOSE_TEXT, re.M)
    assert others
    assert all(service in COMPOSE["services"] for service, _ in others)
    commands = [command_of(service)[1:] for service in COMPOSE["services"]]
    for words in [*commands, *(shlex.split(text) for _, text in others)]:
        make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)


def test_services_share_the_image_and_the_volume() -> None:
    for service in COMPOSE["services"].values():
        context = ROOT / "deploy" / service["build"]["context"]
        assert context.resolve() == ROOT
        assert (context / service["build"]["dockerfile"]).samefile(ROOT / "deploy" / "Dockerfile")
        assert service["image"] == "bertwright"
        assert service["init"] is True
        assert float(service["stop_grace_period"].removesuffix("s")) > ServeConfig().drain_seconds
        assert {text.split(":")[0] for text in service["volumes"]} == set(COMPOSE["volumes"])


def test_the_server_waits_for_the_model_that_it_serves() -> None:
    server = COMPOSE["services"]["serve"]
    assert server["depends_on"] == {"train": {"condition": "service_completed_successfully"}}
    words = command_of("train")
    assert server["environment"] == {"BERTWRIGHT_MODEL": words[words.index("--out") + 1]}
    host, _, ports = server["ports"][0].partition(":")
    assert host == "127.0.0.1"
    assert set(ports.split(":")) == {variables()["BERTWRIGHT_PORT"]}


def test_the_server_has_the_health_check_of_the_image() -> None:
    services = COMPOSE["services"]
    assert services["train"]["healthcheck"] == {"disable": True}
    assert "test" not in services["serve"]["healthcheck"]
    assert "/readyz" in health_check()[-1]


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A server that says so of /readyz; gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield str(server.server_address[1])
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_health_check_requests_the_server_and_no_proxy(status: int, healthy: bool) -> None:
    program, *words = health_check()
    assert program == "python"
    with answering(status) as port:
        variables = {"BERTWRIGHT_PORT": port, "http_proxy": "http://127.0.0.1:9"}
        known = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
        done = subprocess.run([sys.executable, *words], env={**known, **variables}, check=False)
    assert (done.returncode == 0) == healthy


TRAIN = """
import sys
from bertwright.cli.app import run
from bertwright.recipes.quickstart import corpus
find_modules = corpus.find_modules
corpus.find_modules = lambda search=None: find_modules(search)[::4]
sys.exit(run(sys.argv[1:]))
"""
"""The command line with a quarter of the modules, as a whole installation has many."""


@pytest.mark.slow
def test_its_steps_make_a_server_of_the_quickstart(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")  # of the extra dev
    site, volume = tmp_path / "site", tmp_path / "runs"
    volume.mkdir()
    install(tmp_path / "app", site)
    image = os.environ | variables() | {"PYTHONPATH": str(site)}  # before an editable installation
    where = "import bertwright; print(bertwright.__file__)"
    found = subprocess.check_output([sys.executable, "-c", where], env=image, cwd=tmp_path)
    assert Path(found.decode().strip()) == site / "bertwright" / "__init__.py"

    words = mounted(command_of("train")[1:], volume)
    words += ["--minutes", "0.1", "--json"]
    train = [sys.executable, "-c", TRAIN, *words]
    done = subprocess.run(train, env=image, cwd=tmp_path, check=True, timeout=1200, stdout=-1)
    results = json.loads(done.stdout)
    assert results["comparison"]
    assert "beside simple baselines" in Path(results["report"]).read_text("utf-8")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"BERTWRIGHT_HOST": "127.0.0.1", "BERTWRIGHT_PORT": str(free.getsockname()[1])}
    settings = COMPOSE["services"]["serve"]["environment"]
    names = mounted([*settings.values()], volume)
    served = image | dict(zip(settings, names, strict=True)) | address
    serve = [sys.executable, "-m", *command_of("serve")]
    with subprocess.Popen(serve, env=served, cwd=tmp_path, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until_healthy(server, served)
            with urlopen(f"http://127.0.0.1:{address['BERTWRIGHT_PORT']}/v1/models") as reply:
                assert "quickstart" in reply.read().decode()
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def install(context: Path, site: Path) -> None:
    """Copy what the Dockerfile copies, and run its pip without a network and dependencies."""
    for text in arguments("COPY"):
        *names, target = text.split()
        for name in names:
            (context / target).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, context / target, ignore=ignored)
            else:
                (context / target).mkdir(exist_ok=True)
                shutil.copy2(ROOT / name, context / target)
    (command,) = (shlex.split(text) for text in arguments("RUN") if text.startswith("pip "))
    here = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", *command, *here], cwd=context, check=True, timeout=300)


def mounted(words: list[str], volume: Path) -> list[str]:
    """Return words with the paths below the mounted volume as paths on this machine."""
    folder = arguments("WORKDIR")[-1]
    return [str(volume) + w.removeprefix(folder) if w.startswith(folder) else w for w in words]


def wait_until_healthy(server: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
    """Repeat the health check of the image until it passes, as long as the server runs."""
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        words = [sys.executable, *health_check()[1:]]
        if not subprocess.run(words, env=environment, stderr=subprocess.DEVNULL).returncode:
            return
        time.sleep(0.2)
    raise AssertionError("the health check never passed")
