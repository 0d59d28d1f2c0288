"""The description of the package on an index: README, with whole addresses for its relative links.

hatchling calls this when it builds. The addresses begin with the Repository of `[project.urls]`, as
an index has no other file of the repository, and would show broken pictures and dead links.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")
"""A link or a picture (`!`) of Markdown with a relative path."""


class DescriptionHook(MetadataHookInterface):
    """Sets the metadata `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        repository = metadata["urls"]["Repository"]

        def whole(link: re.Match[str]) -> str:
            picture, text, path = link.groups()
            return f"{picture}[{text}]({repository}/{'raw' if picture else 'blob'}/HEAD/{path})"

        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": LINK.sub(whole, readme)}
