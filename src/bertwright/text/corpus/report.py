"""Counts made while a corpus is read, which are printed, saved in manifests and read by `data
check`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from bertwright.rows.lines import EXAMPLES, ByteCounts


@dataclass
class CorpusReport(ByteCounts):
    """Counts of one reading of a corpus.

    Every count is exact, except that of words that lose marks, which is of a sample
    (`words_sampled`).
    """

    files: int = 0  # files (or `datasets` splits) opened
    files_passed_over: int = 0  # files of folders left out because their extension is unknown
    # bytes of the files on disk read so far, for progress bars (in the end `size_on_disk`)
    position: int = 0
    documents: int = 0  # documents that were passed on
    characters: int = 0  # characters of these documents, before sentence splitting
    sentences: int = 0  # sentences, counted by `split_document` if it is given this report
    empty_documents: int = 0  # rows without text
    short_documents: int = 0  # documents left out by `min_characters`
    # splits of documents over the size limit (no blank lines in a huge file, one huge line)
    documents_cut: int = 0
    sentences_cut: int = 0  # splits made of sentences over the size limit
    # text files of over 1,000 lines in which no blank line separates documents
    files_of_one_document: int = 0
    # questions of bAbI's files, each a document with the sentences before it
    story_questions: int = 0
    # tags of HTML or XML in the text; `split_document` counts these and the next four
    tags: int = 0
    urls: int = 0  # web addresses
    templates: int = 0  # marks of wiki templates and links, and HTML entities
    variants: int = 0  # Chinese wiki markup of regional variants, `-{zh-tw:...;zh-cn:...}-`
    title_documents: int = 0  # documents of one short line that does not end like a sentence
    # words sampled from each block, and those of them that lose marks in this vocabulary
    words_sampled: int = 0
    words_losing_marks: int = 0
    unquoted_tables: int = 0  # TSV files whose fields are quoted as in CSV, read without the quotes
    duplicates: int = 0  # documents left out because an equal one came before
    # the columns of the first tables beside that of the text, as `FILE: NAME, NAME`
    unread_columns: list[str] = field(default_factory=list)

    def note_columns(self, name: str, columns: Iterable[str], text: str) -> None:
        """Note the columns of a table that are not read, all but `text`."""
        others = [column for column in columns if column != text]
        if others:
            noted = f"{name}: {', '.join(others[:20])}{', ...' if len(others) > 20 else ''}"
            self.unread_columns = list(dict.fromkeys([*self.unread_columns, noted]))[:EXAMPLES]

    @property
    def losing_marks(self) -> float:
        """The fraction of the sampled words that lose marks because the vocabulary strips
        accents.
        """
        return self.words_losing_marks / max(1, self.words_sampled)

    def remarks(self) -> list[str]:
        """Return a line for each kind of text that was left out, split or replaced."""
        named = {
            "file{s} passed over, of an extension that is no text's": self.files_passed_over,
            "duplicate{s} left out": self.duplicates,
            "document{s} left out as too short": self.short_documents,
            "split{s} of documents too large to hold": self.documents_cut,
            "split{s} of sentences too long to be any": self.sentences_cut,
            "tag{s} of HTML or XML (removed by --strip-markup)": self.tags,
            "mark{s} of Chinese variants, -{zh-tw:...;zh-cn:...}-": self.variants,
            "TSV file{s} of fields quoted as in CSV, read without the quotes": self.unquoted_tables,
        }
        lines = [f"{n:,} {what.replace('{s}', 's' * (n != 1))}" for what, n in named.items() if n]
        if self.story_questions:
            lines.append(
                f"the form of the bAbI tasks: {self.story_questions:,} questions, each a document "
                "of the sentences before it, the question and its answer"
            )
        if self.losing_marks >= 0.001:
            lines.append(
                f"{self.losing_marks:.1%} of the words lose accents, vowel signs or other marks in "
                "this vocabulary (tokenizer train --no-strip-accents keeps them)"
            )
        lines += self.byte_remarks()
        return lines + [f"columns not read of {each}" for each in self.unread_columns]

    def add(self, other: CorpusReport) -> None:
        """Add the counts of another report, such as one that a worker filled."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, list):
                setattr(self, each.name, list(dict.fromkeys(mine + theirs))[:EXAMPLES])
            else:
                setattr(self, each.name, mine + theirs)
