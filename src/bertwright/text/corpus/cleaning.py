"""Mending text and leaving out lines that are not prose. All of it is optional and counted.

Markup: tags and comments of HTML, web addresses, wiki templates (`{{...}}`, also nested) and quote
marks go; of a link (`[[target|text]]`) the text stays.

Unicode repair: NFC, invisible characters out, and mojibake ("doesnâ€™t") where `ftfy` is installed
(extra `clean`). Boilerplate: menu, share and copyright lines by their looks, and lines that come
back in document after document. The latter are known only after they came a few times, so the
first `REPEATS` of each stay: a stream is read once.
"""

from __future__ import annotations

import html
import re
import unicodedata
import zlib
from array import array
from functools import cache
from typing import Any

REPEATS = 10
"""A line that came in this many documents is boilerplate from then on."""
LONGEST_REPEAT = 300
"""Longer lines are not watched for repetition."""

MARKUP = {
    "tags": re.compile(r"<(?:!--|/?[A-Za-z][\w-]*(?:\s[^<>\n]{0,1000})?/?>)"),
    "urls": re.compile(r"(?:https?://|www\.)[^\s<>\"|\]]+"),
    "templates": re.compile(r"\{\{|\[\[|'''|&(?:[A-Za-z]{2,8}|#\d{1,6});"),
}
"""What is counted as each kind."""
_MARKS = {"tags": ("<",), "urls": ("://", "www."), "templates": ("{{", "[[", "'''", "&")}
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_WIKI_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)*([^\[\]|]*)\]\]")
_WEB_LINK = re.compile(r"\[https?://\S+ ([^\[\]]*)\]")

_SLOTS = 1 << 20  # 5 MiB, whatever the corpus
_INVISIBLE = dict.fromkeys(
    [
        *(code for code in range(32) if chr(code) not in "\t\n"),
        *range(0x7F, 0xA0),
        0xAD,  # soft hyphen
        0x200B,  # zero-width space
        0x2060,  # word joiner
        0xFEFF,  # byte order mark inside a text
        *range(0xFDD0, 0xFDF0),  # noncharacters
        0xFFFE,
        0xFFFF,
    ]
)
_INVISIBLE |= dict.fromkeys([0x0B, 0x0C, 0x85, 0x2028, 0x2029], "\n")  # they end lines
_HAS_INVISIBLE = re.compile(f"[{''.join(map(chr, _INVISIBLE))}]")
_LOOKS = re.compile(
    r"""(?ix)
    ^\W* (?:
        (?:©|\(c\)|copyright\b(?:\ +©)?) \W* (?:\d{4}|by\b) .{0,160}
      | .{0,120} \ball\ rights\ reserved\b .{0,40}
      | skip\ to\ (?:main\ )?(?:content|navigation) .{0,20}
      | (?:back|return)\ to\ top .{0,10}
      | (?:click|tap)\ here\ (?:to|for)\b .{0,60}
      | (?:share|follow|like)\ (?:this|us|on)\b .{0,30} (?:facebook|twitter|linkedin) .{0,40}
      | (?:log|sign)\ ?(?:in|up|out)(?:\ (?:or|/|\|)\ (?:log|sign|register)\b.{0,20})?
      | (?:subscribe|sign\ up)\ (?:to|for)\ (?:our|the)\ .{0,30}newsletter .{0,20}
      | (?:terms\ (?:of|and)\ \w+|privacy\ policy|cookie\ (?:policy|settings))
        (?:\W+(?:and\W+)?(?:terms\ (?:of|and)\ \w+|privacy\ policy|cookie\ \w+|contact(?:\ us)?))*
      | (?:this|our)\ (?:web)?site\ uses\ cookies .{0,100}
      | page\ \d+\ of\ \d+
      | (?:read|load|show)\ more
    ) \W*$ """
)
_MENU = re.compile(r"[^|»›•·]{1,30}(?:[|»›•·][^|»›•·.!?。]{1,30}){3,30}")


