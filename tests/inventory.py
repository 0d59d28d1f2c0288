"""What a user has: options, Python names, JSON keys, routes, files, presets and formats.

    python tests/inventory.py --out tests/inventory.txt

writes one fact a line, without sentences, so that `git diff tests/inventory.txt` shows what a
change gives and takes. It makes the small runs of `tests/formats/make_runs.py` in a temporary
folder, which takes some minutes; `--quick` leaves out all that needs them, and takes seconds.

Options, presets and routes are asked of the program itself. Files, JSON keys and formats are
observed: a verb runs, and what it writes, prints or refuses is noted. The commands that are
observed stand in tables below; a new verb, format or kind of run is a row there.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import re
import sys
import tempfile
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bertwright
from bertwright.cli.app import make_app
from bertwright.cli.app import run as run_verb
from bertwright.models.catalogue import MODELS, trainable
from docs.generator.options import options_of, variants, verbs_below
from tests.forms import ALIKE, FORMS, LABELS, ROWS, WORDS

Json = Any

# Options


def arguments_of(verb: Sequence[str], words: Sequence[str] = ()) -> dict[str, str]:
    """Return name -> type and default of the options of a verb, for the words after it."""
    found = {}
    for option in options_of(verb, words):
        kind = " (positional)" if option.positional else ""
        value = "" if option.default is None else f" = {option.default}"
        found["/".join(option.names) + kind] = f"{option.type}{value}"
    return found


def options() -> Iterator[str]:
    """Yield the options of every verb, with their types, choices and defaults.

    Those of `pretrain` depend on the system, those of `finetune` and `compare` on the kind of task.
    An option that not all of them have with the same type and default is listed with those that
    have it.
    """
    for verb in sorted(verbs_below(make_app())):
        depending = variants().get(" ".join(verb))
        if depending is None:
            for name, rest in sorted(arguments_of(verb).items()):
                yield f"{' '.join(verb)} {name}: {rest}"
            continue
        of_options: dict[str, list[str]] = {}
        for variant, words in depending.items():
            for name, rest in arguments_of(verb, words).items():
                of_options.setdefault(f"{name}: {rest}", []).append(variant)
        for line, names_of_variants in sorted(of_options.items()):
            everywhere = len(names_of_variants) == len(depending)
            some = "" if everywhere else f" [{', '.join(names_of_variants)}]"
            yield f"{' '.join(verb)} {line}{some}"


# Names of Python


def parameters(name: str, function: Any) -> Iterator[str]:
    """Yield a function's name with each of its parameters, and its result."""
    found = inspect.signature(function)
    for each in found.parameters.values():
        if each.name in ("self", "cls"):
            continue
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        default = getattr(each.default, "__name__", repr(each.default))
        value = "" if each.default is each.empty else f" = {default}"
        yield f"{name}({STARS.get(each.kind, '')}{each.name}{kind}{value})"
    result = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    yield f"{name}(){result}"


STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def names() -> Iterator[str]:
    """Yield the public names of the package, with the methods and attributes of its classes."""
    classes = {"bertwright.load(...)": typing.get_type_hints(bertwright.load)["return"]}
    for name in dir(bertwright):
        value = getattr(bertwright, name)
        if inspect.isclass(value):
            classes[f"bertwright.{name}"] = value
        elif callable(value):
            yield from parameters(f"bertwright.{name}", value)
        else:
            yield f"bertwright.{name}"
    for name, of in classes.items():
        members = dict(inspect.getmembers(of))
        for member in sorted(members | getattr(of, "__dataclass_fields__", {})):
            value = members.get(member)
            if member.startswith("_"):
                continue
            if inspect.isfunction(value) or inspect.ismethod(value):
                yield from parameters(f"{name}.{member}", value)
            else:
                yield f"{name}.{member}"


# Presets


def presets() -> Iterator[str]:
    """Yield every name that `pretrain --model` takes, with its sizes."""
    for system in trainable():
        yield f"{system}: default {MODELS[system].default}"
        for name, config in MODELS[system].presets.items():
            sizes = " ".join(f"{key}={value}" for key, value in asdict(config).items())
            yield f"{system}: {name}: {sizes}"


# What a verb writes, prints and refuses


def attempt(*words: object) -> tuple[int, str, str]:
    """Run a command line; return its exit code, what it printed, and its messages."""
    out, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
        code = run_verb([str(word) for word in words])
    return code, out.getvalue(), messages.getvalue()


