"""CoNLL-2003: document context, CRF, and the feature-based rows of BERT's table 7.

    python experiments/finetuning/conll.py --out DIR [--seeds 3] [--examples 3000]
        [--rows sentence document ...] [--split dev] [--model FOLDER] [--data FOLDER]

Devlin et al. (2019), table 7: features of frozen layers under a BiLSTM, against fine-tuning. The
published BiLSTM has two layers of 768; ours has one of 256. Adds a JSON line a run to
DIR/conll.jsonl, leaves out what is there, and prints the table at the end (`--rows` with nothing
after it: only the table). The weights are those after the last step: none is chosen by a score.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from learn import learn
from lines import Lines, shown
from settings import SETTINGS, cut_documents, data_folder, model_folder

from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig

FEATURES = {"transfer": "features", "network": "bilstm", "learning_rate": 1e-3}
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sentence": ({"context": "sentence"}, {}),
    "sentence + CRF": ({"context": "sentence", "crf": True}, {}),
    "document": ({"context": "document"}, {}),
    "document + CRF": ({"context": "document", "crf": True}, {}),
    "embeddings": ({"context": "document"}, FEATURES | {"layers": "embeddings"}),
    "second-to-last": ({"context": "document"}, FEATURES | {"layers": "second-to-last"}),
    "last": ({"context": "document"}, FEATURES | {"layers": "last"}),
    "mix-last-4": ({"context": "document"}, FEATURES | {"layers": "mix-last-4"}),
    "concat-last-4": ({"context": "document"}, FEATURES | {"layers": "concat-last-4"}),
    "mix": ({"context": "document"}, FEATURES | {"layers": "mix"}),
}
"""How the sentences are read, and how the run trains; the last six are frozen features, in the
paper's order: it has "weighted sum" where we say mix."""


def training_file(given: argparse.Namespace) -> Path:
    """The training file, or whole documents of it with so many sentences."""
    train: Path = given.data / SETTINGS["CoNLL-2003"].train
    if given.examples is None:
        return train
    part: Path = given.out / "data" / f"conll-{given.examples}.txt"
    if not part.exists():
        part.parent.mkdir(parents=True, exist_ok=True)
        made = cut_documents(train.read_text(encoding="utf-8"), given.examples)
        part.write_text(made, encoding="utf-8")
    return part


def config_of(row: str, seed: int, given: argparse.Namespace) -> FinetuneConfig:
    """How a row trains."""
    setting = SETTINGS["CoNLL-2003"]
    changes = ROWS[row][1]
    tuned = {} if changes else {"epochs": given.epochs, "learning_rate": setting.learning_rate}
    return FinetuneConfig(
        given.model or model_folder(),
        str(given.out / "runs" / "conll"),
        seed=seed,
        keep="last",
        **{"epochs": given.feature_epochs, **tuned, **changes},
    )


def print_table(lines: Lines) -> None:
    """Entity F1 of every row over its seeds, by split and size of the training file."""
    print("| row | split | training sentences | entity F1 (x 100) |")
    print("|---|---|---|---|")
    kinds = sorted({(r["split"], r["train_examples"]) for r in lines.records})
    for split, sentences in kinds:
        for row in ROWS:
            records = lines.select(row=row, split=split, train_examples=sentences)
            if records:
                f1 = shown([record["scores"]["f1"] for record in records])
                print(f"| {row} | {split} | {sentences} | {f1} |")


def main() -> None:
    """Every row with the first seed, then with the next; then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--examples", type=int, help="sentences; by default the whole file")
    parser.add_argument("--epochs", type=float, default=3.0, help="of fine-tuning")
    parser.add_argument("--feature-epochs", type=float, default=10.0)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--split", choices=["dev", "test"], default="dev")
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--data", type=Path, default=data_folder())
    given = parser.parse_args()
    lines = Lines(given.out / "conll.jsonl")
    train = training_file(given)
    held_out = given.data / "tagging" / "CoNLL-2003" / f"{given.split}.txt"
    for seed in range(1, given.seeds + 1):
        for row in given.rows:
            key = {"row": row, "seed": seed, "split": given.split, "asked": given.examples}
            if lines.has(**key):
                continue
            files = TaskFilesConfig(
                str(train),
                str(held_out),
                max_length=SETTINGS["CoNLL-2003"].max_length,
                **ROWS[row][0],
            )
            record = learn("CoNLL-2003", "tagging", files, config_of(row, seed, given))
            lines.add({**key, **record})
    print_table(lines)


if __name__ == "__main__":
    main()
