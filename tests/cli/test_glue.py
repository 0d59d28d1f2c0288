"""`bertwright glue` over files in GLUE's own layouts: table, averages, submission, going on."""

from __future__ import annotations

import json
import shutil
import statistics
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bertwright.cli.app import run
from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import DataError
from bertwright.recipes.finetune import run as finetuning
from bertwright.recipes.finetune.training import Diverged
from bertwright.recipes.glue.run import summary
from bertwright.recipes.glue.tasks import SUBMITTED, find_tasks
from bertwright.report.glue import averages, table
from tests.cli.conftest import Ran
from tests.raising import assert_names

pytestmark = pytest.mark.slow

THINGS = ("film", "plot", "cast", "music")
QUICK = ["--epochs", "1", "--device", "cpu", "--precision", "fp32", "--learning-rate", "0.01"]


def rows(seed: int, count: int, *, pair: bool) -> list[tuple[str, int]]:
    """Texts, or pairs with a tab between, each with 0 or 1."""
    chance = Random(seed)
    found = []
    for number in range(count):
        text = f"the {chance.choice(THINGS)} was {('bad', 'good')[number % 2]}"
        found.append((f"{text}\ta {chance.choice(THINGS)}" if pair else text, number % 2))
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CoLA, MRPC as Microsoft has it, STS-B, RTE and MNLI."""
    base = tmp_path_factory.mktemp("glue")

    def write(name: str, lines: list[str]) -> None:
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    for split, seed, count in (("train", 1, 16), ("dev", 2, 8)):
        single, pairs = rows(seed, count, pair=False), rows(seed, count, pair=True)
        write(f"CoLA/{split}.tsv", [f"gj04\t{y}\t{'' if y else '*'}\t{x}" for x, y in single])
        head = "index\tsentence1\tsentence2\tlabel"
        words = ("entailment", "not_entailment")
        rte = [f"{n}\t{x}\t{words[y]}" for n, (x, y) in enumerate(pairs)]
        write(f"RTE/{split}.tsv", [head, *rte])
        scored = [f"{n}\tg\t{x}\t{4.5 * y + 0.1 * (n % 5)}" for n, (x, y) in enumerate(pairs)]
        write(f"STS-B/{split}.tsv", ["index\tgenre\tsentence1\tsentence2\tscore", *scored])
        mrpc = [f"{y}\t{n}\t{n}\t{x}" for n, (x, y) in enumerate(pairs)]
        name = {"train": "train", "dev": "test"}[split]
        names = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
        write(f"MRPC/msr_paraphrase_{name}.txt", [names, *mrpc])
        three = ("contradiction", "entailment", "neutral")
        mnli = [f"{n}\t{n}e\t{x}\tneutral\t{three[n % 3]}" for n, (x, _) in enumerate(pairs)]
        columns = "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label"
        for part in ("train",) if split == "train" else ("dev_matched", "dev_mismatched"):
            write(f"MNLI/{part}.tsv", [columns, *mnli])
    write("CoLA/test.tsv", ["index\tsentence", "0\tthe film was good", '1\ta plot was " bad'])
    pair = [f"{n + 7}\tthe film\ta plot" for n in range(3)]
    write("RTE/test.tsv", ["index\tsentence1\tsentence2", *pair])
    write("STS-B/test.tsv", ["index\tsentence1\tsentence2", *pair])
    write(
        "MNLI/test_matched.tsv", ["index\tpairID\tsentence1\tsentence2", "0\t9e\tthe film\ta plot"]
    )
    write("diagnostic/diagnostic.tsv", ["index\tsentence1\tsentence2", "0\tthe film\ta plot"])
    return base


@pytest.fixture
def glue(ran: Ran) -> Ran:
    return lambda model, data, out, *words, **code: ran(
        "glue", "--model", model, "--data", data, "--out", out, *words, **code
    )


def test_the_whole(tiny: Path, data: Path, tmp_path: Path, glue: Ran) -> None:
    out = tmp_path / "run"
    said = glue(tiny, data, out, "--seeds", "2", *QUICK)
    assert_names(said.err, data, "SST-2, QQP, QNLI, WNLI")
    whole = json.loads((out / "glue.json").read_text())
    assert list(whole["tasks"]) == ["CoLA", "MRPC", "STS-B", "MNLI", "RTE"]
    for name, metrics in (
        ("CoLA", ["matthews"]),
        ("MRPC", ["f1", "accuracy"]),
        ("STS-B", ["pearson", "spearman"]),
        ("RTE", ["accuracy"]),
    ):
        own = json.loads((out / name / "results.json").read_text())
        task = whole["tasks"][name]
        assert own["main"] == metrics[0]
        assert task["metrics"] == {metric: own["summary"][metric] for metric in metrics}
        means = [own["summary"][metric]["mean"] for metric in metrics]
        assert task["score"]["mean"] == pytest.approx(statistics.fmean(means))
        assert (task["train"], task["dev"], task["seeds"]) == (16, 8, 2)
    scores = [task["score"]["mean"] for task in whole["tasks"].values()]
    assert whole["average"] == pytest.approx(statistics.fmean(scores))
    assert "accuracy, mismatched" in whole["tasks"]["MNLI"]["more"]
    assert "5 of 9 tasks" in said.out
    written = (out / "glue.md").read_text()
    assert written.count("\n| ") == 2 + 1 + 2 + 2 + 2 + 1  # heads, CoLA, MRPC, STS-B, MNLI, RTE
    check_submission(out, whole)
    written = {path: path.stat().st_mtime_ns for path in out.glob("*/results.json")}
    assert json.loads(glue(tiny, data, out, "--seeds", "2", *QUICK, "--json").out) == whole
    printed = glue(tiny, data, out, "--seeds", "2", *QUICK, "--dropout", "0.2", code=2)
    assert "dropout" in printed.err
    assert {path: path.stat().st_mtime_ns for path in written} == written  # nothing trained again


def check_submission(out: Path, whole: dict[str, Any]) -> None:
    """What GLUE's server takes."""
    files = {path.name: path.read_text() for path in (out / "submission").iterdir()}
    assert set(files) == {"CoLA.tsv", "STS-B.tsv", "RTE.tsv", "MNLI-m.tsv", "AX.tsv"}
    assert set(whole["submission"]) == set(files)
    assert set(whole["not_submitted"]) == set(SUBMITTED) - set(files)
    cells = {name: [line.split("\t") for line in text.splitlines()] for name, text in files.items()}
    assert all(table[0] == ["index", "prediction"] for table in cells.values())
    assert [row[0] for row in cells["CoLA.tsv"][1:]] == ["0", "1"]
    assert {row[1] for row in cells["CoLA.tsv"][1:]} <= {"0", "1"}
    assert [row[0] for row in cells["RTE.tsv"][1:]] == ["7", "8", "9"]
    assert {row[1] for row in cells["RTE.tsv"][1:]} <= {"entailment", "not_entailment"}
    assert all(0 <= float(row[1]) <= 5 for row in cells["STS-B.tsv"][1:])
    three = {"contradiction", "entailment", "neutral"}
    assert {row[1] for row in cells["AX.tsv"][1:] + cells["MNLI-m.tsv"][1:]} <= three
    with zipfile.ZipFile(out / "submission.zip") as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files


