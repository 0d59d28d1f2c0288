"""`bertwright evaluate-vectors`: evaluate the vectors of any model on pairs of texts."""

from __future__ import annotations

from typing import Annotated

from bertwright.cli.evaluations import EvaluatedFile, ResultOptions, show_evaluation
from bertwright.cli.options import EVERY_KEY, Device
from bertwright.config.finetune import label_map
from bertwright.console import bar


def evaluate_vectors(
    *,
    model: str,
    file: Annotated[EvaluatedFile, EVERY_KEY],
    device: Device = "auto",
    result: Annotated[ResultOptions, EVERY_KEY] = ResultOptions(),
) -> None:
    """Evaluate the vectors that embed makes on pairs of texts that are scored, labelled or belong
    together.

    The model need not be fine-tuned. The metrics are those of the similarity task, and follow from
    the file.

    Args:
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
    """
    result.refuse_out()
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    columns = file.columns()
    from bertwright.inference.files.pairs import evaluate_vectors as evaluate
    from bertwright.inference.model import load

    loaded = load(model, device=device)
    with bar("Embedding", "tokens") as on_progress:
        found = evaluate(
            loaded,
            file.data,
            columns,
            form=file.format,
            main=file.metric,
            label_map=label_map(file.label_map),
            bad_rows=file.bad_rows,
            intervals=result.intervals,
            on_progress=on_progress,
        )
    show_evaluation(found, result)
