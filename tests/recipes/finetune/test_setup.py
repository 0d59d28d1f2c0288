"""What a task learns from and is judged by: held-out examples, unseen labels, metrics, schemes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bertwright.config.finetune import FinetuneConfig
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import TextExample
from bertwright.recipes.finetune.setup import TaskSetup, TaskSpec, hold_out, set_up
from bertwright.tasks.catalogue import files_and_options, kind_of
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from tests.task_files import SPEC, write_files


def made(
    model: Path,
    kind: str,
    train: Path,
    dev: Path | None = None,
    trained: int | None = None,
    **files: Any,
) -> TaskSetup:
    keys = {"train": str(train), "dev": str(dev) if dev else None, **files}
    asked = TaskSpec("task", kind, *files_and_options(kind, keys))
    config = FinetuneConfig(str(model), "o")
    return set_up(asked, config, load_tokenizer(model), SPEC, lambda line: None, trained)


def test_a_text_that_comes_again_is_on_one_side() -> None:
    texts = [TextExample(str(n % 60), label="ab"[n % 2]) for n in range(120)]
    for seed in range(5):
        train, dev = hold_out(texts, kind_of("classification"), seed)
        assert len(dev) == 12
        assert not {e.text for e in train} & {e.text for e in dev}


def test_what_is_held_out_is_a_tenth_beside_a_large_group() -> None:
    texts = [TextExample("again", label="a")] * 100
    texts += [TextExample(str(n), label="ab"[n % 2]) for n in range(100)]
    for seed in range(8):
        train, dev = hold_out(texts, kind_of("classification"), seed)
        assert (len(train), len(dev)) == (180, 20)


def test_weights_of_classes_leave_the_loss_its_size(model: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.tsv"
    one.write_text("text\tlabel\n" + "a\tx\n" * 3 + "b\ty\n" * 9)
    several = tmp_path / "several.tsv"
    several.write_text("text\tlabel\n" + "a\tx,y\n" * 3 + "b\ty\n" * 6)
    for path, several_hold, expected in ((one, False, [2, 2 / 3]), (several, True, [1.5, 0.5])):
        weighted = {"multi_label": several_hold, "class_weights": "balanced"}
        setup = made(model, "classification", path, path, **weighted)
        assert setup.class_weights is not None
        assert setup.class_weights.tolist() == pytest.approx(expected)


def test_windows_are_as_long_as_the_model_was_trained_on(model: Path, tmp_path: Path) -> None:
    train, dev = write_files(tmp_path, "classification")
    for trained, given, length in ((None, None, SPEC.max_length), (16, None, 16), (16, 24, 24)):
        setup = made(model, "classification", train, dev, trained, max_length=given)
        assert setup.task.max_length == length
        told = [line for line in setup.warnings if "was trained on 16 tokens at once" in line]
        assert len(told) == (given is not None)


def test_an_unseen_label_of_dev_has_its_line_and_the_nearest(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "a\tgood\nb\tbad\n" * 4)
    (tmp_path / "b.tsv").write_text("text\tlabel\na\tgood\nb\tgod\n")
    with pytest.raises(DataError, match=r"line 3: .*'good'"):
        made(model, "classification", tmp_path / "a.tsv", tmp_path / "b.tsv")
    (tmp_path / "a.conll").write_text("a B-PER\nb O\n\n" * 4)
    (tmp_path / "b.conll").write_text("a B-PER\nb O\nc B-PRE\n")
    with pytest.raises(DataError, match=r"line 1: .*'B-PRE'.*'B-PER'"):
        made(model, "tagging", tmp_path / "a.conll", tmp_path / "b.conll")


def test_dev_comes_in_the_scheme_of_train_or_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a B-X\nb I-X\nc O\n\n" * 4)
    (tmp_path / "b.conll").write_text("a B-X\nb E-X\nc S-X\n")
    setup = made(model, "tagging", tmp_path / "a.conll", tmp_path / "b.conll")
    assert setup.dev.examples[0].tags == ("B-X", "I-X", "B-X")
    assert setup.facts["dev"]["format"].endswith("IOBES, given as IOB2")
    (tmp_path / "b.conll").write_text("a NN\nb VB\n")
    with pytest.raises(DataError, match="line 1, word 1: the tag 'NN'"):
        made(model, "tagging", tmp_path / "a.conll", tmp_path / "b.conll")


def test_dev_with_one_class_is_warned_of(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "a\tgood\nb\tbad\n" * 4)
    (tmp_path / "b.tsv").write_text("text\tlabel\nc\tgood\nd\tgood\n")
    setup = made(model, "classification", tmp_path / "a.tsv", tmp_path / "b.tsv")
    assert any("all have the label 'good'" in each for each in setup.warnings)


def test_what_dev_shares_with_train_is_counted(model: Path, tmp_path: Path) -> None:
    lines = ["a\tgood", "b\tbad", "c\tgood", "d\tbad"]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    for rows, share in ((lines[:2], "all 2 inputs"), ([*lines[:2], "e\tbad"], "2 of 3 inputs")):
        (tmp_path / "b.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
        setup = made(model, "classification", tmp_path / "a.tsv", tmp_path / "b.tsv")
        assert any(each.startswith(f"{share} of ") for each in setup.warnings), setup.warnings
        assert setup.facts["dev"]["in_train"] == 2


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        ("regression", {"multi_label": True}, "multi_label .*of classification"),
        ("tagging", {"multi_label": True}, "multi_label .*of classification"),
        ("classification", {"context": "document"}, "context .*of tagging"),
        ("span", {"context": "document"}, "context .*of tagging"),
        ("regression", {"class_weights": "balanced"}, "class_weights .*of classification"),
        ("multiple-choice", {"class_weights": "balanced"}, "class_weights .*of classification"),
        ("tagging", {"class_weights": "balanced", "crf": True}, "leave out class_weights or crf"),
    ],
)
def test_settings_of_another_kind_are_refused(
    model: Path, tmp_path: Path, kind: str, setting: dict[str, Any], message: str
) -> None:
    train, dev = write_files(tmp_path, kind)
    with pytest.raises(ConfigError, match=message):
        made(model, kind, train, dev, **setting)


def test_dev_may_have_its_columns_elsewhere(model: Path, tmp_path: Path) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("good\ta fine film\nbad\ta dull one\n" * 4)
    dev.write_text("7\ta fine one\tgood\n8\ta dull film\tbad\n")
    columns = {"text": "2", "label": "1", "dev_text": "2", "dev_label": "3"}
    setup = made(model, "classification", train, dev, **columns)
    found = [(e.text, e.label) for e in setup.dev.examples if isinstance(e, TextExample)]
    assert found == [("a fine one", "good"), ("a dull film", "bad")]
