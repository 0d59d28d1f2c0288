"""What a benchmark or an experiment needs that `pip install -e ".[dev]"` does not install."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def needs(package: str, install: str) -> None:
    """End the program with exit code 3 and the command that installs `package`, if it is missing.

    Args:
        package: the name that is imported.
        install: what `pip install` takes, as a requirement.
    """
    if find_spec(package) is None:
        sys.stderr.write(f"{sys.argv[0]} needs the package {package}: pip install {install}\n")
        raise SystemExit(3)
