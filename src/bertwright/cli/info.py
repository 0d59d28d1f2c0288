"""`bertwright info`: versions, hardware and installed extras; what a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import Any

from bertwright.cli.options import Flag, Json
from bertwright.cli.output import print_fields, print_json
from bertwright.machine import usable_cores
from bertwright.version import __version__


def info(
    *,
    measure: Flag = False,
    json: Json = False,
) -> None:
    """Show versions, hardware and installed extras.

    Args:
        measure: Measure the peak rate of matrix products, in some seconds.
    """
    facts = {"bertwright": __version__, **_software(), **_hardware(), **_devices()}
    if measure:
        facts["matmul_gflops"] = measure_matmul()
    extras = installed_extras()
    if json:
        print_json({**facts, "extras": extras})
        return
    shown: dict[str, Any] = {name.replace("_", " "): value for name, value in facts.items()}
    for precision, gflops in shown.pop("matmul gflops", {}).items():
        shown[f"matmul {precision}"] = f"{gflops:,.0f} GFLOP/s"
    for extra, missing in extras.items():
        wanted = f'pip install "bertwright[{extra}]" for {", ".join(missing)}'
        shown[f"extra {extra}"] = wanted if missing else "installed"
    print_fields(shown)


def _software() -> dict[str, Any]:
    """Versions of what the numbers depend on, read without importing."""
    names = ("torch", "numpy", "tokenizers", "safetensors")
    return {
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        **{name: _version(name) for name in names},
    }


def _version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _hardware() -> dict[str, Any]:
    """The processor, the cores this process may use, and the memory."""
    memory = None
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {"processor": _processor(), "cores": usable_cores(), "memory_gib": memory}


def _processor() -> str:
    """The processor's name as the system reports it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _devices() -> dict[str, Any]:
    """What torch finds: threads, bf16 in the processor, GPUs."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "bf16_processor": _processor_has_bf16(),
        "cuda": torch.version.cuda,
        "gpu": ", ".join(gpus) or None,
        "bf16_gpu": bool(gpus) and torch.cuda.is_bf16_supported(),
    }


def _processor_has_bf16() -> bool | None:
    """Whether the processor multiplies bf16 itself (AVX-512 BF16, AMX); None: unknown."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return None
    words = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return bool(words & {"avx512_bf16", "amx_bf16", "bf16"})


def installed_extras() -> dict[str, list[str]]:
    """Each extra of the package with what of it is not installed."""
    requirements = importlib.metadata.requires("bertwright") or []
    extras: dict[str, list[str]] = {}
    for requirement in requirements:
        match = re.match(r"""([\w.-]+).*extra\s*==\s*['"]([\w-]+)['"]""", requirement)
        if match is None:
            continue
        package, extra = match.groups()
        missing = extras.setdefault(extra, [])
        if _version(package) is None:
            missing.append(package)
    return extras


def measure_matmul() -> dict[str, float]:
    """GFLOP/s of large matrix products, best of many, in fp32 and in bf16."""
    import torch

    from bertwright.train.hardware import Precision, matmul_rate

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    return {
        precision: float(f"{matmul_rate(device, precision, seconds=1.5) / 1e9:.4g}")
        for precision in precisions
    }