def keys(values: Iterable[Json]) -> Iterator[str]:
    """Yield the keys of JSON values with the types of what they hold; rows of a list are merged."""
    found: dict[str, set[str]] = {}
    for value in values:
        for key, kind in leaves(value):
            found.setdefault(key, set()).add(kind)
    for key, kinds in sorted(found.items()):
        yield f"{key}: {' | '.join(sorted(kinds))}"


def leaves(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, type) of everything in a JSON value that holds nothing else."""
    if path.rpartition(".")[2] == "settings":
        yield path, "options"
    elif isinstance(value, dict) and value:
        named = path.rpartition(".")[2] in NAMED_BY_DATA
        for key, each in value.items():
            key = "*" if named else key
            yield from leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for each in value:
            yield from leaves(each, f"{path}[]")
    else:
        kinds = {bool: "boolean", int: "number", float: "number", str: "text"}
        empty = {dict: "{}", list: "[]"}.get(type(value), "null")
        yield path, kinds.get(type(value), empty)


NAMED_BY_DATA = (
    "characters_by_package",
    "extras",
    "figures",
    "intervals",
    "layer_weights",
    "left_out",
    "per_label",
    "scripts",
    "shapes",
    "special_tokens",
    "summary",
    "tasks",
)
"""Keys of objects whose own keys are names that the data or the machine gives, shown as `*`."""


def folders_below(folder: Path) -> Iterator[str]:
    """Yield each folder below a folder with the names of its files.

    Numbers of checkpoints are shown as `N`, and what is of one system as of `*`.
    """
    found: dict[str, set[str]] = {}
    for path in folder.rglob("*"):
        if path.is_file() or path.is_symlink():
            name = re.sub(r"\b(step|shard)-\d+", r"\1-N", str(path.relative_to(folder)))
            name = re.sub(r"^(runs|tasks|stages)/[a-z]+\d?[a-z]*(-1)?/", r"\1/*/", name)
            name = re.sub(r"learning-rates/[^/]+/", "learning-rates/*/", name)
            above, _, last = name.rpartition("/")
            found.setdefault(f"{above}/", set()).add(last)
    for above, names in sorted(found.items()):
        yield f"{above} {' '.join(sorted(names))}"


OF_RUNS: dict[str, tuple[str, ...]] = {
    "tokenizer inspect": ("{text}", "--tokenizer", "bert"),
    "tokenizer train": ("data/text.txt", "--vocab-size", "120", "--out", "new/tokenizer"),
    "tokenizer extend": ("data/dev.txt", "--model", "bert", "--add", "2", "--min-count", "1",
                         "--out", "new/longer"),
    "data build": ("data/text.txt", "--tokenizer", "new/tokenizer", "--out", "new/shards"),
    "data check": ("shards/wordpiece",),
    "data trees": ("data/trees.mrg", "--vocab-size", "90", "--out", "new/trees"),
    "fill": ("the [MASK] sees it", "--model", "bert"),
    "generate": ("the quick", "--model", "gpt2", "--max-new-tokens", "3"),
    "translate": ("{text}", "--model", "transformer"),
    "translate to a file": ("--input", "data/source.txt", "--reference", "data/target.txt",
                            "--out", "new/translated.txt", "--model", "transformer"),
    "next-sentence": ("{text}", "it sleeps .", "--model", "bert"),
    "answer": ("data/questions.txt", "--model", "memory-network"),
    "parse": ("the owl sleeps .", "--model", "parser"),
    "parse to a score": ("--reference", "data/trees.mrg", "--model", "parser"),
    "attention": ("{text}", "--model", "bert"),
    "attention of a corpus": ("--corpus", "data/dev.txt", "--model", "bert"),
    "perplexity": ("data/dev.txt", "--model", "gpt"),
    "perplexity of two": ("data/dev.txt", "--model", "ngram", "--model", "awd-lstm"),
    "perplexity of pairs": ("--pairs", "data/minimal.tsv", "--model", "gpt"),
    "embed": ("--input", "data/dev.txt", "--model", "bert", "--out", "new/vectors.npy"),
    "whiten": ("--input", "data/text.txt", "--model", "bert", "--out", "new/whitening.npz",
               "--dimensions", "3"),
    "plot": ("--input", "data/dev.txt", "--model", "bert", "--out", "new/plot.html"),
    "similar": ("{text}", "--corpus", "data/dev.txt", "--model", "bert"),
    "mine": ("--count", "1", "--pairs", "data/matches.tsv", "--model", "bert",
             "--out", "new/mined.jsonl"),
    "words nearest": ("fox", "--model", "word2vec"),
    "words analogy": ("cat", "baker", "dog", "--model", "word2vec"),
    "words evaluate": ("data/ratings.txt", "--model", "word2vec"),
    "senses": ("--model", "bert", "--word", "bank"),
    "export onnx": ("--model", "bert", "--out", "new/onnx"),
    "export openvino": ("--model", "bert", "--out", "new/openvino"),
    "convert": ("bert", "new/huggingface"),
    "convert words": ("word2vec", "new/vectors.vec", "--to", "word2vec"),
    "convert n-grams": ("ngram", "new/ngram.arpa", "--to", "arpa"),
    "convert to static": ("bert", "new/static", "--to", "static", "--dimensions", "4"),
    "inspect": ("bert",),
    "inspect a task": ("task-tagging",),
    "report": ("bert",),
    "evaluate classification": ("--model", "task-classification",
                                "--data", "data/classification-dev.tsv"),
    "evaluate multi-label": ("--model", "task-multi-label", "--data", "data/multi-label-dev.jsonl"),
    "evaluate regression": ("--model", "task-regression", "--data", "data/regression-dev.jsonl"),
    "evaluate tagging": ("--model", "task-tagging", "--data", "data/tagging-dev.conll"),
    "evaluate span": ("--model", "task-span", "--data", "data/span-dev.jsonl"),
    "evaluate multiple-choice": ("--model", "task-multiple-choice",
                                 "--data", "data/multiple-choice-dev.jsonl"),
    "evaluate generation": ("--model", "task-generation", "--data", "data/generation-dev.jsonl"),
    "evaluate-vectors": ("--model", "bert", "--data", "data/scored.tsv"),
    "evaluate-search": ("--model", "bert", "--data", "data/search"),
    "evaluate predictions": ("--predictions", "new/predicted.jsonl", "--kind", "classification",
                             "--data", "data/classification-dev.tsv"),
    "info": (),
    "compare": ("data/text.txt", "--train", "data/classification-train.tsv", "--systems",
                "ngram,word2vec,bert", "--tokens", "3000", "--task-minutes", "0.05",
                "--out", "new/compared"),
    "glue": ("--model", "bert", "--data", "data/glue", "--epochs", "1", "--out", "new/glue"),
    "quickstart": ("--minutes", "0.02", "--out", "new/quickstart"),
}  # fmt: skip
"""Name of an observed command -> the words after its verb. A name is a verb, or a verb and words
that tell it from others; the verb runs with `--json`."""

PREDICTED = {
    "classification": "classification-dev.tsv",
    "multi-label": "multi-label-dev.jsonl",
    "regression": "regression-dev.jsonl",
    "tagging": "tagging-dev.conll",
    "span": "span-dev.jsonl",
    "multiple-choice": "multiple-choice-dev.jsonl",
    "generation": "generation-dev.jsonl",
}
"""Kind of a fine-tuned run -> the file in `data` that `predict` reads."""

SUFFIXES = {
    "embed": (".npy", ".parquet", ".jsonl", ".csv", ".txt"),
    "predict": (".jsonl", ".csv", ".tsv", ".txt", ".parquet"),
    "attention": (".html", ".pdf", ".png"),
    "plot": (".html", ".png", ".svg"),
}
"""Verb -> the suffixes of `--out` that are tried."""

CONVERTED = {
    "huggingface": "bert",
    "tensorflow": "bert",
    "sentence-transformers": "bert",
    "static": "bert",
    "elmo": "elmo",
    "word2vec": "word2vec",
    "fasttext": "fasttext",
    "arpa": "ngram",
}
"""Format that `convert --to` writes -> the run that is written; each is then read by `inspect`,
`embed` and `convert`."""


def write_more_data() -> None:
    """Write the files that `sample_data.py` does not write: ratings, pairs, a search, GLUE."""
    data = Path("data")
    pairs = [("the fox sleeps .", "it sleeps ."), ("a kind baker", "the baker sells bread .")] * 8
    for number, (first, second) in enumerate(pairs):
        pairs[number] = (f"{first} {number}", f"{second} {number}")
    scored = [f"{a}\t{b}\t{n % 5 / 2}" for n, (a, b) in enumerate(pairs)]
    texts = {
        "ratings.txt": [f"{a} {b} {n}" for n, (a, b) in enumerate([*ALIKE, *ALIKE])],
        "matches.tsv": ["anchor\tpositive", *("\t".join(each) for each in pairs)],
        "scored.tsv": ["sentence1\tsentence2\tscore", *scored],
        "minimal.tsv": ["good\tbad", *("\t".join(each) for each in pairs)],
    }
    for name, lines in texts.items():
        (data / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    search = data / "search"
    (search / "qrels").mkdir(parents=True)
    rows = [{"_id": f"d{n}", "title": "", "text": b} for n, (_, b) in enumerate(pairs)]
    (search / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    rows = [{"_id": f"q{n}", "text": a} for n, (a, _) in enumerate(pairs)]
    (search / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    lines = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(len(pairs)))]
    (search / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    for name in ("train", "dev"):
        labelled = (data / f"classification-{name}.tsv").read_text("utf-8").splitlines()[1:]
        folder = data / "glue" / "SST-2"
        folder.mkdir(parents=True, exist_ok=True)
        rows_ = [line.replace("\tanimal", "\t0").replace("\tperson", "\t1") for line in labelled]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *rows_]) + "\n", "utf-8")


TEXT = "the quick fox finds the red lamp ."


def observed() -> Iterator[tuple[str, str]]:
    """Yield (section, fact) of all that is observed, in runs made in the working directory."""
    from tests.formats.sample_data import build_shards, write_data

    Path("new").mkdir()
    write_data()
    write_more_data()
    build_shards(Path("shards"), Path("tokenizers"))
    yield from files_of_runs()
    out = Path("new/predicted.jsonl")
    attempt(
        "predict",
        "--model",
        "task-classification",
        "--out",
        out,
        "--input",
        "data/classification-dev.tsv",
    )
    attempt(
        "finetune",
        "similarity",
        "--model",
        "bert",
        "--train",
        "data/matches.tsv",
        "--epochs",
        "1",
        "--max-length",
        "16",
        "--stride",
        "4",
        "--out",
        "new/sentences",
    )
    for name, words in OF_RUNS.items():
        yield from json_of(name, [word.format(text=TEXT) for word in words])
    for kind, file in PREDICTED.items():
        given = ("--model", f"task-{kind}", "--input", f"data/{file}")
        _, printed, _ = attempt("predict", *given)
        for key in keys(map(json.loads, printed.splitlines())):
            yield "JSON", f"predict {kind}: {key}"
    for name in ("tokenizer", "shards", "trees", "longer", "onnx", "openvino", "compared", "glue",
                 "quickstart", "static", "sentences"):  # fmt: skip
        for line in folders_below(Path("new") / name):
            yield "files", f"{name}: {line}"
    yield from written_formats()
    yield from read_forms()


def json_of(name: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of the JSON object that a verb prints, or that it failed."""
    verb = next(each for each in sorted(verbs_below(make_app()), reverse=True)
                if name.split()[: len(each)] == each)  # fmt: skip
    print(name, flush=True)
    code, printed, messages = attempt(*verb, *words, "--json")
    if code:
        print(f"  exit code {code}: {messages.strip().splitlines()[-1]}", flush=True)
        yield "JSON", f"{name}: exit code {code}"
        return
    for key in keys(map(json.loads, printed.splitlines())):
        yield "JSON", f"{name}: {key}"


