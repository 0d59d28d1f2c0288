"""A model of random weights, labelled files of every kind, and a run of each, made once."""

from __future__ import annotations

import io
import itertools
import json
import pkgutil
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import VERBS, run
from bertwright.config.bert import BertConfig
from tests.cli.labelled import FILES, WORDS
from tests.small_bert import LETTERS, write_model

KINDS = tuple(FILES)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
Ran = Callable[..., Any]
JsonOf = Callable[..., dict[str, Any]]


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
    vocabulary = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *".,?"]
    config = BertConfig(len(vocabulary), 16, 2, 2, 24, max_position_embeddings=32)
    folder = tmp_path_factory.mktemp("tiny") / "model"
    return write_model(folder, ["masked_lm"], config, vocabulary=vocabulary, std=0.3, noise=0.0)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`KIND/train.*` and `KIND/dev.*` for every kind."""
    base = tmp_path_factory.mktemp("files")
    for kind, (suffix, write) in FILES.items():
        (base / kind).mkdir()
        for split, seed, count in (("train", 1, 24), ("dev", 2, 10)):
            text = write(random.Random(seed), count)
            (base / kind / f"{split}{suffix}").write_text(text, encoding="utf-8")
    return base


@pytest.fixture(scope="session")
def finetuned(
    tiny: Path, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The run of a kind, trained when it is first asked for."""
    base = tmp_path_factory.mktemp("runs")

    def made(kind: str) -> Path:
        out = base / kind
        if not out.exists():
            suffix = FILES[kind][0]
            given = ["--train", f"{files / kind}/train{suffix}"]
            given += ["--dev", f"{files / kind}/dev{suffix}", "--epochs", "1", "--device", "cpu"]
            words = ["finetune", kind, "--model", str(tiny), "--out", str(out), *given]
            assert run([*words, "--precision", "fp32", "--learning-rate", "0.01"]) == 0
        return out

    return made
