"""ELMo as a system: a language model whose tokens are spelled before it starts."""

from __future__ import annotations

from bertwright.config.runs.elmo import ElmoRun
from bertwright.data.shards import Shards
from bertwright.models.elmo import Elmo
from bertwright.objectives.objective import Learner
from bertwright.recipes.language_models import token_streams
from bertwright.recipes.systems import System, initialize_as_published
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def initialize(learner: Learner, run: ElmoRun, shards: Shards) -> None:
    """As published, and the spelling of every token of the vocabulary."""
    encoder, special = learner.encoder, shards.special
    assert isinstance(encoder, Elmo)
    initialize_as_published(learner, run, shards)
    tokens = load_tokenizer(shards.tokenizer_folder).tokens_of(range(shards.vocab_size))
    begin, end = special.get("cls", special.get("bos")), special.get("sep", special.get("eos"))
    encoder.set_tokens(tokens, begin, end)


ELMO = System(instances=token_streams, initialize=initialize)
