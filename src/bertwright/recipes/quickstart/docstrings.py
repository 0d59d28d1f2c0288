"""Documentation of Python code as English: what to take from a source file, and what to leave out.

A source file is read by one regular expression that knows comments and string literals, so a file
of another Python version, or one that is broken, gives what it holds; nothing is imported or run.
Taken are the triple-quoted literals that begin their line (docstrings, and the strings that
`add_docstr` of torch and `add_newdoc` of NumPy attach to compiled functions) or stand behind a name
with "doc" in it.

Of a docstring (plain, reStructuredText, NumPy or Google style) prose is kept: doctest blocks,
literal blocks, tables, headings, signatures, lists of types, references, URLs, licences and markup
go.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator

from bertwright.text.sentences import split_sentences

# (no possessive repeats: Python 3.11.0 to 3.11.4 match groups of them wrongly)
_TOKEN = re.compile(
    r"""\#[^\n]*                                               # a comment
    |(?P<prefix>\b[rRbBuUfF]{1,2})?(?P<literal>
        (?P<quotes>\"{3}|'{3})
            (?P<body>[^\\"']*(?:(?:\\[\s\S]|(?!(?P=quotes))["'])[^\\"']*)*)(?P=quotes)
        |"[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"
        |'[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*')""",
    re.VERBOSE,
)
_OPENING = re.compile(r"\"{3}|'{3}")
_PREFIX = re.compile(r"\b[rRbBuUfF]{1,2}$")
_BEFORE = re.compile(r"[ \t]*(?:\w*(?:doc|DOC)\w*\s*=\s*\(?)?")

_HEADING_LINE = re.compile(r"([-=~^\"*+#`'.:_])\1{2,}\s*$")
_GOOGLE = re.compile(
    r"(?:keyword )?(?:args?|arguments?|parameters?|params|returns?|raises|yields?|examples?|usage"
    r"|attributes|notes?|warnings?|shape|inputs?|outputs?|references?|see also|todo|methods?"
    r"|variables|members|options|keywords?|default)\s*:{1,2}",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(r"(?:references?|see also|bibliography|authors?|shape)\s*:?", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\.\. *([\w:-]+)::\s*(.*)")
_TEXT_DIRECTIVES = {
    "note",
    "warning",
    "tip",
    "hint",
    "important",
    "caution",
    "attention",
    "admonition",
}
_VERSIONS = {"versionadded", "versionchanged", "deprecated", "deprecated-removed"}
_FIELD = re.compile(r":(\w+)(?: [^:]*)?:(?:\s+(.*)|$)")
_FIELD_OF_TYPES = {"type", "rtype", "vartype"}
_PARAMETER = re.compile(r"[*`]{0,3}[\w.,* `]{1,80} : \S.*")
_ARGUMENT = re.compile(r"[*`]{0,3}\w[\w.]*[`*]{0,2}(?: ?\([^()]*(?:\([^()]*\)[^()]*)*\))?:(?: +|$)")
_ITEM = re.compile(r"(?:[-*+•]|\d{1,2}[.)]|\(\w\)|#\.)\s+")
_TABLE = re.compile(r"[\s|+=:*-]*$|.*\|.*\||.*\S {4,}\S.* {4,}\S|[+|]")
_CODE = re.compile(
    r"(?:@\w|def \w+\(|class \w+[(:]|import \w+|from [\w.]+ import|[$#%]\s|In ?\[|Out ?\["
    r"|[\w.]+ ?= ?\S)"
)
_SIGNATURE = re.compile(r"[\w.]+\(.*\)(?: *->.*|:)?$")

_ROLE = re.compile(r":[\w+.-]+(?::[\w+.-]+)*:`([^`]*)`")
_MARKDOWN_LINK = re.compile(r"\[([^\[\]]+)\]\((?:[^()]*\)|\S*)")
_LINK = re.compile(r"`([^`<]*?)\s*<[^`>]*>`_{0,2}")
_CODE_SPAN = re.compile(r"``?([^`]+)``?_{0,2}")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}(\w[^*]*?)\*{1,2}(?![\w*])")
_CITATION = re.compile(r"\s*\[(?:\d+|#\w*|[A-Z]\w+)\]_")
_URL = re.compile(r"<?\b(?:https?|ftp)://\S+")
_SUBSTITUTION = re.compile(r"\|(\w[\w ]*)\|_?")
_LICENCE = ("copyright", "license", "licence", "warrant", "redistribut", "rights reserved", "spdx")
_WORD = re.compile(r"[^\W\d_]{2,}")
_NOT_PROSE = re.compile(r"%\(|\{\w*\}|[{};<>=|\\@]{2}|__\w+__.*__\w+__|(?:=.*){2}|\$")


def find_docstrings(source: str) -> Iterator[str]:
    """The documentation strings of a source file, in order, their escapes resolved."""
    for start, end, quotes_at in _quick_literals(source) or _literals(source):
        line = source.rfind("\n", 0, start) + 1
        if not _BEFORE.fullmatch(source, line, start):
            continue
        prefix = source[start:quotes_at].lower()
        if "f" in prefix or "b" in prefix:
            continue
        body = source[quotes_at + 3 : end - 3]
        if "\\" in body and "r" not in prefix:
            body = _unescape(source[quotes_at:end], body)
        yield body


def _literals(source: str) -> list[tuple[int, int, int]]:
    """Triple-quoted literals: begin, end, and where the quotes begin (behind a prefix)."""
    return [
        (match.start(), match.end(), match.start("literal"))
        for match in _TOKEN.finditer(source)
        if match["quotes"]
    ]


def _quick_literals(source: str) -> list[tuple[int, int, int]] | None:
    """What `_literals` finds, without looking at every token; None where that is not safe,
    because a quote or a comment sign stands before three quotes on their line."""
    found = []
    place = 0
    while match := _OPENING.search(source, place):
        quotes_at = match.start()
        before = source[source.rfind("\n", 0, quotes_at) + 1 : quotes_at]
        if "#" in before or '"' in before or "'" in before:
            return None
        prefix = _PREFIX.search(before)
        start = quotes_at - (len(prefix[0]) if prefix else 0)
        quotes = match[0]
        end = source.find(quotes, quotes_at + 3)
        while end >= 0 and _escaped(source, end):
            end = source.find(quotes, end + 1)
        if end < 0:
            return None
        place = end + 3
        found.append((start, place, quotes_at))
    return found


def _escaped(source: str, place: int) -> bool:
    """Whether an odd number of backslashes stands before a place."""
    first = place
    while source[first - 1] == "\\":
        first -= 1
    return (place - first) % 2 == 1


def _unescape(literal: str, body: str) -> str:
    """The value of a literal; as it is written where Python would refuse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" is an invalid escape in other people's docstrings
        try:
            return str(ast.literal_eval(literal))
        except (SyntaxError, ValueError):
            return body


