"""`bertwright export onnx` and `bertwright export openvino`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_fields, print_json, say
from bertwright.errors import DataError

Model = Annotated[str, Parameter(help="A run, a checkpoint or a Hugging Face BERT folder.")]
Out = Annotated[Path, Parameter(help="Folder to write.")]
Task = Annotated[
    str | None,
    Parameter(
        help="The head: masked_lm, next_sentence, a task's name, or encoder for vectors; "
        "unset: the task's, if there is one, else encoder."
    ),
]
Layers = Annotated[
    tuple[int, ...],
    Parameter(
        help="Vectors of these layers in place of the last and the pooler; 0 is the embeddings, "
        "negative from the top.",
        allow_leading_hyphen=True,
    ),
]
Int8 = Annotated[bool, Parameter(negative="", help="Store weights in 8 bits, judged on text.")]
Sample = Annotated[
    Path | None,
    Parameter(help="Text that int8 is judged on, one a line; unset: 32 sentences of our own."),
]
Least = Annotated[
    float,
    Parameter(help="Cosine, agreement or correlation on that text below which int8 is an error."),
]


def onnx(
    *,
    model: Model,
    out: Out,
    task: Task = None,
    layers: Layers = (),
    int8: Int8 = False,
    sample: Sample = None,
    least: Least = 0.95,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write a model for ONNX Runtime: model.onnx, with any number of texts and tokens.

    What is written is run on random lengths and compared with ours; nothing appears if they differ.
    """
    _export("onnx", model, out, task, layers, int8, sample, least, overwrite, json)


def openvino(
    *,
    model: Model,
    out: Out,
    task: Task = None,
    layers: Layers = (),
    int8: Int8 = False,
    sample: Sample = None,
    least: Least = 0.95,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Write a model for OpenVINO: openvino_model.xml and openvino_model.bin.

    What is written is run on random lengths and compared with ours; nothing appears if they differ.
    """
    _export("openvino", model, out, task, layers, int8, sample, least, overwrite, json)


def _export(
    runtime: Literal["onnx", "openvino"],
    model: str,
    out: Path,
    task: str | None,
    layers: tuple[int, ...],
    int8: bool,
    sample: Path | None,
    least: float,
    overwrite: bool,
    json: bool,
) -> None:
    texts = None if sample is None else _read_sample(sample)
    from bertwright.checkpoint.export import export

    facts = export(
        model,
        out,
        runtime,
        head=task,
        layers=layers,
        int8=int8,
        sample=texts,
        least=least,
        overwrite=overwrite,
        on_step=lambda step: None if json else say(f"{step} ..."),
    )
    if json:
        print_json({"folder": str(out), **facts})
        return
    shown = {
        "folder": str(out),
        "head": facts["head"] or "none: vectors",
        "outputs": ", ".join(facts["outputs"]),
        "largest difference to ours": f"{facts['largest_difference']:.2g}",
    }
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
