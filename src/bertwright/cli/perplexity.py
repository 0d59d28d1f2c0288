"""`bertwright perplexity`: score text by language models, alone or mixed."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import Device, Json, Overwrite
from bertwright.cli.output import JSON_LINES, counted, print_json, print_table, refuse_suffix
from bertwright.config.values import plain
from bertwright.console import bar, say
from bertwright.errors import ConfigError

if TYPE_CHECKING:
    from bertwright.inference.model import Model


def perplexity(
    *files: str,
    model: tuple[str, ...],
    weights: Annotated[tuple[float, ...], Parameter(consume_multiple=True)] = (),
    tune: str | None = None,
    documents: Literal["blank-line", "file", "line"] = "blank-line",
    pairs: str | None = None,
    by: str | None = None,
    spelling: str | None = None,
    out: Path | None = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Compute the perplexity, the bits per character and the fraction of unknown words of text, by
    one language model or a mixture.

    A masked language model is evaluated by its pseudo-log-likelihood, with one token masked at a
    time. Models with different vocabularies are not mixed but compared by bits per character, which
    include the bits of the spelling of unknown words.

    Args:
        files: Files, folders or globs of text, as for data build.
        model: A run or a checkpoint of a language model; may be given several times: the models are
            mixed, or compared if their vocabularies differ.
        weights: Weights of the mixture, one for each model, which sum to 1; unset: equal.
        tune: Other held-out text, on which the weights of the mixture are fitted.
        documents: What separates texts: a blank line, the end of a file, or the end of every line.
        pairs: Table of minimal pairs with the columns good and bad, or sentence_good and
            sentence_bad: show how often the good sentence is more probable.
        by: Column of --pairs by whose values the pairs are counted separately.
        spelling: File of text from whose words the spelling of unknown words is learned; unset: the
            words in the vocabularies of the models.
        out: File to write: a JSON line for each text, with the log-probability of each token.
    """
    if bool(files) == (pairs is not None):
        raise ConfigError("expected files of text, or --pairs FILE; one of them")
    if by is not None and pairs is None:
        raise ConfigError("--by is a column of --pairs: name that too")
    for option, value in (("--tune", tune), ("--out", out)):
        if value is not None and pairs is not None:
            raise ConfigError(f"{option} is for files of text, not for --pairs: leave it out")
    refuse_suffix(out, *JSON_LINES)
    refuse_existing(out, overwrite)
    from bertwright.checkpoint.missing import refuse_missing_model
    from bertwright.config.corpus import CorpusConfig
    from bertwright.inference.files.texts import open_minimal_pairs
    from bertwright.text.corpus.find import find_files

    refuse_missing_model(*model)
    if pairs not in (None, "-"):
        open_minimal_pairs(pairs, by)
    for given in (files, tune, spelling):
        if given:
            find_files([given] if isinstance(given, str) else given)
    from bertwright.inference.files import perplexity as recipe
    from bertwright.inference.model import load

    models = [load(each, device) for each in model]
    _check_spelling(spelling, models, pairs)
    if pairs is not None:
        with bar("Scoring", "pairs") as on_progress:
            found = recipe.minimal_pairs(
                models, pairs, by, weights=weights, on_progress=on_progress
            )
        rows = [[group, each["pairs"], each["accuracy"]] for group, each in found["by"].items()]
        rows.append(["all", found["pairs"], found["accuracy"]])
        cells = [[group, count, f"{accuracy:.1%}"] for group, count, accuracy in rows]
        print_json(found) if json else print_table(["", "pairs", "good is likelier"], cells)
        return
    compared = _compared(models, files, documents, weights, tune, out, spelling)
    if compared is not None:
        print_json(compared) if json else show_side_by_side(compared)
        return
    target = nullcontext() if out is None else atomic_file(out, overwrite)
    with target as file, bar("Scoring", "bytes") as on_progress:

        def write(score: dict[str, Any]) -> None:
            if file is not None:
                file.write(json_module.dumps(plain(score), ensure_ascii=False) + "\n")

        found = recipe.perplexity(
            models,
            files,
            CorpusConfig(documents=documents),
            weights=weights,
            tune=tune,
            on_score=write,
            on_progress=on_progress,
        )
    if json:
        print_json(found)
        return
    names = ("loss", "perplexity", "perplexity_of_known", "bits_per_character")
    rows = [
        [name, *(each[key] for key in names)]
        for name, each in zip(model, found["models"], strict=True)
    ]
    if len(models) > 1:
        mixed = " + ".join(f"{each['weight']:.3f}" for each in found["models"])
        rows.append([f"mixed, {mixed}", *(found[name] for name in names)])
    print_table(
        ["model", "nats a token", "perplexity", "without unknown words", "bits a character"],
        rows,
        f"{counted(found['texts'], 'text')}, {counted(found['tokens'], 'token')} of which "
        f"{found['unknown'] / found['tokens']:.2%} unknown, "
        f"{counted(found['characters'], 'character')}",
    )
    if found["pseudo"]:
        say("a masked language model: pseudo-perplexity, not comparable with the others'")


