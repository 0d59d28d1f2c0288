"""Small files of every form that readers take: labelled, corpora, pairs, tests of word vectors.

`inventory.py` notes which of them are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

TEXTS = ("the fox sees it", "a baker sells bread", "the owl sleeps", "it finds the old boat")
WORDS = [f"{text} {number}" for number in ("once", "twice", "again") for text in TEXTS]
ALIKE = [("cat", "dog"), ("fox", "owl"), ("baker", "farmer"), ("bread", "lamp"), ("boat", "coat")]
"""Words that are near each other, for tests of word vectors."""
LABELS = ["animal", "person"] * 6


def table(separator: str, *columns: Sequence[object], header: Sequence[str] = ()) -> str:
    """Return rows of fields, with a header or without."""
    rows = [header] if header else []
    rows += [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    return "".join(separator.join(row) + "\n" for row in rows)


def json_lines(**columns: Sequence[Any]) -> str:
    """Return an object a line."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_array(lines: str) -> str:
    """Return JSON lines as one array."""
    return json.dumps([json.loads(line) for line in lines.splitlines()])


def tagged(line: Callable[[int, str], str]) -> str:
    """Return sentences in columns, a word a line."""
    return "".join(
        "".join(line(n, word) + "\n" for n, word in enumerate(text.split(), 1)) + "\n"
        for text in WORDS
    )


PEOPLE = {"fox": "B-ANIMAL", "owl": "B-ANIMAL", "baker": "B-PERSON"}
ENTITIES = [
    [[start, start + len(word), PEOPLE[word][2:]] for word in text.split() if word in PEOPLE
     for start in [text.index(word)]]
    for text in WORDS
]  # fmt: skip
OBJECTS = [
    [{"start": start, "end": end, "label": label} for start, end, label in of_text]
    for of_text in ENTITIES
]
SECOND = [f"later {text}" for text in WORDS]
SCORES = [n % 5 / 2 for n in range(len(WORDS))]
TAGGED = json_lines(
    tokens=[t.split() for t in WORDS],
    ner_tags=[[PEOPLE.get(w, "O") for w in t.split()] for t in WORDS],
)
CHOICES = {"sent1": WORDS, "sent2": ["it"] * 12, "ending0": SECOND, "ending1": WORDS,
           "label": [n % 2 for n in range(12)]}  # fmt: skip
ROWS = json_lines(text=WORDS, label=LABELS)


def answer(text: str) -> dict[str, Any]:
    """Return the second word of a text as the answer to a question, as SQuAD has it."""
    word = text.split()[1]
    return {"text": word, "answer_start": text.index(word)}


def question(text: str) -> dict[str, Any]:
    """Return a paragraph of SQuAD."""
    return {"context": text, "qas": [{"id": text, "question": "who ?", "answers": [answer(text)]}]}


def choice(label: str) -> dict[str, Any]:
    """Return an annotation of Label Studio."""
    value = {"choices": [label]}
    return {"result": [{"type": "choices", "from_name": "label", "value": value}]}


