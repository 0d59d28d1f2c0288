"""The model cards: `README.md` of a fine-tuned model and of a checkpoint of pre-training.

The text is in `templates/*.md.j2`. Whatever a template prints between braces is escaped as Markdown
shows it letter by letter, unless a filter gives it another form (`yaml`, `code`). Files are named
without their folders.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from bertwright.checkpoint.huggingface.bert import architecture
from bertwright.config import values
from bertwright.config.task import TaskConfig
from bertwright.report.numbers import count, number, show, title
from bertwright.report.verdict import Results, kept_seed, metrics_table, verdict

PIPELINES = {
    "classification": "text-classification",
    "regression": "text-classification",
    "tagging": "token-classification",
    "span": "question-answering",
    "multiple-choice": "multiple-choice",
    "generation": "text-generation",
}
_INPUTS = {
    "tagging": '"A sentence of words."',
    "span": '("What is the question?", "A passage that may hold the answer.")',
    "generation": '"A source."',
    "multiple-choice": '("A text.", ["one ending", "another ending"])',
}
_HUB_METRICS = {
    "macro_f1": "f1",
    "micro_f1": "f1",
    "matthews": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "mean_squared_error": "mse",
    "mean_absolute_error": "mae",
}
"""Our names to those of the hub; others are the same or are given as they are."""
_PIPELINES = {
    "fill": "fill-mask",
    "generate": "text-generation",
    "translate": "translation",
    "answer": "question-answering",
}
"""What the hub calls that for which a verb is."""
_PUBLISHED = re.compile(
    r"(google-bert/)?bert-(base|large)-[\w.-]+|google/bert_uncased_L-\d+_H-\d+_A-\d+"
)
"""Names that can only be of the hub: `runs/mine` is a folder."""
_PATHS = {"data", "train", "dev", "test", "out", "model", "file", "path"}
"""Settings that name files and folders."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def card(
    results: Results,
    environment: Mapping[str, Any] | None = None,
    model_type: str = "bert",
    in_transformers: bool = True,
) -> str:
    """`README.md` of a fine-tuned model.

    Args:
        results: `results.json` of the run. Its `base_model`, if there is one, is the name of the
            model on the hub it was fine-tuned from.
        environment: `environment.json` of the run.
        model_type: of its encoder.
        in_transformers: whether transformers loads such an encoder.
    """
    several = results.get("tasks") or {}
    tasks = [_task(each, index) for index, each in enumerate(several.values() or [results], 1)]
    measured = [metric for task in tasks for metric in task["measured"]]
    text = (
        _templates()
        .get_template("card.md.j2")
        .render(
            tasks=tasks,
            several=bool(several),
            name=_name(results),
            base_model=_base_model(results),
            model=_model_name(results),
            hub_metrics=dict.fromkeys(map(_hub_metric, measured)),
            version=(environment or {}).get("bertwright"),
            model_type=model_type,
            in_transformers=in_transformers,
            load=_how_to_load(tasks[0]["results"], bool(several), model_type == "bert"),
        )
    )
    return re.sub("\n{3,}", "\n\n", text).strip() + "\n"


def checkpoint_card(
    config: Any,
    position: Any,
    objectives: Collection[str],
    corpus: Mapping[str, Any] | None = None,
    record: Mapping[str, Any] | None = None,
    example: tuple[str, str] = ("", ""),
) -> str:
    """`README.md` of a checkpoint of pre-training.

    Args:
        config: the run's configuration.
        position: of the run: `step`, `tokens` and `seconds`.
        objectives: names of the objectives.
        corpus: `documents`, `sentences`, `tokens`, `vocab_size`, and `files`, without folders.
        record: of the last validation.
        example: a text of the corpus, with a mask for a masked LM, and the token that is masked.
    """
    transformers = "AutoModelForMaskedLM" if "masked_lm" in objectives else None
    if {"masked_lm", "next_sentence"} <= set(objectives):
        transformers = "AutoModelForPreTraining"
    figures = {
        key.replace(".", " ").replace("_", " "): value
        for key, each in (record or {}).items()
        if "." in key and (value := number(each)) is not None
    }
    text = (
        _templates()
        .get_template("checkpoint.md.j2")
        .render(
            config=config,
            position=position,
            objectives=list(objectives),
            pipeline=_PIPELINES.get(config.use.partition(" ")[0], "feature-extraction"),
            use=config.use.format(run="FOLDER"),
            transformers=transformers,
            toml=values.to_toml(config),
            corpus=corpus,
            example=example[0],
            truth=example[1],
            step=(record or {}).get("step"),
            figures=[(name, show(name, value)) for name, value in figures.items()],
            measured=[
                (name.removesuffix(" accuracy"), value)
                for name, value in figures.items()
                if name.endswith(" accuracy")
            ],
        )
    )
    return re.sub("\n{3,}", "\n\n", text).lstrip()


def quoted(value: object) -> Markup:
    """A string in quotes that YAML 1.1 and 1.2 read as it was; lone surrogates become U+FFFD."""
    clean = re.sub("[\ud800-\udfff]", "\ufffd", str(value))
    made = json.dumps(clean, ensure_ascii=False)
    return Markup(_UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", made))


def plain(value: object) -> Markup:
    """A value as Markdown shows it letter by letter, on one line; markup as it is."""
    if isinstance(value, Markup):
        return value
    line = _line("-" if value is None else value)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(re.sub(r"([\\`*\[\]|#~]|(?<!\w)_|_(?!\w))", r"\\\1", line))


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("bertwright.report"),
        autoescape=True,  # what `finalize` returns is markup and stays as it is
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"plain": plain, "yaml": quoted, "code": _code, "count": count}
    found.filters |= {"title": title, "hub_metric": _hub_metric}
    return found


