"""`bertwright plot`: a scatter plot of texts by their vectors, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import EVERY_KEY, Json, Overwrite
from bertwright.cli.output import PAGE, counted, print_json, refuse_suffix
from bertwright.cli.vectors import (
    Dimensions,
    InputFile,
    ModelPath,
    Normalize,
    VectorOptions,
    WhiteningFile,
    make_embedder,
    say_of_texts,
    say_truncated,
)
from bertwright.console import bar


def plot(
    *,
    model: ModelPath,
    input: InputFile,
    out: Path,
    color: str | None = None,
    projection: Literal["pca", "tsne"] = "pca",
    options: Annotated[VectorOptions | None, EVERY_KEY] = None,
    normalize: Normalize = None,
    dimensions: Dimensions = None,
    whitening: WhiteningFile = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Draw a scatter plot of texts by their vectors, as one HTML page.

    Args:
        out: The .html page to write.
        color: Column whose values give the dots their colours.
        projection: Projection of the vectors to two dimensions: pca keeps the two directions of
            largest variance, tsne keeps neighbours.
    """
    options = options or VectorOptions()
    options.check()
    options.require_text_vectors("plot")
    refuse_suffix(out, *PAGE)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    texts = options.open_texts(input, color)
    from bertwright.report.pages import vector_page
    from bertwright.report.vector_plot import project

    embedder, _ = make_embedder(
        model, texts, options, normalize=normalize, dimensions=dimensions, whitening=whitening
    )
    rows = list(texts.rows)
    with bar("Embedding", "tokens") as on_progress:
        vectors = embedder.embed([text for text, _ in rows], on_progress)
    points, facts = project(vectors, projection)
    shown = [text if isinstance(text, str) else " | ".join(text) for text, _ in rows]
    page = vector_page(texts.name, points, shown, [value for _, value in rows], color, facts)
    with atomic_file(out, overwrite=True) as file:
        file.write(page)
    say_truncated(embedder.truncated, embedder.tokens_truncated, embedder)
    say_of_texts(texts, embedder)
    if json:
        print_json({"out": out, "texts": len(rows), "projection": projection})
    else:
        print(f"{out}: {counted(len(rows), 'text')}")
