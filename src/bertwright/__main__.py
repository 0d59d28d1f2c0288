"""`python -m bertwright` and the console script `bertwright`."""

from __future__ import annotations

import os
import sys

from bertwright.cli.app import run


def main() -> None:
    """Run the command line and leave with its exit code.

    One of several processes of torchrun leaves without Python's finalization: threads of
    torch.distributed that ask for the interpreter then abort the process, now and then, and
    torchrun calls a run that is done failed.
    """
    code = run(sys.argv[1:])
    if os.environ.get("WORLD_SIZE", "1") != "1":
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