def test_it_goes_on_where_it_was_interrupted(
    tiny: Path, data: Path, tmp_path: Path, glue: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, trained = tmp_path / "run", []

    def once(tasks: Any, *given: Any) -> dict[str, Any]:
        trained.append(tasks[0].name)
        if trained == ["CoLA", "RTE"]:
            raise KeyboardInterrupt
        return finetuning.finetune(tasks, *given)

    monkeypatch.setattr("bertwright.recipes.glue.run.finetune", once)
    words = ["--tasks", "CoLA", "RTE", *QUICK]
    glue(tiny, data, out, *words, code=130)
    assert not (out / "glue.json").exists()
    assert "CoLA: finished before" in glue(tiny, data, out, *words).err
    assert trained == ["CoLA", "RTE", "RTE"]
    assert run(["report", str(out / "CoLA")]) == 0
    assert run(["report", str(out)]) == 4  # the message names the tasks
    glue(tiny, data, out, *words)
    glue(tiny, data, out, *words, "--overwrite")
    assert trained[3:] == ["CoLA", "RTE"]


def test_a_task_that_diverges_does_not_stop_the_others(
    tiny: Path, data: Path, tmp_path: Path, glue: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def learn(tasks: Any, *given: Any) -> dict[str, Any]:
        if tasks[0].name == "CoLA":
            raise Diverged("diverged: every seed (0)")
        return finetuning.finetune(tasks, *given)

    monkeypatch.setattr("bertwright.recipes.glue.run.finetune", learn)
    said = glue(tiny, data, out, "--tasks", "CoLA", "RTE", *QUICK, code=1)
    assert "warning: CoLA: diverged" in said.err
    assert "1 of 9 tasks" in said.out
    whole = json.loads((out / "glue.json").read_text())
    assert (list(whole["tasks"]), whole["failed"]) == (["RTE"], ["CoLA"])
    assert whole["submission"] == ["RTE.tsv"]
    glue(tiny, data, out, "--tasks", "CoLA", *QUICK, code=1)
    assert json.loads((out / "glue.json").read_text())["tasks"] == whole["tasks"]
    glue(tiny, data, tmp_path / "alone", "--tasks", "CoLA", *QUICK, code=1)
    assert not (tmp_path / "alone" / "glue.json").exists()


def test_labels_the_server_does_not_know(tiny: Path, data: Path, tmp_path: Path, glue: Ran) -> None:
    folder = tmp_path / "glue" / "RTE"
    folder.mkdir(parents=True)
    for name in ("train", "dev", "test"):
        text = (data / "RTE" / f"{name}.tsv").read_text()
        (folder / f"{name}.tsv").write_text(text.replace("not_entailment", "no"))
    output = glue(tiny, tmp_path / "glue", tmp_path / "run", *QUICK, "--json")
    assert_names(output.err, "RTE", "server")
    whole = json.loads(output.out)
    assert whole["submission"] == []
    assert any("server" in warning for warning in whole["tasks"]["RTE"]["warnings"])
    assert not (tmp_path / "run" / "submission.zip").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--tasks", "COLA2"], 2, "'COLA2'"),
        (["--tasks", "QQP"], 4, "QQP/train.tsv"),
        (["--data", "nowhere"], 4, "nowhere"),
        (["--epoch", "1"], 2, "--epochs"),
        (["--train", "x"], 2, "--train"),
    ],
)
def test_what_it_refuses(
    tiny: Path, data: Path, tmp_path: Path, ran: Ran, words: list[str], code: int, message: str
) -> None:
    given = [] if "--data" in words else ["--data", data]
    out = tmp_path / "run"
    assert message in ran("glue", "--model", tiny, "--out", out, *given, *words, code=code).err
    assert not out.exists()


