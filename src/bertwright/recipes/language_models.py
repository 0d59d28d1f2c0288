"""Language models as systems: token streams in, the next token out."""

from __future__ import annotations

from typing import cast

from bertwright.config.runs.language_models import ElmoRun, LanguageModelRun
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.data.token_streams import TokenStreams
from bertwright.models.elmo import Elmo
from bertwright.objectives.objective import Learner
from bertwright.recipes.systems import System, initialize_as_published
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def token_streams(run: LanguageModelRun, shards: Shards, split: Split, seed: int) -> TokenStreams:
    """The documents of a split as the run reads them."""
    held = run.validation
    shards, documents, _ = split_text(shards, split, held.share, held.hold_out)
    return TokenStreams(shards, documents, run.sequence_length, burn_in=run.burn_in, seed=seed)


def initialize_elmo(learner: Learner, run: ElmoRun, shards: Shards) -> None:
    """As published, and the spelling of every token of the vocabulary."""
    initialize_as_published(learner, run, shards)
    tokens = load_tokenizer(shards.tokenizer_folder).tokens_of(range(shards.vocab_size))
    cast(Elmo, learner.encoder).set_tokens(tokens, ends_of(shards.special))


LANGUAGE_MODEL = System(instances=token_streams)
ELMO = System(instances=token_streams, initialize=initialize_elmo)
