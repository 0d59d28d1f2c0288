"""Every labelled file of the shared data is read, to the last example its README counts."""

from __future__ import annotations

import pytest

from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import labels_of
from bertwright.labelled.file import ReadOptions
from bertwright.labelled.read import read_examples
from bertwright.labelled.squad import ANSWERS
from bertwright.labelled.tagged.sentences import TAGS
from bertwright.labelled.texts import CLASSES, NUMBERS

CLASSIFICATION = {
    "glue/CoLA/{}.tsv": ({"train": 8551, "dev": 1043}, 2),
    "glue/SST-2/{}.tsv": ({"train": 67349, "dev": 872}, 2),
    "glue/RTE/{}.tsv": ({"train": 2490, "dev": 277}, 2),
    "glue/WNLI/{}.tsv": ({"train": 635, "dev": 71}, 2),
    "glue/QQP/{}.tsv": ({"train": 18791, "dev": 2352}, 2),
    "glue/MRPC/msr_paraphrase_{}.txt": ({"train": 4076, "test": 1725}, 2),
    "classification/IMDb/{}.jsonl.xz": ({"train": 24999, "test": 25000}, 2),
    "classification/AG-News-10k/{}.tsv": ({"train": 10001, "test": 7600}, 4),
    "classification/TREC-6/{}.tsv": ({"train": 5452, "test": 500}, 6),
    "classification/SST-5/{}.tsv": ({"train": 8544, "dev": 1101, "test": 2210}, 5),
    "pairs/SICK/{}.tsv": ({"train": 4500, "dev": 500, "test": 4927}, 3),
    "chinese/ChnSentiCorp/{}.tsv": ({"train": 9600, "dev": 1200}, 2),
    "chinese/THUCNews-headlines/{}.tsv": ({"train": 10000, "test": 10000}, 10),
    "chinese/AFQMC/{}.tsv": ({"train": 34334, "dev": 4316}, 2),
}
NO_HEADER = {
    "CoLA": Columns("4", None, "2"),
    "ChnSentiCorp": Columns("1", None, "2"),
}
REGRESSION = {
    "glue/STS-B/{}.tsv": {"train": 5749, "dev": 1500},
    "pairs/SICK/{}.tsv": {"train": 4500, "dev": 500, "test": 4927},
}
TAGGING = {
    "tagging/CoNLL-2003/{}.txt": ({"train": 14041, "dev": 3250, "test": 3453}, "iob1"),
    "tagging/CoNLL-2000/{}.txt": ({"train": 8936, "test": 2012}, "iob2"),
    "tagging/UD-EWT/{}.txt": ({"train": 12544, "dev": 2001, "test": 2077}, "none"),
    "chinese/CLUENER/{}.txt": ({"train": 10748, "dev": 1343}, "iob2"),
}
SPAN = {
    "span/SQuAD-1.1/{}.json": ({"train": 6734, "dev": 1267}, 0),
    "span/SQuAD-2.0/{}.json": ({"train": 6615, "dev": 1126}, 0),
    "chinese/CMRC2018/cmrc2018_{}.json": ({"dev": 3219, "trial": 1002}, 181),
}

pytestmark = pytest.mark.slow


@pytest.fixture
def data(shared):
    """The folder of the tasks."""
    return shared / "data"


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classification(data, name):
    sizes, classes = CLASSIFICATION[name]
    known = None
    for split, size in sizes.items():
        asked = next((each for part, each in NO_HEADER.items() if part in name), Columns())
        options = ReadOptions(labels=known)
        read = read_examples(data / name.format(split), CLASSES, asked, options)
        known = known or labels_of(read.examples)
        assert len(read.examples) == size
        assert len(known) == classes
        assert all("--format tsv" in each for each in read.warnings)


@pytest.mark.parametrize("name", REGRESSION)
def test_regression(data, name):
    for split, size in REGRESSION[name].items():
        read = read_examples(data / name.format(split), NUMBERS)
        assert len(read.examples) == size
        assert all(0 <= each.label <= 5 for each in read.examples)


@pytest.mark.parametrize("name", TAGGING)
def test_tagging(data, name):
    sizes, scheme = TAGGING[name]
    for split, size in sizes.items():
        read = read_examples(data / name.format(split), TAGS)
        assert (len(read.examples), read.scheme) == (size, scheme)


@pytest.mark.parametrize("name", SPAN)
def test_span(data, name):
    sizes, wrong = SPAN[name]
    found = 0
    for split, size in sizes.items():
        read = read_examples(
            data / name.format(split),
            ANSWERS,
            options=ReadOptions(bad_rows="skip", keep_wrong_answers=True),
        )
        empty = sum(each.count for each in read.log.skipped.values())
        assert len(read.examples) + empty == size
        assert empty == (2 if split == "trial" else 0)  # questions without text in CMRC
        found += sum(
            any(each.context[start : start + len(text)] != text for text, start in each.answers)
            for each in read.examples
        )
    assert found == wrong