def files_of_runs() -> Iterator[tuple[str, str]]:
    """Make every run of `make_runs.py`; yield its files, and the keys of its log and results.

    What not all systems or kinds of task have is listed with those that have it.
    """
    from tests.formats.configurations import FINETUNED, PRETRAINED
    from tests.formats.make_runs import finetune, start

    kinds = {"pretrain": PRETRAINED, "finetune": FINETUNED}
    for verb, configs in kinds.items():
        found: dict[tuple[str, str], dict[str, None]] = {}
        for name, config in configs.items():
            print(name, flush=True)
            if verb == "pretrain":
                common = {"out": name, "seed": 3, "precision": "fp32", "device": "cpu"}
                start(["pretrain"], {**common, **config})
            else:
                finetune(name)
            folder = Path(name)
            facts = [("files", line) for line in folders_below(folder)]
            for file in ("metrics.jsonl", "results.json", "environment.json"):
                text = (folder / file).read_text("utf-8") if (folder / file).exists() else ""
                lines = text.splitlines() if file.endswith("l") else [text] * bool(text)
                facts += [
                    ("JSON", f"{file}: {key.removeprefix('tasks.*.')}")  # multitask: those of one
                    for key in keys(map(json.loads, lines))
                ]
            for fact in facts:
                kind = name if verb == "pretrain" else configs[name][0]
                found.setdefault(fact, {})[kind] = None
        count = len(configs if verb == "pretrain" else {kind for kind, _ in configs.values()})
        for (section, fact), runs in sorted(found.items()):
            some = "" if len(runs) == count else f" [{', '.join(runs)}]"
            yield section, f"run of {verb}: {fact}{some}"


