"""Raw documents to ids: what every worker of a build does, alone and without state.

Whole-word masking needs to know where words start. For most scripts the tokenizer does: a token
marked "##" continues a word. Chinese is written without spaces and split into characters, so its
words come from a segmenter, `text -> list of words` (jieba.lcut is one), or from a corpus that was
segmented before, words set apart by spaces. Then a word is exactly what was given as one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.config.corpus import CorpusConfig
from bertwright.data.shards import EncodedBlock, token_dtype
from bertwright.errors import ConfigError, DataError
from bertwright.text.corpus.read import split_document
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.text.workers import map_in_order

Segmenter = Callable[[str], Iterable[str]]

_GOES_ON = ", it continues after the last finished shard"

COUNTS = (
    "documents_read",
    "documents",
    "documents_lost",
    "documents_without_sentences",
    "one_sentence_documents",
    "sentences",
    "sentences_lost",
    "tokens",
    "unknown_tokens",
)


@dataclass(frozen=True)
class EncoderSettings:
    """What a worker needs to make an `Encoder`; goes to it once."""

    tokenizer_folder: Path
    corpus: CorpusConfig
    segmented: bool = False
    """Words of the corpus are set apart by spaces."""
    segmenter: Segmenter | None = None
    """A function of a module's top level, where there are several workers."""


class Encoder:
    """Splits, cleans and encodes blocks of documents."""

    def __init__(self, settings: EncoderSettings) -> None:
        self.corpus = settings.corpus
        self.segmenter = str.split if settings.segmented else settings.segmenter
        self.tokenizer = load_tokenizer(settings.tokenizer_folder)
        self.dtype = token_dtype(self.tokenizer.vocab_size)
        self._continues = self.tokenizer.is_continuation

    def __call__(self, documents: list[str]) -> EncodedBlock:
        """Documents [any number] -> ids; sentences and documents without ids are left out."""
        report = CorpusReport()
        split = [split_document(text, self.corpus, report=report) for text in documents]
        sentences = [sentence for document in split for sentence in document]
        if self.segmenter is None:
            ids, lengths = self.tokenizer.encode_sentence_ids(sentences)
            word_starts = ~self._continues[ids]
        else:
            ids, lengths, word_starts = self._encode_words(sentences, self.segmenter)
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in split])
        kept = lengths > 0
        in_document = np.bincount(owner[kept], minlength=len(documents))
        document_lengths = in_document[in_document > 0]
        counts = (
            len(documents),
            len(document_lengths),
            len(documents) - len(document_lengths),
            split.count([]),
            int((document_lengths == 1).sum()),
            int(kept.sum()),
            len(sentences) - int(kept.sum()),
            len(ids),
            int((ids == self.tokenizer.unk_id).sum()),
        )
        return EncodedBlock(
            tokens=ids.astype(self.dtype),
            word_starts=word_starts,
            sentence_lengths=lengths[kept],
            document_lengths=document_lengths,
            counts=dict(zip(COUNTS, counts, strict=True)),
            report=report,
        )

    def _encode_words(
        self, sentences: list[str], segmenter: Segmenter
    ) -> tuple[npt.NDArray[np.uint32], Int64s, Bools]:
        """Encode word by word: ids [N], tokens of each sentence [S], word starts [N]."""
        segments = [_segment(sentence, segmenter) for sentence in sentences]
        words = [word for segment in segments for word in segment]
        ids, word_lengths = self.tokenizer.encode_sentence_ids(words)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(word_lengths)])
        starts = np.zeros(len(ids), np.bool_)
        starts[ends[:-1][word_lengths > 0]] = True
        last_words = np.cumsum([0, *map(len, segments)])
        return ids, np.diff(ends[last_words]), starts


def _segment(sentence: str, segmenter: Segmenter) -> list[str]:
    """The words of a sentence; raises DataError for anything but these."""
    try:
        words = list(segmenter(sentence))
    except Exception as error:  # it is the user's, and may raise anything
        raise DataError(
            f"the segmenter failed on {sentence[:80]!r}: {type(error).__name__}: {error}; expected "
            "a function from a text to its words"
        ) from error
    strange = next((word for word in words if not isinstance(word, str)), None)
    if strange is not None:
        raise DataError(
            f"of {sentence[:80]!r} the segmenter made {strange!r:.80}, of type "
            f"{type(strange).__name__}; expected words of type str"
        )
    if "".join("".join(words).split()) != "".join(sentence.split()):
        raise DataError(
            f"the segmenter changed the text: of {sentence[:80]!r} it made {words[:20]!r}; "
            "expected its words in order, nothing added or left out"
        )
    return words


def load_segmenter(name: str) -> Segmenter:
    """The callable that `MODULE:FUNCTION` names, as `jieba:lcut`.

    Raises:
        ConfigError: there is no such module or function.
    """
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"no segmenter {name!r} ({error}); expected MODULE:FUNCTION that Python can import, "
            "as jieba:lcut; a file of your own is found with its folder in PYTHONPATH"
        ) from error
    if not callable(function):
        raise ConfigError(f"{name!r} is no function; expected text -> list of words")
    segmenter: Segmenter = function
    return segmenter


def encode_blocks(
    settings: EncoderSettings, blocks: Iterable[list[str]], workers: int
) -> Generator[EncodedBlock, None, None]:
    """Encode blocks in order, in `workers` processes (1: in this one); close it at the end."""
    return map_in_order(partial(Encoder, settings), blocks, workers, _GOES_ON)