def _check_spelling(spelling: str | None, models: Sequence[Model], pairs: str | None) -> None:
    """Raise ConfigError if --spelling is given but would not be used."""
    from bertwright.inference.files.perplexity import have_one_vocabulary

    if spelling is not None and (pairs is not None or have_one_vocabulary(models)):
        raise ConfigError(
            f"--spelling is {spelling}, but unknown words are spelled only where models of "
            "different vocabularies are compared: leave it out"
        )


def _compared(
    models: Sequence[Model],
    files: Sequence[str],
    documents: Literal["blank-line", "file", "line"],
    weights: Sequence[float],
    tune: str | None,
    out: Path | None,
    spelling: str | None,
) -> dict[str, Any] | None:
    """Return the measures of models of different vocabularies, or None if they share one.

    Models that share a vocabulary are mixed instead of compared.

    Raises:
        ConfigError: an option of a mixture is given for models of different vocabularies.
    """
    from bertwright.config.corpus import CorpusConfig
    from bertwright.config.tokenizer import TokenizerConfig
    from bertwright.inference.files.perplexity import have_one_vocabulary, side_by_side
    from bertwright.inference.spelling import Spelling
    from bertwright.text.corpus.report import CorpusReport
    from bertwright.text.tokenizer.train import count_corpus

    if have_one_vocabulary(models):
        return None
    given = {"--weights": weights or None, "--tune": tune, "--out": out}
    for option, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{option} is of a mixture, and these models have different vocabularies, so they "
                f"are compared and not mixed: leave it out, or name models of one vocabulary"
            )
    corpus = CorpusConfig(documents=documents)
    model = None
    if spelling is not None:
        rules = TokenizerConfig(lowercase=False, strip_accents=False, workers=1)
        model = Spelling(count_corpus([spelling], corpus, rules, CorpusReport()).counts)
    with bar("Scoring", "bytes") as on_progress:
        return side_by_side(models, files, corpus, spelling=model, on_progress=on_progress)


def show_side_by_side(found: Mapping[str, Any]) -> None:
    """Print the table that compares models of different vocabularies."""
    rows = []
    for each in found["models"]:
        bits = f"{each['bits_per_character']:.3f}"
        cells = ["", bits] if each["pseudo"] else [bits, ""]
        unknown = f"{each['unknown'] / max(1, each['tokens']):.2%}"
        rows.append(
            [each["model"], *cells, f"{each['spelling_fraction']:.1%}", unknown, each["tokens"]]
        )
    print_table(
        ["model", "bits a character", "pseudo", "of it spelling", "unknown", "tokens"],
        rows,
        f"{counted(found['texts'], 'text')}, {counted(found['characters'], 'character')}; an "
        "unknown word is charged its spelling",
    )
