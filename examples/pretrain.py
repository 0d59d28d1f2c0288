"""Pre-train a small BERT on text files of your own, and let it fill a blank.

    python examples/pretrain.py corpus/*.txt

Without files it reads the help topics that come with Python. Give it more minutes and more text,
and a larger preset, for a model that is of use: this one shows the way only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import bertwright


def main(files: list[str], folder: Path, **settings: Any) -> bertwright.Run:
    """Files in, a run out; `settings` are keys of `bertwright pretrain --help-all`."""
    if not files:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "topics.txt").write_text("\n\n".join(topics.values()), encoding="utf-8")
        files = [str(folder / "topics.txt")]
    shards = bertwright.build_data(files, out=folder / "shards", vocab_size=4000)

    losses: list[float] = []
    run = bertwright.pretrain(
        shards,
        out=folder / "run",
        on_log=lambda record: losses.append(record["loss"]),
        **{"preset": "mini", "minutes": 2, "optimizer.learning_rate": 1e-3} | settings,
    )
    print(f"loss {losses[0]:.2f} at first, {losses[-1]:.2f} in the end")
    print("on held-out text:", run.metrics)
    (blank,) = run.model.fill("The value is a [MASK] of strings.")
    print("The value is a ... of strings:", ", ".join(token for token, _ in blank))
    print("the page of the run:", run.report)
    return run


if __name__ == "__main__":
    main(sys.argv[1:], Path("runs/example"))
