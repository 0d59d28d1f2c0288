"""Markup in a text: found and counted always, removed with `--strip-markup`.

Tags and comments of HTML, web addresses, wiki templates (`{{...}}`, also nested) and quote marks
go; of a link (`[[target|text]]`) the text stays.
"""

from __future__ import annotations

import html
import re

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
