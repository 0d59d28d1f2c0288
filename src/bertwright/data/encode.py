"""Encode raw documents as ids. Every worker of a build does this independently, without state.

Whole-word masking needs to know where words start. For most scripts the tokenizer says so: a token
marked "##" continues a word. Chinese is written without spaces and is split into characters, so its
words come from a corpus that was segmented beforehand, with spaces between words. These are then
the words for masking.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bertwright.arrays import Bools, Int64s
from bertwright.config.corpus import CorpusConfig
from bertwright.data.shards import EncodedBlock, token_dtype
from bertwright.text.corpus.read import split_document
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.accents import loses_marks
from bertwright.text.tokenizer.normalize import split_parts
from bertwright.text.tokenizer.tokenizer import Tokenizer

SAMPLED_CHARACTERS = 20_000
"""The number of characters of each block in which words that lose marks are counted."""


class BlockEncoder:
    """Splits, cleans and encodes blocks of documents."""

    def __init__(self, tokenizer: Tokenizer, corpus: CorpusConfig, segmented: bool = False) -> None:
        """Initialize the encoder. `segmented` says that the corpus has spaces between all words."""
        self.tokenizer, self.corpus, self.segmented = tokenizer, corpus, segmented
        self.dtype = token_dtype(tokenizer.vocab_size)
        self._continues = tokenizer.is_continuation
        self._strips = tokenizer.strips_accents

    def __call__(self, documents: list[str]) -> EncodedBlock:
        """Return the ids of documents; sentences and documents without ids are left out."""
        report = CorpusReport()
        if self._strips:
            self._sample_marks(documents, report)
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
        counts = {
            "documents_read": len(documents),
            "documents": len(document_lengths),
            "documents_lost": len(documents) - len(document_lengths),
            "sentences": int(kept.sum()),
            "tokens": len(ids),
            "unknown_tokens": int((ids == self.tokenizer.unk_id).sum()),
        }
        return EncodedBlock(
            tokens=ids.astype(self.dtype),
            word_starts=word_starts,
            sentence_lengths=lengths[kept],
            document_lengths=document_lengths,
            counts=counts,
            report=report,
        )

    def _sample_marks(self, documents: list[str], report: CorpusReport) -> None:
        """Count the words, and those that lose marks, at the beginning of the block."""
        left = SAMPLED_CHARACTERS
        for document in documents:
            text = document[:left]
            left -= len(text)
            words = [w for w in split_parts(text) if any(map(str.isalnum, w))]
            report.words_sampled += len(words)
            if not text.isascii():
                report.words_losing_marks += sum(map(loses_marks, words))
            if left <= 0:
                return

    def _encode_words(self, sentences: list[str]) -> tuple[npt.NDArray[np.uint32], Int64s, Bools]:
        """Encode sentences word by word.

        Returns:
            The ids, `[N]`; the number of tokens of each sentence, `[S]`; and whether each token
            starts a word, `[N]`.
        """
        segments = list(map(str.split, sentences))
        words = [word for segment in segments for word in segment]
        ids, word_lengths = self.tokenizer.encode_sentence_ids(words)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(word_lengths)])
        starts = np.zeros(len(ids), np.bool_)
        starts[ends[:-1][word_lengths > 0]] = True
        last_words = np.cumsum([0, *map(len, segments)])
        return ids, np.diff(ends[last_words]), starts