@cache
def _ftfy() -> tuple[Any, Any] | None:
    try:
        import ftfy
    except ImportError:
        return None
    # Only what was broken: typographic quotes, ligatures and full-width letters are the author's.
    settings = ftfy.TextFixerConfig(
        unescape_html=False,
        uncurl_quotes=False,
        fix_latin_ligatures=False,
        fix_character_width=False,
        normalization="NFC",
    )
    return ftfy, settings


def repair_name() -> str:
    """What `repair_unicode` works with here: `nfc`, or `ftfy` with its version."""
    found = _ftfy()
    return f"ftfy {found[0].__version__}" if found else "nfc"


def repair_unicode(text: str) -> str:
    """Compose characters, drop invisible ones and, where `ftfy` is installed, undo mojibake.

    Line breaks and tabs stay; ASCII without control characters comes back as it is.
    """
    if not text.isascii():
        text = text.replace("\x0b", "\n")  # ftfy would join what it parts
        found = _ftfy()
        if found:
            text = found[0].fix_text(text, found[1])
        else:
            text = unicodedata.normalize("NFC", text)
    return text.translate(_INVISIBLE) if _HAS_INVISIBLE.search(text) else text


def find_markup(text: str) -> dict[str, list[str]]:
    """The markup in a text: its kinds, and each occurrence as it stands."""
    return {
        kind: found
        for kind, pattern in MARKUP.items()
        # the search for a mark is fast, and most texts have none
        if any(mark in text for mark in _MARKS[kind]) and (found := pattern.findall(text))
    }


def strip_markup(text: str) -> str:
    """A text without markup."""
    if not find_markup(text):
        return text
    text = _COMMENT.sub("", text)
    for _ in range(text.count("{{")):  # from the innermost outwards
        text, count = _TEMPLATE.subn("", text)
        if not count:
            break
    text = _WEB_LINK.sub(r"\1", _WIKI_LINK.sub(r"\1", text))
    text = MARKUP["urls"].sub("", MARKUP["tags"].sub("", text))
    return html.unescape(re.sub("'{2,}", "", text))


def looks_like_boilerplate(line: str) -> bool:
    """Whether a line has the looks of a menu, a share button, a cookie or a copyright notice."""
    if len(line) > 200:
        return False
    return bool(_LOOKS.match(line) or _MENU.fullmatch(line))


class RepeatedLines:
    """Counts lines over documents, in a table of fixed size.

    A slot belongs to the line that came most among those that share it (a majority vote, Boyer and
    Moore 1981): a line that repeats wins it from lines that come once, which never reach `REPEATS`.
    """

    def __init__(self, repeats: int = REPEATS, slots: int = _SLOTS) -> None:
        self._repeats = repeats
        self._owners = array("I", bytes(4 * slots))
        self._counts = array("B", bytes(slots))

    def leave_out(self, text: str) -> tuple[str, list[str]]:
        """A document without its boilerplate lines, and these lines."""
        out: list[str] = []
        kept: list[str] = []
        seen: set[str] = set()
        for line in text.split("\n"):
            bare = line.strip()
            if bare and (looks_like_boilerplate(bare) or self._repeats_now(bare, seen)):
                out.append(bare)
            else:
                kept.append(line)
        return ("\n".join(kept), out) if out else (text, out)

    def _repeats_now(self, line: str, seen: set[str]) -> bool:
        if len(line) > LONGEST_REPEAT:
            return False
        data = line.encode("utf-8", "surrogatepass")
        slot = zlib.crc32(data) % len(self._owners)
        owner = zlib.adler32(data) ^ (zlib.crc32(data, 0x5BD1E995) or 1)
        mine = self._owners[slot] == owner
        if line not in seen:
            seen.add(line)
            count = self._counts[slot]
            if mine or not count:
                self._owners[slot] = owner
                self._counts[slot] = min(count + 1, 255)
                mine = True
            else:
                self._counts[slot] = count - 1
        return mine and self._counts[slot] > self._repeats
