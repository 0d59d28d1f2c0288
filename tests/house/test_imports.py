"""Imports go down only, siblings do not know each other, and data is built without torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from bertwright.cli.app import VERBS
from tests.house.source import Module, imports, modules

FLOORS = {
    "arrays": 1,
    "atomic": 1,
    "config": 1,
    "cpu_threads": 1,
    "errors": 1,
    "machine": 1,
    "process_settings": 1,
    "progress": 1,
    "version": 1,
    "nn": 2,
    "rows": 2,
    "text": 3,
    "data": 4,
    "labelled": 4,
    "storage": 4,
    "decoding": 5,
    "train": 5,
    "models": 6,
    "tasks": 6,
    "transfer": 6,
    "checkpoint": 7,
    "inference": 8,
    "serve": 9,
    "report": 10,
    "console": 11,
    "recipes": 11,
    "cli": 12,
    "scripting": 12,
    "__main__": 13,
}
"""docs/explanation/architecture.md, "Floors"."""

BESIDE = {
    ("config", "errors"),
    ("atomic", "errors"),
    ("process_settings", "machine"),
}
"""(from, to) on one floor: configurations and folders raise errors, and settings of the process
depend on its cores."""

STANDARD_ONLY = {"errors", "version", "progress", "atomic", "machine", "process_settings", "config"}
"""What a wrong key must not wait for."""

SHARED_BY_MODELS = {"catalogue", "language_models", "layout", "system", "translation"}
"""Files of `models/` itself that a system may import: its row, its record, the layout of folders,
and what several systems share."""
NAME_EVERY_MODEL = {"bertwright.models.catalogue", "bertwright.models.load"}

MADE_OF_OTHERS = {
    ("bert2rnd", "bert"),  # its encoder is a BERT
    ("bert2rnd", "transformer"),  # its decoder is the Transformer's
    ("roberta", "bert"),  # the family: layers, objectives and instances are BERT's
    ("distilbert", "bert"),
    ("electra", "bert"),
    ("albert", "bert"),
    ("mpnet", "bert"),
    ("modernbert", "bert"),
    ("memory_network", "word_vectors"),  # its encoder is a table of word vectors
}
"""(model, the model that it may import): those that are made of others."""


INSIDE = {
    "nn": (
        {"finite", "host", "init", "products"},
        {"ragged"},
        {"sequences"},
        {"batch", "encoder"},
        {"objective"},  # from here on what implements the interfaces
        {"features", "last_tokens", "layers"},
        {"transformer"},
        {"outputs"},
    ),
    "inference": (
        {"encode", "inputs", "spelling"},
        {"backends"},
        {"fill", "generate", "next_sentence", "score", "translation"},
        {"attention", "vectors"},
        {"model"},
        {"distill", "files", "senses", "sklearn", "stories", "word_vectors"},
    ),
    "serve": (
        {"auth", "client", "errors", "playground", "schemas"},
        {"event_stream", "limits", "threads"},
        {"engine"},
        {"metrics"},
        {"service"},
        {"http"},
        {"calls"},
        {"routing"},
        {"routes"},
        {"app"},
        {"process"},
    ),
    "serve.http": (
        {"error_replies", "middleware"},
        {"bodies", "connection"},
    ),
    "serve.engine": (
        {"batching", "folder"},
        {"generation"},
        {"engine"},
        {"outputs"},
        {"items", "loading"},
    ),
}
"""The files and folders of a folder from below: each imports only from lower rows."""


def go_down(module: Module) -> Iterator[str]:
    for found in imports(module.name):
        if not found.module.startswith("bertwright"):
            continue
        where = f"{module.place}:{found.line}"
        target = modules().get(found.module)
        if target is None:
            yield f"{where} imports {found.module}, which is no file"
        elif target.name == "bertwright":
            yield f"{where}: import from the file that has the name"
        elif module.name == "bertwright":
            if not found.typing_only and found.module != "bertwright.version":
                yield f"{where}: `import bertwright` must stay quick"
        elif strange := {module.part, target.part} - FLOORS.keys():
            yield f"{where}: {strange} has no floor; give it one here and in the docs"
        elif (
            FLOORS[target.part] >= FLOORS[module.part]
            and module.part != target.part
            and (module.part, target.part) not in BESIDE
        ):
            yield f"{where}: {module.part} must not import {target.part}"


def go_down_inside_a_folder(module: Module) -> Iterator[str]:
    for folder, floors in INSIDE.items():
        inside = f"bertwright.{folder}."
        if not module.name.startswith(inside):
            continue
        rows = {name: row for row, names in enumerate(floors) for name in names}
        own = module.name.removeprefix(inside).partition(".")[0]
        if own not in rows:
            yield f"{module.place}: {own} has no row in `INSIDE`"
            continue
        for found in imports(module.name):
            theirs = found.module.removeprefix(inside).partition(".")[0]
            if (
                found.module.startswith(inside)
                and not found.typing_only
                and theirs != own
                and rows[theirs] >= rows[own]
            ):
                yield f"{module.place}:{found.line}: {own} must not import {theirs}"


def come_from_the_file(module: Module) -> Iterator[str]:
    for found in imports(module.name):
        target = modules().get(found.module)
        is_package = target is not None and target.path.name == "__init__.py"
        if is_package and found.module != "bertwright":
            yield f"{module.place}:{found.line} imports through {found.module}"


def do_not_know_their_siblings(module: Module) -> Iterator[str]:
    """No verb imports a verb, no kind of task a kind, and no model a model."""
    if module.part == "cli" and module.name != "bertwright.cli.app":  # which starts the verbs
        verbs = {target.partition(":")[0] for target, _ in VERBS.values()}
        for found in imports(module.name):
            if found.module in verbs:
                yield f"{module.place}:{found.line}: a verb knows a verb"
    kinds = {found.module for found in imports("bertwright.tasks.catalogue") if not found.at_top}
    if module.name in kinds:
        for found in imports(module.name):
            if found.module in kinds:
                yield f"{module.place}:{found.line}: a kind of task knows a kind of task"
    if module.part != "models" or module.name in NAME_EVERY_MODEL:
        return
    own = module.name.split(".", 2)[2:]
    for found in imports(module.name):
        target = modules().get(found.module)
        if target is None or target.part != "models":
            continue
        theirs = target.name.split(".")[2]
        if theirs in SHARED_BY_MODELS or own[0].split(".")[0] == theirs:
            continue
        if (own[0].split(".")[0], theirs) not in MADE_OF_OTHERS:
            yield f"{module.place}:{found.line} imports the model {theirs}"


KNOW_BERT = (
    "checkpoint.",  # its foreign folders, a larger vocabulary for it, its exported graphs
    "inference.backends.packed",  # its packed weights
    "recipes.learned.bert",  # what its page shows
    "cli.data",  # which checks the instances of one by default
)
"""Files outside of `models/` that may import BERT; all others know the interface of an encoder and
of its heads."""


def go_by_the_interface(module: Module) -> Iterator[str]:
    """All else knows an encoder, not BERT."""
    name = module.name.removeprefix("bertwright.")
    if module.part == "models" or name.startswith(KNOW_BERT):
        return  # `MADE_OF_OTHERS` says which models may import it
    for found in imports(module.name):
        if found.module.startswith("bertwright.models.bert."):
            yield f"{module.place}:{found.line} imports BERT: what does the interface lack?"


DATA_WITHOUT_TORCH = {
    "data.build",
    "data.checkup",
    "data.counted_pairs",
    "data.doctor",
    "data.encode",
    "data.parallel.build",
    "data.randomness",
    "data.shards",
    "data.split",
}
"""Files of `data/` that the processes which build a corpus may import."""


def need_the_standard_library_only(module: Module) -> Iterator[str]:
    if module.part in STANDARD_ONLY or module.holds_configurations:
        for found in imports(module.name):
            top = found.module.partition(".")[0]
            if top not in {"bertwright", "tomli_w", *sys.stdlib_module_names}:  # which writes TOML
                yield f"{module.place}:{found.line} imports {top}"


def needs_no_torch(module: Module) -> bool:
    """Rows, text, and the files of data that build and examine a corpus; batches are tensors."""
    name = module.name.removeprefix("bertwright.")
    return module.part in ("rows", "text") or name in DATA_WITHOUT_TORCH


def do_not_import_torch(module: Module) -> Iterator[str]:
    if needs_no_torch(module):
        for found in imports(module.name):
            if found.module.partition(".")[0] == "torch":
                yield f"{module.place}:{found.line} imports torch"


RULES = (
    go_down,
    go_down_inside_a_folder,
    come_from_the_file,
    do_not_know_their_siblings,
    go_by_the_interface,
    need_the_standard_library_only,
    do_not_import_torch,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_imports(rule: Callable[[Module], Iterator[str]]) -> None:
    broken = [told for module in modules().values() for told in rule(module)]
    assert not broken, "\n".join(broken)


def test_there_is_no_circle() -> None:
    """Imports for types alone count: a circle of names is a circle for a reader too."""
    done: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"circle: {' -> '.join(path[path.index(name) :])} -> {name}"
        if name in done or name == "bertwright":
            return
        for found in imports(name):
            if found.module in modules():
                follow(found.module, (*path, name))
        done.add(name)

    for name in modules():
        follow(name, ())


def test_text_and_the_building_of_data_run_without_torch() -> None:
    program = "import importlib, sys\n"
    names = [name for name, module in modules().items() if needs_no_torch(module)]
    program += f"for name in {names}: importlib.import_module(name)\n"
    program += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=600).returncode == 0
