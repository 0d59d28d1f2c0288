"""The device that is measured: what it is, what it can do, how long work takes on it, and where the
host waits for it. On a CPU (`--smoke`) the same functions measure the CPU, and what only CUDA can
do is replaced by a check of its arguments.
"""

from __future__ import annotations

import gc
import inspect
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Device:
    """A GPU, or a CPU for a rehearsal."""

    device: torch.device
    smoke: bool
    peak: float = 0.0
    """Floating-point operations a second of a large bf16 product; 0: not measured."""

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """Until all work that was queued is done; raises what it ended with."""
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def free(self) -> None:
        """Give memory back that nothing holds, and count the peak from here."""
        gc.collect()
        if self.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def memory_gb(self) -> float:
        """The most memory held since `free`, in GB."""
        return torch.cuda.max_memory_allocated(self.device) / 1e9 if self.is_cuda else 0.0

    def facts(self) -> dict[str, Any]:
        """What it is."""
        facts: dict[str, Any] = {"device": self.device.type, "torch": torch.__version__}
        if self.is_cuda:
            of = torch.cuda.get_device_properties(self.device)
            facts |= {
                "name": of.name,
                "capability": list(torch.cuda.get_device_capability(self.device)),
                "memory_gb": of.total_memory / 1e9,
                "processors": of.multi_processor_count,
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
            }
        return facts

    def seconds(self, work: Callable[[], Any], repeats: int, warm: int = 2) -> list[float]:
        """How long each of `repeats` calls takes, of the device's own clock, after `warm` more."""
        for _ in range(warm):
            work()
        self.wait()
        if not self.is_cuda:
            found = []
            for _ in range(repeats):
                began = time.perf_counter()
                work()
                found.append(time.perf_counter() - began)
            return found
        event: Any = torch.cuda.Event
        marks = [event(enable_timing=True) for _ in range(repeats + 1)]
        marks[0].record()
        for mark in marks[1:]:
            work()
            mark.record()
        self.wait()
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]

    def fill_for(self, work: Callable[[], Any], seconds: float, least: int = 5) -> list[float]:
        """`seconds` of as many calls as fill so much time, at least `least`."""
        first = self.seconds(work, 1, warm=2)[0]
        repeats = max(least, min(200, int(seconds / max(first, 1e-6))))
        return self.seconds(work, repeats, warm=0)


def measure_card(device: Device) -> dict[str, Any]:
    """The ceilings of this card: products of large random matrices, a large copy (bytes read and
    written), and the shortest time between two small kernels."""
    size = 8192 if device.is_cuda else 256
    found = device.facts()
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        a, b = (torch.randn(size, size, device=device.device).to(dtype) for _ in range(2))
        times = device.fill_for(partial(torch.mm, a, b), 0.7)
        found[f"{name}_tflops"] = 2 * size**3 / statistics.median(times) / 1e12
        found[f"{name}_tflops_best"] = 2 * size**3 / min(times) / 1e12
        del a, b
    numbers = (1 << 30) if device.is_cuda else (1 << 20)
    source = torch.randint(0, 255, (numbers,), dtype=torch.uint8, device=device.device)
    target = torch.empty_like(source)
    times = device.fill_for(lambda: target.copy_(source), 0.3)
    found["copy_tb_per_s"] = 2 * numbers / statistics.median(times) / 1e12
    small = torch.ones(8, device=device.device)

    def many() -> None:
        for _ in range(1000):
            small.add_(1)

    found["kernel_launch_us"] = statistics.median(device.seconds(many, 5)) * 1e3
    device.free()
    return found


def ten_kernels(device: Device, work: Callable[[], Any]) -> dict[str, Any]:
    """One call of `work` profiled: the ten kernels (on a CPU: operators) with most time, the time
    of all, and the time that passed."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.is_cuda:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    work()
    device.wait()
    began = time.perf_counter()
    with torch.profiler.profile(activities=kinds) as profiler:
        work()
        device.wait()
        passed = time.perf_counter() - began

    def time_of(event: Any) -> float:
        if not device.is_cuda:
            return float(event.self_cpu_time_total)
        own = getattr(event, "self_device_time_total", None)
        return float(event.self_cuda_time_total if own is None else own)

    events = profiler.key_averages()
    if device.is_cuda:
        kernels = [e for e in events if "CUDA" in str(getattr(e, "device_type", ""))]
        events = kernels or events
    top = sorted(events, key=time_of, reverse=True)[:10]
    total = sum(map(time_of, events))
    return {
        "kernels": [
            {
                "name": event.key[:120],
                "calls": event.count,
                "ms": time_of(event) / 1e3,
                "share": time_of(event) / max(1e-9, total),
            }
            for event in top
        ],
        "launched": sum(event.count for event in events),
        "busy_ms": total / 1e3,
        "passed_ms_profiled": passed * 1e3,
    }


def where_it_waits(device: Device, work: Callable[[], Any]) -> dict[str, Any]:
    """Each place in which one call of `work` made the host wait for the device, and how often: by
    CUDA's own warning. On a CPU: each place that reads a number of a tensor."""
    if device.is_cuda:
        places: Counter[str] = Counter()
        work()
        device.wait()
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for each in caught:
            if "synchroniz" in str(each.message):
                places[_short(each.filename, each.lineno)] += 1
    else:
        with _Reads() as reads:
            work()
        places = reads.places
    return {"waits": dict(places.most_common()), "wait_count": sum(places.values())}


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in ("_local_scalar_dense", "_unique2", "masked_select"):
            frame = inspect.currentframe()
            while frame is not None and "bertwright" not in frame.f_code.co_filename:
                is_stand_in = frame.f_code is FlashStandIn.__call__.__code__
                frame = None if is_stand_in else frame.f_back
            if frame is not None:
                self.places[_short(frame.f_code.co_filename, frame.f_lineno)] += 1
        return func(*args, **(kwargs or {}))


