"""`metrics.jsonl` and the line on the screen."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bertwright.errors import DataError, MissingExtra
from bertwright.train.log import Log, describe, read_records, summary_writer
from tests.raising import assert_names

TITLES = {"masked_lm": "masked LM", "next_sentence": "next sentence"}
RECORD = {
    "step": 1200,
    "tokens": 4_915_200,
    "seconds": 61.5,
    "split": "train",
    "loss": 5.5,
    "masked_lm.loss": 4.8125,
    "masked_lm.accuracy": 0.1875,
    "learning_rate": 2.5e-4,
    "gradient_norm": 0.754,
    "tokens_per_second": 79921.0,
    "utilization": 0.61,
    "memory_gb": 1.26,
}


def test_the_line_of_a_step() -> None:
    assert_names(
        describe(RECORD, TITLES, done=0.251, left=3723.2),
        *("step 1,200", "25%", "masked LM 4.812 (18.8%)", "2.5e-04", "0.75", "79,921 tokens/s"),
        *("61%", "1.3 GB", "1:02:04"),
    )


def test_the_line_of_a_validation() -> None:
    record = {
        "step": 7,
        "split": "dev",
        "loss": 5.5,
        "masked_lm.loss": 5.0,
        "masked_lm.accuracy": 0.1,
        "next_sentence.loss": 0.5,
        "next_sentence.accuracy": 0.75,
    }
    line = describe(record, TITLES)
    assert_names(line, "step 7 held-out", "masked LM 5.000 (10.0%)", "next sentence 0.500 (75.0%)")


def test_the_line_of_a_task_has_its_first_metrics() -> None:
    metrics = {"macro_f1": 0.5, "accuracy": 0.625, "mcc": 0.25, "f1.a": 0.1, "f1.b": 0.2}
    record = {"step": 7, "tokens": 9, "seconds": 1.5, "split": "dev", "epoch": 2.0, "seed": 3}
    line = describe({**record, **metrics}, TITLES)
    assert_names(line, "step 7 held-out", "macro f1 0.5000", "accuracy 0.6250", "mcc 0.2500")
    assert "f1.b" not in line
    assert describe({**record, **metrics, "split": "train"}, TITLES) == "step 7"


def test_a_loss_without_an_accuracy() -> None:
    record = {"step": 7, "split": "train", "loss": 2.5, "number.loss": 2.5}
    assert describe(record, TITLES) == "step 7 · number 2.500"


def test_more_than_done_is_all() -> None:
    assert " · 100% · " in describe(RECORD, TITLES, done=1.004)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_records_are_lines(tmp_path: Path, bad: float) -> None:
    said: list[str] = []
    log = Log(tmp_path, said.append)
    log.write(RECORD)
    log.write({**RECORD, "step": 1300, "loss": bad}, done=0.5)
    log.say("something else")
    log.close()
    first, second = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(first) == RECORD
    assert json.loads(second)["loss"] is None  # JSON has neither
    assert len(said) == 3
    assert said[2] == "something else"
    assert log.records == 2


def test_a_line_is_there_at_once(tmp_path: Path) -> None:
    log = Log(tmp_path, lambda line: None)
    log.write(RECORD)
    assert read_records(tmp_path / "metrics.jsonl") == [RECORD]
    log.close()


def test_what_came_after_the_checkpoint_is_taken_back(tmp_path: Path) -> None:
    log = Log(tmp_path, lambda line: None)
    for step in range(1, 6):
        log.write({**RECORD, "step": step})
    log.close()
    path = tmp_path / "metrics.jsonl"
    with path.open("a") as file:
        file.write('{"step": 6, "lo')
    assert [record["step"] for record in read_records(path)] == [1, 2, 3, 4, 5]
    log = Log(tmp_path, lambda line: None, keep=3)
    assert log.records == 3
    log.write({**RECORD, "step": 40})
    log.close()
    assert [record["step"] for record in read_records(path)] == [1, 2, 3, 40]
    assert [place.name for place in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_labels_are_in_every_record_and_what_others_told_may_stay(tmp_path: Path) -> None:
    for seed in (1, 2):
        log = Log(tmp_path, lambda line: None, keep=-1, labels={"seed": seed})
        log.write(RECORD)
        log.close()
    assert read_records(tmp_path / "metrics.jsonl") == [{**RECORD, "seed": n} for n in (1, 2)]


def test_a_line_that_is_cut_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(write=lambda line: len(line) - 1, name="metrics.jsonl")
    with monkeypatch.context() as patch:
        opened = Path.open
        patch.setattr(
            Path,
            "open",
            lambda path, mode, **kw: full if mode == "ab" else opened(path, mode, **kw),
        )
        log = Log(tmp_path, lambda line: None)
    with pytest.raises(OSError, match=r"metrics\.jsonl") as caught:
        log.write(RECORD)
    assert caught.value.errno == errno.ENOSPC
    assert log.records == 0


@pytest.mark.parametrize("damaged", ['{"step": ', "[1]"])
def test_a_damaged_line_is_named(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n' + damaged + "\n")
    with pytest.raises(DataError, match=r"metrics\.jsonl, line 2"):
        read_records(tmp_path / "metrics.jsonl")


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    Log(tmp_path, lambda line: None).close()
    assert read_records(tmp_path / "metrics.jsonl") == []


def test_a_log_that_was_deleted(tmp_path: Path) -> None:
    log = Log(tmp_path, lambda line: None, keep=5)
    assert log.records == 0
    log.close()


class Board:
    """What TensorBoard would be told."""

    made: list[Board]
    told: list[tuple[str, float, int]]

    def __init__(self, folder: str, purge_step: int) -> None:
        self.folder, self.purge_step, self.told, self.closed = folder, purge_step, [], False
        self.flushed = 0
        Board.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told.append((name, value, step))

    def flush(self) -> None:
        self.flushed = len(self.told)

    def close(self) -> None:
        self.closed = True


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Board.made = []
    monkeypatch.setattr("bertwright.train.log.summary_writer", lambda: Board)
    log = Log(tmp_path, lambda line: None, tensorboard=True, step=17)
    log.write(RECORD)
    (board,) = Board.made
    assert board.flushed == len(board.told)  # a kill would lose what is not
    log.close()
    assert board.purge_step == 18
    assert board.closed
    assert ("train/masked_lm.loss", 4.8125, 1200) in board.told
    assert len(board.told) == len(RECORD) - 1


def test_tensorboard_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"bertwright\[tensorboard\]"):
        summary_writer()
