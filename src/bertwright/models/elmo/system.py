"""ELMo as a system: token streams in, the next and the previous token out."""

from __future__ import annotations

from typing import cast

from bertwright.data.shards import Shards
from bertwright.models.catalogue import MODELS
from bertwright.models.elmo.both_directions import BothDirections
from bertwright.models.elmo.config import ElmoConfig, ElmoRun
from bertwright.models.elmo.encoder import Elmo, elmo_spec
from bertwright.models.language_models import predict_frequencies, token_streams
from bertwright.models.system import RunSources, System, initialize_as_published
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def both_directions(config: ElmoConfig, encoder: Encoder) -> BothDirections:
    """Return the output layer of the directions. If `output_size` is set, all rarer tokens count
    as one.
    """
    outputs = min(config.vocab_size, (config.output_size or config.vocab_size) + 1)
    both = config.direction == "both"
    return BothDirections(config.projection_dim, outputs, both, config.negative_samples)


def initialize_elmo(learner: Learner, run: ElmoRun, shards: Shards, sources: RunSources) -> None:
    """Initialize the weights as published and the output bias from the frequencies of tokens, and
    set the characters of every token of the vocabulary.
    """
    initialize_as_published(learner, run, shards, sources)
    predict_frequencies(learner.objectives["next_token"].get_parameter("output.bias"), run, shards)
    tokens = load_tokenizer(shards.tokenizer_folder).tokens_of(range(shards.vocab_size))
    cast(Elmo, learner.encoder).set_tokens(tokens, ends_of(shards.special))


ELMO = System(
    row=MODELS["elmo"],
    encoder=Elmo,
    spec=elmo_spec,
    objectives={"next_token": both_directions},
    instances=token_streams,
    initialize=initialize_elmo,
)
