"""`bertwright embed`: texts to vectors in a file, a fitted whitening or a scatter plot."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import Flag, Json, Overwrite, TextColumn
from bertwright.cli.output import counted, print_json, say
from bertwright.config.vectors import (
    BackendName,
    Combine,
    Pooling,
    VectorPrecision,
    choose_prompt,
)
from bertwright.errors import ConfigError

Prompt = Annotated[
    str | None,
    Parameter(
        help='Text to put before every text, as "query: "; "" for none. Unset: the folder\'s '
        "default, if it has one.",
        allow_leading_hyphen=True,
    ),
]
PromptName = Annotated[
    str | None, Parameter(help="The prompt by its name in a sentence-transformers folder.")
]

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
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    whiten: Path | None = None,
    fit_whitening: Path | None = None,
    dimensions: int | None = None,
    tokens: Flag = False,
    dtype: Literal["float32", "float16", "int8", "binary"] = "float32",
    backend: BackendName = "torch",
    precision: VectorPrecision = "fp32",
    exported: tuple[str, ...] = (),
    plot: Path | None = None,
    color: str | None = None,
    projection: Literal["pca", "tsne"] = "pca",
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
            several; or first-last. Unset: as the folder says, else -2.
        combine: How several layers are combined; unset: concat.
        pooling: How tokens become one vector, or several concatenated, as cls+mean; weighted: by
            position; first-last: the mean of the first and last layer's means; none: as --tokens.
            Unset: as the folder says, else mean.
        normalize: Scale every vector to length 1. Unset: as the folder says.
        truncate: Truncate long texts and count them; else they are encoded in windows.
        max_length: Maximum tokens per sequence; unset: as the folder or the model says.
        whiten: File that --fit-whitening wrote.
        fit_whitening: Fit whitening on the input and write it to this .npz file.
        dimensions: Keep the first dimensions of a vector, this many; with --fit-whitening, of its
            result. Unset: as the folder says, else all.
        tokens: Write one vector per token, with its offsets in the text.
        dtype: Type of the stored numbers; int8 with scales beside it, binary keeps the signs.
        backend: Runtime of the model; auto picks the fastest whose vectors are correct.
        precision: fp32 is exact; the others are first compared with it on a sample.
        exported: Folder of bertwright export, for onnx and openvino.
        plot: Write a scatter plot of the texts to this .html file.
        color: Column that colours the plot.
        projection: Projection of the plot to two dimensions.
        resume: Continue an interrupted run.
    """
    from bertwright.atomic import refuse_existing

    if [out, fit_whitening, plot].count(None) != 2:
        raise ConfigError("name one of --out FILE, --fit-whitening FILE and --plot FILE")
    if tokens and pooling not in (None, "none"):
        raise ConfigError(f"--tokens keeps every token's vector; leave out --pooling {pooling}")
    if tokens:
        pooling = "none"
    for option, given, of, there in (
        ("--color", color is not None, "--plot", plot),
        ("--tokens (--pooling none)", pooling == "none", "--out", out),
        ("--dtype", dtype != "float32", "--out", out),
        ("--resume", resume, "--out", out),
    ):
        if given and there is None:
            raise ConfigError(f"{option} is for {of} FILE; leave it out")
    if dimensions is not None and pooling == "none":
        raise ConfigError("--dimensions is for vectors of texts; leave it out with --tokens")
    if layers == ("first-last",) or pooling == "first-last":
        if layers not in ((), ("first-last",)):
            raise ConfigError("--pooling first-last has its own layers; leave out --layers")
        if combine not in (None, "mean"):
            raise ConfigError(f"first-last is a mean; leave out --combine {combine}")
    if whiten is not None and fit_whitening is not None:
        raise ConfigError("--fit-whitening is for vectors without whitening; leave out --whiten")
    for option, path, suffix in (
        ("--fit-whitening", fit_whitening, ".npz"),
        ("--plot", plot, ".html"),
    ):
        if path is not None and path.suffix != suffix:
            raise ConfigError(f"{option} is {path}; expected a name that ends in {suffix}")
    target = out or fit_whitening or plot
    assert target is not None
    if out is not None:
        from bertwright.recipes.embed import check_suffix

        check_suffix(out, pooling == "none")
    from bertwright.inference.vector_files import journal_path, scales_path

    # an unfinished file may stand beside the one it replaces, or be whole and not yet noted so
    refuse_existing(target, overwrite or (resume and journal_path(target).is_file()))
    if dtype == "int8":
        refuse_existing(scales_path(target), overwrite or resume)

    from bertwright.inference.model import load
    from bertwright.inference.text_files import chunks, open_texts

    texts = open_texts(input, text, text2, color, bad_rows)
    loaded = load(model)
    known = loaded.vectors
    first_last = layers == ("first-last",)
    config = known.over(
        (1, -1) if first_last else _layers(layers),
        "mean" if first_last else combine,
        pooling or ("first-last" if first_last else None),
        normalize=normalize,
        truncate=truncate,
        max_length=max_length,
        prompt=choose_prompt(loaded.prompts, prompt, prompt_name),
        dimensions=None if fit_whitening is not None else dimensions,
    )
    for key, left in (("dense", "dense layers"), ("dimensions", "dimensions")):
        if getattr(known, key) and not getattr(config, key) and pooling != "none":
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
    embedder = loaded.embedder(
        config,
        backend=backend,
        precision=precision,
        exported=exported,
        whitening=whiten,
        sample=sample,
    )
    for note in embedder.notes:
        say(note)
    if plot is not None:
        _plot(embedder, texts, plot, color, projection, json)
    elif fit_whitening is not None:
        _fit(embedder, texts, fit_whitening, dimensions, json)
    else:
        assert out is not None
        _write(embedder, texts, out, model, dtype, pooling == "none", resume, overwrite, json)


