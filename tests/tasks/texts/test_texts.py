"""Texts and pairs as ids: windows, segments, labels, and what cannot be used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.labelled.examples import TextExample
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.instances import Instance, make_windows
from bertwright.tasks.texts.kind import ClassificationKind
from bertwright.tasks.texts.options import ClassificationOptions, ClassificationTask, RegressionTask
from tests.tasks.sample import LETTERS, TOKENIZER, ids_of

TASK = ClassificationTask(labels=("neg", "pos"), max_length=12, stride=3)
CLS, SEP = TOKENIZER.special_id("cls"), TOKENIZER.special_id("sep")


def one(text: str, text2: str | None = None, task: TaskConfig = TASK) -> Instance:
    """The instance of one example."""
    (instance,), _ = ClassificationKind().make(task, TOKENIZER, [TextExample(text, text2)])
    return instance


def test_a_text_and_a_pair_are_as_the_tokenizer_encodes_them() -> None:
    single, pair = one("a bc d"), one("a b", "c de")
    encoding = TOKENIZER.encode("a bc d")
    assert (list(single.ids[0]), list(single.segments[0])) == (encoding.ids, encoding.type_ids)
    encoding = TOKENIZER.encode("a b", "c de")
    assert (list(pair.ids[0]), list(pair.segments[0])) == (encoding.ids, encoding.type_ids)
    assert single.label is None


@given(st.integers(0, 60), st.none() | st.integers(0, 60))
def test_no_token_is_lost(first: int, second: int | None) -> None:
    texts = [list(range(100, 100 + first)), list(range(200, 200 + (second or 0)))]
    all_ids, all_types, lost = make_windows(
        TASK, TOKENIZER.framing, texts[0], None if second is None else texts[1]
    )
    seen: tuple[set[int], set[int]] = set(), set()
    for ids, types in zip(all_ids, all_types, strict=True):
        assert len(ids) == len(types) <= TASK.max_length
        parts = [[i for i, t in zip(ids, types, strict=True) if t == kind] for kind in (0, 1)]
        assert list(ids) == [*parts[0], *parts[1]]
        assert parts[0][0] == CLS
        bare = parts[0][1:-1], parts[1][:-1]
        assert [part[-1:] for part in parts] == [[SEP], [] if second is None else [SEP]]
        for text, part, known in zip(texts, bare, seen, strict=True):
            assert not part or part == text[part[0] - text[0] :][: len(part)]  # a slice
            known.update(part)
    assert seen == (set(texts[0]), set(texts[1]))
    assert lost == 0


def test_windows_of_a_long_text_and_pair() -> None:
    letters = ids_of(" ".join(LETTERS[:14]))
    long = one(" ".join(LETTERS[:14]))
    assert [list(ids) for ids in long.ids] == [
        [CLS, *letters[0:8], SEP],
        [CLS, *letters[5:14], SEP],
    ]
    pair = one("x y", " ".join(LETTERS[:14]))
    x = ids_of("x y")
    assert list(pair.ids[0][:4]) == [CLS, *x, SEP] == list(pair.ids[1][:4])
    assert list(pair.segments[0]) == [0, 0, 0, 0, *[1] * (len(pair.ids[0]) - 4)]
    assert pair.num_tokens == sum(len(ids) for ids in pair.ids)


def test_lengths_tell_what_was_read_in_windows() -> None:
    examples = [TextExample("a b"), TextExample(" ".join(LETTERS)), TextExample("a", "b c")]
    instances, lengths = ClassificationKind().make(TASK, TOKENIZER, examples)
    assert [instance.example for instance in instances] == [0, 1, 2]
    assert lengths.examples == 3
    assert lengths.tokens == [4, 28, 6]
    assert lengths.windows == sum(len(instance.ids) for instance in instances) == 6
    assert lengths.in_windows == 1
    assert (lengths.cut, lengths.tokens_cut) == (0, 0)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("pair", [False, True])
def test_a_very_long_text_is_read_in_so_many_windows(most: int, pair: bool) -> None:
    task = replace(TASK, max_windows=most)
    text = " ".join(LETTERS)
    example = TextExample(text, text if pair else None)
    (instance,), lengths = ClassificationKind().make(task, TOKENIZER, [example])
    read = {token for ids in instance.ids for token in ids} - {CLS, SEP}
    assert len(instance.ids) == most
    assert list(instance.ids[0][:5]) == [CLS, *ids_of("a b c d")]
    assert all(len(ids) == TASK.max_length for ids in instance.ids)
    assert lengths.cut == 1
    if not pair:
        assert lengths.tokens_cut == 26 - len(read)
        assert read == set(ids_of(" ".join(LETTERS[: len(read)])))
    assert str(lengths.tokens_cut) in lengths.warnings(ClassificationKind().room(task))[0]


def test_windows_of_one_text_hold_a_bounded_number_of_tokens() -> None:
    long = TextExample("a " * 100_000)
    (instance,), _ = ClassificationKind().make(RegressionTask(), TOKENIZER, [long])
    assert 8000 < instance.num_tokens <= 8192


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [
        TextExample(c * (1 + n % 5), None if n % 3 else "b c") for n, c in enumerate("abc" * 9)
    ]
    whole, _ = ClassificationKind().make(TASK, TOKENIZER, examples)
    monkeypatch.setattr("bertwright.tasks.instances.AT_ONCE", 4)
    assert ClassificationKind().make(TASK, TOKENIZER, examples)[0] == whole


def test_special_tokens_in_a_text_are_themselves() -> None:
    assert list(one("a [SEP] b").ids[0]) == [CLS, *ids_of("a"), SEP, *ids_of("b"), SEP]
    assert list(one("a", "[MASK] b").ids[0])[3] == TOKENIZER.mask_id


def test_a_text_of_which_nothing_is_left_is_read_empty() -> None:
    instances, lengths = ClassificationKind().make(TASK, TOKENIZER, [TextExample("\u200b")])
    assert list(instances[0].ids[0]) == [CLS, SEP]
    assert lengths.tokens == [2]


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (TextExample("", line=7), "line 7: text "),
        (TextExample(" \t", line=0), "example 1: text "),
        (TextExample("a", " ", line=3), "line 3: text2 "),
    ],
)
def test_bad_examples(example: TextExample, message: str) -> None:
    with pytest.raises(DataError) as error:
        ClassificationKind().make(TASK, TOKENIZER, [TextExample("a"), example])
    assert message in str(error.value)


def test_labels() -> None:
    def labels(task: TaskConfig, *values: str | float | tuple[str, ...] | None) -> list[object]:
        examples = [TextExample("a", label=value) for value in values]
        kind = kind_of(task.kind)
        return [instance.label for instance in kind.make(task, TOKENIZER, examples)[0]]

    assert labels(TASK, "pos", "neg", None) == [1, 0, None]
    several = ClassificationTask(
        labels=("x", "y", "z"), options=ClassificationOptions(multi_label=True)
    )
    assert labels(several, ("z", "x"), (), "y") == [(0, 2), (), (1,)]
    number = RegressionTask()
    assert labels(number, 2.5, 3) == [2.5, 3.0]


def test_parts_of_long_texts_hold_fewer_examples(monkeypatch):
    from bertwright.tasks import task_data

    monkeypatch.setattr(task_data, "PART_CHARACTERS", 30)
    monkeypatch.setattr(task_data, "TaskData", lambda name, task, tokenizer, part: [*part])
    examples = [TextExample("a" * 20) for _ in range(7)]
    task = ClassificationTask(labels=("x", "y"))
    parts = [*task_data.task_parts("task", task, None, examples, 3)]
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    short = [TextExample("a") for _ in range(7)]
    assert [len(part) for part in task_data.task_parts("task", task, None, short, 3)] == [3, 3, 1]
