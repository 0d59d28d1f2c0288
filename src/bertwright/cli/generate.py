"""`bertwright generate`: continue prompts with a language model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

from bertwright.atomic import refuse_existing
from bertwright.cli.options import (
    EVERY_KEY,
    ConfigFile,
    Device,
    Json,
    Overwrite,
    TextColumn,
    given_texts,
    unescaped,
)
from bertwright.cli.output import JSON_LINES, counted, line_by_line, print_json, refuse_suffix
from bertwright.config.generation import GenerationConfig
from bertwright.console import bar, say


def generate(
    *prompts: str,
    model: str,
    input: str | None = None,
    out: Path | None = None,
    text: TextColumn = None,
    config: Annotated[GenerationConfig, EVERY_KEY] = GenerationConfig(),
    precision: Literal["auto", "fp32", "bf16"] = "auto",
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Continue prompts with a language model.

    The text of a single prompt is printed while it is generated. With several prompts or --out,
    each text is written when it is complete, in the order of the prompts, so that an interrupted
    run keeps what was written. Blank lines of a file are not continued.

    Args:
        prompts: Texts to continue.
        model: A run, a checkpoint or a folder of a language model.
        input: File of prompts: a column of .jsonl, .csv, .tsv or .parquet, else one per line; - for
            standard input.
        out: File to write, one JSON object per line; unset: print.
        precision: Precision of the weights; auto: bf16 if the hardware multiplies it faster.
    """
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    texts = [each for group in given_texts(prompts, input, text)[0] for each in group]
    blank = [number for number, each in enumerate(texts) if input and not each.strip()]
    refuse_suffix(out, *JSON_LINES)
    refuse_existing(out, overwrite)
    config = unescaped(config)
    from bertwright.inference.generate import generate as generate_texts
    from bertwright.inference.model import load

    loaded = load(model, device, precision)
    if len(texts) == 1 and config.num == 1 and not json and out is None and not blank:
        for part in (texts[0], *loaded.stream(texts[0], config), "\n"):
            sys.stdout.write(part)
            sys.stdout.flush()
        return
    waiting: dict[int, list[dict[str, Any]]] = {number: [] for number in blank}
    given = [number for number in range(len(texts)) if number not in waiting]
    results: list[dict[str, Any]] = []
    with bar("Generating", "prompts") as on_progress, line_by_line(out, not json) as write:

        def write_what_is_next() -> None:
            while len(results) in waiting:
                prompt = texts[len(results)]
                result: dict[str, Any] = {"prompt": prompt, "texts": waiting.pop(len(results))}
                if out is not None:
                    write(dumps(result, ensure_ascii=False))
                else:
                    shown = [prompt + each["text"] for each in result["texts"]]
                    write("\n\n".join(shown or [prompt]) + "\n")
                results.append(result)

        write_what_is_next()
        every = generate_texts(loaded.runner, [texts[number] for number in given], config)
        for number, found in every if given else ():
            waiting[given[number]] = [asdict(each) for each in found]
            on_progress(len(results) + len(waiting), len(texts))
            write_what_is_next()
    if json:
        print_json({"prompts": results} if out is None else {"out": out, "prompts": len(results)})
    elif out is not None:
        say(f"{len(given):,} prompts are continued in {out}")
    if blank:
        say(f"{counted(len(blank), 'blank line')} of {input} stayed as it is")
