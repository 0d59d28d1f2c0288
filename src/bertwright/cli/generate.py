"""`bertwright generate`: texts that continue prompts."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from bertwright.cli.options import EVERY_KEY, ConfigFile, Json, Overwrite, TextColumn
from bertwright.cli.output import print_json, say
from bertwright.config.generation import GenerationConfig
from bertwright.errors import ConfigError


def generate(
    *prompts: str,
    model: str,
    input: str | None = None,
    out: Path | None = None,
    text: TextColumn = None,
    config: Annotated[GenerationConfig, EVERY_KEY] = GenerationConfig(),
    overwrite: Overwrite = False,
    json: Json = False,
    config_file: ConfigFile = None,
) -> None:
    """Continue prompts with a language model.

    One prompt is printed as its text is made. Of several, and to a file, each text is written when
    it is done, in the order of the prompts: an interrupted run keeps what was written.

    Args:
        prompts: Texts to continue.
        model: A run, a checkpoint or a folder of a language model.
        input: File of prompts: a column of .jsonl, .csv, .tsv or .parquet, else one per line; - for
            standard input.
        out: File to write, one JSON object per line; unset: print.
    """
    if bool(prompts) == (input is not None):
        raise ConfigError(
            "expected prompts or --input FILE, and not both: bertwright generate --model RUN "
            '"Once upon a time"'
        )
    if out is not None:
        from bertwright.atomic import refuse_existing

        refuse_existing(out, overwrite)
    from bertwright.inference.model import load

    texts = list(prompts)
    if input is not None:
        from bertwright.inference.text_files import open_texts

        texts = [str(each) for each, _ in open_texts(input, text).rows]
    loaded = load(model)
    if len(texts) == 1 and config.num == 1 and not json and out is None:
        sys.stdout.write(texts[0])
        sys.stdout.flush()
        for more in loaded.stream(texts[0], config):
            sys.stdout.write(more)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    from bertwright.inference.generate import generate as generate_texts

    with ExitStack() as stack:
        file: Any = None
        if out is not None:
            file = stack.enter_context(out.open("w", encoding="utf-8"))
        waiting: dict[int, list[dict[str, Any]]] = {}
        shown = []
        written = 0
        for number, found in generate_texts(loaded.runner, texts, config):
            waiting[number] = [asdict(each) for each in found]
            while written in waiting:
                of_prompt = waiting.pop(written)
                result = {"prompt": texts[written], "texts": of_prompt}
                written += 1
                if file is not None:
                    file.write(dumps(result, ensure_ascii=False) + "\n")
                    file.flush()
                elif json:
                    shown.append(result)
                else:
                    for each in of_prompt:
                        sys.stdout.write(f"{result['prompt']}{each['text']}\n\n")
                    sys.stdout.flush()
    if json:
        print_json({"prompts": shown} if out is None else {"out": str(out), "prompts": written})
    elif out is not None:
        say(f"{written:,} prompts are continued in {out}")
