"""Write stored layouts, with what is computed with them.

    python -m tests.formats.make_layouts NAME ...

A layout is written when it is new, or changed on purpose; the others stay as an earlier version of
Bertwright, or another program, wrote them. Models of transformers are written by transformers with
random weights, all others by the verbs, with the text and the runs of `make_runs.py`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import tomli_w
import torch
import transformers

from tests.formats.configurations import FEATURES, PRETRAINED, TUNED
from tests.formats.layouts import (
    EXPECTED,
    LAYOUTS,
    LAYOUTS_FOLDER,
    TOKENIZERS_FOLDER,
    compute,
    unpack,
)
from tests.formats.make_runs import as_text, shrink_head, start, stop_half_way
from tests.formats.observe import computer, newest, one_thread, verb
from tests.formats.sample_data import TEXTS, build_shards, files, write_data

SIZES = {
    "vocab_size": 120,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
DISTILBERT = {
    "vocab_size": 120,
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 12,
    "max_position_embeddings": 40,
}
MODERNBERT = {
    **SIZES,
    "local_attention": 6,
    **dict.fromkeys(("bos_token_id", "cls_token_id"), 2),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), 3),
}
GPT = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 40}
GPT2 = {**GPT, "vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0}
THEIRS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "bert": ("Bert", "ForPreTraining", "wordpiece", SIZES),
    "roberta": ("Roberta", "ForMaskedLM", "wordpiece", {**SIZES, "type_vocab_size": 1}),
    "distilbert": ("DistilBert", "ForMaskedLM", "wordpiece", DISTILBERT),
    "electra": ("Electra", "Model", "wordpiece", {**SIZES, "embedding_size": 6}),
    "albert": ("Albert", "ForMaskedLM", "wordpiece", {**SIZES, "embedding_size": 6}),
    "mpnet": ("MPNet", "ForMaskedLM", "wordpiece", SIZES),
    "modernbert": ("ModernBert", "ForMaskedLM", "wordpiece", MODERNBERT),
    "openai-gpt": ("OpenAIGPT", "LMHeadModel", "bpe", {"vocab_size": 110, **GPT}),
    "gpt2": ("GPT2", "LMHeadModel", "byte-bpe", GPT2),
}
"""Name -> the start and the end of a class of transformers, its tokenizer and its sizes."""

RUNS = {
    "run-in-steps": PRETRAINED["bert"],
    "run-in-passes": {**PRETRAINED["word2vec"], "data": "shards/wordpiece"},
    "glove": PRETRAINED["glove"],  # the word vectors of seq2seq
    "seq2seq": PRETRAINED["cove"],
    "elmo": {
        **PRETRAINED["elmo"],
        "architecture": {
            **PRETRAINED["elmo"]["architecture"],
            "filters": [[1, 4], [2, 6]],
            "character_size": 4,
            "max_characters_per_token": 12,
        },
    },
    "fasttext": {**PRETRAINED["fasttext"], "data": "shards/word"},
    **{
        name: PRETRAINED[name]
        for name in ("transformer", "bert2rnd", "awd-lstm", "nnlm", "ngram", "memory-network")
    },
}
"""Name -> the configuration of its run; of all but the first two, only the model is stored."""

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("classification", {**TUNED, **files("classification")}),
    "generation": ("generation", {**TUNED, **files("generation"), "max_target_tokens": 12}),
    "networks": (
        "tagging",
        {**FEATURES, **files("tagging"), "layers": "mix", "crf": True, "network": "bilstm"},
    ),
    "similarity": (
        "similarity",
        {**TUNED, "train": "similar.tsv", "dev": "similar.tsv", "sizes": [8, 4]},
    ),
    "heads": ("multitask", {k: v for k, v in TUNED.items() if k not in ("max_length", "stride")}),
}
"""Name -> the kind of task, and the configuration of the run over `bert`."""
HEADS = {
    kind: {"kind": kind, **files(kind), "max_length": 32, "stride": 8}
    for kind in ("regression", "tagging", "span", "multiple-choice")
}
HEADS["classes"] = {**HEADS["regression"], "kind": "classification", **files("pair")}
HEADS["labels"] = {**HEADS["classes"], **files("multi-label"), "multi_label": True}
"""The tasks of `heads`."""

CONVERTED = {
    "tensorflow": ("bert", "tensorflow", "."),
    "static": ("bert", "static", "."),
    "elmo-hdf5": ("elmo", "elmo", "."),
    "word2vec-text": ("glove", "word2vec", "vectors.txt"),
    "word2vec-binary": ("glove", "word2vec", "vectors.bin"),
    "fasttext-binary": ("fasttext", "fasttext", "vectors.bin"),
    "arpa": ("ngram", "arpa", "ngram.arpa"),
}
"""Name -> the layout that it is converted from, the format, and its file."""
NEEDS = {
    "bert2rnd": "bert",
    "seq2seq": "glove",
    **dict.fromkeys((*TASKS, "sentence-transformers"), "bert"),
    **{name: source for name, (source, _, _) in CONVERTED.items()},
}
"""Name -> the model that it is made of."""
SHARDS_OF = {"text-shards": "wordpiece", "parallel-shards": "pairs"}
"""Name -> the shards of `make_runs.py`."""
STORED_RUNS = ("run-in-steps", "run-in-passes")
LEFT_OUT = ("README.md", "training.json", "generation_config.json")
OF_RUNS = ("trainer.json", "trainer.safetensors", "MANIFEST.json")


def make(name: str) -> Path:
    """Make a layout in the working directory, and what it needs; return its folder."""
    if not Path(name).exists():
        if name in NEEDS:
            make(NEEDS[name])
        if name in THEIRS:
            make_theirs(name)
        elif name == "sentence-transformers":
            make_sentence_transformer(name)
        elif name in RUNS:
            config = {"out": name, "seed": 3, "precision": "fp32", "device": "cpu", **RUNS[name]}
            start(["pretrain"], config)
            stop_half_way(name)
        elif name in TASKS:
            make_task(name)
        elif name in CONVERTED:
            _, to, file = CONVERTED[name]
            Path(name).mkdir()
            out = Path(name) / file
            verb("convert", NEEDS[name], out, "--to", to, *(["--overwrite"] if file == "." else []))
        else:
            shutil.copytree(Path("shards") / SHARDS_OF[name], name)
    is_run = (Path(name) / "checkpoints").is_dir()
    return newest(name) if is_run and name not in STORED_RUNS else Path(name)


def make_task(name: str) -> None:
    """Fine-tune `bert` for a task, or for several."""
    lines = ["\t".join(pair) for pair in itertools.pairwise(TEXTS)]
    Path("similar.tsv").write_text("\n".join(["text\ttext2", *lines * 3]) + "\n", "utf-8")
    Path("tasks.toml").write_text(tomli_w.dumps(HEADS), encoding="utf-8")
    kind, config = TASKS[name]
    more = ["--tasks", "tasks.toml"] if kind == "multitask" else []
    start(["finetune", kind, *more], {"out": name, "model": "bert", **config})
    shrink_head(name)


def make_theirs(name: str) -> None:
    """Write a model of transformers, all of whose numbers are random."""
    start_of_class, end_of_class, tokenizer, sizes = THEIRS[name]
    torch.manual_seed(7)
    config = getattr(transformers, f"{start_of_class}Config")(**sizes)
    model = getattr(transformers, start_of_class + end_of_class)(config)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.15)
    shutil.copytree(Path("tokenizers") / tokenizer, name)
    model.save_pretrained(name)


def make_sentence_transformer(name: str) -> None:
    """Write a model of sentence-transformers over the encoder of `bert`."""
    from sentence_transformers import SentenceTransformer, models

    torch.manual_seed(7)
    transformer = models.Transformer("bert", max_seq_length=32)
    modules = [transformer, models.Pooling(8), models.Dense(8, 6), models.Normalize()]
    prompts = {"query": "it finds ", "document": ""}
    SentenceTransformer(modules=modules, prompts=prompts).save(name)


def store(name: str, folder: Path) -> None:
    """Copy the files of a layout to where they are stored, less those that it shares."""
    out, layout = LAYOUTS_FOLDER / name, LAYOUTS[name]
    shutil.rmtree(out, ignore_errors=True)
    is_run = name in STORED_RUNS
    left_out = {*LEFT_OUT, *(() if is_run or name in SHARDS_OF else OF_RUNS)}
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns(*left_out))
    if is_run:
        forget_files(newest(out), left_out)
        forget_computer(out / "environment.json")
    if layout.tokenizer is not None:
        shared = TOKENIZERS_FOLDER / layout.tokenizer
        for path in (out / layout.inside).iterdir():
            same = shared / path.name
            if same.is_file() and same.read_bytes() == path.read_bytes():
                path.unlink()


def forget_files(checkpoint: Path, names: set[str]) -> None:
    """Take files that are left out from the manifest of a checkpoint."""
    path = checkpoint / "MANIFEST.json"
    manifest = json.loads(path.read_text("utf-8"))
    manifest["files"] = {key: of for key, of in manifest["files"].items() if key not in names}
    path.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def forget_computer(path: Path) -> None:
    """Replace what a run's environment says of the computer that it was made on."""
    environment = json.loads(path.read_text("utf-8"))
    environment |= {"system": "Linux", "processor": "x86_64"}
    path.write_text(json.dumps(environment, indent=1) + "\n", encoding="utf-8")


def write_expected(name: str) -> None:
    """Compute what is expected of a layout, in the working directory, from its stored files."""
    unpack(name)
    with one_thread():
        content = {"computer": computer(), **compute(name)}
    text = as_text(content)
    (LAYOUTS_FOLDER / name / EXPECTED).write_text(text, encoding="utf-8")


def main() -> None:
    """Write the layouts that the command line names."""
    names = sys.argv[1:]
    if not names or set(names) - LAYOUTS.keys():
        raise SystemExit(f"name layouts: {', '.join(LAYOUTS)}")
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        write_data()
        build_shards(Path("shards"), Path("tokenizers"))
        for layout in LAYOUTS.values():
            shared = TOKENIZERS_FOLDER / (layout.tokenizer or "")
            if not shared.exists():
                shutil.copytree(f"tokenizers/{layout.tokenizer}", shared)
        with one_thread():
            for name in names:
                print(name, flush=True)
                store(name, make(name))
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            write_expected(name)


if __name__ == "__main__":
    main()
