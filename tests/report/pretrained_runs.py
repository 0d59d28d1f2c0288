"""Folders of pre-training runs, as far as their pages read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertwright.report import sections


def record(step: int, split: str = "train", **more: float) -> dict[str, Any]:
    return {
        "step": step,
        "tokens": step * 4096,
        "seconds": step * 2.5,
        "split": split,
        "loss": 8.0 - step / 10,
        "masked_lm.loss": 7.5 - step / 10,
        "masked_lm.accuracy": step / 100,
        "next_sentence.loss": 0.6,
        "next_sentence.accuracy": 0.5 + step / 200,
        **more,
    }


def write_run(folder: Path, records: list[dict[str, Any]] | None = None, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if records is None:
        records = [record(s, learning_rate=1e-3, tokens_per_second=30000.0) for s in range(1, 9)]
        records.append(record(8, "dev"))
    lines = "".join(json.dumps(each) + "\n" for each in records)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def examples(word: str = "mean") -> dict[str, Any]:
    return {
        "baselines": {"masked_lm.accuracy": 0.05},
        "sections": [
            sections.fractions_side_by_side(
                f"Figures {word}",
                {f"Masked {word}": (word, {f"BERT {word}": 0.3, "most frequent": 0.05})},
                f"By lot {word}.",
            ),
            sections.blanks(
                f"Masked words {word}",
                [
                    {
                        "text": f"The [MASK] of {word}.",
                        "truth": word,
                        "source": word,
                        "top": [(word, 0.4), ("x", 0.1)],
                    }
                ],
                word,
            ),
            sections.table(word, [word, "y"], [[word, word]], word, even=True),
            sections.dots(word, [[0, 1], [1, 0], [2, 2]], [word] * 3, ["a", word, "b"], word, word),
        ],
    }
