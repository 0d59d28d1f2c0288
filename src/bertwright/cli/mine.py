"""`bertwright mine`: find the hard negatives of pairs."""

from __future__ import annotations

from pathlib import Path

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import Json, Overwrite, Prompt, TextColumn
from bertwright.cli.output import JSON_LINES, print_json, refuse_suffix
from bertwright.cli.vectors import say_truncated
from bertwright.config.vectors import VectorPrecision
from bertwright.console import bar, say


def mine(
    *,
    model: str,
    pairs: str,
    out: Path,
    count: int = 3,
    corpus: str | None = None,
    text: TextColumn = None,
    query_prompt: Prompt = None,
    corpus_prompt: Prompt = None,
    precision: VectorPrecision = "fp32",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write pairs with their hard negatives: texts that are near the first text of a pair and do
    not belong to it.

    Args:
        model: A run, a checkpoint, a folder of Hugging Face or sentence-transformers, or
            hf:ORG/NAME.
        pairs: File of pairs that belong together, as for finetune similarity.
        out: File to write, JSON lines with anchor, positive and negatives.
        count: Number of hard negatives of a pair, at most.
        corpus: File of texts that are searched in addition to the second texts of the pairs: a
            column of .jsonl, .csv, .tsv or .parquet, else one text per line.
        text: Column of the text of --corpus; unset: found by its name.
        query_prompt: Text to put before each first text; "" for none. Unset: the folder's prompt
            query, else its default.
        corpus_prompt: Text to put before each text that is searched; "" for none. Unset: the
            folder's prompt document, passage or corpus, else its default.
        precision: Precision of the model, as for embed.
    """
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
    from bertwright.inference.files.mining import mine as find_negatives
    from bertwright.inference.model import load

    embedder = load(model).embedder(precision=precision)
    with bar("Embedding", "tokens") as on_progress:
        mined = find_negatives(
            embedder, rows, texts, count, query_prompt, corpus_prompt, on_progress
        )
    say_truncated(embedder.truncated, embedder.tokens_truncated, embedder)
    with atomic_file(out, overwrite) as file:
        write_mined(file, rows, mined)
    found = sum(map(len, mined))
    if json:
        print_json({"pairs": len(rows), "negatives": found, "out": str(out)})
        return
    say(f"{len(rows):,} pairs with {found:,} hard negatives: {out}")
    if found:
        say(f"  bertwright finetune similarity --model {model} --train {out} --out RUN")
    else:
        say(
            "the nearest texts belong to their pair, or have more than 0.95 times the cosine of "
            "its second text: search more texts with --corpus FILE, or with a model that tells "
            "these apart"
        )
