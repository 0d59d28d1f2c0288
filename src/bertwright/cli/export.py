"""`bertwright export onnx` and `bertwright export openvino`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from bertwright.cli.options import EVERY_KEY, Flag, Json, Overwrite
from bertwright.cli.output import print_fields, print_json, say


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of both verbs."""

    model: str
    """A run, a checkpoint or a Hugging Face folder (or hf:ORG/NAME): a BERT, or a GPT or
    Transformer, of which the decoder with its cache is exported."""
    out: Path
    """Folder to write."""
    task: str | None = None
    """Head to export: masked_lm, next_sentence, a task's name, or encoder for vectors; unset: the
    task, if there is one, else encoder."""
    int8: Flag = False
    """Store weights in 8 bits, and compare the outputs on 32 sentences."""
    overwrite: Overwrite = False
    json: Json = False


def onnx(*, options: Annotated[Options, EVERY_KEY]) -> None:
    """Export a model to ONNX Runtime: model.onnx, for any number of texts and tokens.

    The export is run on random lengths and compared with PyTorch; nothing is kept if they differ.
    """
    _export("onnx", options)


def openvino(*, options: Annotated[Options, EVERY_KEY]) -> None:
    """Export a model to OpenVINO: openvino_model.xml and openvino_model.bin.

    The export is run on random lengths and compared with PyTorch; nothing is kept if they differ.
    """
    _export("openvino", options)


def _export(runtime: Literal["onnx", "openvino"], options: Options) -> None:
    from bertwright.checkpoint.export.write import export

    facts = export(
        options.model,
        options.out,
        runtime,
        head=options.task,
        int8=options.int8,
        overwrite=options.overwrite,
        on_step=lambda step: None if options.json else say(f"{step} ..."),
    )
    if options.json:
        print_json({"folder": str(options.out), **facts})
        return
    shown = {
        "folder": str(options.out),
        "head": facts["head"] or "none: vectors",
        "outputs": ", ".join(facts["outputs"]),
        "largest difference to PyTorch": f"{facts['largest_difference']:.2g}",
    }
    if facts["pooling"]:
        shown["after the graph"] = f"{facts['pooling']} pooling, as modules.json says"
    if facts["crf"]:
        shown["after the graph"] = "a CRF, whose weights are in export.json"
    if options.int8:
        shown["int8 correlation with PyTorch"] = f"{facts['int8_correlation']:.5f}"
    print_fields(shown)
