"""What the golden tests compare with: batches by their hashes, and the losses of 20 steps.

Run from the repository's root where a change of these is meant, and say why in the commit:

    python -m tests.golden.make_golden
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_pairs import MaskedPairs
from tests.data.conftest import write_shards
from tests.small_runs import build_data, config_of, records, train

FOLDER = Path(__file__).parent
LOSSES = ("step", "masked_lm.loss", "next_sentence.loss")


def batches(folder: Path) -> dict[str, list[str]]:
    """Hashes of some steps' batches, by objectives, masking and rank."""
    rng = np.random.default_rng(1)
    lengths = [rng.integers(1, 60, size=rng.integers(1, 40)).tolist() for _ in range(60)]
    shards = write_shards(folder / "shards", lengths, word_every=3)
    found = {}
    for objectives in ("mlm", "mlm+nsp", "mlm+sop"):
        for whole_word in (False, True):
            instances = MaskedPairs(
                shards,
                InstanceConfig(objectives=objectives, sequence_length=64),
                MaskingConfig(whole_word=whole_word),
                validation_fraction=0.1,
                seed=5,
            )
            for rank in (0, 1):
                loader = EpochLoader(instances, rank, 2)
                found[f"{objectives}, whole words {whole_word}, rank {rank} of 2"] = [
                    _hash(batch)
                    for epoch, step in ((0, 0), (0, 1), (1, 3))
                    for batch in loader.step(epoch, step, 4096, 1024)
                ]
    return found


def _hash(batch: MaskedBatch) -> str:
    inputs = batch.inputs
    segments = torch.zeros_like(inputs.ids) if inputs.segments is None else inputs.segments
    arrays = {
        "input_ids": inputs.ids,
        "token_type_ids": segments,
        "lengths": inputs.sequences.lengths,
        "masked_positions": batch.masked_positions,
        "masked_labels": batch.masked_labels,
        "next_sentence_labels": batch.next_sentence_labels,
        "positions": batch.instances,
    }
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(name.encode())
        digest.update(b"-" if array is None else np.ascontiguousarray(array, "<i8").tobytes())
    return digest.hexdigest()[:16]


def losses(folder: Path) -> list[dict[str, Any]]:
    """The losses of each of 20 steps of a tiny run."""
    data, run = build_data(folder), folder / "run"
    optimizer = {"matrices": "muon"}
    train(config_of(data, run, log={"every_steps": 1}, seed=7, optimizer=optimizer))
    return [{k: r[k] for k in LOSSES} for r in records(run) if r["split"] == "train"]


if __name__ == "__main__":
    for make in (batches, losses):
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(make(Path(folder)), indent=1)
        (FOLDER / f"{make.__name__}.json").write_text(text + "\n", encoding="utf-8")
