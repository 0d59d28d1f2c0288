"""`bertwright similar`: find the texts of a corpus that are nearest to a query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import Json, Overwrite, TextColumn
from bertwright.cli.output import JSON_LINES, print_json, print_table, refuse_suffix
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, VectorPrecision, usual_prompt
from bertwright.console import bar, say
from bertwright.errors import ConfigError, DataError


def similar(
    *queries: str,
    model: str,
    corpus: str | None = None,
    mine: int | None = None,
    pairs: str | None = None,
    out: Path | None = None,
    vectors: Path | None = None,
    text: TextColumn = None,
    query_prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    corpus_prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    top: int = 10,
    precision: VectorPrecision = "fp32",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Find the texts nearest to a query by cosine similarity (exact search); with --mine, find the
    hard negatives of pairs.

    Args:
        queries: Texts to search for.
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
        corpus: File of texts to search in: a column of .jsonl, .csv, .tsv or .parquet, else one
            text per line. With --mine, the second texts of --pairs are searched too; unset: only
            they are.
        mine: Number of hard negatives to write to --out for each pair of --pairs, at most: texts
            that are near its first text and do not belong to it.
        pairs: With --mine: file of pairs that belong together, as for finetune similarity.
        out: With --mine: file to write, JSON lines with anchor, positive and negatives.
        vectors: File of the corpus's vectors: an .npy that embed wrote with the same model and its
            default options.
        query_prompt: Text to put before each query; "" for none. Unset: the folder's prompt query,
            else its default.
        corpus_prompt: Text to put before each text of the corpus; "" for none. Unset: the folder's
            prompt document, passage or corpus, else its default.
        top: Number of texts to show for each query.
        precision: Precision of the model, as for embed.
    """
    if mine is not None:
        given = {"--top": top != 10, "a query": bool(queries), "--vectors": vectors is not None}
        if unused := [name for name, is_given in given.items() if is_given]:
            raise ConfigError(f"--mine searches for the pairs of --pairs: leave out {unused[0]}")
        if pairs is None or out is None:
            raise ConfigError("--mine needs --pairs FILE and --out FILE, as out.jsonl")
        _mine(model, pairs, corpus, mine, out, text, query_prompt, corpus_prompt, precision,
              overwrite, json)  # fmt: skip
        return
    if pairs is not None or out is not None:
        raise ConfigError("--pairs and --out are for --mine N, which writes hard negatives")
    if corpus is None or not queries:
        missing = ["--corpus, the file of texts to search in"] * (corpus is None)
        missing += ['a query, as "what to look for"'] * (not queries)
        raise ConfigError(f"missing {', and '.join(missing)}")
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.inference.files.stored_vectors import read_vectors
    from bertwright.inference.files.texts import open_texts

    if vectors is not None and corpus_prompt is not None:
        raise ConfigError(
            "--corpus-prompt is for a corpus that is embedded now; that of --vectors has its own "
            "already: leave it out"
        )
    refuse_missing_model(model)
    opened = open_texts(corpus, text, option="--corpus")
    stored, scales = (None, None) if vectors is None else read_vectors(vectors)
    from bertwright.inference.files.similar import nearest, strangest
    from bertwright.inference.model import load

    loaded = load(model).embedder(precision=precision)
    for note in loaded.notes:
        say(note)
    of_query, of_corpus = (
        next(each for each in (given, usual, loaded.config.prompt) if each is not None)
        for given, usual in (
            (query_prompt, usual_prompt(loaded.prompts, OF_QUERIES)),
            (corpus_prompt, usual_prompt(loaded.prompts, OF_DOCUMENTS)),
        )
    )
    for prompt, of in ((of_query, "query"), (of_corpus if vectors is None else "", "text")):
        if prompt:
            say(f"before every {of}: {prompt!r}")
    rows = [str(each) for each, _ in opened.rows]
    if not rows:
        raise DataError(f"{corpus} has no text")
    if stored is None:
        with bar("Embedding", "tokens") as on_progress:
            stored = loaded.embed(rows, on_progress, prompt=of_corpus)
    elif len(stored) != len(rows):
        raise DataError(
            f"{vectors} has {len(stored):,} vectors and {corpus} {len(rows):,} texts: embed the "
            "corpus again"
        )
    query_vectors = loaded.embed(list(queries), prompt=of_query)
    found, cosines = nearest(stored, query_vectors, top, scales)
    if vectors is not None:
        checked = sorted({0, len(rows) // 2, len(rows) - 1})
        own = loaded.embed([rows[row] for row in checked], prompt=of_corpus)
        if strange := strangest(stored, own, checked, scales):
            say(
                f"warning: the vector of row {strange[0] + 1:,} of {vectors} has the cosine "
                f"{strange[1]:.2f} with what {model} makes of its text: it is of another model, "
                "other options or another order of texts, and what is found means nothing. Embed "
                "the corpus again"
            )
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
    for query, nearest_to in zip(queries, results, strict=True):
        cells = [[f"{each['cosine']:.4f}", each["row"], each["text"]] for each in nearest_to]
        print_table(["cosine", "row", "text"], cells, query)


def _mine(
    model: str,
    pairs: str,
    corpus: str | None,
    count: int,
    out: Path,
    text: str | None,
    query_prompt: str | None,
    corpus_prompt: str | None,
    precision: VectorPrecision,
    overwrite: bool,
    json: bool,
) -> None:
    """Write the hard negatives of pairs to a file."""
    refuse_suffix(out, *JSON_LINES)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.inference.files.mined_pairs import read_pairs, write_mined
    from bertwright.inference.files.texts import open_texts

    refuse_missing_model(model)
    rows = read_pairs(pairs)
    texts = None
    if corpus is not None:
        texts = [str(each) for each, _ in open_texts(corpus, text, option="--corpus").rows]
    from bertwright.inference.files.mining import mine
    from bertwright.inference.model import load

    embedder = load(model).embedder(precision=precision)
    with bar("Embedding", "tokens") as on_progress:
        mined = mine(embedder, rows, texts, count, query_prompt, corpus_prompt, on_progress)
    with atomic_file(out, overwrite) as file:
        write_mined(file, rows, mined)
    found = sum(map(len, mined))
    if json:
        print_json({"pairs": len(rows), "negatives": found, "out": str(out)})
        return
    say(f"{len(rows):,} pairs with {found:,} hard negatives: {out}")
    if not found:
        say(
            "the nearest texts belong to their pair, or have more than 0.95 times the cosine of "
            "its second text: search more texts with --corpus FILE, or with a model that tells "
            "these apart"
        )
        return
    say(f"  bertwright finetune similarity --model {model} --train {out} --out RUN")