def _task(results: Results, index: int) -> dict[str, Any]:
    """What the template shows of one task."""
    task = results.get("task") or {}
    seeds = results.get("seeds") or []
    data = results.get("data") or {}
    metrics = kept_seed(results).get("metrics") or {}
    found = {str(name): number(value) for name, value in metrics.items()}
    columns, rows = metrics_table(results)
    chosen = ["epoch"] if (results.get("settings") or {}).get("keep") != "last" else []
    return {
        "results": results,
        "name": results.get("name") or f"Task {index}",
        "pipeline": PIPELINES.get(str(task.get("kind")), "text-classification"),
        "measured": {name: value for name, value in found.items() if value is not None},
        "dev_file": _file_name(data.get("dev")),
        "metric_columns": columns,
        "metric_rows": rows,
        "verdict": verdict(results).sentence,
        "data_rows": [
            [split, _file_name(each), count((each or {}).get("examples"))]
            for split, each in data.items()
        ],
        "settings": _settings(results, task),
        "chosen": [*chosen, "seed"] if len(seeds) > 1 else chosen,
        "seeds": len(seeds),
        "degenerate": sum(bool(seed.get("degenerate")) for seed in seeds),
        "calibration_error": number((results.get("calibration") or {}).get("error")),
        "warnings": _warnings(results),
    }


def _settings(results: Results, task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings that had an effect, without the names of files."""
    kind, features = task.get("kind"), results.get("transfer") == "features"
    of_texts = kind not in ("tagging", "span")
    had_effect = {
        "layers": features,
        "network": features,
        "network_size": (task.get("head") or {}).get("network") in ("bilstm", "taglm"),
        "pooling": features and of_texts,
        "merge": of_texts,
        "multi_label": kind == "classification",
        "class_weights": kind in ("classification", "tagging"),
        "context": kind == "tagging",
        "crf": kind == "tagging",
        "bad_tags": kind == "tagging",
        "max_answer_tokens": kind == "span",
        "wrong_answers": kind == "span",
    }
    flat = values.flatten(results.get("settings") or {})
    shown = {
        name: value
        for name, value in flat.items()
        if value is not None
        and had_effect.get(name, True)
        and not _PATHS.intersection(re.split(r"[._]", name))
    }
    shown |= results.get("tuned") or {}
    return [(name, _setting(value)) for name, value in shown.items()]


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _warnings(results: Results) -> list[str]:
    """Warnings of the run, which name its files without their folders."""
    settings = results.get("settings") or {}
    files = [(found or {}).get("file") for found in (results.get("data") or {}).values()]
    warnings = [str(each) for each in results.get("warnings") or ()]
    for file in (*files, settings.get("train"), settings.get("dev")):
        if file:
            name = PurePath(str(file)).name
            warnings = [each.replace(str(file), name) for each in warnings]
    return warnings


def _how_to_load(results: Results, of_several: bool, of_bert: bool) -> dict[str, Any] | None:
    """Code for this kind of task; None where nothing is known of it."""
    task = results.get("task")
    if not task:
        return None
    name = str(results.get("name")) if of_several else None
    pair = '("One text.", "The other.")' if task.get("text2_column") else '"A text."'
    known = values.from_dict(TaskConfig, task)
    found = architecture(known) if of_bert and not of_several else None
    if known.head.crf:  # without it transformers would choose other tags
        found = None
    return {
        "input": Markup(_INPUTS.get(known.kind, pair)),
        "option": Markup(f" --task {shlex.quote(name)}") if name else "",
        "argument": Markup(f", task={name!r}") if name else "",
        "transformers": found and Markup(found.replace("Bert", "AutoModel", 1)),
        "unknown": "several task heads" if of_several else f"this task head ({_head(known)})",
    }


def _head(task: TaskConfig) -> str:
    """What transformers has no class for."""
    head = task.head
    parts = [
        f"layers {head.layers}" if head.layers else "",
        {"linear": "", "bilstm": "a BiLSTM", "taglm": "TagLM's two BiLSTMs"}[head.network],
        "a hidden layer" if head.hidden_size else "",
        "a CRF" if head.crf else "",
    ]
    return ", ".join(part for part in parts if part) or "one class"


def _base_model(results: Results) -> str | None:
    """Name on the hub of the model that was fine-tuned, if it has one."""
    if results.get("base_model"):
        return str(results["base_model"])
    model = str(results.get("model") or "")
    return model if _PUBLISHED.fullmatch(model) else None


def _model_name(results: Results) -> str:
    """The base model: a name of the hub, else that of a folder, of a checkpoint with its run's."""
    if base := _base_model(results):
        return base
    model = str(results.get("model") or "a model")
    path = PurePath(model)
    if path.parent.name == "checkpoints" and path.parent.parent.name:
        return f"{path.parent.parent.name}, {path.name}"
    return (path.parent.name if path.name == "model" else path.name) or model


def _name(results: Results) -> str:
    """The name of the task, else that of the run's folder; empty: unknown."""
    name = str(results.get("name") or "")
    if name not in ("", "task"):
        return name
    return PurePath(str((results.get("settings") or {}).get("out") or "")).name or name


def _file_name(found: object) -> str:
    """The name of a split's file, without its folder."""
    file = found.get("file") if isinstance(found, Mapping) else None
    return PurePath(str(file)).name if file else ""


def _hub_metric(name: str) -> str:
    return _HUB_METRICS.get(name, name)


def _code(value: object) -> Markup:
    """A value between backticks, without those of its own."""
    return Markup(_line(value).replace("`", "'"))


def _line(value: object) -> str:
    """A value on one line, without characters that no file or reader can show."""
    return " ".join(re.sub("[\x00-\x1f\x7f\ud800-\udfff]", " ", str(value)).split())
