"""`bertwright similar`: the texts of a corpus that are nearest to a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import Json, TextColumn
from bertwright.cli.output import print_json, print_table, say
from bertwright.errors import ConfigError, DataError


def similar(
    *queries: Annotated[str, Parameter(help="What to look for.")],
    model: Annotated[
        str, Parameter(help="A run, a checkpoint, a Hugging Face or sentence-transformers folder.")
    ],
    corpus: Annotated[
        str, Parameter(help="File of texts: a column of .jsonl, .csv, .tsv, .parquet, else lines.")
    ],
    vectors: Annotated[
        Path | None,
        Parameter(help=".npy of the corpus, from embed with the same model, its own layers."),
    ] = None,
    text: TextColumn = None,
    top: Annotated[int, Parameter(help="How many texts a query.")] = 10,
    precision: Annotated[
        Literal["auto", "fp32", "bf16", "int8"], Parameter(help="As of embed.")
    ] = "fp32",
    json: Json = False,
) -> None:
    """Find the nearest texts by cosine, exactly."""
    if not queries:
        raise ConfigError('no query; write one: bertwright similar ... "what to look for"')
    from bertwright.inference.embedder import Embedder
    from bertwright.inference.similar import nearest
    from bertwright.inference.texts import open_texts
    from bertwright.inference.vector_files import read_vectors

    opened = open_texts(corpus, text, option="--corpus")
    stored, scales = (None, None) if vectors is None else read_vectors(vectors)
    loaded = Embedder.load(model, precision=precision)
    for note in loaded.notes:
        say(note)
    rows = [str(each) for each, _ in opened.rows]
    if not rows:
        raise DataError(f"{corpus} has no text")
    if stored is None:
        with bar("Embedding", "tokens") as on_progress:
            stored = loaded.embed(rows, on_progress)
    elif len(stored) != len(rows):
        raise DataError(
            f"{vectors} has {len(stored):,} vectors and {corpus} {len(rows):,} texts: embed the "
            "corpus again"
        )
    found, cosines = nearest(stored, loaded.embed(list(queries)), top, scales)
    results = [
        [
            {"row": int(row) + 1, "cosine": float(cosine), "text": rows[row]}
            for row, cosine in zip(of_rows, of_cosines, strict=True)
        ]
        for of_rows, of_cosines in zip(found, cosines, strict=True)
    ]
    if json:
        shown = [{"query": q, "found": r} for q, r in zip(queries, results, strict=True)]
        print_json({"queries": shown})
        return
    for query, of_query in zip(queries, results, strict=True):
        cells = [[f"{each['cosine']:.4f}", each["row"], each["text"]] for each in of_query]
        print_table(["cosine", "row", "text"], cells, query)
