"""Convert Label Studio's JSON export to rows with a text and its label or entities.

A row of the export is a task. `data` holds its texts; `annotations` (`completions` in old versions)
hold each annotator's results, which have a `type` and a `value`:

| type | value | becomes |
|---|---|---|
| choices | `{"choices": ["good"]}` | `label`, one or a list |
| labels | `{"start": 0, "end": 4, "text": "Rome", "labels": ["LOC"]}` | an entity of `entities` |
| rating, number | `{"rating": 4}`, `{"number": 0.5}` | `label` |
| textarea | `{"text": ["A summary."]}` | `target` |

If there are several controls of the same type, each becomes a column with the control's name. Of
several annotations, the first that was not cancelled is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bertwright.labelled.source import BadRowLog

_ANNOTATIONS = ("annotations", "completions")


def is_label_studio(row: Any) -> bool:
    """Return whether a row of JSON is a task of Label Studio."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("data"), dict)
        and any(isinstance(row.get(name), list) for name in _ANNOTATIONS)
    )


def rows_of_tasks(tasks: Iterable[tuple[int, Any]], log: BadRowLog) -> list[tuple[int, Any]]:
    """Return a row for each task.

    If some tasks are annotated, the others are skipped and counted. Further annotations of a task
    are ignored and counted.
    """
    annotated: list[tuple[int, Any, Sequence[Any]]] = []
    unmarked: list[tuple[int, Any, Sequence[Any]]] = []
    controls: dict[str, dict[str, None]] = {}
    for number, task in tasks:
        if not is_label_studio(task):
            annotated.append((number, task, ()))
            continue
        given = next(task[name] for name in _ANNOTATIONS if isinstance(task.get(name), list))
        valid = [
            each.get("result") or []
            for each in given
            if isinstance(each, dict) and not each.get("was_cancelled")
        ]
        if not valid:
            unmarked.append((number, task, ()))
            continue
        if len(valid) > 1:
            log.mended.add(number, "tasks have several annotations, of which the first is read")
        results = [each for each in valid[0] if isinstance(each, dict)]
        annotated.append((number, task, results))
        for each in results:
            controls.setdefault(_column(each), {})[str(each.get("from_name"))] = None
    for number, _, _ in unmarked if annotated else ():
        log.skipped.add(number, "the task has no annotation")
    annotated = annotated or unmarked  # a file to predict
    return [(n, _row(task, results, controls)) for n, task, results in annotated]


def _column(result: dict[str, Any]) -> str:
    match result.get("type"):
        case "choices" | "rating" | "number" | "taxonomy":
            return "label"
        case "labels" | "hypertextlabels":
            return "entities"
        case "textarea":
            return "target"
    return ""  # relations, and results that do not label a text


def _row(task: Any, results: Sequence[Any], controls: dict[str, dict[str, None]]) -> Any:
    if not is_label_studio(task):
        return task
    row = {**task["data"]}
    if "id" in task:
        row.setdefault("id", task["id"])
    for kind, names in controls.items():
        if not kind:
            continue
        for name in names:
            control_results = [
                each
                for each in results
                if _column(each) == kind and str(each.get("from_name")) == name
            ]
            values = [each.get("value") or {} for each in control_results]
            row[kind if len(names) == 1 else name] = _value(kind, values, row)
    return row


def _value(kind: str, values: Sequence[Any], row: dict[str, Any]) -> Any:
    if kind == "entities":
        return [_entity(value, row) for value in values]
    values_held: list[Any] = []
    for value in values:
        held = next((value[k] for k in ("choices", "rating", "number", "text") if k in value), None)
        values_held += held if isinstance(held, list) else [held]
    return values_held[0] if len(values_held) == 1 else values_held


def _entity(value: dict[str, Any], row: dict[str, Any]) -> Any:
    """Return `[start, end, label]`, counted in characters. The export may count an emoji as two."""
    labels = value.get("labels") or value.get("hypertextlabels") or []
    start, end, marked = value.get("start"), value.get("end"), value.get("text")
    if len(labels) != 1 or not isinstance(start, int) or not isinstance(end, int):
        return value  # the reader of entities reports the error
    texts = [text for text in row.values() if isinstance(text, str)]
    if isinstance(marked, str) and not any(text[start:end] == marked for text in texts):
        for text in texts:
            wide = text.encode("utf-16-le")
            before = wide[: 2 * start].decode("utf-16-le", "ignore")
            inside = wide[2 * start : 2 * end].decode("utf-16-le", "ignore")
            if inside == marked:
                return [len(before), len(before) + len(inside), labels[0]]
    return [start, end, labels[0]]
