"""Predictions for GLUE's test sets, in the files that its server takes: `index TAB prediction`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertwright.atomic import atomic_file
from bertwright.errors import DataError
from bertwright.inference.model import Model
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import TextExample
from bertwright.labelled.read import ReadOptions, stream_examples
from bertwright.recipes.glue.tasks import LIMITS, GlueTask
from bertwright.tasks.predict import predict_stream
from bertwright.tasks.predictions import NumberPrediction, Prediction, TextPrediction


def write_submission(
    model: Model, task: GlueTask, tests: Sequence[tuple[str, Path]], folder: Path, precision: str
) -> Iterator[str]:
    """Write a file for each test set of a task; give the names of those that are written.

    Args:
        model: that was taught the task.
        task: of GLUE.
        tests: the files to write, and those with the examples.
        folder: where to write.
        precision: `fp32` or `bf16`.

    Raises:
        DataError: a test set of which a row cannot be read, or labels that the server does not
            know.
    """
    ((name, learned),) = model.tasks.items()
    if set(learned.labels) != set(task.labels):
        raise DataError(
            f"the labels of {task.name} are {', '.join(learned.labels)}; GLUE's are "
            f"{', '.join(task.labels)}: its server would not know them"
        )
    for submitted, path in tests:
        options = ReadOptions(
            pair=learned.text2_column is not None,
            hint=Columns(learned.text_column, learned.text2_column),
            bad_rows="skip",
        )
        stream = stream_examples(path, learned.kind, options=options)
        runner = model.runner
        predicted = predict_stream(
            runner.learner,
            name,
            learned,
            runner.tokenizer,
            stream.examples,
            runner.device,
            precision,
            runner.batch_tokens,
        )
        with atomic_file(folder / submitted, overwrite=True) as file:
            file.write("index\tprediction\n")
            for number, (example, prediction) in enumerate(predicted):
                assert isinstance(example, TextExample)
                index = example.id if example.id.isdecimal() else str(number)
                file.write(f"{index}\t{_answer(prediction)}\n")
            if stream.log.skipped:
                raise DataError(
                    f"{' '.join(stream.log.summary())}; GLUE's server wants an answer to every "
                    f"row, so {submitted} is not written: put some text there"
                )
        yield submitted


def zip_submission(folder: Path, path: Path) -> None:
    """Put the files of a submission into an archive, equal bytes for equal files."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.glob("*.tsv")):
                archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _answer(prediction: Prediction) -> str:
    """A prediction as the server reads it."""
    if isinstance(prediction, NumberPrediction):
        return f"{min(max(prediction.value, LIMITS[0]), LIMITS[1]):.3f}"
    assert isinstance(prediction, TextPrediction)
    return str(prediction.label)
