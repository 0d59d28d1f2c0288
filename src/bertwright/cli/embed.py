"""`bertwright embed`: texts to vectors in a file, a fitted whitening or a scatter plot."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import Flag, Json, Overwrite, TextColumn
from bertwright.cli.output import counted, print_json
from bertwright.config.vectors import BackendName, Combine, Pooling, VectorPrecision, choose_prompt
from bertwright.console import bar, say
from bertwright.errors import ConfigError
from bertwright.progress import OnProgress
from bertwright.text.tokenizer.file_words import coverage

if TYPE_CHECKING:
    from bertwright.inference.embed import Embedder
    from bertwright.inference.text_files import Texts


def embed(
    *,
    model: str,
    input: str,
    out: Path | None = None,
    text: TextColumn = None,
    text2: str | None = None,
    bad_rows: Literal["refuse", "skip"] = "refuse",
    layers: Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)] = (),
    combine: Combine | None = None,
    pooling: Pooling | str | None = None,
    normalize: bool | None = None,
    truncate: bool | None = None,
    max_length: int | None = None,
    prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    prompt_name: str | None = None,
    whiten: Path | None = None,
    fit_whitening: Path | None = None,
    dimensions: int | None = None,
    dtype: Literal["float32", "float16", "int8", "binary"] = "float32",
    backend: BackendName = "torch",
    precision: VectorPrecision = "fp32",
    exported: Path | None = None,
    plot: Path | None = None,
    color: str | None = None,
    projection: Literal["pca", "tsne"] = "pca",
    cluster: str | None = None,
    resume: Flag = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn texts into vectors, one row per text, in order.

    Args:
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
        input: File of texts: a column of .jsonl, .csv, .tsv or .parquet, else one text per line; -
            for standard input: JSON lines if it begins with an object, with --text a table of any
            kind but .parquet, else one text per line.
        out: The .npy, .jsonl or .parquet file to write: one row per text.
        text2: Column of a second text: one vector per pair.
        bad_rows: A row without text: stop, or skip and count it.
        layers: Layers: 0 is the embeddings, 1 and up the layers, negative from the top; repeat for
            several, or 0,-1. Unset: as the folder says, else -2.
        combine: How several layers are combined; unset: concat.
        pooling: How tokens become one vector, or several concatenated, as cls+mean; weighted: by
            position; first-last: the mean of the first and last layer's means; none: one vector
            per token, with its offsets in the text. Unset: as the folder says, else mean.
        normalize: Scale every vector to length 1. Unset: as the folder says.
        truncate: Truncate long texts and count them; else they are encoded in windows.
        max_length: Maximum tokens per sequence; unset: as the folder or the model says.
        prompt: Text to put before every text, as "query: "; "" for none. Unset: the folder's
            default, if it has one.
        prompt_name: The prompt by its name in a sentence-transformers folder.
        whiten: File that --fit-whitening wrote.
        fit_whitening: Fit whitening on the input and write it to this .npz file.
        dimensions: Keep the first dimensions of a vector, this many; with --fit-whitening, of its
            result. Unset: as the folder says, else all.
        dtype: Type of the stored numbers; int8 with scales beside it, binary keeps the signs.
        backend: Runtime of the model.
        precision: fp32 is exact; the others are first compared with it on a sample.
        exported: Folder of bertwright export, for onnx and openvino.
        plot: Write a scatter plot of the texts to this .html file.
        color: Column that colours the plot.
        projection: Projection of the plot to two dimensions.
        cluster: Address of a Dask scheduler, as tcp://host:8786, whose workers make the vectors;
            they load the model from the same path.
        resume: Continue an interrupted run; of a finished one, check the file and end.
    """
    of_tokens = pooling == "none"
    refused = {
        "nothing says what to write: add --out vectors.npy for a vector per text, --plot page.html "
        "for a scatter plot, or --fit-whitening whitening.npz": (
            out is fit_whitening is plot is None
        ),
        "--out, --fit-whitening and --plot write one file each: give one of them, and run the "
        "command again for another": [out, fit_whitening, plot].count(None) < 2,
        "--color is for --plot FILE; leave it out": color is not None and plot is None,
        "--pooling none is for --out FILE; leave it out": of_tokens and out is None,
        "--dtype is for --out FILE; leave it out": dtype != "float32" and out is None,
        "--resume is for --out FILE; leave it out": resume and out is None,
        "--cluster is for --out FILE; leave it out": cluster is not None and out is None,
        "--dimensions is for vectors of texts; leave it out with --pooling none": (
            of_tokens and dimensions is not None
        ),
        "--pooling first-last has its own layers; leave out --layers": (
            pooling == "first-last" and bool(layers)
        ),
        f"first-last is a mean; leave out --combine {combine}": (
            pooling == "first-last" and combine not in (None, "mean")
        ),
        "--fit-whitening is for vectors without whitening; leave out --whiten": (
            None not in (whiten, fit_whitening)
        ),
        f"--fit-whitening is {fit_whitening}; expected a name that ends in .npz": (
            fit_whitening is not None and fit_whitening.suffix != ".npz"
        ),
        f"--plot is {plot}; expected a name that ends in .html": (
            plot is not None and plot.suffix != ".html"
        ),
    }
    if message := next((each for each, holds in refused.items() if holds), None):
        raise ConfigError(message)
    from bertwright.inference import embed_file as recipe
    from bertwright.inference.model import load
    from bertwright.inference.text_files import chunks, open_texts
    from bertwright.inference.vector_files import scales_path
    from bertwright.inference.whitening import load_whitening

    target = out or fit_whitening or plot
    assert target is not None
    if out is not None:
        recipe.check_suffix(out, of_tokens)
    # a finished file is checked, an unfinished one may stand beside the one it replaces
    refuse_existing(target, overwrite or resume)
    if dtype == "int8":
        refuse_existing(scales_path(target), overwrite or resume)
    texts = open_texts(input, text, text2, color, bad_rows)
    loaded = load(model)
    known = loaded.vectors
    config = known.over(
        _layers(layers),
        combine,
        pooling,
        normalize=normalize,
        truncate=truncate,
        max_length=max_length,
        prompt=choose_prompt(loaded.prompts, prompt, prompt_name),
        dimensions=None if fit_whitening is not None else dimensions,
    )
    for key, left in (("dense", "dense layers"), ("dimensions", "dimensions")):
        if getattr(known, key) and not getattr(config, key) and not of_tokens:
            say(
                f"the folder's {left} are left out: they were trained on its own layers and pooling"
            )
    if config.prompt:
        say(f"before every text: {config.prompt!r}")
    sample: list[str | tuple[str, str]] = []
    if (backend, precision) != ("torch", "fp32"):
        first = next(chunks(texts.rows, 128), [])
        texts.rows = chain(first, texts.rows)
        sample = [each for each, _ in first]
    settings: dict[str, Any] = {
        "backend": backend,
        "precision": precision,
        "exported": exported and exported.resolve(),
        "whitening": whiten and load_whitening(whiten),
        "sample": sample,
    }
    embedder = loaded.embedder(config, **settings)
    for note in embedder.notes:
        say(note)
    facts: dict[str, Any] = {"out": target}
    notes: list[str] = []
    with bar("Embedding", "tokens" if plot else "texts") as on_progress:
        if plot is not None:
            count = _plot(embedder, texts, plot, color, projection, on_progress)
            facts |= {"texts": count, "projection": projection}
            shown = counted(count, "text")
        elif fit_whitening is not None:
            fitted, count = recipe.fit_whitening(embedder, texts, dimensions, on_progress)
            fitted.save(fit_whitening)
            facts |= {"texts": count, "dimensions": fitted.width}
            width = counted(fitted.width, "dimension")
            shown = f"whitening of {width}, fitted on {counted(count, 'text')}"
        else:
            found = recipe.embed_file(
                embedder,
                texts,
                target,
                model,
                dtype=dtype,
                tokens=of_tokens,
                resume=resume,
                overwrite=overwrite,
                cluster=cluster,
                settings=settings,
                on_progress=on_progress,
            )
            facts |= {
                "shape": [found.rows, found.width],
                "dtype": dtype,
                "files": found.files,
                "backend": embedder.backend.name,
                "layers": list(embedder.layers),
                "pooling": embedder.config.pooling,
                "prompt": embedder.config.prompt,
                "empty": texts.empty,
                "invalid_utf8": texts.repaired,
                "skipped": sum(each.count for each in texts.log.skipped.values()),
                "resumed": found.resumed,
                "cut": found.truncated,
                "tokens_cut": found.tokens_truncated,
            }
            rows = counted(found.rows, "text" if of_tokens else "vector")
            each = ", a token's vector of" if of_tokens else " of"
            shown = f"{rows}{each} {counted(found.width, 'number')}"
            if found.complete:
                shown += "; it was complete already, and nothing was left to do"
            elif found.resumed:
                notes.append(f"{found.resumed:,} were there already")
            if found.truncated:
                notes.append(
                    f"truncated to {embedder.longest} tokens: {counted(found.truncated, 'text')}, "
                    f"{counted(found.tokens_truncated, 'token')} left out"
                )
            if embedder.counts_words and found.words:
                facts |= {"words": found.words, "unknown": found.unknown}
                notes.append(coverage(found.words, found.unknown))
            if found.clipped:
                notes.append(
                    f"{found.clipped:,} numbers lie beyond the range of the first texts and were "
                    "clipped"
                )
    for note in [*notes, *texts.log.warnings, *texts.log.summary()]:
        say(note)
    if texts.empty:
        what = "the vector of [CLS] [SEP]"
        if embedder.frame != (0, 0):
            what = "a vector of zeros"
        elif not embedder.tokenizer.framing.special_tokens():
            what = "the vector of an unknown word"
        say(f"empty: {counted(texts.empty, 'line')}, with {what}")
    if texts.repaired:
        say(f"not valid UTF-8: {counted(texts.repaired, 'line')}; bad bytes became U+FFFD")
    print_json(facts) if json else print(f"{target}: {shown}")


def _plot(
    embedder: Embedder,
    texts: Texts,
    path: Path,
    color: str | None,
    projection: Literal["pca", "tsne"],
    on_progress: OnProgress,
) -> int:
    """Write the page of a plot; of how many texts."""
    from bertwright.report.pages import vector_page
    from bertwright.report.vector_plot import project

    rows = list(texts.rows)
    points, facts = project(embedder.embed([each for each, _ in rows], on_progress), projection)
    shown = [each if isinstance(each, str) else " | ".join(each) for each, _ in rows]
    page = vector_page(texts.name, points, shown, [value for _, value in rows], color, facts)
    with atomic_file(path, overwrite=True) as file:
        file.write(page)
    return len(rows)


def _layers(given: tuple[str, ...]) -> tuple[int, ...] | None:
    """Layers by number; None: none are given."""
    try:
        return tuple(int(word) for each in given for word in each.split(",")) or None
    except ValueError as error:
        raise ConfigError(f"--layers is {' '.join(given)}; expected numbers") from error
