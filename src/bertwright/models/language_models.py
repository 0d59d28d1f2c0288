"""The instances that all language models share."""

from __future__ import annotations

from bertwright.config.language_models import LanguageModelRun
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.data.token_streams import TokenStreams


def token_streams(run: LanguageModelRun, shards: Shards, split: Split, seed: int) -> TokenStreams:
    """Return the documents of a split as windows of tokens."""
    held = run.validation
    shards, documents, _ = split_text(shards, split, held.fraction, held.hold_out)
    return TokenStreams(shards, documents, run.sequence_length, burn_in=run.burn_in, seed=seed)
