"""`bertwright tokenizer train`, `tokenizer extend` and `tokenizer inspect`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bertwright.atomic import atomic_folder, refuse_folder, refuse_source
from bertwright.checkpoint.tokenizer_folder import find_tokenizer
from bertwright.cli.options import (
    EVERY_KEY,
    ConfigFile,
    Json,
    Overwrite,
    TokenizerFolder,
)
from bertwright.cli.output import counted, print_fields, print_json, print_table
from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.config.values import to_dict
from bertwright.console import bar, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.text.corpus.pairs import PairFile


def train(
    *corpus: str,
    out: Path,
    config: Annotated[TokenizerConfig, EVERY_KEY] = TokenizerConfig(),
    reading: Annotated[CorpusConfig, EVERY_KEY] = CorpusConfig(),
    source: str | None = None,
    target: str | None = None,
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Train a vocabulary on a corpus.

    The folder contains vocab.txt, tokenizer.json and tokenizer_config.json, which transformers and
    tokenizers load, and training.json with statistics of the training. The same corpus and options
    give the same bytes, with any number of workers.

    Args:
        corpus: Files, folders, globs, or - for standard input; two files of parallel text, as
            train.en train.de; or one .tsv, .csv, .jsonl or .parquet whose rows are pairs.
        out: Folder to write the tokenizer to.
        source: Name or number of the column of the source in a file of pairs; unset: found by its
            name, or the first of two columns. Both columns are trained on.
        target: Name or number of the column of the target; unset: found by its name, or the second
            of two columns.
    """
    from bertwright.text.corpus.find import find_files

    for path in find_files(corpus):
        refuse_source(out, path)
    refuse_folder(out, overwrite)  # before the work starts
    from bertwright.text.corpus.report import CorpusReport
    from bertwright.text.tokenizer.files import write_training
    from bertwright.text.tokenizer.train import count_corpus, train_on_counts, train_tokenizer

    report, pairs = CorpusReport(), _pairs_of(corpus, source, target, reading)
    if pairs and pairs.note:
        say(pairs.note)
    if config.algorithm == "byte-bpe":
        with bar("Training the vocabulary", "bytes") as on_progress:
            tokenizer, training = train_tokenizer(
                corpus, reading, config, report, on_progress, pairs
            )
    else:
        with bar("Counting words", "bytes") as on_progress:
            counted = count_corpus(corpus, reading, config, report, on_progress, pairs)
        with bar("Training the vocabulary", "tokens") as on_progress:
            tokenizer, training = train_on_counts(counted, config, on_progress)
    record = {
        "tokenizer": {**to_dict(config), "workers": None, "cluster": None},
        "corpus": to_dict(reading),
        "report": to_dict(report),
        "training": training,
    }
    if pairs:
        record["pairs"] = {"source": pairs.source, "target": pairs.target}
    with atomic_folder(out, overwrite) as folder:
        tokenizer.save(folder)
        write_training(folder, record)
    if training["vocab_size"] < config.vocab_size:
        say(
            f"The corpus gives {training['vocab_size']:,} entries, not {config.vocab_size:,}: "
            "more text or a lower --min-frequency would give more."
        )
    figures = {"folder": str(out), "fingerprint": tokenizer.fingerprint, **training}
    if json:
        print_json({**figures, "report": record["report"]})
        return
    print_fields(figures)
    for line in report.remarks():
        print(line)
    if note := accents_note(training):
        say(note)
    same = "" if reading == CorpusConfig() else " (and the same options of the corpus)"
    if "-" in corpus:
        say("Standard input cannot be read twice: the data are built from a file of the same text.")
    columns = "" if source is None else f" --source {shlex.quote(source)}"
    columns += "" if target is None else f" --target {shlex.quote(target)}"
    parallel = f" --parallel{columns}" if pairs else ""
    say(f"Next: bertwright data build {_with_tokenizer(corpus, out, parallel)}{same}")


def _pairs_of(
    corpus: Sequence[str], source: str | None, target: str | None, reading: CorpusConfig
) -> PairFile | None:
    """Return the file of pairs that the corpus is, or None if it is not one."""
    from bertwright.text.corpus.pairs import clear_pairs, open_pairs

    if source is None and target is None:
        return clear_pairs(corpus, reading.text_column)
    if len(corpus) != 1:
        raise ConfigError(
            f"--source and --target name columns of one file of pairs; got {len(corpus)} files"
        )
    if reading.text_column != CorpusConfig().text_column:
        raise ConfigError(
            "--text-column names the only column that is read; expected it, or --source and "
            "--target"
        )
    return open_pairs(Path(corpus[0]), source, target)