def test_it_touches_no_other_folder(tiny: Path, data: Path, tmp_path: Path, glue: Ran) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    printed = glue(tiny, data, tmp_path, *QUICK, "--overwrite", code=2)
    assert "thesis.txt" in printed.err


def test_there_is_no_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no task of GLUE"):
        find_tasks(tmp_path)


def test_the_average_without_wnli() -> None:
    def task(score: float) -> dict[str, Any]:
        found = {"mean": score, "sd": 0.01, "max": score}
        return {
            "metrics": {"accuracy": found},
            "score": found,
            "seeds": 3,
            "degenerate": 1,
            "train": 1000,
            "dev": 100,
            "baselines": {"majority": {"accuracy": 0.5}},
            "more": {},
        }

    config = FinetuneConfig("m", "out")
    whole = summary(config, {"RTE": task(0.7), "SST-2": task(0.9), "WNLI": task(0.5)}, [], [], [])
    assert_names(averages(whole), "3 of 9 tasks", "70.0", "80.0 without WNLI")
    columns, found = table(whole)
    assert columns[-2:] == ["majority", "notes"]
    row = ["RTE", "1,000", "100", "accuracy", "70.0% ± 1.0", "70.0%", "3", "50.0%", "1 degenerate"]
    assert found[0] == row


def test_tasks_that_come_one_by_one_stand_in_one_table(
    tiny: Path, data: Path, tmp_path: Path, glue: Ran
) -> None:
    out, own = tmp_path / "run", tmp_path / "GLUE"
    shutil.copytree(data, own)
    glue(tiny, own, out, "--tasks", "CoLA", *QUICK)
    printed = glue(tiny, own, out, "--tasks", "STS-B", *QUICK, "--baselines", code=2)
    assert_names(printed.err, "CoLA", "baselines")
    glue(tiny, own, out, "--tasks", "STS-B", *QUICK)
    whole = json.loads((out / "glue.json").read_text())
    assert list(whole["tasks"]) == ["CoLA", "STS-B"]
    assert {path.name for path in (out / "submission").iterdir()} == {"CoLA.tsv", "STS-B.tsv"}
    assert whole["tasks"]["CoLA"]["score"]["sd"] is None  # of one seed nobody knows it

    # the server wants a prediction for every row
    with (own / "CoLA" / "test.tsv").open("a") as file:
        file.write("2\t\n")
    printed = glue(tiny, own, out, "--tasks", "CoLA", *QUICK)
    assert [path.name for path in (out / "submission").iterdir()] == ["STS-B.tsv"]
    assert_names(printed.err, "every row", "CoLA.tsv")
