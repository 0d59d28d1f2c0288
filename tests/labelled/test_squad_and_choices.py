"""Questions with answers by character, and multiple choice."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import ChoiceExample, SpanExample
from bertwright.labelled.read import read_examples
from bertwright.rows.read import MemoryRows
from bertwright.tasks.catalogue import kind_of
from tests.labelled.conftest import parse

CONTEXT = "北京 is big. Paris is old 🙂 and Rome too."
SQUAD = {
    "version": "2.0",
    "data": [
        {
            "title": "Cities",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "a",
                            "question": "Which is old?",
                            "answers": [{"text": "Paris", "answer_start": 11}],
                        },
                        {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
                        {
                            "id": "c",
                            "question": "Also?",
                            "answers": [
                                {"text": "Rome", "answer_start": 31},
                                {"text": "Rome", "answer_start": CONTEXT.index("Rome")},
                            ],
                        },
                        {
                            "id": "d",
                            "question": "Where?",
                            "answers": [{"text": "too.", "answer_start": -4}],
                        },
                    ],
                }
            ],
        }
    ],
}


def test_squad_answers_are_slices_of_the_passage(write):
    read = parse(write("a.json", SQUAD), "span")
    assert read.format == "SQuAD JSON with the columns question, context, answers"
    rome = (("Rome", CONTEXT.index("Rome")),)
    assert read.examples == [
        SpanExample("Which is old?", CONTEXT, (("Paris", 11),), "a", "Cities", 1),
        SpanExample("Why?", CONTEXT, (), "b", "Cities", 2),
        SpanExample("Also?", CONTEXT, rome, "c", "Cities", 3),
    ]
    (skipped,) = read.log.skipped.values()
    assert (skipped.count, skipped.lines) == (1, [4])


def test_wrong_answers_are_kept_to_evaluate(write):
    path = write("a.json", json.dumps(SQUAD, indent=1))
    read = parse(path, "span", keep_wrong_answers=True)
    assert [len(each.answers) for each in read.examples] == [1, 0, 2, 1]
    assert (
        "2 questions have an answer that is not at its answer_start (question 3, 4)"
        in read.warnings[0]
    )


def test_squad_without_answers_to_predict(write):
    read = parse(write("a.json", SQUAD), "span", require_labels=False)
    assert [each.answers for each in read.examples] == [None] * 4
    assert read.warnings == []


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["Paris"], "answer_start": [11]},
        [{"text": "Paris", "answer_start": 11}],
    ],
)
def test_flat_rows(write, answers):
    rows = [
        {"id": 7, "question": "q", "context": CONTEXT, "answers": answers},
        {"id": 8, "question": "r", "context": CONTEXT, "answers": []},
        {"id": 9, "question": "s", "context": CONTEXT, "answers": {"text": [], "answer_start": []}},
        {"id": 10, "question": "t", "context": "c", "answers": [{"text": "", "answer_start": -1}]},
    ]  # fmt: skip
    for name, content in (("a.jsonl", "\n".join(map(json.dumps, rows))), ("b.json", rows)):
        read = parse(write(name, content), "span")
        assert [each.answers for each in read.examples] == [(("Paris", 11),), (), (), ()]
        assert [each.id for each in read.examples] == ["7", "8", "9", "10"]
    assert read.columns == Columns("question", "context", "answers")


def test_columns_of_questions_may_be_named(write):
    asked = Columns("q", "p")
    content = '{"q": "who", "p": "me", "context": "x"}'
    read = parse(write("a.jsonl", content), "span", asked, require_labels=False)
    assert read.examples == [SpanExample("who", "me", line=1)]


FORM = "answers of a wrong form: .*answer_start"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q", "context": "c"}, "no column of answers.*--label"),
        ({"question": "q", "answers": []}, "no column of passages.*--text2"),
        ({"context": "q", "answers": []}, "no column of questions.*--text"),
        ({"question": "q", "context": "c", "answers": None}, FORM),
        ({"question": "q", "context": "c", "answers": "c"}, FORM),
        ({"question": "q", "context": "c", "answers": [{"text": "c"}]}, FORM),
        ({"question": "q", "context": "c", "answers": [{"text": 5, "answer_start": 0}]}, FORM),
        (
            {"question": "q", "context": "c", "answers": {"text": ["c"]} | {"answer_start": []}},
            FORM,
        ),
        ({"question": " ", "context": "c", "answers": []}, "empty text: column 'question'"),
        ({"data": [{"paragraphs": [{"context": "x"}]}]}, r"\.json has no questions: 'qas'"),
    ],
)
def test_bad_rows_of_questions_are_refused(write, row, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.json", row), "span")


SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    '0,v,1,s,"He runs, fast.",He,gold,stops.,eats.,"sits, too.",flies.,2\n'
)


def test_swag(write):
    read = parse(write("a.csv", SWAG), "multiple-choice")
    assert read.examples == [
        ChoiceExample("He runs, fast.", ("stops.", "eats.", "sits, too.", "flies."), "He", 2, "", 2)
    ]
    assert read.columns == Columns("sent1", "sent2", "label")
    read = parse(write("a.csv", SWAG), "multiple-choice", require_labels=False)
    assert read.examples[0].label is None


@pytest.mark.parametrize(
    ("row", "text", "text2", "label"),
    [
        ({"text": "t", "question": "q", "choices": ["a", "b"], "label": 0}, "t", "q", 0),
        ({"question": "q", "choices": ["a", "b"], "label": "A"}, "q", "", 0),
        ({"article": "t", "question": "q", "options": ["a", "b"], "answer": "B"}, "t", "q", 1),
        ({"ctx_a": "t", "ctx_b": "", "ctx": "x", "endings": ["a", "b"], "label": "0"}, "t", "", 0),
        (
            {"premise": "t", "choice1": "a", "choice2": "b", "question": "cause", "label": 0},
            "t", "cause", 0,
        ),
        ({"question": "q", "choices": ["a", "b"], "answer": "b"}, "q", "", 1),
    ],
)  # fmt: skip
def test_rows_of_choices(write, row, text, text2, label):
    read = parse(write("a.jsonl", json.dumps(row)), "multiple-choice")
    assert read.examples == [ChoiceExample(text, ("a", "b"), text2, label, line=1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 3}, r"label is no choice: '3'"),
        ({"label": 1}, r"line 1: the label '1'.*--label-map 1=A 2=B .*--label-map 1=B"),
        ({"label": "Z"}, r"label is no choice: 'Z'"),
        ({"label": None}, r"label is no choice: 'None'"),
        ({"choices": ["a"]}, r"fewer than two choices: 1; expected two"),
        ({"choices": "a b"}, r"'a b' in the column 'choices'; expected a list"),
        ({"choices": ["a", ""]}, r"empty text: column 'choices'"),
        ({"text": " "}, r"empty text: column 'text'"),
    ],
)
def test_bad_choices_are_refused(write, change, message):
    row = {"text": "t", "choices": ["a", "b"], "label": 0} | change
    with pytest.raises(DataError, match=message):
        parse(write("a.jsonl", json.dumps(row)), "multiple-choice")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SWAG.replace("ending1", "ending7"), "choices are missing"),
        ("text,label\na,0\n", "no choices.*it has 'text', 'label'"),
        ("text,choice0,choice1\na,b,c\n", "no column of right choices"),
    ],
)
def test_missing_columns_of_choices_are_named(write, content, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.csv", content), "multiple-choice")


KEYS = {
    "from 0": (["0", "1", "1"], [0, 1, 1]),
    "from 1, as one is the number of choices": (["1", "3", "2"], [0, 2, 1]),
    "letters": (["A", "c", "B"], [0, 2, 1]),
    "numbers beside letters count from 1": (["1", "B", "2"], [0, 1, 1]),
    "with a 0 not even beside letters": (["0", "B", "2"], [0, 1, 2]),
}


@pytest.mark.parametrize(("keys", "indices"), KEYS.values(), ids=KEYS)
def test_answer_keys_count_as_the_file_shows(write, keys, indices):
    rows = [{"question": "q", "choices": ["x", "y", "z"], "answerKey": key} for key in keys]
    path = write("a.jsonl", "\n".join(map(json.dumps, rows)))
    read = parse(path, "multiple-choice")
    assert [each.label for each in read.examples] == indices


def test_answer_keys_that_show_both_are_an_error(write):
    rows = [{"text": "t", "choices": ["a", "b"], "label": label} for label in (1, 2, 0)]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"line 2: the label '2'.*line 3"):
        parse(path, "multiple-choice", bad_rows="skip")


def test_answer_keys_that_show_nothing_are_named_or_numbered(write):
    row = {"text": "t", "choices": ["a", "b", "c"], "label": 1}
    path = write("a.jsonl", json.dumps(row))
    for names, index in (({"1": "A", "2": "B"}, 0), ({"1": "B"}, 1)):
        (example,) = parse(path, "multiple-choice", label_map=names).examples
        assert example.label == index
    read = read_examples(MemoryRows("train", [row]), kind_of("multiple-choice").reader)
    assert read.examples[0].label == 1  # rows in memory count from 0, as Python does


@pytest.mark.parametrize(
    "choices",
    [
        {"text": ["x", "y", "z"], "label": ["1", "2", "3"]},
        [{"text": "x", "label": 1}, {"text": "y", "label": 2}, {"text": "z", "label": 3}],
    ],
)
def test_choices_with_labels_of_their_own(write, choices):
    row = {"question": "q", "choices": choices, "answerKey": "2"}
    (example,) = parse(write("a.jsonl", json.dumps(row)), "multiple-choice").examples
    assert (example.choices, example.label) == (("x", "y", "z"), 1)
    path = write("a.jsonl", json.dumps(row | {"answerKey": "4"}))
    with pytest.raises(DataError, match=r"label is no choice: '4'.*'1', '2', '3'"):
        parse(path, "multiple-choice")


ARC = {
    "question": {"stem": "q", "choices": [{"text": t, "label": t.upper()} for t in "abc"]},
    "answerKey": "B",
}
RACE = {"article": "t", "questions": ["q"], "options": [["a", "b", "c"]], "answers": ["B"]}


@pytest.mark.parametrize(
    ("name", "row", "text"), [("a.jsonl", ARC, "q"), ("7.txt", RACE, "t")], ids=["ARC", "RACE"]
)
def test_the_command_converts_questions_as_published(write, name, row, text):
    path = write(name, json.dumps(row) + "\n")
    with pytest.raises(DataError) as caught:
        parse(path, "multiple-choice")
    command = str(caught.value).partition("Convert it: ")[2]
    command = command.replace("python -c", f"{shlex.quote(sys.executable)} -c", 1)
    subprocess.run(command, shell=True, check=True, cwd=path.parent)
    (example,) = parse(path.parent / "questions.jsonl", "multiple-choice").examples
    assert (example.text, example.choices, example.label) == (text, ("a", "b", "c"), 1)
