"""`bertwright whiten`: fit a whitening on the vectors of texts, for `embed --whitening`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bertwright.atomic import refuse_existing
from bertwright.cli.options import EVERY_KEY, Json, Overwrite
from bertwright.cli.output import counted, print_json
from bertwright.cli.vectors import (
    InputFile,
    ModelPath,
    VectorOptions,
    make_embedder,
    say_of_texts,
    say_truncated,
)
from bertwright.console import bar
from bertwright.errors import ConfigError


def whiten(
    *,
    model: ModelPath,
    input: InputFile,
    out: Path,
    dimensions: int | None = None,
    options: Annotated[VectorOptions | None, EVERY_KEY] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fit a whitening on the vectors of texts and write it to a file.

    The dimensions of whitened vectors are uncorrelated and have equal variance, so that cosines
    tell texts apart better. bertwright embed --whitening FILE applies the whitening; it needs the
    same model and options.

    Args:
        out: The .npz file to write.
        dimensions: Number of dimensions of a whitened vector; unset: all directions in which the
            vectors vary.
    """
    options = options or VectorOptions()
    options.check()
    options.require_text_vectors("whiten")
    if out.suffix != ".npz":
        raise ConfigError(f"--out is {out}; expected a name that ends in .npz")
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model

    refuse_missing_model(model)
    texts = options.open_texts(input)
    from bertwright.inference.files.fit_whitening import fit_whitening

    embedder, _ = make_embedder(model, texts, options, normalize=False)
    with bar("Embedding", "texts") as on_progress:
        whitening, count = fit_whitening(embedder, texts, dimensions, on_progress)
    whitening.save(out)
    say_truncated(embedder.truncated, embedder.tokens_truncated, embedder)
    say_of_texts(texts, embedder)
    if json:
        print_json({"out": out, "texts": count, "dimensions": whitening.width})
    else:
        width = counted(whitening.width, "dimension")
        print(f"{out}: whitening of {width}, fitted on {counted(count, 'text')}")