def written_formats() -> Iterator[tuple[str, str]]:
    """Yield whether each format is written by a verb, and read again by others."""
    for verb, suffixes in SUFFIXES.items():
        for suffix in suffixes:
            out = Path("new") / f"of-{verb}{suffix}"
            model = "task-classification" if verb == "predict" else "bert"
            given: tuple[object, ...] = ("--model", model, "--input", "data/dev.txt")
            if verb == "attention":
                given = (TEXT, "--model", model)
            code, *_ = attempt(verb, *given, "--out", out)
            yield "formats", f"{verb} --out {suffix}: {'written' if not code else 'refused'}"
    for name, run in CONVERTED.items():
        out = Path("new") / {"word2vec": "w.vec", "fasttext": "f.bin", "arpa": "n.arpa"}.get(
            name, f"as-{name}"
        )
        code, *_ = attempt("convert", run, out, "--to", name)
        found = ["written" if not code else "refused"]
        for verb, words in {
            "convert": ("convert", out, f"new/back-{name}"),
            "inspect": ("inspect", out),
            "embed": ("embed", "--model", out, "--input", "data/dev.txt", "--out",
                      f"new/{name}.npy"),
            "evaluate-vectors": ("evaluate-vectors", "--model", out, "--data", "data/scored.tsv"),
        }.items():  # fmt: skip
            code, *_ = attempt(*words)
            found.append(f"{'read' if not code else 'not read'} by {verb}")
        yield "formats", f"{name}: {', '.join(found)}"


