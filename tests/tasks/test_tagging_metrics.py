from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.tasks.metrics import per_class, value
from bertwright.tasks.tagging import EntityCounts, TagCounts


def scores(gold: str, said: str) -> dict[str, float]:
    """Of sentences that are cut by "|"."""
    sides = [[sentence.split() for sentence in side.split("|")] for side in (gold, said)]
    return value(EntityCounts(*sides).statistic, len(sides[0]))


@pytest.mark.parametrize(
    ("gold", "said", "right", "predicted", "true"),
    [
        # IOB1's "I-" after "O" begins an entity, and so is the same as IOB2's "B-"
        ("O I-PER I-PER O", "O B-PER I-PER O", 1, 1, 1),
        # another type begins another entity, in the gold and in the prediction
        ("I-PER I-ORG", "B-PER B-ORG", 2, 2, 2),
        # IOB1's "B-" parts two of a type
        ("I-PER B-PER", "I-PER I-PER", 0, 1, 2),
        # first and last word must both be right
        ("B-LOC I-LOC O", "B-LOC O O", 0, 1, 1),
        ("B-LOC I-LOC O", "B-LOC I-LOC I-LOC", 0, 1, 1),
        # the type too
        ("B-LOC I-LOC", "B-ORG I-ORG", 0, 1, 1),
        # an entity does not go on into the next sentence
        ("B-LOC | I-LOC", "B-LOC | B-LOC", 2, 2, 2),
        # IOBES, and BMES by its other letters
        ("S-PER B-LOC E-LOC O", "S-PER B-LOC E-LOC S-ORG", 2, 3, 2),
        ("S-PER B-LOC M-LOC E-LOC", "S-PER B-LOC I-LOC E-LOC", 2, 2, 2),
        # "E" ends an entity whatever follows
        ("B-X E-X B-X E-X", "B-X I-X B-X I-X", 2, 2, 2),
        ("O O", "O O", 0, 0, 0),
    ],
)
def test_worked_examples(gold: str, said: str, right: int, predicted: int, true: int) -> None:
    found = scores(gold, said)
    assert found["precision"] == pytest.approx(right / predicted if predicted else 0)
    assert found["recall"] == pytest.approx(right / true if true else 0)
    assert found["f1"] == pytest.approx(2 * right / (predicted + true) if predicted + true else 0)


def test_accuracy_is_of_tags_as_they_are_written() -> None:
    assert scores("O I-PER | O O", "O B-PER | O B-LOC")["accuracy"] == 0.5


def test_by_type() -> None:
    gold = [["B-PER", "O", "B-LOC"], ["B-LOC", "I-LOC"]]
    said = [["B-PER", "B-PER", "B-LOC"], ["B-LOC", "O"]]
    counts = EntityCounts(gold, said)
    rows = {row.pop("label"): row for row in per_class(counts.by_type, counts.types)}
    assert rows["LOC"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert rows["PER"] == pytest.approx({"precision": 0.5, "recall": 1, "f1": 2 / 3, "support": 1})


@st.composite
def well_formed(draw: st.DrawFn, iobes: bool) -> list[str]:
    """Tags of one sentence in IOB2 or IOBES."""
    tags: list[str] = []
    for kind, size in draw(st.lists(st.tuples(st.sampled_from("XY"), st.integers(0, 3)))):
        marks = "O" if size == 0 else "B" + "I" * (size - 1)
        if iobes and size:
            marks = "S" if size == 1 else marks[:-1] + "E"
        tags += ["O" if mark == "O" else f"{mark}-{kind}" for mark in marks]
    return tags


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
@given(data=st.data())
def test_well_formed_tags_as_in_seqeval(scheme: str, data: st.DataObject) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval import scheme as schemes

    tags = well_formed(scheme == "IOBES")
    drawn = data.draw(st.lists(st.tuples(tags, tags), min_size=1, max_size=4))
    sizes = [max(len(a), len(b), 1) for a, b in drawn]
    gold, said = (
        [pair[side] + ["O"] * (n - len(pair[side])) for pair, n in zip(drawn, sizes, strict=True)]
        for side in (0, 1)
    )
    found = value(EntityCounts(gold, said).statistic, len(gold))
    strict = {"mode": "strict", "scheme": getattr(schemes, scheme), "zero_division": 0}
    if any(tag != "O" for side in (*gold, *said) for tag in side):
        assert found["precision"] == pytest.approx(seqeval.precision_score(gold, said, **strict))
        assert found["recall"] == pytest.approx(seqeval.recall_score(gold, said, **strict))
        assert found["f1"] == pytest.approx(seqeval.f1_score(gold, said, **strict))


@given(st.lists(st.lists(st.tuples(*[st.sampled_from("NVAX")] * 2)), min_size=1))
def test_parts_of_speech_as_in_scikit_learn(drawn: list[list[tuple[str, str]]]) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    gold, said = ([[pair[side] for pair in tags] for tags in drawn] for side in (0, 1))
    flat = [[tag for tags in side for tag in tags] for side in (gold, said)]
    if not flat[0]:
        return
    counts = TagCounts(gold, said)
    found = value(counts.statistic, len(gold))
    assert found["accuracy"] == pytest.approx(accuracy_score(*flat))
    macro = f1_score(*flat, average="macro", zero_division=0)
    assert found["macro_f1"] == pytest.approx(macro)
    assert counts.by_tag[2].sum() == len(flat[0])
