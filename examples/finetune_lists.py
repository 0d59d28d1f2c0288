"""Fine-tune a model on labelled texts that are in memory, and predict with it.

    python examples/finetune_lists.py runs/quickstart/run

The model is a run of Bertwright or any BERT folder of Hugging Face. A list of mappings, a pandas
DataFrame or a `datasets` Dataset may stand where the list of tuples does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import bertwright

THINGS = ["film", "book", "song", "meal", "game", "hotel", "play", "phone", "trip", "show"]
GOOD = ["wonderful", "great", "fine"]
BAD = ["terrible", "dull", "poor"]


def main(model: str | Path, out: Path, **settings: Any) -> bertwright.Run:
    """Model in, a run out; `settings` are keys of `bertwright finetune --help-all`."""
    rows = [(f"What a {word} {thing}!", "good") for word in GOOD for thing in THINGS]
    rows += [(f"What a {word} {thing}!", "bad") for word in BAD for thing in THINGS]
    run = bertwright.finetune("classification", model=model, train=rows, out=out, **settings)
    print("on the tenth that was held out:", run.metrics)

    for prediction in run.model.predict(["What a great film!", "What a dull book!"]):
        print(prediction)
    test = [("A wonderful song", "good"), ("A poor meal", "bad")]
    print("on new texts:", bertwright.evaluate(run.model, test).metrics)
    return run


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1], Path("runs/example-task"))
