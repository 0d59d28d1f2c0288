"""Find and count markup in a text, and remove it with `--strip-markup`.

HTML tags and comments, web addresses, wiki templates (`{{...}}`, also nested) and wiki quote marks
are removed; a link (`[[target|text]]`) is replaced by its text. Text that only looks like a tag is
neither removed nor counted: placeholders (`<name>`) and Python objects (`<class 'int'>`).
"""

from __future__ import annotations

import html
import re
from collections.abc import Set

_MARKUP = {
    "urls": re.compile(r"(?:https?://|www\.)[^\s<>\"|\]]+"),
    "templates": re.compile(r"\{\{|\[\[|'''|&(?:[A-Za-z]{2,8}|#\d{1,6});"),
    "variants": re.compile(
        r"-\{(?:[A-Z|]{0,8}\|)?[^{}\n]{0,200}?\bzh(?:-[a-z]{2,4})?\s{0,4}[:;|][^{}\n]{0,1000}\}-"
    ),
}
_MARKS = {"urls": ("://", "www."), "templates": ("{{", "[[", "'''", "&"), "variants": ("-{",)}
_TAG = re.compile(r"<(?:!--|(/?)([A-Za-z][\w-]*)(\s[^<>\n]{0,1000}?)?(/?)>)")
_CLOSED = re.compile(r"</([A-Za-z][\w-]*)")
_ELEMENT = re.compile(
    "a|abbr|b|big|blockquote|body|br|center|cite|code|dd|del|div|dl|dt|em|font|footer|form|gallery|"
    "h[1-6]|head|header|hr|html|i|img|ins|li|math|nav|nowiki|ol|p|poem|pre|ref|s|script|section|"
    "small|span|strike|strong|style|su[bp]|table|tbody|td|th|thead|title|tr|tt|ul?",
    re.IGNORECASE,
)
"""The elements of HTML and wikis. Any other name is a tag only if it has an attribute or an end
tag.
"""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_WIKI_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)*([^\[\]|]*)\]\]")
_WEB_LINK = re.compile(r"\[https?://\S+ ([^\[\]]*)\]")


def count_markup(text: str) -> dict[str, int]:
    """Return the number of marks of each kind in a text."""
    closed = frozenset(_CLOSED.findall(text)) if "</" in text else frozenset()
    tags = sum(_is_tag(tag, closed) for tag in _TAG.finditer(text)) if "<" in text else 0
    return {"tags": tags} | {
        # searching for a mark first is faster, because most texts have none
        kind: len(pattern.findall(text)) if any(mark in text for mark in _MARKS[kind]) else 0
        for kind, pattern in _MARKUP.items()
    }


def strip_markup(text: str) -> str:
    """Return a text without markup. Chinese variants stay, because it is not known which one is
    meant.
    """
    if not any(count for kind, count in count_markup(text).items() if kind != "variants"):
        return text
    text = _COMMENT.sub("", text)
    for _ in range(text.count("{{")):  # nested templates, from the innermost outwards
        text, count = _TEMPLATE.subn("", text)
        if not count:
            break
    text = _WEB_LINK.sub(r"\1", _WIKI_LINK.sub(r"\1", text))
    closed = frozenset(_CLOSED.findall(text))
    text = _TAG.sub(lambda tag: "" if _is_tag(tag, closed) else tag[0], text)
    text = _MARKUP["urls"].sub("", text)
    return html.unescape(re.sub("'{2,}", "", text))


def _is_tag(tag: re.Match[str], closed: Set[str]) -> bool:
    """Return whether a match is markup; `closed` are the names that have an end tag in the text."""
    end, name, attributes, empty = tag.groups()
    if not name or end or empty or name in closed or _ELEMENT.fullmatch(name):
        return True
    return "=" in (attributes or "")
