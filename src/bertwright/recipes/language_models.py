"""Language models as systems: token streams in, the next token out."""

from __future__ import annotations

from bertwright.config.runs.language_model import LanguageModelRun
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.data.token_streams import TokenStreams
from bertwright.recipes.systems import System


def token_streams(run: LanguageModelRun, shards: Shards, split: Split, seed: int) -> TokenStreams:
    """The documents of a split as the run reads them."""
    documents = split_documents(shards, split, run.validation.share)
    return TokenStreams(shards, documents, run.sequence_length, burn_in=run.burn_in, seed=seed)


LANGUAGE_MODEL = System(instances=token_streams)
