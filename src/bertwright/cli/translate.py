"""`bertwright translate`: texts by a translation model, and its BLEU."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

from bertwright.cli.bars import bar
from bertwright.cli.options import EVERY_KEY, ConfigFile, Device, Json, Overwrite, TextColumn
from bertwright.cli.output import counted, print_fields, print_json, say
from bertwright.config.generation import TranslationConfig
from bertwright.errors import ConfigError


def translate(
    *texts: str,
    model: str,
    input: str | None = None,
    reference: str | None = None,
    out: Path | None = None,
    text: TextColumn = None,
    config: Annotated[TranslationConfig, EVERY_KEY] = TranslationConfig(),
    precision: Literal["fp32", "bf16"] = "fp32",
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Translate texts with a model that was trained on pairs of sentences.

    Translations are written in the order of the texts, as soon as they are done: an interrupted run
    keeps what was written. An empty line stays empty.

    Args:
        texts: Texts to translate, a sentence each.
        model: A run, a checkpoint or a folder of a translation model.
        input: File of texts: a column of .jsonl, .csv, .tsv or .parquet, else one per line; - for
            standard input.
        reference: File of the right translations of the lines of --input: print BLEU and chrF.
        out: File to write: a line each, of .jsonl an object; unset: print.
        precision: Precision of weights: bf16 is faster where the processor has it.
    """
    if bool(texts) == (input is not None):
        raise ConfigError(
            "expected texts or --input FILE, and not both: bertwright translate --model RUN "
            '"Ein Mann schläft."'
        )
    if reference is not None and (input is None or text is not None):
        raise ConfigError("--reference is of the lines of a file: name that with --input")
    if out is not None:
        from bertwright.atomic import refuse_existing

        refuse_existing(out, overwrite)
    from bertwright.inference.translation import evaluate

    references: list[str] = []
    rows: Iterable[str] = texts
    total: int | None = len(texts)
    if reference is not None and input is not None:
        from bertwright.data.parallel.build import read_pairs

        evaluate.require_sacrebleu()
        pairs = [pair for _, *pair in read_pairs(Path(input), Path(reference))]
        rows, references, total = [a for a, _ in pairs], [b for _, b in pairs], len(pairs)
    elif input is not None:
        from bertwright.inference.text_files import open_texts

        opened = open_texts(input, text)
        rows, total = (str(each) for each, _ in opened.rows), opened.total
    from bertwright.inference.model import load
    from bertwright.inference.translation.translate import translate as translate_texts

    loaded = load(model, None if device == "auto" else device, precision)
    prints = out is None and reference is None
    shown: list[dict[str, Any]] = []
    translations: list[str] = []
    unfinished = 0
    with ExitStack() as stack:
        on_progress = stack.enter_context(bar("Translating", "texts"))
        file: Any = sys.stdout if prints else None
        if out is not None:
            file = stack.enter_context(out.open("w", encoding="utf-8"))
        lines = out is None or out.suffix != ".jsonl"
        for each in translate_texts(loaded.runner, rows, config):
            translations.append(each.text)
            unfinished += each.reason == "length"
            if json and prints:
                shown.append(asdict(each))
            elif file is not None:
                line = each.text if lines else dumps(asdict(each), ensure_ascii=False)
                file.write(line + "\n")
                file.flush()
            on_progress(len(translations), total)
    if unfinished:
        say(f"warning: {counted(unfinished, 'translation')} reached the maximum length")
    figures = evaluate.evaluate_translations(translations, references) if reference else {}
    if json:
        print_json(
            {"translations": shown}
            if prints
            else {"out": out, "texts": len(translations), **figures}
        )
        return
    if out is not None:
        say(f"{counted(len(translations), 'text')} translated in {out}")
    if figures:
        print_fields(figures)
