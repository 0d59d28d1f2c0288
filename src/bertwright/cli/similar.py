"""`bertwright similar`: find the texts of a corpus that are nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertwright.cli.options import Json, Prompt, TextColumn
from bertwright.cli.output import print_json, print_table
from bertwright.cli.vectors import say_truncated
from bertwright.config.vectors import VectorPrecision
from bertwright.console import bar, say
from bertwright.errors import ConfigError, DataError

if TYPE_CHECKING:
    from bertwright.inference.files.similar import Neighbour


def similar(
    *queries: str,
    model: str,
    corpus: str,
    vectors: Path | None = None,
    text: TextColumn = None,
    query_prompt: Prompt = None,
    corpus_prompt: Prompt = None,
    top: int = 10,
    precision: VectorPrecision = "fp32",
    json: Json = False,
) -> None:
    """Find the texts nearest to a query by cosine similarity (exact search).

    Args:
        queries: Texts to search for.
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
        corpus: File of texts to search in: a column of .jsonl, .csv, .tsv or .parquet, else one
            text per line.
        vectors: File of the corpus's vectors: an .npy that embed wrote with the same model and its
            default options.
        query_prompt: Text to put before each query; "" for none. Unset: the folder's prompt query,
            else its default.
        corpus_prompt: Text to put before each text of the corpus; "" for none. Unset: the folder's
            prompt document, passage or corpus, else its default.
        top: Number of texts to show for each query.
        precision: Precision of the model, as for embed.
    """
    if not queries:
        raise ConfigError('missing a query, as "what to look for"')
    if vectors is not None and corpus_prompt is not None:
        raise ConfigError(
            "--corpus-prompt is for a corpus that is embedded now; that of --vectors has its own "
            "already: remove it"
        )
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.inference.files.stored_vectors import read_vectors
    from bertwright.inference.files.texts import open_texts

    refuse_missing_model(model)
    texts = [str(each) for each, _ in open_texts(corpus, text, option="--corpus").rows]
    if not texts:
        raise DataError(f"{corpus} has no text")
    stored, scales = (None, None) if vectors is None else read_vectors(vectors, len(texts))
    from bertwright.inference.files.similar import search_prompts
    from bertwright.inference.files.similar import similar as search
    from bertwright.inference.model import load

    embedder = load(model).embedder(precision=precision)
    for note in embedder.notes:
        say(note)
    of_query, of_corpus = search_prompts(embedder, query_prompt, corpus_prompt)
    for prompt, what in ((of_query, "query"), (of_corpus if vectors is None else "", "text")):
        if prompt:
            say(f"before every {what}: {prompt!r}")
    with bar("Embedding", "tokens") as on_progress:
        found, stranger = search(
            embedder,
            queries,
            texts,
            top,
            stored=stored,
            scales=scales,
            query_prompt=of_query,
            corpus_prompt=of_corpus,
            on_progress=on_progress,
        )
    say_truncated(embedder.truncated, embedder.tokens_truncated, embedder)
    if stranger:
        row, cosine = stranger
        say(
            f"warning: the vector of row {row + 1:,} of {vectors} has the cosine {cosine:.2f} with "
            f"what {model} makes of its text: it is of another model, other options or another "
            "order of texts, and what is found means nothing. Embed the corpus again"
        )
    _print(queries, found, json)


def _print(queries: Sequence[str], found: Sequence[Sequence[Neighbour]], json: bool) -> None:
    """Print the nearest texts of each query, with their rows from 1 on."""
    if json:
        shown = [
            {"query": query, "found": [each._asdict() | {"row": each.row + 1} for each in near]}
            for query, near in zip(queries, found, strict=True)
        ]
        print_json({"queries": shown})
        return
    for query, near in zip(queries, found, strict=True):
        cells = [[f"{each.cosine:.4f}", each.row + 1, each.text] for each in near]
        print_table(["cosine", "row", "text"], cells, query)