def prose(docstring: str) -> list[list[str]]:
    """The paragraphs of a docstring that are English, each a list of sentences; maybe none."""
    paragraphs: list[list[str]] = []
    for text in _paragraphs(inspect.cleandoc(docstring).split("\n")):
        lower = text.lower()
        if len(text) < 15 or any(word in lower for word in _LICENCE):
            continue
        sentences = [s for s in split_sentences(_plain(text)) if is_prose(s)]
        if sentences:
            paragraphs.append(sentences)
    return paragraphs


def is_prose(sentence: str) -> bool:
    """Whether a sentence is one: some words, mostly letters, and none of the marks of code."""
    if not 20 <= len(sentence) <= 800 or _NOT_PROSE.search(sentence):
        return False
    if sentence.endswith("):") and "(" in sentence[:60]:
        return False  # a name and its type
    if not (sentence[0].isalnum() or sentence[0] in "\"'("):
        return False
    words = _WORD.findall(sentence)
    letters = sum(map(len, words))
    return len(words) >= 4 and letters + sentence.count(" ") >= 0.82 * len(sentence)


def _plain(text: str) -> str:
    """A paragraph without markup."""
    if "`" in text:
        text = _ROLE.sub(_of_role, text)
        text = _LINK.sub(r"\1", text)
        text = _CODE_SPAN.sub(r"\1", text)
    if "[" in text:
        text = _MARKDOWN_LINK.sub(r"\1", text)
        text = _CITATION.sub("", text)
    if "*" in text:
        text = _EMPHASIS.sub(r"\1", text)
    if "://" in text:
        text = _URL.sub("", text)
    if "|" in text:
        text = _SUBSTITUTION.sub(r"\1", text)
    return " ".join(text.split())


