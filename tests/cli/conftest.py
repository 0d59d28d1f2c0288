"""A model of random weights, labelled files of every kind, and a run of each, made once."""

from __future__ import annotations

import io
import itertools
import json
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import VERBS, run
from bertwright.models.bert.config import BertConfig
from tests.small_bert import LETTERS, write_model
from tests.task_files import WRITERS, write_files

KINDS = tuple(kind for kind in WRITERS if kind != "pair")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
Ran = Callable[..., Any]
JsonOf = Callable[..., dict[str, Any]]
Files = dict[str, tuple[Path, Path]]
Finetuned = Callable[[str], Path]


@pytest.fixture
def ran(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run a command line, which must end with `code`; what it printed, `out` and `err`."""

    def outputs(*words: object, code: int = 0, stdin: bytes = b"", verbs: Any = VERBS) -> Any:
        given = io.BufferedReader(io.BytesIO(stdin))  # type: ignore[arg-type]
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(given))
        capsys.readouterr()
        assert run([*map(str, words)], verbs) == code, capsys.readouterr().err
        return capsys.readouterr()

    return outputs


@pytest.fixture
def json_of(ran: Ran) -> JsonOf:
    """Run a command line with `--json`; the object that it printed."""
    return lambda *words, **stdin: json.loads(ran(*words, "--json", **stdin).out)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have a function, by its import path, stop as by Ctrl-C after two of its results."""

    def patch(name: str) -> None:
        whole = pkgutil.resolve_name(name)

        def two(*words: Any) -> Any:
            yield from itertools.islice(whole(*words), 2)
            raise KeyboardInterrupt

        monkeypatch.setattr(name, two)

    return patch


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with a masked LM head, in a folder of its own."""
    vocabulary = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *".,?"]
    config = BertConfig(len(vocabulary), 16, 2, 2, 24, max_position_embeddings=32)
    folder = tmp_path_factory.mktemp("tiny") / "model"
    return write_model(folder, ["masked_lm"], config, vocabulary=vocabulary, std=0.3, noise=0.0)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A training and a dev file of every kind."""
    folder = tmp_path_factory.mktemp("files")
    return {kind: write_files(folder, kind, train=24, dev=10) for kind in KINDS}


@pytest.fixture(scope="session")
def finetuned(tiny: Path, files: Files, tmp_path_factory: pytest.TempPathFactory) -> Finetuned:
    """The run of a kind, trained when it is first asked for."""
    base = tmp_path_factory.mktemp("runs")

    def made(kind: str) -> Path:
        out = base / kind
        if not out.exists():
            train, dev = map(str, files[kind])
            words = ["finetune", kind, "--model", str(tiny), "--out", str(out), "--train", train]
            words += ["--dev", dev, "--epochs", "1", "--device", "cpu", "--precision", "fp32"]
            assert run([*words, "--learning-rate", "0.01"]) == 0
        return out

    return made
