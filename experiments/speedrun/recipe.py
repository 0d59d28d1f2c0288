"""A recipe of the race: its file, its shards, and its pre-training runs."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertwright.atomic import MANIFEST
from bertwright.config import values
from bertwright.config.corpus import CorpusConfig
from bertwright.config.recipes import recipe_file
from bertwright.config.run import RunConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.console import say
from bertwright.data.build import build_shards
from bertwright.data.shards import open_shards
from bertwright.models.catalogue import completed, system_of_model, trainable
from bertwright.models.load import system_of
from bertwright.models.system import RunSources
from bertwright.recipes.configure import configure
from bertwright.recipes.pretrain import make_learner, pretrain
from bertwright.text.tokenizer.train import train_tokenizer
from bertwright.train.log import METRICS, read_records

RECIPES = Path(__file__).parent / "recipes"
"""The folder of the recipes that were tried."""
VOCABULARY = 16384
"""The size of the vocabulary, if the recipe's `[tokenizer]` names none."""
OF_THE_RACE = ("data", "out", "seed", "minutes", "steps", "epochs")
"""Keys that the race sets, in place of those of the recipe."""


@dataclass(frozen=True)
class Recipe:
    """The content of a recipe's file."""

    name: str
    keys: Mapping[str, Any]
    """The keys of `pretrain`, without those that the race sets."""
    tokenizer: TokenizerConfig

    @property
    def sha256(self) -> str:
        """The SHA-256 of what the recipe says, which tells changed recipes of one name apart."""
        return digest({"keys": self.keys, "tokenizer": values.to_dict(self.tokenizer)})


def read_recipe(name: str) -> Recipe:
    """Return the recipe of a file, of a name in `recipes`, or of one that the package has."""
    own = RECIPES / f"{name}.toml"
    path = own if own.is_file() else Path(recipe_file(name))
    content = values.read_toml(path)
    wanted = {"vocab_size": VOCABULARY} | content.pop("tokenizer", {})
    tokenizer = values.from_dict(TokenizerConfig, wanted, str(path))
    keys = {key: value for key, value in content.items() if key not in OF_THE_RACE}
    return Recipe(path.stem, keys, tokenizer)


def prepare(recipe: Recipe, corpus: Path, work: Path) -> Path:
    """Return the shards of the corpus in the recipe's vocabulary, which are built once."""
    rules = values.to_dict(replace(recipe.tokenizer, workers=0))
    named = {"tokenizer": rules, "corpus": corpus.name, "bytes": corpus.stat().st_size}
    folder = work / "data" / digest(named)[:12]
    shards = folder / "shards"
    if not (shards / MANIFEST).is_file():
        say(f"building {shards}, which is not part of the minutes")
        tokenizer, _ = train_tokenizer([str(corpus)], CorpusConfig(), recipe.tokenizer)
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        tokenizer.save(folder / "tokenizer")
        build_shards([str(corpus)], shards, folder / "tokenizer")
    return shards


def configuration(recipe: Recipe, shards: Path, out: Path, minutes: float, seed: int) -> RunConfig:
    """Return the configuration of a run."""
    given = {"data": str(shards), "out": str(out), "minutes": minutes, "seed": seed}
    kind = trainable()[system_of_model(recipe.keys.get("model"))]
    return completed(configure(kind, values.merge(recipe.keys, given)))


def initialization_seconds(config: RunConfig) -> float:
    """Return the time that the initialization of a run takes.

    The clock of `pretrain` starts with the first step, so the race takes this time off its minutes.
    """
    shards = open_shards(config.data)
    began = time.monotonic()
    if config.sized_by is None:
        sized = system_of(config).model(config, shards, RunSources())
        config = replace(config, architecture=sized)
    make_learner(config, shards)
    return time.monotonic() - began


def train(config: RunConfig) -> dict[str, Any]:
    """Pre-train, or continue the run; return what it read and what it knows of held-out text."""
    out = Path(config.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    pretrain(config, say, resume=True)
    records = read_records(out / METRICS)
    held_out = [each for each in records if each["split"] == "dev"]
    last = held_out[-1] if held_out else {}
    accuracy = last.get("masked_lm.accuracy")
    return {
        "score": None if accuracy is None else 100 * accuracy,
        "loss": last.get("masked_lm.loss"),
        "tokens": records[-1]["tokens"],
        "seconds": round(records[-1]["seconds"], 1),
    }


def digest(content: Any) -> str:
    """Return the SHA-256 of a value of JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
