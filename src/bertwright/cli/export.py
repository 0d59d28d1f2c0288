"""`bertwright export onnx` and `bertwright export openvino`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, Json, Overwrite
from bertwright.cli.output import print_fields, print_json, say
from bertwright.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What both verbs take."""

    model: Annotated[str, Parameter(help="A run, a checkpoint or a Hugging Face BERT folder.")]
    out: Annotated[Path, Parameter(help="Folder to write.")]
    task: Annotated[
        str | None,
        Parameter(
            help="The head: masked_lm, next_sentence, a task's name, or encoder for vectors; "
            "unset: the task's, if there is one, else encoder."
        ),
    ] = None
    layers: Annotated[
        tuple[int, ...],
        Parameter(
            help="Vectors of these layers in place of the last and the pooler; 0 is the "
            "embeddings, negative from the top.",
            allow_leading_hyphen=True,
        ),
    ] = ()
    int8: Annotated[
        bool, Parameter(negative="", help="Store weights in 8 bits, judged on text.")
    ] = False
    sample: Annotated[
        Path | None,
        Parameter(help="Text that int8 is judged on, one a line; unset: 32 sentences of our own."),
    ] = None
    least: Annotated[
        float,
        Parameter(
            help="Cosine, agreement or correlation on that text below which int8 is an error."
        ),
    ] = 0.95
    overwrite: Overwrite = False
    json: Json = False


def onnx(*, asked: Annotated[Asked, EVERY_KEY]) -> None:
    """Write a model for ONNX Runtime: model.onnx, with any number of texts and tokens.

    What is written is run on random lengths and compared with ours; nothing appears if they differ.
    """
    _export("onnx", asked)


def openvino(*, asked: Annotated[Asked, EVERY_KEY]) -> None:
    """Write a model for OpenVINO: openvino_model.xml and openvino_model.bin.

    What is written is run on random lengths and compared with ours; nothing appears if they differ.
    """
    _export("openvino", asked)


def _export(runtime: Literal["onnx", "openvino"], asked: Asked) -> None:
    if asked.sample is not None and not asked.int8:
        raise ConfigError("--sample is of --int8; leave it out here, or pass both")
    texts = None if asked.sample is None else _read_sample(asked.sample)
    from bertwright.checkpoint.export.write import export

    facts = export(
        asked.model,
        asked.out,
        runtime,
        head=asked.task,
        layers=asked.layers,
        int8=asked.int8,
        sample=texts,
        least=asked.least,
        overwrite=asked.overwrite,
        on_step=lambda step: None if asked.json else say(f"{step} ..."),
    )
    if asked.json:
        print_json({"folder": str(asked.out), **facts})
        return
    shown = {
        "folder": str(asked.out),
        "head": facts["head"] or "none: vectors",
        "outputs": ", ".join(facts["outputs"]),
        "largest difference to ours": f"{facts['largest_difference']:.2g}",
    }
    if facts["pooling"]:
        shown["after the graph"] = f"{facts['pooling']} pooling, as modules.json tells"
    if facts["crf"]:
        shown["after the graph"] = "a CRF, whose numbers are in export.json"
    for name, value in facts.get("int8_on_text", {}).items():
        if isinstance(value, dict):
            value = ", ".join(f"{kind} {number:.5f}" for kind, number in value.items())
        shown[f"int8 {name.replace('_', ' ')}"] = value
    print_fields(shown)


def _read_sample(path: Path) -> list[str]:
    """The lines of a file that are not empty.

    Raises:
        DataError: no such file, not UTF-8, or nothing in it.
    """
    if not path.is_file():
        raise DataError(f"no file {path}; --sample takes a file with one text a line")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from error
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if not lines:
        raise DataError(f"{path} is empty; --sample takes a file with one text a line")
    return lines
