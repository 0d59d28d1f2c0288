"""`bertwright data build` and `bertwright data check`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

from bertwright.checkpoint.tokenizer_folder import find_tokenizer
from bertwright.cli.options import (
    EVERY_KEY,
    ConfigFile,
    Flag,
    Json,
    Overwrite,
    TokenizerFolder,
)
from bertwright.cli.output import counted, print_json
from bertwright.config.corpus import CorpusConfig
from bertwright.config.run import PassRun
from bertwright.console import bar, say
from bertwright.errors import ConfigError, DataError
from bertwright.models.bert.config import InstanceConfig


def build(
    *inputs: str,
    tokenizer: TokenizerFolder,
    out: Path,
    corpus: Annotated[CorpusConfig, EVERY_KEY] = CorpusConfig(),
    workers: int = 0,
    cluster: str | None = None,
    segmented: bool = False,
    parallel: Flag = False,
    source: str | None = None,
    target: str | None = None,
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Turn a corpus into shards for training.

    The same command continues a build that was interrupted.

    Args:
        inputs: Files, folders, globs, - for standard input, or hf:NAME, a data set of the Hugging
            Face hub.
        out: Folder to write.
        workers: Number of processes; 0: one per core.
        cluster: Address of a Dask scheduler, as tcp://host:8786, whose workers encode the text in
            place of local processes.
        segmented: The words of the text are already separated by spaces; for whole-word masking of
            Chinese.
        parallel: The inputs are two files, SOURCE TARGET, where line i of one translates line i of
            the other; or one .tsv, .csv, .jsonl or .parquet whose rows are pairs. The text is not
            cleaned, and only pairs with two empty sides are left out.
        source: Name or number of the column of the source in a file of pairs; unset: found by its
            name, or the first of two columns.
        target: Name or number of the column of the target; unset: found by its name, or the second
            of two columns.
    """
    from bertwright.data.build import build_shards
    from bertwright.text.corpus.find import are_parallel
    from bertwright.text.corpus.pairs import clear_pairs
    from bertwright.text.corpus.report import CorpusReport

    start, folder = time.monotonic(), find_tokenizer(tokenizer)
    if parallel:
        _build_parallel(inputs, (source, target), folder, out, overwrite, json)
        return
    if source is not None or target is not None:
        raise ConfigError("--source and --target are columns of pairs: add --parallel")
    if are_parallel(inputs):
        raise ConfigError(
            f"{' and '.join(inputs)} look like parallel text, one line of which translates the "
            "other's: add --parallel. As a corpus of documents they are read under names that end "
            "in .txt"
        )
    if pairs := clear_pairs(inputs, corpus.text_column):
        raise ConfigError(
            f"{inputs[0]} has no column {corpus.text_column!r}, and its columns "
            f"{' and '.join(map(repr, pairs.columns))} look like pairs: add --parallel. The column "
            "of a corpus of documents is named by --text-column NAME"
        )
    with bar("Building", "bytes") as on_progress:
        manifest = build_shards(
            list(inputs),
            out,
            folder,
            corpus,
            workers=workers,
            cluster=cluster,
            segmented=segmented,
            overwrite=overwrite,
            on_progress=on_progress,
            on_note=say,
        )
    seconds = time.monotonic() - start
    counts, report = manifest["counts"], manifest["report"]
    if json:
        print_json({"out": out, "seconds": round(seconds, 3), "counts": counts, "report": report})
        return
    megabytes = report["bytes"] / 1e6
    size = f"{megabytes:,.1f} MB" if megabytes >= 0.1 else f"{1e3 * megabytes:.1f} kB"
    print(
        f"{out}: {counted(counts['documents'], 'document')}, "
        f"{counted(counts['sentences'], 'sentence')}, {counted(counts['tokens'], 'token')} "
        f"from {size} in {seconds:.1f} s"
    )
    if counts["documents_lost"]:
        print(f"  empty after cleaning: {counted(counts['documents_lost'], 'document')}")
    for line in CorpusReport(**report).remarks():
        print(f"  {line}")
    print(f"Check it: bertwright data check {shlex.quote(str(out))}")