def _write(
    embedder: Embedder,
    texts: Texts,
    out: Path,
    model: str,
    dtype: Literal["float32", "float16", "int8", "binary"],
    tokens: bool,
    resume: bool,
    overwrite: bool,
    json: bool,
) -> None:
    from bertwright.recipes.embed import embed_file

    with bar("Embedding", "texts") as on_progress:
        found = embed_file(
            embedder,
            texts,
            out,
            model,
            dtype=dtype,
            tokens=tokens,
            resume=resume,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    if found.resumed:
        say(f"{found.resumed:,} were there already")
    if found.truncated:
        say(
            f"truncated to {embedder.longest} tokens: {counted(found.truncated, 'text')}, "
            f"{counted(found.tokens_truncated, 'token')} left out"
        )
    if found.clipped:
        say(f"{found.clipped:,} numbers lie beyond the range of the first texts and were clipped")
    _report(texts)
    if json:
        facts = {
            "out": out,
            "shape": [found.rows, found.width],
            "dtype": dtype,
            "files": found.files,
            "backend": embedder.backend.name,
            "layers": list(embedder.layers),
            "pooling": "none" if tokens else embedder.config.pooling,
            "prompt": embedder.config.prompt,
            "empty": texts.empty,
            "invalid_utf8": texts.repaired,
            "skipped": sum(each.count for each in texts.log.skipped.values()),
            "resumed": found.resumed,
            "cut": found.truncated,
            "tokens_cut": found.tokens_truncated,
        }
        print_json(facts)
        return
    rows = counted(found.rows, "text" if tokens else "vector")
    each = ", a token's vector of" if tokens else " of"
    print(f"{out}: {rows}{each} {counted(found.width, 'number')}")


def _fit(embedder: Embedder, texts: Texts, path: Path, dimensions: int | None, json: bool) -> None:
    from bertwright.recipes.embed import fit_whitening

    with bar("Embedding", "texts") as on_progress:
        whitening, count = fit_whitening(embedder, texts, dimensions, on_progress)
    whitening.save(path)
    _report(texts)
    if json:
        print_json({"out": path, "texts": count, "dimensions": whitening.width})
    else:
        width = counted(whitening.width, "dimension")
        print(f"{path}: whitening of {width}, fitted on {counted(count, 'text')}")


def _plot(
    embedder: Embedder,
    texts: Texts,
    path: Path,
    color: str | None,
    projection: Literal["pca", "tsne"],
    json: bool,
) -> None:
    from bertwright.atomic import atomic_file
    from bertwright.report.pages import vector_page
    from bertwright.report.vector_plot import project

    rows = list(texts.rows)
    with bar("Embedding", "tokens") as on_progress:
        vectors = embedder.embed([each for each, _ in rows], on_progress)
    points, facts = project(vectors, projection)
    shown = [each if isinstance(each, str) else " | ".join(each) for each, _ in rows]
    page = vector_page(texts.name, points, shown, [value for _, value in rows], color, facts)
    with atomic_file(path, overwrite=True) as file:
        file.write(page)
    _report(texts)
    if json:
        print_json({"out": path, "texts": len(rows), "projection": projection})
    else:
        print(f"{path}: {counted(len(rows), 'text')}")


def _report(texts: Texts) -> None:
    """Print what was found in the input."""
    for warning in [*texts.warnings(), *texts.log.summary()]:
        say(warning)
    if texts.empty:
        say(f"empty: {counted(texts.empty, 'line')}, with the vector of [CLS] [SEP]")
    if texts.repaired:
        say(f"not valid UTF-8: {counted(texts.repaired, 'line')}; bad bytes became U+FFFD")


def _layers(given: tuple[str, ...]) -> tuple[int, ...] | None:
    """Layers by number; None: none are given."""
    words = [word for each in given for word in each.split(",")]
    try:
        return tuple(int(word) for word in words) or None
    except ValueError as error:
        raise ConfigError(
            f"--layers is {' '.join(given)}; expected numbers, or first-last alone"
        ) from error
