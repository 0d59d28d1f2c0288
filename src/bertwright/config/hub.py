"""Names of models on the Hugging Face hub: `hf:ORG/NAME[@REVISION]`.

Only names that begin with `hf:` are looked up there. Any other name is a folder; if there is no
such folder and the name is that of a well-known model, the error says what to write.
"""

from __future__ import annotations

from pathlib import Path

PREFIX = "hf:"

_PUBLISHED = (
    *("bert-base-uncased", "bert-base-cased", "bert-large-uncased", "bert-large-cased"),
    *("bert-base-multilingual-uncased", "bert-base-multilingual-cased"),
    *("bert-base-chinese", "bert-base-german-cased", "bert-base-german-dbmdz-cased"),
    *("bert-large-uncased-whole-word-masking", "bert-large-cased-whole-word-masking"),
    *("roberta-base", "roberta-large", "xlm-roberta-base", "xlm-roberta-large", "camembert-base"),
    *("distilbert-base-uncased", "distilbert-base-cased", "distilbert-base-multilingual-cased"),
    *("albert-base-v1", "albert-base-v2", "albert-large-v2", "albert-xlarge-v2"),
    *("openai-gpt", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
)
"""Models that the hub knows by a name without an organization."""

_OF_SENTENCE_TRANSFORMERS = (
    *("all-MiniLM-L6-v2", "all-MiniLM-L12-v2", "multi-qa-MiniLM-L6-cos-v1"),
    *("all-mpnet-base-v2", "multi-qa-mpnet-base-dot-v1", "paraphrase-mpnet-base-v2"),
    *("paraphrase-MiniLM-L6-v2", "paraphrase-multilingual-MiniLM-L12-v2"),
)

_OF_OTHERS = (
    *("BAAI/bge-small-en-v1.5", "BAAI/bge-base-en-v1.5", "BAAI/bge-large-en-v1.5"),
    *("intfloat/e5-small-v2", "intfloat/e5-base-v2", "thenlper/gte-small", "thenlper/gte-base"),
    *("dslim/bert-base-NER", "answerdotai/ModernBERT-base", "answerdotai/ModernBERT-large"),
    *("microsoft/mpnet-base", "google/electra-small-discriminator"),
)

_ORGANIZATIONS = (
    *("google-bert", "openai-community", "sentence-transformers", "cross-encoder"),
    *("BAAI", "intfloat", "thenlper", "prajjwal1", "dbmdz"),
)
"""Any name in one of these organizations is treated as that of a model on the hub."""

WELL_KNOWN = {
    **{name: name for name in _PUBLISHED},
    **{name: f"sentence-transformers/{name}" for name in _OF_SENTENCE_TRANSFORMERS},
    **{name.partition("/")[2]: name for name in _OF_OTHERS},
}
"""The common name of a model -> its id on the hub."""


def id_of(path: str | Path) -> str | None:
    """Return the id after `hf:`, or None for anything else."""
    given = str(path)
    return given.removeprefix(PREFIX) if given.startswith(PREFIX) else None


def well_known(path: str | Path) -> str | None:
    """Return `hf:ID` for the name of a well-known model given without `hf:`, or None."""
    given = str(path)
    organization, _, name = given.partition("/")
    if organization in _ORGANIZATIONS and name and "/" not in name:
        return PREFIX + given
    return PREFIX + WELL_KNOWN[given] if given in WELL_KNOWN else None
