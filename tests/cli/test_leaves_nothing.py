"""A command that fails before it begins leaves nothing behind, and nothing changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bertwright.cli.app import run
from tests.small_runs import build_data

WRONG = [
    "pretrain --data shards --model brt-mini --steps 1 --out {out}",
    "pretrain --data nowhere --model bert-mini --steps 1 --out {out}",
    "pretrain --data shards --model bert-mini --steps 1 --masking.probability 7 --out {out}",
    "pretrain --data shards --model bert-mini --steps 1 --architecture.hidden-size 7 --out {out}",
    "pretrain --data shards --model bert-mini --steps 1 --init nowhere --out {out}",
    "pretrain --data shards --model ngram-5 --init nowhere --out {out}",
    "finetune classification --model nowhere --train labels.tsv --out {out}",
    "finetune classification --model {model} --train nowhere.tsv --out {out}",
    "finetune classification --model {model} --train labels.tsv --dev nowhere.tsv --out {out}",
    "finetune classification --model {model} --train labels.tsv --label nothing --out {out}",
    "finetune classification --model {model} --train labels.tsv --metric nothing --out {out}",
    "finetune classification --model {model} --train labels.tsv --learning-rate x --out {out}",
    "finetune classification --model {model} --train labels.tsv --max-length 4000 --out {out}",
    "data build corpus.txt --tokenizer nowhere --out {out}",
    "data build nowhere.txt --tokenizer tokenizer --out {out}",
    "data build empty.txt --tokenizer tokenizer --out {out}",
    "data build labels.tsv --text-column nothing --tokenizer tokenizer --out {out}",
    "data trees nowhere.mrg --tokenizer tokenizer --out {out}",
    "data stories --stories -3 --out {out}",
    "tokenizer train nowhere.txt --vocab-size 99 --out {out}",
    "tokenizer train empty.txt --vocab-size 99 --out {out}",
    "tokenizer train corpus.txt --algorithm nothing --out {out}",
    "tokenizer train corpus.txt --vocab-size 2 --out {out}",
    "tokenizer extend nowhere.txt --model {model} --out {out}",
    "tokenizer extend corpus.txt --model nowhere --out {out}",
    "embed --model nowhere --input corpus.txt --out {out}.npy",
    "embed --model {model} --input nowhere.txt --out {out}.npy",
    "embed --model {model} --input corpus.txt --layers 77 --out {out}.npy",
    "embed --model {model} --input corpus.txt --out {out}.pdf",
    "whiten --model {model} --input nowhere.txt --out {out}.npz",
    "whiten --model {model} --input corpus.txt --out {out}.pdf",
    "plot --model {model} --input nowhere.txt --out {out}.html",
    "plot --model {model} --input corpus.txt --color nothing --out {out}.html",
    "plot --model {model} --input corpus.txt --out {out}.pdf",
    "attention --model {model} the --layer 77 --out {out}.html",
    "attention --model nowhere the --out {out}.html",
    "attention --model {model} the --out {out}.pdf",
    "senses nowhere.tsv --model {model} --out {out}.html",
    "senses --model {model} --out {out}.pdf",
    "convert nowhere {out} --to huggingface",
    "convert {model} {out} --to nothing",
    "convert {model} {out} --to arpa",
    "export onnx --model nowhere --out {out}",
    "export onnx --model {model} --task nothing --out {out}",
    "export openvino --model nowhere --out {out}",
    "predict --model {model} --input corpus.txt --out {out}.jsonl",
    "predict --model nowhere --input corpus.txt --out {out}.jsonl",
    "generate --model {model} --input corpus.txt --out {out}.jsonl",
    "translate --model {model} --input corpus.txt --out {out}.txt",
    "perplexity nowhere.txt --model {model} --out {out}.jsonl",
    "perplexity corpus.txt --model nowhere --out {out}.jsonl",
    "parse --model {model} --input corpus.txt --out {out}.txt",
    "evaluate --model {model} --data labels.tsv --out {out}.json",
    "mine --model {model} --pairs nowhere.tsv --out {out}.jsonl",
    "report nowhere --out {out}.html",
    "report {model} --out {out}.pdf",
    "evaluate --model {model} --data labels.tsv --out {out}.csv",
    "generate --model {model} the --out {out}.html",
    "perplexity corpus.txt --model {model} --out {out}.csv",
    "predict --model {model} --input corpus.txt --out {out}.parquet",
    "glue --model {model} --data nowhere --out {out}",
    "compare nowhere.txt --out {out}",
    "compare corpus.txt --systems brt --out {out}",
    "quickstart --minutes -1 --out {out}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("wrong")
    build_data(base)
    (base / "empty.txt").write_text("")
    rows = (f"{text} the {text}\t{text}" for text in "ab" * 12)
    (base / "labels.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return base


def state(folder: Path) -> dict[str, int | None]:
    """Each path in a folder, with the time of the last change of its content."""
    return {
        str(path): path.stat().st_mtime_ns if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("command", WRONG)
def test_nothing_is_left(
    command: str, folder: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    shutil.rmtree("deep", ignore_errors=True)
    before = state(folder)
    words = [word.format(out=os.path.join("deep", "out"), model=tiny) for word in command.split()]
    assert run(words) != 0
    assert state(folder) == before

    # with --overwrite, what is there stays: a file, and a run
    out = Path(words[words.index("--out") + 1] if "--out" in words else words[2])
    if out.suffix:
        out.parent.mkdir()
        out.write_text("mine")
    else:
        (out / "model").mkdir(parents=True)
        for name in ("config.toml", "environment.json", "model/notes.txt"):
            (out / name).write_text("")
    before = state(folder)
    overwrite = [] if words[0] == "report" else ["--overwrite"]
    assert run([*words, *overwrite]) != 0
    assert state(folder) == before
    shutil.rmtree("deep")
