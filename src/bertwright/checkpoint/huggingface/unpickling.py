"""The process that opens a pickle of weights: `python -m ... BYTES SECONDS OUT PICKLE...`.

It is no part of any other: `pickled.py` starts it, and reads what it leaves.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

from bertwright.errors import DataError


def unpickle(pickles: list[str], out: str) -> None:
    """Write all tensors of pickles into one file.

    Raises:
        DataError: something in them is no tensor, or is there twice.
    """
    tensors: dict[str, torch.Tensor] = {}
    for path in pickles:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(content, Mapping):
            raise DataError(f"it holds {type(content).__name__}, not tensors by name")
        for name, value in content.items():
            if not isinstance(name, str) or not isinstance(value, torch.Tensor):
                raise DataError(f"{str(name)[:80]!r} in it is {type(value).__name__}, no tensor")
            if name in tensors:
                raise DataError(f"{name[:80]!r} is in two of its shards")
            tensors[name] = value.contiguous().clone()
    save_file(tensors, out, metadata={"format": "pt"})


def _limit(more: int, seconds: int) -> None:
    """No more memory and processor than weights need, and no dumps."""
    try:
        import resource
    except ImportError:  # Windows has none; the time is limited from outside
        return
    pages = Path("/proc/self/statm")
    used = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 8 << 30
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Read the arguments, limit the process, do the work."""
    size, seconds, out, *pickles = sys.argv[1:]
    _limit(int(size), int(seconds))
    partial = f"{out}.partial"
    unpickle(pickles, partial)
    Path(partial).replace(out)


def _reason(error: Exception) -> str:
    """One line; of PyTorch's refusal the part that names what was refused, not its advice."""
    refused = re.search(r"(?:unsupported|Unsupported) [^\n]{1,120}", str(error))
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {refused[0] if refused else lines[0]}"


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        sys.exit(_reason(error))
