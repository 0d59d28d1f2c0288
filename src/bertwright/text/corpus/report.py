"""What reading a corpus met, in counts: shown, saved in manifests, read by `data check`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

EXAMPLES = 5
"""How many positions and lines are kept as examples."""


@dataclass
class CorpusReport:
    """Counts of one reading; every count is of what was met, none is an estimate."""

    files: int = 0
    """Files (or `datasets` splits) opened."""
    empty_files: int = 0
    """Files without one character but white space."""
    files_passed_over: int = 0
    """Files of folders left out because their extension is unknown."""
    bytes: int = 0
    """Bytes read, after decompression; of Parquet and `datasets`, bytes of the text as UTF-8."""
    position: int = 0
    """Bytes of the files on disk read so far, for progress bars beside `files.size_on_disk`."""
    documents: int = 0
    """Documents handed on."""
    characters: int = 0
    """Characters of these documents, before sentence splitting."""
    longest_document: int = 0
    """Characters of the longest of them."""
    sentences: int = 0
    """Sentences, counted by `split_document` where it was given this report."""
    empty_documents: int = 0
    """Rows without text, and documents of which cleaning left nothing."""
    short_documents: int = 0
    """Documents left out by `min_characters`."""
    documents_cut: int = 0
    """Splits of documents over the size limit (no blank lines in a huge file, one huge line)."""
    sentences_cut: int = 0
    """Splits made of sentences over the size limit."""
    files_of_one_document: int = 0
    """Text files of over 1,000 lines in which no blank line separates documents."""
    invalid_utf8: int = 0
    """Malformed byte sequences, each replaced by U+FFFD."""
    lone_surrogates: int = 0
    """Surrogates without a partner (in JSON escapes), each replaced by U+FFFD."""
    repaired_documents: int = 0
    """Documents that unicode repair changed, counted by `split_document`."""
    tags: int = 0
    """Tags of HTML or XML in the text, counted by `split_document` as the next three are."""
    urls: int = 0
    """Web addresses."""
    templates: int = 0
    """Marks of wiki templates and links, and HTML entities."""
    title_documents: int = 0
    """Documents of one short line without an end of a sentence."""
    boilerplate_lines: int = 0
    """Lines left out because they repeat across documents or look like menus."""
    exact_duplicates: int = 0
    """Documents left out because an equal one came before."""
    near_duplicates: int = 0
    """Documents left out because a nearly equal one came before."""
    unicode_repair: str = ""
    """What repaired the text: `nfc`, or `ftfy` with its version."""
    passed_over_examples: list[str] = field(default_factory=list)
    """The first of the files passed over."""
    tags_examples: list[str] = field(default_factory=list)
    """The first tags."""
    urls_examples: list[str] = field(default_factory=list)
    """The first web addresses."""
    templates_examples: list[str] = field(default_factory=list)
    """The first marks."""
    invalid_places: list[str] = field(default_factory=list)
    """The first positions of malformed bytes, as `FILE, byte N`."""
    boilerplate_examples: list[str] = field(default_factory=list)
    """The first lines left out as boilerplate."""

    def as_dict(self) -> dict[str, int | str | list[str]]:
        """Every field by its name, ready for JSON."""
        return {
            each.name: list(value) if isinstance(value, list) else value
            for each in fields(self)
            for value in [getattr(self, each.name)]
        }

    def remarks(self) -> list[str]:
        """What was left out, split or repaired, a line each; nothing where nothing was."""
        named = {
            "files passed over, of an extension that is no text's": self.files_passed_over,
            "exact duplicates left out": self.exact_duplicates,
            "near duplicates left out": self.near_duplicates,
            "documents left out as too short": self.short_documents,
            "lines left out as boilerplate": self.boilerplate_lines,
            "splits of documents too large to hold": self.documents_cut,
            "splits of sentences too long to be any": self.sentences_cut,
            "tags (--strip-markup removes them)": self.tags,
            "malformed byte sequences replaced": self.invalid_utf8,
            "lone surrogates replaced": self.lone_surrogates,
        }
        lines = [f"{count:,} {what}" for what, count in named.items() if count]
        lines += [f"passed over: {path}" for path in self.passed_over_examples]
        return lines + [f"malformed: {where}" for where in self.invalid_places]

    def add(self, other: CorpusReport) -> None:
        """Take over the counts of another report, as of one that a worker filled."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, list):
                setattr(self, each.name, (mine + theirs)[:EXAMPLES])
            elif isinstance(mine, str):
                setattr(self, each.name, mine or theirs)
            elif each.name == "longest_document":
                setattr(self, each.name, max(mine, theirs))
            else:
                setattr(self, each.name, mine + theirs)

    def note(self, examples: list[str], example: str) -> None:
        """Keep an example unless there are enough, or it is one already."""
        if len(examples) < EXAMPLES and example not in examples:
            examples.append(example)