def _short(file: str, line: int) -> str:
    place = Path(file)
    parts = place.relative_to(ROOT) if place.is_relative_to(ROOT) else Path(*place.parts[-3:])
    return f"{parts}:{line}"


def relative_error(found: Tensor, expected: Tensor) -> float:
    """`||found - expected|| / ||expected||`, in float64; infinite where a number is not finite."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    if not bool(found.isfinite().all()):
        return float("inf")
    return float((found - expected).norm() / expected.norm().clamp(min=1e-30))


class FlashStandIn:
    """In place of the variable-length kernel on a CPU: checks what the kernel demands of its
    arguments, and computes the same by plain products."""

    def __init__(self) -> None:
        self.calls = 0
        self.head_sizes: set[int] = set()

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seq_q: Tensor,
        cu_seq_k: Tensor,
        max_q: int,
        max_k: int,
        *,
        window_size: tuple[int, int] = (-1, -1),
    ) -> Tensor:
        """Queries `[N, A, D]`, keys and values `[M, A, D]` -> `[N, A, D]`"""
        self.calls += 1
        width = query.shape[2]
        self.head_sizes.add(width)
        for name, x in (("query", query), ("key", key), ("value", value)):
            if x.dtype not in (torch.bfloat16, torch.float16):
                raise TypeError(f"{name} is {x.dtype}; the kernel takes bfloat16 and float16")
            if x.ndim != 3 or x.stride(2) != 1 or x.shape[1:] != query.shape[1:]:
                raise ValueError(f"{name} has shape {list(x.shape)} and strides {x.stride()}")
        if width % 8 or width > 256:
            raise ValueError(f"heads are {width} wide; the kernel takes multiples of 8 up to 256")
        pairs = (("query", query, cu_seq_q, max_q), ("key", key, cu_seq_k, max_k))
        for name, x, offsets, most in pairs:
            if offsets.dtype != torch.int32 or not offsets.is_contiguous() or offsets.ndim != 1:
                raise TypeError(f"offsets of the {name} are {offsets.dtype}, {offsets.shape}")
            lengths = offsets.diff().tolist()
            if int(offsets[0]) != 0 or int(offsets[-1]) != len(x) or min(lengths) < 0:
                raise ValueError(f"offsets of the {name} do not lie over its {len(x)} rows")
            if type(most) is not int or max(lengths) > most:
                raise ValueError(f"the longest {name} has {max(lengths)} rows; it says {most!r}")
        reach = window_size[0]
        if window_size not in ((-1, -1), (-1, 0)) and window_size != (reach, reach):
            raise ValueError(f"window_size is {window_size}")
        parts = []
        for (a, b), (c, d) in zip(_bounds(cu_seq_q), _bounds(cu_seq_k), strict=True):
            q, k, v = query[a:b], key[c:d], value[c:d]
            parts.append(plain_attention(q, k, v, window_size[1] == 0, reach=reach))
        return torch.cat(parts)


def _bounds(offsets: Tensor) -> list[tuple[int, int]]:
    numbers = offsets.tolist()
    return list(pairwise(numbers))


def plain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    prefix: int | None = None,
    reach: int = -1,
    bias: Tensor | None = None,
) -> Tensor:
    """Attention of one sequence by its formula: q `[T, A, D]`, k and v `[S, A, D]` -> `[T, A, D]`;
    with `prefix`, all see the first so many keys; with `reach` of 0 or more, those so near; `bias`
    `[A, T, S]` is added to the scores."""
    scores = torch.einsum("tad,sad->ats", q, k) * q.shape[2] ** -0.5
    scores = scores if bias is None else scores + bias
    if causal or prefix is not None:
        last = torch.arange(len(q), device=q.device) + len(k) - len(q)
        last = last if prefix is None else last.clamp(min=prefix - 1)
        hidden = torch.arange(len(k), device=q.device) > last[:, None]
        scores = scores.masked_fill(hidden, float("-inf"))
    if reach >= 0:
        places = torch.arange(len(q), device=q.device)
        far = (places[:, None] - places).abs() > reach
        scores = scores.masked_fill(far, float("-inf"))
    return torch.einsum("ats,sad->tad", scores.softmax(-1), v)


def rehearse_flash() -> FlashStandIn:
    """Let the model's attention call the stand-in where CUDA would call the kernel."""
    from torch.nn.attention import varlen

    from bertwright.nn.transformer import flash

    stand_in = FlashStandIn()

    def takes(q: Tensor) -> bool:
        low = q.dtype in (torch.bfloat16, torch.float16)
        return low and q.shape[2] % 8 == 0 and q.shape[2] <= flash.FLASH_WIDTH

    def varlen_attn(*args: Any, window_size: tuple[int, int] = (-1, -1)) -> Tensor:
        return stand_in(*args, window_size=window_size)

    flash.takes_flash = takes
    varlen.varlen_attn = varlen_attn  # type: ignore[assignment]
    flash.has_windows.cache_clear()
    return stand_in
