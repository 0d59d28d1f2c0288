"""Masks: how many, which, by what; whole words against a plain loop."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertwright.data.randomness import make_key, mix
from bertwright.errors import ConfigError
from bertwright.models.bert.config import MaskingConfig
from bertwright.models.bert.masking import Masker

SPECIAL = np.arange(997) < 5  # [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4
KEY = make_key("masks", 1, 2)


def sequences(lengths: list[int]) -> np.ndarray:
    """[CLS] words [SEP] for each length."""
    rows = [[2, *(5 + (7 * n + place) % 992 for place in range(n - 2)), 3] for n in lengths]
    return np.array([number for row in rows for number in row])


def test_counts_are_the_published_ones() -> None:
    lengths = np.array([128, 100, 50, 10, 4, 3])
    masker = Masker(MaskingConfig(), SPECIAL, 1, 4, 128)
    _, places, _ = masker(sequences(lengths.tolist()), lengths, np.arange(6), KEY)
    owner = np.searchsorted(np.cumsum(lengths), places, side="right")
    expected = [min(20, max(1, round(n * 0.15))) for n in lengths.tolist()]
    assert np.bincount(owner, minlength=6).tolist() == expected


def test_cls_and_sep_are_never_predicted_but_unknown_words_are() -> None:
    lengths = np.full(500, 6)
    ids = np.tile([2, 1, 3, 1, 0, 3], 500)
    masker = Masker(MaskingConfig(probability=1.0), SPECIAL, 1, 4, 6)
    masked, places, labels = masker(ids, lengths, np.arange(500), KEY)
    assert set(labels.tolist()) == {1}
    assert len(labels) == 1000
    untouched = np.setdiff1d(np.arange(3000), places)
    assert (masked[untouched] == ids[untouched]).all()


def test_four_fifths_are_masked_and_a_tenth_each_replaced_and_kept() -> None:
    lengths = np.full(2000, 128)
    ids = sequences([128] * 2000)
    masked, places, labels = Masker(MaskingConfig(), SPECIAL, 1, 4, 128)(
        ids, lengths, np.arange(2000), KEY
    )
    assert (labels == ids[places]).all()
    assert (np.diff(places) > 0).all()
    shown = masked[places]
    replaced = shown[(shown != 4) & (shown != labels)]
    assert abs((shown == 4).mean() - 0.8) < 0.01
    assert abs(len(replaced) / len(shown) - 0.1) < 0.01
    assert replaced.min() >= 5
    assert len(set(replaced.tolist())) > 900
    assert (ids == sequences([128] * 2000)).all(), "the input is not written to"


def test_masks_do_not_depend_on_the_batch() -> None:
    masker = Masker(MaskingConfig(whole_word=True), SPECIAL, 1, 4, 64)
    lengths = np.array([64, 40, 33])
    ids = sequences(lengths.tolist())
    starts = np.arange(len(ids)) % 2 == 0
    together = masker(ids, lengths, np.array([7, 90, 3]), KEY, starts)[0]
    alone = masker(ids[64:104], lengths[1:2], np.array([90]), KEY, starts[64:104])[0]
    assert (together[64:104] == alone).all()
    other_epoch = masker(ids, lengths, np.array([7, 90, 3]), make_key("masks", 1, 3), starts)[0]
    assert (together != other_epoch).any()


@pytest.mark.parametrize("whole_word", [False, True])
def test_a_batch_of_more_than_65536_sequences_has_the_masks_of_its_parts(whole_word: bool) -> None:
    masker = Masker(MaskingConfig(whole_word=whole_word, probability=0.4), SPECIAL, 1, 4, 64)
    lengths = np.full(70_000, 5)
    ids = sequences(lengths.tolist())
    starts = np.arange(len(ids)) % 2 == 0
    positions = np.arange(len(lengths))
    whole = masker(ids, lengths, positions, KEY, starts)
    assert np.bincount(whole[1] // 5, minlength=len(lengths)).max() == 2
    for part in (slice(0, 35_000), slice(35_000, 70_000)):
        tokens = slice(part.start * 5, part.stop * 5)
        masked = masker(ids[tokens], lengths[part], positions[part], KEY, starts[tokens])[0]
        np.testing.assert_array_equal(masked, whole[0][tokens])


def test_masks_are_those_of_yesterday() -> None:
    """A resumed run draws its old masks; a change here is a new format of runs."""
    lengths = np.array([64, 40, 33])
    ids = sequences(lengths.tolist())
    found = []
    for whole_word in (False, True):
        masker = Masker(MaskingConfig(whole_word=whole_word), SPECIAL, 1, 4, 64)
        drawn = masker(ids, lengths, np.array([7, 90, 3]), KEY, np.arange(len(ids)) % 2 == 0)
        data = b"".join(values.astype("<i8").tobytes() for values in drawn)
        found.append(hashlib.sha256(data).hexdigest()[:16])
    assert found == ["993318850304caeb", "913c5c678de6e5ab"]


def plain_whole_words(
    ids: np.ndarray, starts: np.ndarray, count: int, draws: np.ndarray
) -> list[int]:
    """The published loop over shuffled words."""
    words: list[list[int]] = []
    for place, number in enumerate(ids.tolist()):
        if number in (2, 3):
            words.append([])
        elif starts[place] or not words[-1]:
            words.append([place])
        else:
            words[-1].append(place)
    words = sorted((word for word in words if word), key=lambda word: draws[word[0]])
    taken: list[int] = []
    for word in words:
        if len(taken) + len(word) <= count:
            taken.extend(word)
    return sorted(taken)


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(3, 70), min_size=1, max_size=6),
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.1, 0.5, 0.9]),
)
def test_whole_words_equal_the_plain_loop(lengths: list[int], seed: int, share: float) -> None:
    ids = sequences(lengths)
    starts = np.random.default_rng(seed).random(len(ids)) < share
    masker = Masker(MaskingConfig(whole_word=True, probability=0.2), SPECIAL, 1, 4, 70)
    positions = np.arange(len(lengths)) + seed
    _, places, _ = masker(ids, np.array(lengths), positions, KEY, starts)
    expected: list[int] = []
    first = 0
    for position, length in zip(positions, lengths, strict=True):
        draws = mix(mix(mix(KEY, position), np.arange(length)), 0) >> np.uint64(16)
        rows = slice(first, first + length)
        count = min(masker.most, max(1, round(length * 0.2)))
        found = plain_whole_words(ids[rows], starts[rows], count, draws)
        expected.extend(first + place for place in found)
        first += length
    assert places.tolist() == expected


def test_a_vocabulary_of_special_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"special tokens.*--vocab-size"):
        Masker(MaskingConfig(), SPECIAL[:5], 1, 4, 128)
