"""The Muon optimizer (Jordan et al. 2024): each matrix steps along its orthogonalized momentum.

Orthogonalization gives all directions of the matrix steps of similar size. `torch.optim.Muon` is
the same, but always computes its products in bfloat16. A processor without bfloat16 takes four
times as long for these as in float32 (measured on two cores of a Xeon with AVX-512: a third of
bert-mini's step), so here the products have the precision of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.cpu_threads import one_core_each
from bertwright.train.distributed import is_shard, laid_like, whole

ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315
"""The coefficients of the polynomial that is applied to the singular values (Jordan et al.
2024).
"""


class Muon(torch.optim.Optimizer):
    """Orthogonalized Nesterov momentum with decoupled weight decay.

    Steps are scaled to the root mean square of AdamW's (Liu et al. 2025), so that the same learning
    rates are comparable.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        weight_decay: float,
        dtype: torch.dtype,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.dtype = dtype
        self.threads: int | None = None
        """The number of threads that compute a step on a CPU; None: as many as torch uses."""
        self.good: Tensor | None = None
        """Whether to do the next step, as a scalar on the device; None: do it."""

    def step(self) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient.

        On a CPU each core updates one matrix at a time, so that none waits for a core that another
        process uses (`cpu_threads.py`).
        """
        tasks = [
            (matrix, group)
            for group in self.param_groups
            for matrix in group["params"]
            if matrix.grad is not None
        ]
        together = self.good is not None or all(matrix.is_cuda for matrix, _ in tasks)
        if together and not any(is_shard(matrix) for matrix, _ in tasks):
            self._move_by_shape()
            return
        threads = self.threads or torch.get_num_threads()
        # Shards must be gathered in the same order on all ranks.
        if threads == 1 or any(m.device.type != "cpu" or is_shard(m) for m, _ in tasks):
            for matrix, group in tasks:
                self._move(matrix, group)
            return
        with one_core_each(threads) as pool:
            for done in [pool.submit(self._move, *task) for task in tasks]:
                done.result()

    @torch.no_grad()
    def _move_by_shape(self) -> None:
        """Update all matrices of the same shape together: a GPU runs a few large kernels faster
        than many small ones.
        """
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for matrices in by_shape.values():
                self._move_together(matrices, group)

    def _move_together(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        keep, all_gradients = group["momentum"], []
        for matrix in matrices:
            assert matrix.grad is not None
            all_gradients.append(matrix.grad)
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix.grad)
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        gradients, momentum = torch.stack(all_gradients), torch.stack(buffers)  # [b, m, n]
        good = momentum.new_ones(()) if self.good is None else self.good.to(momentum.dtype)
        if self.good is not None:  # 0 times infinity or NaN is not 0
            gradients = gradients.where(self.good, 0.0)
        momentum = momentum.lerp(gradients, (1 - keep) * good)
        torch._foreach_copy_(buffers, list(momentum.unbind()))
        ahead = gradients.lerp(momentum, keep)
        rate = min(group["lr"] * step_size(ahead), torch.finfo(torch.float32).max)
        update = orthogonal(ahead, self.dtype).to(momentum.dtype) * (-rate * good)
        torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"] * good)
        torch._foreach_add_(matrices, list(update.unbind()))

    @torch.no_grad()  # is a setting of each thread, so it cannot be set around all of them
    def _move(self, matrix: Tensor, group: dict[str, Any]) -> None:
        assert matrix.grad is not None
        state, keep = self.state[matrix], group["momentum"]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix.grad)
        momentum = state["momentum_buffer"].lerp_(matrix.grad, 1 - keep)
        ahead = whole(matrix.grad.lerp(momentum, keep))
        update = orthogonal(ahead, self.dtype).to(matrix.dtype)
        matrix.mul_(1 - group["lr"] * group["weight_decay"])
        rate = min(
            group["lr"] * step_size(matrix), torch.finfo(torch.float32).max
        )  # beyond, add_ has an error
        matrix.add_(laid_like(update, matrix), alpha=-rate)


def step_size(matrix: Tensor) -> float:
    """Return the factor by which an orthogonal step of a matrix `[..., m, n]` has AdamW's root mean
    square (Liu et al. 2025).
    """
    return 0.2 * math.sqrt(max(matrix.shape[-2:]))


def orthogonal(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return approximately the orthogonal matrix nearest to x `[m, n]`, or to each of `[b, m, n]`.

    Newton-Schulz iterations, with products in `dtype`, bring the singular values to between 0.7 and
    1.2.
    """
    a, b, c = COEFFICIENTS
    add_product = torch.addmm if x.ndim == 2 else torch.baddbmm
    is_high = x.shape[-2] > x.shape[-1]
    x = (x.mT if is_high else x).to(dtype)
    norm = x.norm() if x.ndim == 2 else x.norm(dim=(1, 2), keepdim=True)
    x = x / norm.clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = add_product(x, add_product(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_high else x
