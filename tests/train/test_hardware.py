"""What is measured of the hardware."""

from __future__ import annotations

import pytest
import torch

from bertwright.train import hardware
from bertwright.train.hardware import (  # before conftest.py replaces them
    matmul_rate,
    multiplies_bfloat16,
)

CPU = torch.device("cpu")


def test_a_rate_is_measured() -> None:
    assert matmul_rate(CPU, "fp32", seconds=0.01) > 1e8


def test_a_rate_is_that_of_the_best_product(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, 2.0, 2.0, 3.0, 6.0, 8.0])  # products of 2 and of 3 seconds
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: next(times))
    assert matmul_rate(CPU, "fp32", seconds=5.0) == 2 * 1024**3 / 2.0


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 2), (64, 2)])
def test_threads_follow_the_cores_of_a_container(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(hardware, "usable_cores", lambda: cores)
    try:
        torch.set_num_threads(2)
        hardware.use_own_cores()
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("measured", [{"bf16": 3e11, "fp32": 1e11}, {"bf16": 1e9, "fp32": 1e11}])
@pytest.mark.parametrize(("has_bf16", "chosen"), [(True, "bf16"), (False, "fp32")])
def test_the_clock_does_not_choose_the_precision(
    monkeypatch: pytest.MonkeyPatch, measured: dict[str, float], has_bf16: bool, chosen: str
) -> None:
    monkeypatch.setattr(hardware, "matmul_rate", lambda device, precision: measured[precision])
    monkeypatch.setattr(hardware, "multiplies_bfloat16", lambda device: has_bf16)
    assert hardware.choose_precision(CPU) == (chosen, measured[chosen])
    for named in ("bf16", "fp32"):
        assert hardware.choose_precision(CPU, named) == (named, measured[named])


@pytest.mark.parametrize("amx", [False, True])
@pytest.mark.parametrize("avx512_bf16", [False, True])
def test_bf16_is_chosen_by_the_instructions_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, amx: bool, avx512_bf16: bool
) -> None:
    monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    assert multiplies_bfloat16(CPU) is (amx or avx512_bf16)


def test_bf16_of_this_processor_does_not_change() -> None:
    assert multiplies_bfloat16(CPU) in (True, False)
    assert len({multiplies_bfloat16(CPU) for _ in range(3)}) == 1


def test_memory_is_that_of_a_process_with_torch() -> None:
    assert 0.05 < hardware.memory_gb(CPU) < 100
