"""`bertwright export onnx` and `bertwright export openvino`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, Flag, Json, Overwrite
from bertwright.cli.output import print_fields, print_json
from bertwright.console import say
from bertwright.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of both verbs."""

    model: str
    """A run, a checkpoint or a Hugging Face folder (or hf:ORG/NAME). The model is a BERT, or a GPT
    or Transformer, whose decoder is exported with its cache."""
    out: Path
    """Folder to write."""
    task: str | None = None
    """Head to export: masked_lm, next_sentence, the name of a task, or encoder for vectors without
    a head; unset: the task, if there is one, else encoder."""
    layers: Annotated[tuple[int, ...], Parameter(allow_leading_hyphen=True)] = ()
    """Layers to output in place of the last layer and the pooler: 0 is the embeddings, negative
    numbers count from the top."""
    int8: Flag = False
    """Store the weights in 8 bits, and compare the outputs with float32's on a sample of texts."""
    sample: Path | None = None
    """File of texts for the comparison of --int8, one per line; unset: 32 built-in sentences."""
    least: float = 0.95
    """Minimum cosine, agreement or correlation in the comparison of --int8; below it, the export
    fails."""
    overwrite: Overwrite = False
    json: Json = False


def onnx(*, options: Annotated[Options, EVERY_KEY]) -> None:
    """Export a model to ONNX Runtime: model.onnx, for any number of texts and tokens.

    The export is run on texts of random lengths and compared with PyTorch; if the outputs differ,
    nothing is written.
    """
    _export("onnx", options)


def openvino(*, options: Annotated[Options, EVERY_KEY]) -> None:
    """Export a model to OpenVINO: openvino_model.xml and openvino_model.bin.

    The export is run on texts of random lengths and compared with PyTorch; if the outputs differ,
    nothing is written.
    """
    _export("openvino", options)


def _export(runtime: Literal["onnx", "openvino"], options: Options) -> None:
    if options.sample is not None and not options.int8:
        raise ConfigError("--sample is for --int8; leave it out, or pass both")
    texts = None
    if options.sample is not None:
        from bertwright.inference.files.texts import open_texts

        opened = open_texts(str(options.sample), option="--sample")
        texts = [text for each, _ in opened.rows if (text := str(each).strip())]
        if opened.counts.invalid_utf8:
            raise DataError(f"{options.sample} is not UTF-8; expected a text a line")
    from bertwright.checkpoint.export.write import export

    facts = export(
        options.model,
        options.out,
        runtime,
        head=options.task,
        layers=options.layers,
        int8=options.int8,
        sample=texts,
        least=options.least,
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
    for name, value in facts.get("int8_on_text", {}).items():
        if isinstance(value, dict):
            value = ", ".join(f"{kind} {number:.5f}" for kind, number in value.items())
        shown[f"int8 {name.replace('_', ' ')}"] = value
    print_fields(shown)
