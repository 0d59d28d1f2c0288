"""Tags of words outside of ELMo's vocabulary: spelled, or read as [UNK].

    python experiments/elmo/spelling.py --model RUN --tagging FOLDER --runs FOLDER

RUN is an ELMo whose tokenizer keeps capitals; FOLDER holds CoNLL-2003. A linear layer is fitted on
one layer of the frozen ELMo, on the first `--sentences` of `train.txt`, and evaluated on
`test.txt`. Writes `RUNS/results.jsonl`: the accuracy of tags on the words that are not in the
vocabulary, and on all words, for each layer and both ways of reading.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from unittest.mock import patch

import bertwright
from bertwright.cli.app import run
from bertwright.models.elmo.encoder import Elmo
from bertwright.tasks.predictions import TaggingPrediction

OPTIONS = ["--device", "cpu", "--precision", "fp32", "--overwrite"]
LAYERS = ("embeddings", "last")
COLUMNS = {"parts of speech": 2, "named entities": 4}


def read(path: Path, column: int, most: int | None = None) -> list[list[tuple[str, str]]]:
    """Return sentences of (word, tag)."""
    blocks = path.read_text("utf-8").split("\n\n")
    sentences = [[line.split() for line in block.splitlines() if line] for block in blocks]
    kept = [rows for rows in sentences if rows and rows[0][0] != "-DOCSTART-"][:most]
    return [[(row[0], row[column - 1]) for row in rows] for rows in kept]


def main() -> None:
    """Train and evaluate both ways of reading."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "tagging", "runs"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--sentences", type=int, default=1000)
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    source = given.tagging / "CoNLL-2003"
    rows: list[dict[str, str | float]] = []
    for task, column in COLUMNS.items():
        train = given.runs / f"{column}.conll"
        taught = read(source / "train.txt", column, given.sentences)
        lines = ("".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in taught)
        train.write_text("\n".join(lines), "utf-8")
        test = read(source / "test.txt", column)
        for spelled in (True, False):
            with patch.object(Elmo, "can_spell", lambda self, word, can=spelled: can):
                for layers in LAYERS:
                    out = given.runs / f"{column}-{spelled}-{layers}"
                    command = ["finetune", "tagging", "--model", given.model, "--train", train]
                    command += ["--dev", train, "--layers", layers, "--out", out]
                    assert run([*map(str, command), *OPTIONS]) == 0
                    model = bertwright.load(out)
                    vocabulary = model.tokenizer.vocab
                    predicted = model.predict([[word for word, _ in each] for each in test])
                    hits: dict[bool, list[bool]] = {True: [], False: []}
                    for sentence, tags in zip(test, predicted, strict=True):
                        assert isinstance(tags, TaggingPrediction)
                        for (word, gold), tag in zip(sentence, tags.tags, strict=True):
                            hits[word in vocabulary].append(tag == gold)
                    unknown, every = hits[False], hits[False] + hits[True]
                    row: dict[str, str | float] = {
                        "task": task,
                        "layers": layers,
                        "read": "spelled" if spelled else "[UNK]",
                        "words": len(every),
                        "unknown": len(unknown),
                        "accuracy_of_unknown": round(sum(unknown) / len(unknown), 4),
                        "accuracy": round(sum(every) / len(every), 4),
                    }
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (given.runs / "results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
