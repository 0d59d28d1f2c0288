"""What the doctor says of the instances of language models, translation and memory networks: data
without a fault pass, each fault is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.data.checkup import Checkup, Finding
from bertwright.data.doctor import check
from bertwright.data.instances import Instances
from bertwright.data.parallel.build import build_parallel
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards, open_shards
from bertwright.data.token_streams import TokenStreams
from bertwright.models.memory_network.stories import Stories
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.small_runs import SPECIAL, WORDS, build_stories


def found_by(instances: Instances[Any]) -> tuple[Checkup, dict[str, Finding]]:
    checkup = Checkup()
    instances.check(checkup)
    json.dumps(checkup.as_dict(), allow_nan=False)
    assert all(finding.advice for finding in checkup.findings if finding.level != "ok")
    return checkup, {finding.name: finding for finding in checkup.findings}


def levels(found: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.level for name, finding in found.items() if finding.level != "ok"}


def windows(shards: Shards, length: int, burn_in: int = 0) -> TokenStreams:
    documents = np.arange(shards.num_documents)
    return TokenStreams(shards, documents, length, burn_in=burn_in)


def test_windows_of_long_documents(make_shards: Callable[..., Shards]) -> None:
    _, found = found_by(windows(make_shards([[20] * 30] * 5), 64))
    assert levels(found) == {}
    assert found["instances"].value == 50


def test_windows_that_documents_do_not_fill(make_shards: Callable[..., Shards]) -> None:
    _, found = found_by(windows(make_shards([[7]] * 50), 64))
    assert levels(found) == {}
    assert " 9-16 100.0%," in found["instances"].message


Pair = tuple[str, str]


def sentences(pairs: int = 300) -> list[Pair]:
    """Targets are of other words, and about twice as long."""
    chance = random.Random(1)
    half = len(WORDS) // 2
    made = []
    for _ in range(pairs):
        length = chance.randint(2, 20)
        source = " ".join(chance.choices(WORDS[:half], k=length))
        made.append((source, " ".join(chance.choices(WORDS[half:], k=2 * length))))
    return made


@pytest.fixture
def pairs_of(tmp_path: Path) -> Callable[..., ParallelText]:
    def build(pairs: Sequence[Pair], length: int = 64) -> ParallelText:
        make_tokenizer([*SPECIAL, *WORDS]).save(tmp_path / "tokenizer")
        for side in (0, 1):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / str(side)).write_text(lines, encoding="utf-8")
        build_parallel(tmp_path / "0", tmp_path / "1", tmp_path / "s", tmp_path / "tokenizer")
        shards = open_shards(tmp_path / "s")
        return ParallelText(shards, np.arange(shards.num_documents), length)

    return build


def test_translations(pairs_of: Callable[..., ParallelText], tmp_path: Path) -> None:
    _, found = found_by(pairs_of(sentences()))
    assert levels(found) == {}
    whole = check(tmp_path / "s", lambda shards: ParallelText(shards, np.arange(300), 64))
    assert [each.name for each in whole.findings if each.level != "ok"] == ["size"]


def test_pairs_that_are_left_out(pairs_of: Callable[..., ParallelText]) -> None:
    _, found = found_by(pairs_of(sentences(), 34))
    assert levels(found) == {"left_out": "warning"}
    assert 0.1 < float(found["left_out"].value) < 0.4
    assert "more than 34 tokens" in found["left_out"].message


def test_lines_that_are_out_of_step(pairs_of: Callable[..., ParallelText]) -> None:
    sources, targets = zip(*sentences(), strict=True)
    _, found = found_by(pairs_of([*zip(sources, [*targets[1:], targets[0]], strict=True)]))
    assert found["length_correlation"].level == "warning"
    assert abs(float(found["length_correlation"].value)) < 0.2


def stories(shards: Shards, memory: int) -> Stories:
    return Stories(shards, np.arange(shards.num_documents), memory, 128)


def test_stories(tmp_path: Path) -> None:
    shards = open_shards(build_stories(tmp_path))
    _, found = found_by(stories(shards, 50))
    assert levels(found) == {}