def accents_note(training: Mapping[str, Any]) -> str:
    """Return a note on the words that stripping accents changes, and on the option that decides it.

    The note is empty if no word has accents.
    """
    fraction = training.get("accented_words_share", 0.0)
    if not fraction:
        return ""
    percent = f"{fraction:.1%}" if fraction >= 0.001 else "less than 0.1%"
    some = ", ".join(training["accented_words"][:2])
    merged = "".join(
        f"; {group.split()[0]} and {group.split()[1]} would be one word"
        for group in training["merged_words"][:1]
    )
    if training["accents"] == "kept":
        return (
            f"Accents and other marks are kept: stripping would change {percent} of the words "
            f"({some}{merged}). --strip-accents strips them, as published uncased models do."
        )
    merged = merged.replace("would be", "are")
    return (
        f"Accents and other marks are stripped, which changes {percent} of the words ({some}"
        f"{merged}); --no-strip-accents keeps them."
    )


def extend(
    *corpus: str,
    model: str,
    out: Path,
    add: int = 2000,
    min_count: int = 5,
    workers: int = 0,
    reading: Annotated[CorpusConfig, EVERY_KEY] = CorpusConfig(),
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Add words of a corpus to a model's vocabulary, for continued pre-training.

    Frequent words that are split into wordpieces become entries of their own, whose vectors begin
    as the mean of their wordpieces' vectors; old entries keep their ids. The next steps are data
    build --tokenizer DIR and pretrain --init DIR.

    Args:
        corpus: Files, folders, globs, or - for standard input.
        model: A run, a checkpoint or a Hugging Face BERT (folder or hf:ORG/NAME).
        out: Folder to write the model with its tokenizer to.
        add: Maximum number of new entries.
        min_count: Minimum count in the corpus of a word that is added.
        workers: Number of processes that count words; 0: one per core.
    """
    from bertwright.recipes.extend import extend as extend_model

    with bar("Counting words", "characters") as on_progress:
        found = extend_model(
            model,
            corpus,
            out,
            add=add,
            min_count=min_count,
            reading=reading,
            workers=workers,
            overwrite=overwrite,
            on_progress=on_progress,
        )
    if len(found.additions) < add:
        say(
            f"The corpus gives {len(found.additions):,} entries, not {add:,}: more text or a lower "
            "--min-count would give more."
        )
    figures = found.as_dict()
    if json:
        print_json(figures)
        return
    print_fields({**figures, "first": " ".join(figures["first"])})
    say("The new entries are not trained yet. Next:")
    say(f"  bertwright data build {_with_tokenizer(corpus, out)}")
    say(
        f"  bertwright pretrain --init {shlex.quote(str(out))} --data shards --minutes 10 "
        "--out runs/NAME"
    )


def _with_tokenizer(corpus: Sequence[str], out: Path, parallel: str = "") -> str:
    """Return the arguments of `data build`; `parallel` holds the options of a file of pairs."""
    from bertwright.text.corpus.find import are_parallel

    named = ["FILE" if each == "-" else shlex.quote(each) for each in corpus]
    parallel = " --parallel" if are_parallel(corpus) else parallel
    return f"{' '.join(named)}{parallel} --tokenizer {shlex.quote(str(out))} --out shards"


def inspect(*texts: str, tokenizer: TokenizerFolder, json: Json = False) -> None:
    """Show how a text is split into tokens, and why.

    Each row shows a word as written and normalized, its tokens with ids and offsets, and the reason
    for an [UNK].

    Args:
        texts: Texts to split.
    """
    if not texts:
        raise ConfigError('no text given; put it in quotes: tokenizer inspect "A text."')
    from bertwright.text.tokenizer.inspect import inspect_text
    from bertwright.text.tokenizer.tokenizer import load_tokenizer

    loaded = load_tokenizer(find_tokenizer(tokenizer))
    inspections = [inspect_text(loaded, text) for text in texts]
    if json:
        print_json({"texts": [asdict(each) for each in inspections]})
        return
    for inspection in inspections:
        rows = [
            (
                word.text,
                word.normalized,
                " ".join(word.pieces),
                " ".join(map(str, word.ids)),
                " ".join(f"{start}-{stop}" for start, stop in word.offsets),
                word.why,
            )
            for word in inspection.words
        ]
        title = f"{counted(len(inspection.words), 'word')}, "
        title += f"{counted(len(inspection.ids), 'token')}: "
        print_table(
            ("word", "normalized", "tokens", "ids", "characters", "why"),
            rows,
            title=title + (inspection.normalized or "(nothing is left)"),
        )