# Forms of files


def read_forms() -> Iterator[tuple[str, str]]:
    """Yield whether each form of file is read, compressed and Parquet too."""
    folder = Path("forms")
    folder.mkdir()
    number = 0

    def is_read(what: str, path: Path) -> bool:
        nonlocal number
        number += 1
        out = folder / f"out-{number}"
        kind, *flags = what.split()
        small = ("--epochs", "0.1", "--max-length", "16", "--stride", "4", "--no-baselines")
        given: tuple[object, ...] = ("finetune", kind, *flags, "--model", "bert", "--train", path,
                                     "--learning-rate", "1e-3", *small, "--out", out)  # fmt: skip
        if what.startswith("data build"):
            given = (*what.split(), path, "--tokenizer", "tokenizers/wordpiece", "--out", out)
        elif what == "words evaluate":
            given = ("words", "evaluate", path, "--model", "word2vec")
        elif what.startswith("perplexity"):
            given = (*what.split(), path, "--model", "gpt")
        return not attempt(*given)[0]

    for what, forms in FORMS.items():
        for name, content in forms.items():
            print(what, name, flush=True)
            path = folder / what.replace(" ", "") / name.replace(" ", "-")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
            yield "formats", f"{what}: {name}: {'read' if is_read(what, path) else 'refused'}"
    for what, name, content in (
        ("classification", "rows.jsonl", ROWS),
        ("data build", "text.txt", "\n".join(WORDS) + "\n"),
    ):
        for suffix, pack in compressors().items():
            path = folder / f"{name}{suffix}"
            path.write_bytes(pack(content.encode()))
            yield "formats", f"{what}: *{suffix}: {'read' if is_read(what, path) else 'refused'}"
    path = folder / "rows.parquet"
    write_parquet(path)
    for what in ("classification", "data build"):
        yield "formats", f"{what}: Parquet: {'read' if is_read(what, path) else 'refused'}"
    classes = folder / "classes"
    for number_, (text, label) in enumerate(zip(WORDS, LABELS, strict=True)):
        (classes / label).mkdir(parents=True, exist_ok=True)
        (classes / label / f"{number_}.txt").write_text(text, encoding="utf-8")
    for what in ("classification", "data build"):
        yield "formats", f"{what}: folder: {'read' if is_read(what, classes) else 'refused'}"


