"""`bertwright pretrain`: shards in, a pre-trained BERT out."""

from __future__ import annotations

import os
import shlex
from typing import Annotated

from cyclopts import Parameter

from bertwright.cli.options import EVERY_KEY, ConfigFile, Overwrite
from bertwright.cli.output import say
from bertwright.config.bert_run import BertRun


def pretrain(
    *,
    config: Annotated[BertRun, EVERY_KEY],
    config_file: ConfigFile = None,
    resume: Annotated[
        bool,
        Parameter(negative="", help="Go on with the run in --out; the rest must be as it was."),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Pre-train BERT on shards that `data build` wrote.

    The length of the run is one of --steps, --minutes and --epochs. Ctrl-C and SIGTERM save and
    end with 130 and 143; the same command with --resume goes on.
    """
    from bertwright.recipes.pretrain import pretrain as run_pretraining

    folder = run_pretraining(config, say, overwrite=overwrite, resume=resume)
    if os.environ.get("RANK", "0") == "0":  # of the processes of torchrun, one speaks
        run = shlex.quote(str(folder))
        say(f"{folder} is ready: bertwright report {run}")
        say(f'fill in blanks with it: bertwright fill --model {run} "A text with a [MASK]."')