ANSWERS = json_lines(
    question=["who ?"] * 12, context=WORDS, answers=[[answer(text)] for text in WORDS]
)
ARTICLES = [{"title": "a", "paragraphs": [question(text) for text in [*dict.fromkeys(WORDS)]]}]
STUDIO = [
    {"id": text, "data": {"text": text}, "annotations": [choice(label)]}
    for text, label in zip(WORDS, LABELS, strict=True)
]
FORMS: dict[str, dict[str, str]] = {
    "classification": {
        "TSV, header.tsv": table("\t", WORDS, LABELS, header=("text", "label")),
        "TSV, no header.tsv": table("\t", WORDS, LABELS),
        "TSV, other header.tsv": table("\t", WORDS, LABELS, header=("phrase", "polarity")),
        "CSV.csv": table(",", WORDS, LABELS, header=("text", "label")),
        "CSV, semicolons.csv": table(";", WORDS, LABELS, header=("text", "label")),
        "CSV, sep=.csv": "sep=;\n" + table(";", WORDS, LABELS, header=("text", "label")),
        "JSON lines.jsonl": ROWS,
        "JSON lines.ndjson": ROWS,
        "JSON array.json": as_array(ROWS),
        "JSON data.json": json.dumps({"data": json.loads(as_array(ROWS))}),
        "Label Studio.json": json.dumps(STUDIO),
        "fastText.txt": table(" ", [f"__label__{each}" for each in LABELS], WORDS),
        "pair.tsv": table("\t", WORDS, SECOND, LABELS, header=("sentence1", "sentence2", "label")),
        "CoLA.tsv": table("\t", ["gj04"] * 12, ["1", "0"] * 6, [""] * 12, WORDS),
    },
    "classification --multi-label": {
        "lists.jsonl": json_lines(text=WORDS, labels=[["a"], ["a", "b"], []] * 4),
        "commas.csv": table(",", WORDS, ['"a, b"', "a"] * 6, header=("text", "labels")),
        "semicolons.tsv": table("\t", WORDS, ["a;b", "a"] * 6, header=("text", "labels")),
        "lists as text.tsv": table("\t", WORDS, ["['a', 'b']", "['a']"] * 6,
                                   header=("text", "labels")),
        "0 and 1.jsonl": json_lines(text=WORDS, labels=[[0, 1], [1, 1], [0, 0]] * 4),
        "columns of 0 and 1.csv": table(",", WORDS, [0, 1] * 6, [1, 1, 0] * 4,
                                        header=("text", "toxic", "threat")),
        "fastText.txt": table(" ", ["__label__a __label__b", "__label__a"] * 6, WORDS),
    },
    "regression": {
        "TSV.tsv": table("\t", WORDS, SCORES, header=("text", "score")),
        "pair.csv": table(",", WORDS, SECOND, SCORES, header=("sentence1", "sentence2", "score")),
    },
    "tagging": {
        "CoNLL, two columns.conll": tagged(lambda n, w: f"{w} {PEOPLE.get(w, 'O')}"),
        "CoNLL, four columns.txt": tagged(lambda n, w: f"{w} X Y {PEOPLE.get(w, 'O')}"),
        "CoNLL, tag first.conll": tagged(lambda n, w: f"{PEOPLE.get(w, 'O')}\t{w}"),
        "CoNLL, comments.conll": "# id 1\n" + tagged(lambda n, w: f"{w} {PEOPLE.get(w, 'O')}"),
        "GermEval.tsv": "#\ttext\n"
        + tagged(lambda n, w: f"{n}\t{w}\t{PEOPLE.get(w, 'O')}\tO"),
        "CoNLL-U.conllu": tagged(
            lambda n, w: f"{n}\t{w}\t{w}\t{'NOUN' if w in PEOPLE else 'X'}\tX\t_\t0\troot\t_\t_"
        ),
        "sentence a line.txt": "".join(
            f"{t}\t{' '.join(PEOPLE.get(w, 'O') for w in t.split())}\n" for t in WORDS
        ),
        "word a row.csv": "Sentence #,Word,Tag\n"
        + "".join(
            f"{'Sentence ' + str(n) if not at else ''},{w},{PEOPLE.get(w, 'O')}\n"
            for n, t in enumerate(WORDS)
            for at, w in enumerate(t.split())
        ),
        "tokens and tags.jsonl": TAGGED,
        "tokens and tags.json": as_array(TAGGED),
        "spans as lists.jsonl": json_lines(text=WORDS, label=ENTITIES),
        "spans as objects.jsonl": json_lines(text=WORDS, spans=OBJECTS),
        "spaCy.json": json.dumps(
            [[t, {"entities": e}] for t, e in zip(WORDS, ENTITIES, strict=True)]
        ),
    },
    "span": {
        "SQuAD.json": json.dumps({"version": "1.1", "data": ARTICLES}),
        "rows.jsonl": ANSWERS,
    },
    "multiple-choice": {
        "SWAG.csv": table(",", *CHOICES.values(), header=tuple(CHOICES)),
        "choices.jsonl": json_lines(context=WORDS, question=["who ?"] * 12,
                                    choices=[["a fox", "an owl"]] * 12, answer=["A", "B"] * 6),
        "ARC.jsonl": json_lines(
            question=[{"stem": t, "choices": [{"text": "a", "label": "A"},
                                              {"text": "b", "label": "B"}]} for t in WORDS],
            answerKey=["A", "B"] * 6),
    },
    "generation": {
        "source and target.jsonl": json_lines(source=WORDS, target=SECOND),
        "E2E.csv": table(",", WORDS, SECOND, header=("mr", "ref")),
        "Alpaca.json": as_array(json_lines(instruction=["repeat"] * 12, input=WORDS,
                                           output=SECOND)),
    },
    "similarity": {
        "pairs.tsv": table("\t", WORDS, SECOND, header=("anchor", "positive")),
        "pairs, no header.tsv": table("\t", WORDS, SECOND),
        "triplets.jsonl": json_lines(anchor=WORDS, positive=SECOND, negative=WORDS[::-1]),
        "negatives.jsonl": json_lines(query=WORDS, positive=SECOND,
                                      negatives=[["a", "b"]] * 12),
        "scores.csv": table(",", WORDS, SECOND, SCORES,
                            header=("sentence1", "sentence2", "score")),
        "labels.csv": table(",", WORDS, SECOND, ["entailment", "contradiction"] * 6,
                            header=("premise", "hypothesis", "gold_label")),
        "FlagEmbedding.jsonl": json_lines(query=WORDS, pos=[[s] for s in SECOND],
                                          neg=[["a", "b"]] * 12),
        "arrays.jsonl": "".join(json.dumps(row) + "\n"
                                for row in zip(WORDS, SECOND, strict=True)),
        "sets.jsonl": json_lines(set=list(zip(WORDS, SECOND, strict=True))),
        "hard_neg.csv": table(",", WORDS, SECOND, WORDS[::-1],
                              header=("sent0", "sent1", "hard_neg")),
    },
    "data build": {
        "text.txt": "\n".join(WORDS) + "\n",
        "rows.jsonl": json_lines(text=WORDS),
        "table.csv": table(",", WORDS, LABELS, header=("text", "label")),
        "table.tsv": table("\t", WORDS, LABELS, header=("text", "label")),
        "array.json": as_array(json_lines(text=WORDS)),
    },
    "data build --parallel": {
        "pairs.tsv": table("\t", WORDS, SECOND, header=("de", "en")),
        "pairs.csv": table(",", WORDS, SECOND, header=("source", "target")),
        "pairs.jsonl": json_lines(translation=[{"de": a, "en": b}
                                               for a, b in zip(WORDS, SECOND, strict=True)]),
    },
    "words evaluate": {
        "ratings.txt": table(" ", *zip(*ALIKE, strict=True), range(5)),
        "ratings.csv": table(",", *zip(*ALIKE, strict=True), range(5),
                             header=("Word 1", "Word 2", "Human")),
        "analogies.txt": ": animals\ncat dog fox owl\nfox owl cat dog\n",
    },
    "perplexity --pairs": {
        "good and bad.tsv": table("\t", WORDS, SECOND, header=("good", "bad")),
        "BLiMP.jsonl": json_lines(sentence_good=WORDS, sentence_bad=SECOND),
    },
}  # fmt: skip
"""Kind of task or verb -> name of a form, which ends as its file does -> content."""
