"""Raw documents to ids: what every worker of a build does, alone and without state.

Whole-word masking needs to know where words start. For most scripts the tokenizer does: a token
marked "##" continues a word. Chinese is written without spaces and split into characters, so its
words come from a corpus that was segmented before, words set apart by spaces. Then a word is
exactly what was given as one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.config.corpus import CorpusConfig
from bertwright.data.shards import EncodedBlock, token_dtype
from bertwright.text.corpus.read import split_document
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.text.workers import map_in_order

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


class Encoder:
    """Splits, cleans and encodes blocks of documents."""

    def __init__(self, settings: EncoderSettings) -> None:
        self.corpus = settings.corpus
        self.segmented = settings.segmented
        self.tokenizer = load_tokenizer(settings.tokenizer_folder)
        self.dtype = token_dtype(self.tokenizer.vocab_size)
        self._continues = self.tokenizer.is_continuation

    def __call__(self, documents: list[str]) -> EncodedBlock:
        """Documents [any number] -> ids; sentences and documents without ids are left out."""
        report = CorpusReport()
        split = [split_document(text, self.corpus, report=report) for text in documents]
        sentences = [sentence for document in split for sentence in document]
        if self.segmented:
            ids, lengths, word_starts = self._encode_words(sentences)
        else:
            ids, lengths = self.tokenizer.encode_sentence_ids(sentences)
            word_starts = ~self._continues[ids]
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

    def _encode_words(self, sentences: list[str]) -> tuple[npt.NDArray[np.uint32], Int64s, Bools]:
        """Encode word by word: ids [N], tokens of each sentence [S], word starts [N]."""
        segments = list(map(str.split, sentences))
        words = [word for segment in segments for word in segment]
        ids, word_lengths = self.tokenizer.encode_sentence_ids(words)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(word_lengths)])
        starts = np.zeros(len(ids), np.bool_)
        starts[ends[:-1][word_lengths > 0]] = True
        last_words = np.cumsum([0, *map(len, segments)])
        return ids, np.diff(ends[last_words]), starts


def encode_blocks(
    settings: EncoderSettings, blocks: Iterable[list[str]], workers: int
) -> Generator[EncodedBlock, None, None]:
    """Encode blocks in order, in `workers` processes (1: in this one); close it at the end."""
    return map_in_order(partial(Encoder, settings), blocks, workers, _GOES_ON)
