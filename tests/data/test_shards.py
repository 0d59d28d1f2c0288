"""Reading shards: positions over all of them, and files that are not what they were."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertwright.atomic import disk_errors, write_manifest
from bertwright.data.shards import Shards, open_shards, require_tokenizer, token_dtype
from bertwright.errors import DataError, IntegrityError
from tests.raising import raises

MakeShards = Callable[..., Shards]


def test_many_shards_read_like_one(make_shards: MakeShards, some_lengths: list[list[int]]) -> None:
    one = make_shards(some_lengths, "one", word_every=3)
    many = make_shards(some_lengths, "many", word_every=3, shard_tokens=3000)
    assert len(many.manifest["shards"]) > 5
    assert many.num_documents == one.num_documents == 60
    assert many.num_tokens == one.num_tokens == sum(map(sum, some_lengths))
    assert np.array_equal(many.sentence_tokens, one.sentence_tokens)
    assert np.array_equal(many.document_sentences, one.document_sentences)
    assert np.array_equal(many.tokens(100, 15_000), one.tokens(100, 15_000))
    places = np.random.default_rng(0).integers(0, one.num_tokens, 999)
    assert np.array_equal(many.tokens_at(places), 5 + places % 92)
    assert np.array_equal(many.word_starts_at(places), places % 3 == 0)
    assert np.array_equal(one.word_starts(5, 50), np.arange(5, 50) % 3 == 0)


def test_no_places(make_shards: MakeShards) -> None:
    assert len(make_shards([[4, 4]]).tokens_at(np.zeros(0, np.int64))) == 0


def test_large_vocabularies_take_four_bytes(make_shards: MakeShards) -> None:
    assert token_dtype(65_536).itemsize == 2
    assert token_dtype(65_537).itemsize == 4
    shards = make_shards([[50] * 2000], vocab_size=99_999)
    assert shards.tokens(0, 100_000).max() == 99_998


def damage(place: Path, at: int) -> None:
    data = bytearray(place.read_bytes())
    data[at] ^= 1
    place.write_bytes(data)


def change_manifest(folder: Path, change: Callable[[Any], object]) -> None:
    place = folder / "MANIFEST.json"
    manifest = json.loads(place.read_text())
    change(manifest)
    place.write_text(json.dumps(manifest))


def test_a_cut_or_missing_file_is_found_when_opening(make_shards: MakeShards) -> None:
    folder = make_shards([[40, 40]]).folder
    place = folder / "shard-00000.tokens"
    place.write_bytes(place.read_bytes()[:100])
    raises(IntegrityError, "100 bytes.*160", open_shards, folder)
    place.unlink()
    raises(IntegrityError, r"shard-00000\.tokens.*missing", open_shards, folder)


def test_a_flipped_bit_is_found_by_its_hash(make_shards: MakeShards) -> None:
    folder = make_shards([[40, 40]]).folder
    damage(folder / "shard-00000.tokens", 33)
    open_shards(folder, verify=False)
    raises(IntegrityError, r"shard-00000\.tokens.*SHA-256", open_shards, folder)


def test_a_changed_tokenizer_is_found_each_time(make_shards: MakeShards) -> None:
    folder = make_shards([[40, 40]]).folder
    (folder / "tokenizer").mkdir()
    vocabulary = folder / "tokenizer" / "vocab.txt"
    vocabulary.write_text("ab")
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    write_manifest(folder, manifest)
    open_shards(folder)
    state = vocabulary.stat()
    vocabulary.write_text("ac")
    os.utime(vocabulary, ns=(state.st_atime_ns, state.st_mtime_ns))
    raises(IntegrityError, r"tokenizer/vocab\.txt", open_shards, folder)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that no one can read")
def test_an_unreadable_file_is_named(make_shards: MakeShards) -> None:
    """Under the message of what is written, too."""
    folder = make_shards([[40, 40]]).folder
    place = folder / "shard-00000.tokens"
    place.unlink()
    place.symlink_to("/proc/self/mem")  # of 0 bytes, none of which can be read
    change_manifest(folder, lambda manifest: manifest["files"][place.name].update(bytes=0))
    for verify in (True, False):
        with (
            pytest.raises(DataError, match=r"shard-00000.*read"),
            disk_errors(Path("out")),
        ):
            open_shards(folder, verify=verify)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("sentences", [40, 43, 46 + (1 << 8)]),
        ("documents", [2, 3 + (1 << 8)]),
        ("sentences", [0, 43, 46]),
        ("sentences", [43, 43, 46]),
        ("sentences", [44, 43, 46]),
        ("documents", [0, 3]),
        ("documents", [3, 3]),
    ],
)
def test_bounds_that_contradict_the_tokens_or_do_not_rise(
    make_shards: MakeShards, name: str, ends: list[int]
) -> None:
    folder = make_shards([[40, 3], [3]]).folder
    np.array(ends, "<u4").tofile(folder / f"shard-00000.{name}")
    raises(IntegrityError, "contradict each other", open_shards, folder, verify=False)


def test_other_folders_are_refused(make_shards: MakeShards, tmp_path: Path) -> None:
    raises(DataError, "bertwright data build", open_shards, tmp_path)
    manifest = tmp_path / "MANIFEST.json"
    manifest.write_text("{")
    raises(IntegrityError, "damaged", open_shards, tmp_path)
    manifest.write_text(json.dumps({"format": "checkpoint", "files": {}}))
    raises(DataError, "'checkpoint'", open_shards, tmp_path)


@pytest.mark.parametrize("name", ["../elsewhere/shard-00000", "/shard-00000", "no", None])
def test_a_shard_that_is_none_of_the_listed_files_is_not_opened(
    make_shards: MakeShards, name: str | None
) -> None:
    make_shards([[4]], "elsewhere")
    folder = make_shards([[4]]).folder
    change_manifest(folder, lambda manifest: manifest["shards"][0].update(name=name))
    raises(IntegrityError, "shards.*build", open_shards, folder)


def test_another_tokenizer_is_refused(make_shards: MakeShards) -> None:
    shards = make_shards([[4]])
    require_tokenizer(shards, "f" * 64, "the checkpoint x")
    with pytest.raises(DataError, match=r"another tokenizer.*checkpoint x"):
        require_tokenizer(shards, "0" * 64, "the checkpoint x")


@pytest.mark.parametrize("number", [97, 65535])
def test_an_id_that_no_token_has_is_named(make_shards: MakeShards, number: int) -> None:
    folder = make_shards([[40, 40]]).folder
    place = folder / "shard-00000.tokens"
    data = bytearray(place.read_bytes())
    data[20:22] = number.to_bytes(2, "little")
    place.write_bytes(data)
    shards = open_shards(folder, verify=False)
    raises(IntegrityError, f"id {number}", shards.tokens, 0, 40)
    assert len(shards.tokens(40, 80)) == 40
