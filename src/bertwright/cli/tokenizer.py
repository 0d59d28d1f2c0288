"""`bertwright tokenizer train` and `bertwright tokenizer inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bertwright.cli.bars import bar
from bertwright.cli.options import EVERY_KEY, ConfigFile, Json, Overwrite
from bertwright.cli.output import print_fields, print_json, print_table, say
from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.config.values import to_dict
from bertwright.errors import ConfigError


def train(
    *corpus: Annotated[str, Parameter(help="Files, folders, globs, or - for standard input.")],
    out: Annotated[Path, Parameter(help="Folder to write the tokenizer to.")],
    config: Annotated[TokenizerConfig, EVERY_KEY] = TokenizerConfig(),
    reading: Annotated[CorpusConfig, EVERY_KEY] = CorpusConfig(),
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Train a vocabulary on a corpus.

    Writes vocab.txt, tokenizer.json and tokenizer_config.json, which transformers and tokenizers
    load, and training.json with what was met on the way. The same corpus and options give the same
    bytes, with any number of workers.
    """
    if not corpus:
        raise ConfigError("no corpus given; name files, folders, globs, or - for standard input")
    from bertwright.atomic import atomic_folder, refuse_existing

    refuse_existing(out, overwrite)  # before the work, not after
    from bertwright.text.corpus_report import CorpusReport
    from bertwright.text.tokenizer_files import write_training
    from bertwright.text.vocabulary import count_corpus, learn_tokenizer

    report = CorpusReport()
    with bar("Counting words", "bytes") as on_progress:
        counted = count_corpus(corpus, reading, config, report, on_progress)
    with bar("Learning pieces", "pieces") as on_progress:
        tokenizer, training = learn_tokenizer(counted, config, on_progress)
    with atomic_folder(out, overwrite) as folder:
        tokenizer.save(folder)
        write_training(
            folder,
            {
                "tokenizer": {**to_dict(config), "workers": None},
                "corpus": to_dict(reading),
                "report": report.as_dict(),
                "training": training.as_dict(),
            },
        )
    if training.vocab_size < config.vocab_size:
        say(
            f"The corpus gives {training.vocab_size:,} entries, not {config.vocab_size:,}: "
            "more text or a lower --min-frequency would give more."
        )
    figures = {"folder": str(out), "fingerprint": tokenizer.fingerprint, **training.as_dict()}
    if json:
        print_json(figures)
    else:
        print_fields(figures)


def inspect(
    *texts: Annotated[str, Parameter(help="Texts to cut.")],
    tokenizer: Annotated[Path, Parameter(help="Folder of a tokenizer or of a model.")],
    json: Json = False,
) -> None:
    """Show how a text is cut into tokens, and why.

    One row a word: as written, normalized, its pieces with their ids and places, and for [UNK] the
    reason.
    """
    if not texts:
        raise ConfigError('no text given; put it in quotes: tokenizer inspect "A text."')
    from bertwright.text.inspection import inspect_text
    from bertwright.text.tokenizer import load_tokenizer

    loaded = load_tokenizer(tokenizer)
    inspections = [inspect_text(loaded, text) for text in texts]
    if json:
        print_json({"texts": [inspection.as_dict() for inspection in inspections]})
        return
    for inspection in inspections:
        rows = [
            (
                word.text,
                word.normalized,
                " ".join(word.pieces),
                " ".join(map(str, word.ids)),
                " ".join(f"{start}-{stop}" for start, stop in word.offsets),
                "special token" if word.special else word.unknown or "",
            )
            for word in inspection.words
        ]
        title = f"{len(inspection.words)} words, {len(inspection.ids)} tokens: "
        print_table(
            ("word", "normalized", "pieces", "ids", "characters", "why"),
            rows,
            title=title + (inspection.normalized or "(nothing is left)"),
        )