def compressors() -> dict[str, Callable[[bytes], bytes]]:
    """Return suffix -> a function that compresses."""
    import bz2
    import gzip
    import lzma

    import zstandard

    return {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
            ".zst": zstandard.ZstdCompressor().compress}  # fmt: skip


def write_parquet(path: Path) -> None:
    """Write labelled texts as Parquet."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": WORDS, "label": LABELS}), path)


# The server


def routes(model: str) -> Iterator[str]:
    """Yield every route with the fields of its request and its reply."""
    from fastapi.routing import iter_route_contexts
    from fastapi.testclient import TestClient

    from bertwright.config.serve import ServeConfig
    from bertwright.serve.app import make_app as make_server

    config = ServeConfig(model=(f"m={model}",), device="cpu", log_requests=False)
    server: Any = make_server(config)
    with TestClient(server) as client:
        document = client.get("/openapi.json").json()
    application: Any = getattr(server, "app", server)
    listed = {(path, method.upper()) for path, of in document["paths"].items() for method in of}
    for route in iter_route_contexts(application.routes):
        for method in sorted((route.methods or {"*"}) - {"HEAD"}):
            if (route.path, method) not in listed:
                yield f"{method} {route.path}"
    for path, methods in sorted(document["paths"].items()):
        for method, of in methods.items():
            route = f"{method.upper()} {path}"
            yield route
            for each in of.get("parameters", ()):
                yield f"{route}: {each['in']}.{each['name']}"
            body = of.get("requestBody", {}).get("content", {})
            for field in sorted(fields(document, body, "request")):
                yield f"{route}: {field}"
            for code, reply in of["responses"].items():
                content = reply.get("content", {})
                if code.startswith("2"):
                    for field in sorted(fields(document, content, "reply")):
                        yield f"{route}: {field}"
                else:
                    yield f"{route}: {code}"


def fields(document: Json, content: Json, path: str) -> Iterator[str]:
    """Yield the fields of a body, by the schemas of an OpenAPI document."""
    found: dict[str, list[str]] = {}
    for media, of in content.items():
        whole = path if media == "application/json" else f"{path} ({media})"
        for field, kind in fields_of_schema(document, of.get("schema", {}), whole, ()):
            kinds = found.setdefault(field, [])
            kinds += [kind] * (kind not in kinds)
    for field, kinds in found.items():
        yield f"{field}: {' | '.join(sorted(kinds))}"


def fields_of_schema(
    document: Json, schema: Json, path: str, above: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the fields of one schema and their types or choices; `?` ends an optional one."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        if name in above:
            yield path, name
            return
        inner = document["components"]["schemas"][name]
        yield from fields_of_schema(document, inner, path, (*above, name))
    elif parts := schema.get("anyOf") or schema.get("oneOf"):
        for part in parts:
            yield from fields_of_schema(document, part, path, above)
    elif "properties" in schema:
        for name, of in schema["properties"].items():
            needed = "" if name in schema.get("required", ()) else "?"
            yield from fields_of_schema(document, of, f"{path}.{name}{needed}", above)
    elif schema.get("type") == "array":
        yield from fields_of_schema(document, schema.get("items", {}), f"{path}[]", above)
    else:
        choices = schema.get("enum") or [schema[key] for key in ("const",) if key in schema]
        yield (
            path,
            "{" + ", ".join(map(str, choices)) + "}" if choices else schema.get("type", "any"),
        )


# The whole

QUICK: dict[str, Callable[[], Iterable[str]]] = {
    "options": options,
    "names": names,
    "presets": presets,
}
"""The sections that need no run."""


def inventory(quick: bool) -> dict[str, list[str]]:
    """Return the sections of the inventory, each a list of facts."""
    sections: dict[str, list[str]] = {title: [*make()] for title, make in QUICK.items()}
    if quick:
        return sections
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for title, fact in observed():
                sections.setdefault(title, []).append(fact)
            sections["routes"] = [*routes("bert")]
        finally:
            os.chdir(before)
    return sections


def main() -> None:
    """Write the inventory."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--out", type=Path, help="file to write; unset: standard output")
    parser.add_argument("--quick", action="store_true", help="leave out all that needs runs")
    given = parser.parse_args()
    out = given.out and given.out.absolute()
    sections = inventory(given.quick)
    text = "\n".join("\n".join([f"# {title}", *facts, ""]) for title, facts in sections.items())
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