def _of_role(match: re.Match[str]) -> str:
    """`:class:`~a.b.C`` shows C, `:ref:`text <target>`` shows text."""
    shown = match[1].partition(" <")[0].lstrip("!")
    return shown.rpartition(".")[2] if shown.startswith("~") else shown


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """The running text of a docstring, a string a paragraph or list item."""
    text: list[str] = []
    indent = 0  # of the paragraph
    is_item = False  # then its next lines may stand further in
    left_out: int | None = None  # what stands further in than this is left out
    section_left_out = in_doctest = in_arguments = False
    for number, raw in enumerate(lines):
        line = raw.strip()
        here = len(raw) - len(raw.lstrip())
        if not line:
            in_doctest = False
            if text:
                yield " ".join(text)
                text = []
            continue
        after = lines[number + 1] if number + 1 < len(lines) else ""
        further = len(after) - len(after.lstrip()) > here and bool(after.strip())
        if left_out is not None:
            if here > left_out:
                continue
            left_out = None
        if line.startswith((">>>", "In [")):
            in_doctest = True
        heading = bool(_HEADING_LINE.match(after.strip())) and len(line) < 80
        google = bool(_GOOGLE.fullmatch(line))
        argument = _ARGUMENT.match(line) if in_arguments else None
        marked = argument or _ITEM.match(line) or line.startswith((".. ", ":"))
        moved = here < indent or (here > indent and not is_item)
        if text and (in_doctest or heading or google or marked or moved):
            yield " ".join(text)
            text = []
        if in_doctest:
            continue
        if heading or google:
            section_left_out = bool(_LEFT_OUT.fullmatch(line))
            in_arguments = google
            indent = here
            left_out = here if google and section_left_out else None
            continue
        if section_left_out or _HEADING_LINE.match(line):
            continue
        if line.startswith(".."):
            found = _DIRECTIVE.match(line)
            if found is None or found[1] not in _TEXT_DIRECTIVES | _VERSIONS:
                left_out = here
            elif found[1] not in _VERSIONS and found[2]:
                text, indent, is_item = [found[2]], here, True
            continue
        if not text:
            if _TABLE.match(line) or _CODE.match(line) or _SIGNATURE.match(line):
                continue
            item = _ITEM.match(line)
            term = further and len(line) < 60 and line[-1] not in ".:,"
            if not item and (term or _PARAMETER.fullmatch(line)):
                continue  # a name and its type above what they mean
            field = _FIELD.match(line)
            if field:
                if field[1] in _FIELD_OF_TYPES:
                    left_out = here
                    continue
                line = field[2] or ""
                item = _ITEM.match(line)
            if item:
                line = line[item.end() :]
            argument = _ARGUMENT.match(line) if in_arguments or item else None
            if argument:
                line = line[argument.end() :]
            indent, is_item = here, bool(item or field or in_arguments)
        if line.endswith("::"):
            line = line[:-1].rstrip()
            left_out = here
        if line:
            text.append(line)
    if text:
        yield " ".join(text)
