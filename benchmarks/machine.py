"""What figures were measured on: the processor and how busy it was, the versions."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("bertwright", "torch", "tokenizers", "transformers", "sentence-transformers")


def machine() -> dict[str, Any]:
    """Processor, cores of this process, load of the last minute, versions."""
    found: dict[str, Any] = {"processor": _processor(), "cores": len(os.sched_getaffinity(0))}
    found |= {"load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        names = re.findall(r"^model name\s*: (.+)", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
