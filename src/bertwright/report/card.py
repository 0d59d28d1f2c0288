"""Model cards: the `README.md` of a fine-tuned model and of a pre-training checkpoint.

The text is in `templates/*.md.j2`. Values that a template prints are escaped so that Markdown shows
them literally, unless a filter formats them (`yaml`, `code`). Files are named without their
folders.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from bertwright.config import hub, values
from bertwright.models.catalogue import row_of
from bertwright.models.load import load
from bertwright.report.numbers import count, number, show, title
from bertwright.report.verdict import Results, kept_seed, metrics_table, verdict
from bertwright.tasks.catalogue import KINDS, kind_of, make_task

_PIPELINES = {
    "fill": "fill-mask",
    "generate": "text-generation",
    "translate": "translation",
    "answer": "question-answering",
}
"""The hub's `pipeline_tag` for the verb that uses a model. The tags of tasks are in the catalogue
of their kinds.
"""
_PATHS = {"corpus", "teacher", "data", "train", "dev", "test", "out", "model", "file", "path"}
"""The settings that name files and folders."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def card(
    results: Results,
    environment: Mapping[str, Any],
    model_type: str = "bert",
    in_transformers: bool = True,
    examples: Sequence[str] = (),
    pooled: bool = True,
) -> str:
    """Return the `README.md` of a fine-tuned model whose encoder is of `model_type`.

    Args:
        results: the results of the run.
        environment: the software and hardware of the run.
        model_type: the system of the encoder.
        in_transformers: whether transformers can load the model.
        examples: texts for trying the model on the hub and in the playground of `bertwright serve`.
        pooled: whether the encoder has a pooler, without which transformers has no class for some
            tasks.
    """
    several = results.get("tasks")
    tasks = [_task(each) for each in (several or {"": results}).values()]
    return _render(
        "card.md.j2",
        tasks=tasks,
        several=bool(several),
        name=_name(results),
        base_model=_base_model(results),
        model=_base_model(results) or PurePath(results["model"]).name,
        measured=any(task["measured"] for task in tasks),
        version=environment.get("bertwright"),
        model_type=model_type,
        in_transformers=in_transformers,
        examples=examples,
        load=_how_to_load(tasks[0]["results"], bool(several), model_type, pooled),
    )


def checkpoint_card(
    config: Any,
    position: Any,
    objectives: Collection[str],
    corpus: Mapping[str, Any] | None = None,
    record: Mapping[str, Any] | None = None,
    example: tuple[str, str] = ("", ""),
) -> str:
    """Return the `README.md` of a checkpoint of pre-training.

    Args:
        config: the configuration of the run.
        position: the run's `step`, `tokens` and `seconds`.
        objectives: the names of the objectives.
        corpus: the `documents`, `sentences`, `tokens`, `vocab_size` and `files` (without folders).
        record: the record of the last validation.
        example: a text of the corpus, with a mask for a masked LM, and the token that is masked.
    """
    transformers = "AutoModelForMaskedLM" if "masked_lm" in objectives else None
    if transformers and "next_sentence" in objectives:
        transformers = "AutoModelForPreTraining"
    record, use = record or {}, row_of(config).use
    names = [key for key, value in record.items() if "." in key and number(value) is not None]
    return _render(
        "checkpoint.md.j2",
        config=config,
        position=position,
        objectives=list(objectives),
        pipeline=_PIPELINES.get(use.partition(" ")[0], "feature-extraction"),
        use=use.format(run="FOLDER"),
        transformers=transformers,
        toml=values.to_toml(config),
        corpus=corpus,
        example=example[0],
        truth=example[1],
        step=record.get("step"),
        figures=[(re.sub(r"[._]", " ", name), show(name, record[name])) for name in names],
    )


def quoted(value: object) -> Markup:
    """Return a quoted string that YAML 1.1 and 1.2 read as `value`.

    Lone surrogates are replaced by U+FFFD.
    """
    clean = re.sub("[\ud800-\udfff]", "\ufffd", str(value))
    text = json.dumps(clean, ensure_ascii=False)
    return Markup(_UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text))


def plain(value: object) -> Markup:
    """Return a value on one line, escaped so that Markdown shows it literally.

    A value that is markup already is returned unchanged.
    """
    if isinstance(value, Markup):
        return value
    line = _line("-" if value is None else value)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(re.sub(r"([\\`*\[\]|#~]|(?<!\w)_|_(?!\w))", r"\\\1", line))


def _render(template: str, **variables: Any) -> str:
    text = _templates().get_template(template).render(variables)
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("bertwright.report"),
        autoescape=True,  # `finalize` returns markup, which is not escaped again
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "yaml": quoted, "code": _code, "count": count}
    environment.filters["title"] = title
    return environment


def _task(results: Results) -> dict[str, Any]:
    metrics = kept_seed(results)["metrics"]
    return {
        "results": results,
        "pipeline": KINDS[results["task"]["kind"]].pipeline,
        "measured": {name: value for name, value in metrics.items() if number(value) is not None},
        "metrics": metrics_table(results),
        "verdict": verdict(results).sentence,
        "settings": _settings(results),
        "warnings": _warnings(results),
    }


def _settings(results: Results) -> list[tuple[str, str]]:
    """Return the settings, without those that name files, and the tuned values."""
    return [
        (name, str(value))
        for name, value in (values.flatten(results["settings"]) | results["tuned"]).items()
        if value is not None and not _PATHS.intersection(re.split(r"[._]", name))
    ]


def _warnings(results: Results) -> list[str]:
    """Return the warnings of the run, with files named without their folders."""
    warnings: list[str] = [*results["warnings"]]
    for file in filter(None, map(results["settings"].get, ("train", "dev"))):
        warnings = [each.replace(str(file), PurePath(file).name) for each in warnings]
    return warnings


def _how_to_load(
    results: Results, of_several: bool, model_type: str, pooled: bool
) -> dict[str, Any]:
    task = make_task(results["task"], "results.json")
    kind = KINDS[task.kind]
    is_pair = task.text2_column is not None and kind.example_of_pair is not None
    # transformers has no CRF, and without it would predict other tags
    architecture = None
    if not of_several and not task.decodes_jointly:
        architecture = load(model_type).names.task_architecture(task, pooled)
    name = str(results["name"])
    return {
        "vectors": kind_of(task.kind).vectors,
        "input": Markup(kind.example_of_pair if is_pair else kind.example),
        "option": Markup(f" --task {shlex.quote(name)}" if of_several else ""),
        "argument": Markup(f", task={name!r}" if of_several else ""),
        "transformers": architecture
        and Markup("AutoModel" + architecture[architecture.index("For") :]),
    }


def _base_model(results: Results) -> str | None:
    model = results["model"]
    if Path(model).exists():
        return None
    hub_id = hub.id_of(model)
    return hub_id and hub_id.partition("@")[0]


def _name(results: Results) -> str:
    """Return the name of the task, or that of the run's folder; empty if neither is known."""
    name = str(results.get("name") or "")
    if name not in ("", "task"):
        return name
    return PurePath(str(results.get("settings", {}).get("out") or "")).name or name


def _code(value: object) -> Markup:
    """Return a value for use between backticks, with its own backticks replaced."""
    return Markup(_line(value).replace("`", "'"))


def _line(value: object) -> str:
    """Return a value on one line, without control characters and lone surrogates."""
    return " ".join(re.sub("[\x00-\x1f\x7f\ud800-\udfff]", " ", str(value)).split())
