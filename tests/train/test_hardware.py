"""What is measured of the hardware."""

from __future__ import annotations

import pytest
import torch

from bertwright.train import hardware
from bertwright.train.hardware import matmul_rate  # before conftest.py replaces it

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


@pytest.mark.parametrize(
    ("bf16", "chosen"), [(3e11, "bf16"), (1.1e11, "fp32"), (1e10, "fp32")], ids=str
)
def test_bf16_where_it_is_faster(monkeypatch: pytest.MonkeyPatch, bf16: float, chosen: str) -> None:
    rates = {"bf16": bf16, "fp32": 1e11}
    monkeypatch.setattr(hardware, "matmul_rate", lambda device, precision, **_: rates[precision])
    assert hardware.choose_precision(CPU) == (chosen, rates[chosen])
    assert hardware.choose_precision(CPU, "fp32") == ("fp32", 1e11)
    assert hardware.choose_precision(CPU, "bf16") == ("bf16", bf16)


def test_a_slow_bf16_is_told_by_a_small_product(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def rate(device: torch.device, precision: str, **small: float) -> float:
        measured.append((precision, small.get("size")))
        return 1e9 if precision == "bf16" else 1e11

    monkeypatch.setattr(hardware, "matmul_rate", rate)
    assert hardware.choose_precision(CPU) == ("fp32", 1e11)
    assert measured == [("bf16", 256), ("fp32", 256), ("fp32", None)]


def test_memory_is_that_of_a_process_with_torch() -> None:
    assert 0.05 < hardware.memory_gb(CPU) < 100