def _build_parallel(
    inputs: tuple[str, ...],
    columns: tuple[str | None, str | None],
    tokenizer: Path,
    out: Path,
    overwrite: bool,
    json: bool,
) -> None:
    """Write the shards of parallel text, in two files or one file of pairs; print their counts."""
    from bertwright.data.parallel.build import build_pair_file, build_parallel
    from bertwright.text.corpus.pairs import open_pairs
    from bertwright.text.corpus.report import CorpusReport

    if len(inputs) not in (1, 2):
        raise ConfigError(
            f"expected --parallel SOURCE TARGET, or one file of pairs; got {len(inputs)} files"
        )
    if len(inputs) == 2 and columns != (None, None):
        raise ConfigError(
            "--source and --target name columns of one file of pairs; got 2 files, whose lines are "
            "the source and the target"
        )
    pairs = open_pairs(Path(inputs[0]), *columns) if len(inputs) == 1 else None
    if pairs and pairs.note:
        say(pairs.note)
    report = CorpusReport()
    with bar("Building", "bytes") as on_progress:
        if pairs:
            manifest = build_pair_file(
                pairs, out, tokenizer, overwrite=overwrite, on_progress=on_progress, report=report
            )
        else:
            manifest = build_parallel(
                inputs[0],
                inputs[1],
                out,
                tokenizer,
                overwrite=overwrite,
                on_progress=on_progress,
                report=report,
            )
    counts = manifest["counts"]
    if json:
        print_json({"out": out, "counts": counts})
        return
    print(f"{out}: {counted(counts['documents'], 'pair')}, {counted(counts['tokens'], 'token')}")
    if counts["documents_lost"]:
        print(f"  empty on both sides: {counted(counts['documents_lost'], 'pair')}")
    for line in report.remarks():
        print(f"  {line}")
    print(f"Check it: bertwright data check {shlex.quote(str(out))}")


def check(
    folder: Path,
    *,
    model: str | None = None,
    sequence_length: int | None = None,
    instances: InstanceConfig = InstanceConfig(),
    json: Json = False,
    config_file: ConfigFile = None,
) -> int:
    """Check shards: what is wrong and what to do. The exit code is 4 if there are errors.

    The instances that `pretrain` would train a model on are checked too; their options are those of
    `pretrain`.

    Args:
        folder: Folder that bertwright data build wrote.
        model: The model to train; unset: a Transformer for pairs, a GPT for a vocabulary without
            [MASK], else a BERT.
        sequence_length: Maximum tokens of a language model's window, or of each side of a pair;
            unset: pretrain's default.
        instances: How a BERT's training sequences are made.
    """
    from bertwright.data.doctor import check as check_shards
    from bertwright.data.shards import read_shards_manifest

    read_shards_manifest(folder)  # finds a wrong folder before torch is imported
    from bertwright.recipes.configure import instances_of, run_for

    keys: dict[str, Any] = {
        "sequence_length": sequence_length,
        "instances": None if instances == InstanceConfig() else instances,
    }
    run = run_for(folder, model, **{k: v for k, v in keys.items() if v is not None})
    with bar("Checking", "tokens") as on_progress:
        checkup = check_shards(folder, instances_of(run), on_progress=on_progress)
    if json:
        print_json({"folder": folder, **checkup.as_dict()})
        return DataError.exit_code if checkup.errors else 0
    for finding in checkup.findings:
        print(f"{finding.level:<8} {finding.name}: {finding.message}")
        if finding.advice:
            print(f"{'':<8} -> {finding.advice}")
    print(f"{counted(checkup.errors, 'error')}, {counted(checkup.warnings, 'warning')}")
    if checkup.errors:
        return DataError.exit_code
    where = shlex.quote(str(folder))
    length = (
        f"--epochs {run.with_usual_length().epochs:g}"
        if isinstance(run, PassRun)
        else "--minutes 30"
    )
    print(f"Train: bertwright pretrain --model {run.model} --data {where} {length} --out runs/NAME")
    return 0
