"""Write Label Studio's JSON export as JSON lines that `bertwright finetune` reads.

    python examples/label_studio.py export.json rows.jsonl

A row of the export is a task. `data` holds its texts; `annotations` (`completions` in old versions)
hold each annotator's results, which have a `type` and a `value`:

| type | value | becomes |
|---|---|---|
| choices | `{"choices": ["good"]}` | `label`, one or a list |
| labels | `{"start": 0, "end": 4, "text": "Rome", "labels": ["LOC"]}` | an entity of `entities` |
| rating, number | `{"rating": 4}`, `{"number": 0.5}` | `label` |
| textarea | `{"text": ["A summary."]}` | `target` |

If there are several controls of the same type, each becomes a column with the control's name. Of
several annotations, the first that was not cancelled is read. Tasks without an annotation are left
out if others have one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ANNOTATIONS = ("annotations", "completions")
COLUMNS = {
    "choices": "label",
    "rating": "label",
    "number": "label",
    "taxonomy": "label",
    "labels": "entities",
    "hypertextlabels": "entities",
    "textarea": "target",
}
"""The column of each type of result; other results do not label a text."""


def rows_of(tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each task."""
    results = [results_of(task) for task in tasks]
    some_are_annotated = any(each is not None for each in results)
    controls: dict[str, dict[str, None]] = {}
    for each in (each for of_task in results for each in of_task or ()):
        if each.get("type") in COLUMNS:
            column = COLUMNS[each["type"]]
            controls.setdefault(column, {})[str(each.get("from_name"))] = None
    return [
        row_of(task, of_task or [], controls)
        for task, of_task in zip(tasks, results, strict=True)
        if of_task is not None or not some_are_annotated
    ]


def results_of(task: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the results of the first annotation that was not cancelled, or None."""
    annotations = next((task[name] for name in ANNOTATIONS if name in task), [])
    return next(
        (each.get("result") or [] for each in annotations if not each.get("was_cancelled")), None
    )


def row_of(
    task: dict[str, Any], results: list[dict[str, Any]], controls: dict[str, dict[str, None]]
) -> dict[str, Any]:
    """Return the texts of a task with a column for each control."""
    row: dict[str, Any] = {"id": task.get("id"), **task["data"]}
    for column, names in controls.items():
        for name in names:
            values = [
                each.get("value") or {}
                for each in results
                if COLUMNS.get(each.get("type", "")) == column
                and str(each.get("from_name")) == name
            ]
            row[column if len(names) == 1 else name] = value_of(column, values, row)
    return row


def value_of(column: str, values: list[dict[str, Any]], row: dict[str, Any]) -> Any:
    """Return the entities of a text, or its one label, or the list of its labels."""
    if column == "entities":
        return [entity_of(value, row) for value in values]
    labels: list[Any] = []
    for value in values:
        held = next(value[k] for k in ("choices", "rating", "number", "text") if k in value)
        labels += held if isinstance(held, list) else [held]
    return labels[0] if len(labels) == 1 else labels


def entity_of(value: dict[str, Any], row: dict[str, Any]) -> list[Any]:
    """Return `[start, end, label]`, counted in characters. The export may count an emoji as two."""
    (label,) = value.get("labels") or value["hypertextlabels"]
    start, end, marked = value["start"], value["end"], value.get("text")
    texts = [text for text in row.values() if isinstance(text, str)]
    if marked is None or any(text[start:end] == marked for text in texts):
        return [start, end, label]
    for text in texts:
        wide = text.encode("utf-16-le")
        before = wide[: 2 * start].decode("utf-16-le", "ignore")
        inside = wide[2 * start : 2 * end].decode("utf-16-le", "ignore")
        if inside == marked:
            return [len(before), len(before) + len(inside), label]
    return [start, end, label]


def main(export: Path, out: Path) -> None:
    """Convert a file."""
    rows = rows_of(json.loads(export.read_text(encoding="utf-8")))
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
