"""`bertwright evaluate-search`: evaluate the vectors of any model by retrieval."""

from __future__ import annotations

from typing import Annotated

from bertwright.cli.evaluations import ResultOptions, show_search
from bertwright.cli.options import EVERY_KEY, Device
from bertwright.cli.vectors import say_truncated
from bertwright.console import bar, say


def evaluate_search(
    *,
    model: str,
    data: str,
    device: Device = "auto",
    result: Annotated[ResultOptions, EVERY_KEY] = ResultOptions(),
) -> None:
    """Evaluate the vectors that embed makes by a search for the relevant documents of queries,
    beside TF-IDF and BM25.

    Args:
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
        data: Retrieval data set in BEIR's format (a folder with corpus.jsonl, queries.jsonl and
            qrels/test.tsv), or one of its qrels files.
    """
    result.refuse_out()
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.inference.files.beir import find_judgements

    refuse_missing_model(model)
    judgements = find_judgements(data)
    from bertwright.inference.files.retrieval import evaluate_search as evaluate
    from bertwright.inference.model import load

    embedder = load(model, device=device).embedder()
    for note in embedder.notes:
        say(note)
    with bar("Embedding", "tokens") as on_progress:
        found = evaluate(embedder, judgements, result.intervals, on_progress)
    say_truncated(embedder.truncated, embedder.tokens_truncated, embedder)
    show_search({"model": model, **found}, result)
