"""The HTML page of `bertwright attention`: all heads as small maps, and one head in detail.

The page contains a script and the style sheet of the playground (`serve/playground/dom.js` and
`style.css`), so it needs neither a network nor other files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from bertwright.errors import DataError
from bertwright.inference.attention.maps import AttentionMaps
from bertwright.report.pages import render

MOST = 192
"""The maximum number of tokens of a text. Browsers cannot scroll a page of larger maps."""
TITLES = {
    "encoder": "The text attends to itself",
    "decoder": "The translation attends to itself",
    "encoder-decoder": "The translation attends to the source",
}


def attention_page(maps: Sequence[AttentionMaps], model: str) -> str:
    """Return the page with the attention maps of a text.

    Raises:
        DataError: the text has more than `MOST` tokens.
    """
    longest = max(len(tokens) for each in maps for tokens in (each.rows, each.columns))
    if longest > MOST:
        raise DataError(
            f"the text has {longest} tokens; a page draws {MOST} at most: give a shorter text, or "
            "read the numbers with --json"
        )
    data = [
        {
            "title": TITLES[each.name],
            "rows": each.rows,
            "columns": each.columns,
            "layers": each.weights.shape[0],
            "heads": each.weights.shape[1],
            "weights": base64.b64encode(
                np.rint(each.weights * 65535).astype("<u2").tobytes()
            ).decode(),
        }
        for each in maps
    ]
    folder = files("bertwright.serve") / "playground"
    return render(
        "attention.html.j2",
        heading=f"Attention of {model}",
        data=json.dumps(data).replace("<", "\\u003c"),
        script=(folder / "dom.js").read_text("utf-8"),
        style=(folder / "style.css").read_text("utf-8"),
    )
