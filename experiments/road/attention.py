"""What the heads of a BERT attend to: Clark et al. 2019 on a small model, beside its start.

    python experiments/road/attention.py --model runs/mine --start runs/start --corpus texts.txt \\
        --treebank CRAFT/dev --limit 300 --out attention.json

`--start` is a run of the same model of one step. Writes the measures of every head (means over
`--limit` texts), the best head of each relation of as many sentences, and coreference on ours.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

from bertwright.cli.app import run


def measured(model: str, corpus: str, treebank: str, limit: str) -> dict[str, Any]:
    """What `bertwright attention --json` prints, numbers rounded."""
    words = ["attention", "--model", model, "--corpus", corpus, "--treebank", treebank]
    words += ["--limit", limit]
    words += ["--coreference", "--json", "--device", "cpu"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run(words) == 0
    found: dict[str, Any] = json.loads(out.getvalue(), parse_float=lambda x: round(float(x), 4))
    return {"command": f"bertwright {' '.join(words[:-2])}", **found}


def main() -> None:
    """Measure both models and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "start", "corpus", "treebank"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--limit", default="1000")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    data = given.corpus, given.treebank, given.limit
    found = {
        "trained": measured(given.model, *data),
        "start": measured(given.start, *data),
    }
    given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
