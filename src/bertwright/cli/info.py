"""`bertwright info`: versions, hardware and installed extras, as a bug report needs them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

from bertwright.cli.options import Json
from bertwright.cli.output import print_fields, print_json
from bertwright.machine import processor, usable_cores
from bertwright.version import __version__


def info(*, json: Json = False) -> None:
    """Show versions, hardware and installed extras."""
    facts = _facts()
    extras = installed_extras()
    if json:
        print_json({**facts, "extras": extras})
        return
    shown: dict[str, Any] = {name.replace("_", " "): value for name, value in facts.items()}
    for extra, missing in extras.items():
        wanted = f'pip install "bertwright[{extra}]" for {", ".join(missing)}'
        shown[f"extra {extra}"] = wanted if missing else "installed"
    print_fields(shown)


def _facts() -> dict[str, Any]:
    """Return the versions that results depend on, the hardware, and what torch can use of it."""
    import torch

    memory = None
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "bertwright": __version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        **{name: _version(name) for name in ("torch", "numpy", "tokenizers", "safetensors")},
        "processor": processor(),
        "cores": usable_cores(),
        "memory_gib": memory,
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bf16_processor": bool({"avx512_bf16", "amx_bf16", "bf16"} & {*text.split()})
        if text
        else None,
        "cuda": torch.version.cuda,
        "gpu": ", ".join(gpus) or None,
        "bf16_gpu": bool(gpus) and torch.cuda.is_bf16_supported(),
    }


def _version(package: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_extras() -> dict[str, list[str]]:
    """Return the packages that are missing for each extra of Bertwright."""
    extras: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("bertwright") or []:
        if match := re.match(r"""([\w.-]+).*extra\s*==\s*['"]([\w-]+)['"]""", requirement):
            package, extra = match.groups()
            extras.setdefault(extra, []).extend([] if _version(package) else [package])
    return extras
