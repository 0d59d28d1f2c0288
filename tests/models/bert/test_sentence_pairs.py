"""The planned instances against a plain walk, written here from the published description."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.data.shards import Shards
from bertwright.models.bert import sentence_pairs
from bertwright.models.bert.config import InstanceConfig
from bertwright.models.bert.sentence_pairs import EpochPlan, plan_epoch
from tests.data.conftest import write_shards

MakeShards = Callable[..., Shards]
Range = tuple[int, int]


def walk(
    documents: list[list[Range]], longest: int, short: float, rng: random.Random
) -> list[tuple[Range, Range, bool]]:
    """One instance after the other, one token after the other; sentences are token ranges."""
    instances = []
    for number, document in enumerate(documents):
        place = 0
        while place < len(document):
            target = rng.randint(2, longest) if rng.random() < short else longest
            chunk: list[Range] = []
            while place < len(document):
                chunk.append(document[place])
                place += 1
                if sum(stop - start for start, stop in chunk) >= target:
                    break
            a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [chunk[0][0], chunk[a_end - 1][1]]
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                other = rng.choice([n for n in range(len(documents)) if n != number])
                begin = rng.randrange(len(documents[other]))
                b = [documents[other][begin][0], 0]
                for _, stop in documents[other][begin:]:
                    b[1] = stop
                    if b[1] - b[0] >= target - (a[1] - a[0]):
                        break
                place -= len(chunk) - a_end
            else:
                b = [chunk[a_end][0], chunk[-1][1]]
            while (a[1] - a[0]) + (b[1] - b[0]) > longest:
                longer = a if a[1] - a[0] > b[1] - b[0] else b
                if rng.random() < 0.5:
                    longer[0] += 1
                else:
                    longer[1] -= 1
            instances.append(((a[0], a[1]), (b[0], b[1]), is_random))
    return instances


def documents_of(shards: Shards) -> list[list[Range]]:
    bounds = shards.sentence_tokens.tolist()
    first = shards.document_sentences.tolist()
    return [
        [(bounds[s], bounds[s + 1]) for s in range(first[d], first[d + 1])]
        for d in range(shards.num_documents)
    ]


def every_document(shards: Shards) -> np.ndarray:
    return np.arange(shards.num_documents)


def figures(a: np.ndarray, b: np.ndarray, is_random: np.ndarray) -> dict[str, float]:
    """What two ways of drawing must agree on; `a` and `b` are [I, 2]."""
    a_length, b_length = a[:, 1] - a[:, 0], b[:, 1] - b[:, 0]
    total = a_length + b_length
    found = {
        "instances": float(len(a)),
        "random": float(is_random.mean()),
        "a": float(a_length.mean()),
        "b": float(b_length.mean()),
        "b random": float(b_length[is_random].mean()),
        "a spread": float(a_length.std()),
        "gap": float((b[:, 0] - a[:, 1])[~is_random].mean()),
    }
    found |= {f"total under {n}": float((total < n).mean()) for n in (10, 20, 30, 40, 47)}
    found |= {f"a under {n}": float((a_length < n).mean()) for n in (5, 15, 25, 35)}
    return found


@pytest.mark.slow
def test_equals_the_published_walk_in_distribution(shards: Shards) -> None:
    config = InstanceConfig(sequence_length=50)
    rng = random.Random(3)
    ours, theirs = [], []
    for epoch in range(60):
        plan = plan_epoch(shards, every_document(shards), config, 5, epoch)
        a = np.stack([plan.a_start, plan.a_stop], 1)
        b = np.stack([plan.b_start, plan.b_stop], 1)
        ours.append(figures(a, b, plan.is_random))
        walked = walk(documents_of(shards), 47, 0.1, rng)
        a, b, is_random = (np.array(column) for column in zip(*walked, strict=True))
        theirs.append(figures(a, b, is_random))
    for name in ours[0]:
        mine = np.array([each[name] for each in ours])
        his = np.array([each[name] for each in theirs])
        error = ((mine.var() + his.var()) / 60) ** 0.5
        assert abs(mine.mean() - his.mean()) < 4.5 * error + 1e-9, name


def covered(shards: Shards, plan: EpochPlan) -> np.ndarray:
    """[N]: how often each token is in an A or a true B."""
    times = np.zeros(shards.num_tokens + 1, np.int64)
    real = ~plan.is_random
    for start, stop in (
        (plan.a_start, plan.a_stop),
        (plan.b_start[real], plan.b_stop[real]),
    ):
        np.add.at(times, start, 1)
        np.add.at(times, stop, -1)
    return np.cumsum(times)[:-1]


@settings(max_examples=40)
@given(
    lengths=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=2, max_size=8),
    seed=st.integers(0, 1000),
)
def test_no_token_is_lost_but_by_truncation(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[list[int]],
    seed: int,
) -> None:
    shards = write_shards(tmp_path_factory.mktemp("shards"), lengths)
    plan = plan_epoch(shards, every_document(shards), InstanceConfig(sequence_length=40), seed, 0)
    times = covered(shards, plan)
    assert times.max() <= 1
    real = ~plan.is_random
    assert (times == 0).sum() <= plan.truncated.sum()
    assert (plan.a_stop > plan.a_start).all()
    assert (plan.b_stop > plan.b_start).all()
    assert plan.lengths.max() <= 40
    owner = np.searchsorted(
        shards.sentence_tokens[shards.document_sentences], plan.a_start, side="right"
    )
    other = np.searchsorted(
        shards.sentence_tokens[shards.document_sentences], plan.b_start, side="right"
    )
    assert (owner[real] == other[real]).all()
    assert (owner[~real] != other[~real]).all()


def test_true_b_follows_a_where_nothing_is_cut(shards: Shards) -> None:
    plan = plan_epoch(shards, every_document(shards), InstanceConfig(), 0, 0)
    whole = ~plan.is_random & (plan.truncated == 0)
    assert whole.sum() > 20
    assert (plan.a_stop[whole] == plan.b_start[whole]).all()


def test_is_a_pure_function_of_seed_and_epoch(shards: Shards) -> None:
    one, same, next_epoch, other_seed = (
        plan_epoch(shards, every_document(shards), InstanceConfig(), seed, epoch)
        for seed, epoch in ((1, 2), (1, 2), (1, 3), (2, 2))
    )
    for name, values in vars(one).items():
        assert np.array_equal(values, getattr(same, name))
    assert one.a_start.tolist() != next_epoch.a_start.tolist()
    assert one.a_start.tolist() != other_seed.a_start.tolist()


def test_mlm_cuts_documents_into_full_runs(
    make_shards: MakeShards, some_lengths: list[list[int]]
) -> None:
    shards = make_shards(some_lengths)
    config = InstanceConfig(objectives="mlm", sequence_length=34, short_probability=0.0)
    plan = plan_epoch(shards, every_document(shards), config, 0, 0)
    assert (covered(shards, plan) == 1).all()
    runs = sum(-(-sum(document) // 32) for document in some_lengths)
    assert len(plan) == runs
    assert not plan.paired
    assert plan.b_stop.max() == 0


def test_sop_pairs_touch_and_half_are_swapped(
    make_shards: MakeShards, some_lengths: list[list[int]]
) -> None:
    shards = make_shards(some_lengths * 5)
    config = InstanceConfig(objectives="mlm+sop", sequence_length=200, short_probability=0.0)
    plan = plan_epoch(shards, every_document(shards), config, 0, 0)
    whole = plan.truncated == 0
    swapped = plan.is_random
    assert (plan.a_stop == plan.b_start)[whole & ~swapped].all()
    assert (plan.b_stop == plan.a_start)[whole & swapped].all()
    assert abs(swapped.mean() - 0.5) < 0.06


def test_sop_cuts_a_lone_sentence_and_drops_a_lone_token(make_shards: MakeShards) -> None:
    shards = make_shards([[9], [1]])
    plan = plan_epoch(shards, every_document(shards), InstanceConfig(objectives="mlm+sop"), 0, 0)
    assert len(plan) == 1
    assert plan.lengths.tolist() == [12]


def test_documents_of_one_sentence_have_random_next_sentences(make_shards: MakeShards) -> None:
    shards = make_shards([[10]] * 50)
    plan = plan_epoch(shards, every_document(shards), InstanceConfig(), 0, 0)
    assert len(plan) == 50
    assert plan.is_random.all()


def test_a_single_document_is_its_own_random_document(make_shards: MakeShards) -> None:
    shards = make_shards([[10] * 30])
    plan = plan_epoch(shards, every_document(shards), InstanceConfig(), 0, 0)
    assert len(plan) > 0


def test_only_documents_of_the_split_are_used(shards: Shards) -> None:
    chosen = np.array([3, 17, 40])
    plan = plan_epoch(shards, chosen, InstanceConfig(), 0, 0)
    bounds = shards.sentence_tokens[shards.document_sentences]
    for starts in (plan.a_start, plan.b_start):
        assert set((np.searchsorted(bounds, starts, side="right") - 1).tolist()) <= {3, 17, 40}


def test_no_documents_give_an_empty_plan(make_shards: MakeShards) -> None:
    shards = make_shards([[5, 5]])
    for objectives in ("mlm", "mlm+nsp", "mlm+sop", "mlm+contrast"):
        config = InstanceConfig(objectives=objectives)
        assert len(plan_epoch(shards, np.zeros(0, np.int64), config, 0, 0)) == 0


def test_long_documents_are_walked_in_parts(
    make_shards: MakeShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [[7] * 100, [3, 500, 2], [20] * 3, [900]]
    shards = make_shards(lengths)
    monkeypatch.setattr(sentence_pairs, "PART_TOKENS", 64)
    config = InstanceConfig(sequence_length=40)
    plan = plan_epoch(shards, every_document(shards), config, 0, 0)
    times = covered(shards, plan)
    assert times.max() == 1
    assert (times == 0).sum() <= plan.truncated.sum()
    config = InstanceConfig(objectives="mlm", sequence_length=40)
    plan = plan_epoch(shards, every_document(shards), config, 0, 0)
    assert (covered(shards, plan) == 1).all()


def test_neighbours_come_one_after_the_other(make_shards: MakeShards) -> None:
    """With the contrast, the sequences are those of the masked LM, in another order."""
    shards = make_shards([[1 + (7 * d + 13 * s) % 59 for s in range(1 + d)] for d in range(30)])
    alone, plan = (
        plan_epoch(shards, every_document(shards), InstanceConfig(objectives=each), 1, 2)
        for each in ("mlm", "mlm+contrast")
    )
    assert alone.neighbours is None
    assert plan.neighbours is not None
    assert sorted(plan.a_start) == sorted(alone.a_start)
    same = plan.neighbours[:-1] == plan.neighbours[1:]
    first = np.flatnonzero(same & (plan.neighbours[1:] >= 0))
    assert 2 * len(first) == (plan.neighbours >= 0).sum() > 0
    assert (plan.a_stop[first] == plan.a_start[first + 1]).all()  # in the text too
    assert (np.diff(plan.a_start[first]) < 0).any()  # pairs are shuffled
    documents = np.searchsorted(
        shards.sentence_tokens[shards.document_sentences], plan.a_start, "right"
    )
    single = documents[plan.neighbours < 0]
    assert len(single) == len(set(single))  # at most the last sequence of each document is alone


def test_plans_are_those_of_yesterday(make_shards: MakeShards) -> None:
    """A resumed run draws its old instances; a change here is a new format of runs."""
    shards = make_shards([[1 + (7 * d + 13 * s) % 59 for s in range(1 + d)] for d in range(30)])
    found = {}
    for objectives in ("mlm", "mlm+nsp", "mlm+sop"):
        config = InstanceConfig(objectives=objectives, sequence_length=64)
        plan = plan_epoch(shards, every_document(shards), config, 1, 2)
        names = ("a_start", "a_stop", "b_start", "b_stop", "is_random", "lengths")
        data = b"".join(getattr(plan, name).astype("<i8").tobytes() for name in names)
        found[objectives] = hashlib.sha256(data).hexdigest()[:16]
    assert found == {
        "mlm": "81dc10e1dcb406e2",
        "mlm+nsp": "2efc72606b04cc24",
        "mlm+sop": "6779a06d2fd0e10f",
    }
