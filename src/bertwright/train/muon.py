"""The Muon optimizer (Jordan et al. 2024): each matrix steps along its orthogonalized momentum.

Orthogonalization gives all directions of the matrix steps of similar size. `torch.optim.Muon` is
the same, but always computes its products in bfloat16. A processor without bfloat16 takes four
times as long for these as in float32 (measured on two cores of a Xeon with AVX-512: a third of
bert-mini's step), so here the products have the precision of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

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
        self.threads = torch.get_num_threads()
        """The number of threads that compute a step on a CPU."""
        self.found_inf: Tensor | None = None
        """A scalar on the device that is not 0 if the next step must not be done, as AdamW's; None:
        do it."""

    def step(self) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient.

        On a CPU each core updates one matrix at a time, so that none waits for a core that another
        process uses (`train/cpu_step.py`). A GPU runs a few large kernels faster than many small
        ones, so it updates all matrices of the same shape together.
        """
        tasks: list[tuple[list[Tensor], dict[str, Any]]] = []
        for group in self.param_groups:
            matrices = [matrix for matrix in group["params"] if matrix.grad is not None]
            tasks += [(each, group) for each in _updated_together(matrices)]
        on_cpu = all(matrices[0].device.type == "cpu" for matrices, _ in tasks)
        # Shards must be gathered in the same order on all ranks.
        if self.threads == 1 or not on_cpu or any(is_shard(matrices[0]) for matrices, _ in tasks):
            for task in tasks:
                self._update(*task)
            return
        with one_core_each(self.threads) as pool:
            for done in [pool.submit(self._update, *task) for task in tasks]:
                done.result()

    @torch.no_grad()  # is a setting of each thread, so it cannot be set around all of them
    def _update(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        """Update b matrices `[m, n]`."""
        keep, decay = group["momentum"], 1 - group["lr"] * group["weight_decay"]
        momenta = [self._momentum(matrix) for matrix in matrices]
        gradients = [cast(Tensor, matrix.grad) for matrix in matrices]
        gradient = _joined(gradients)
        if self.found_inf is not None:  # a gradient that is the momentum leaves it as it is
            is_good = self.found_inf == 0
            decay = torch.where(is_good, decay, 1.0)
            gradient = gradient.where(is_good, _joined(momenta))
            gradients = _parts(gradient)
        torch._foreach_lerp_(momenta, gradients, 1 - keep)
        ahead = whole(gradient.lerp(_joined(momenta), keep))
        update = orthogonal(ahead, self.dtype).to(ahead.dtype)
        if self.found_inf is not None:
            update = update * is_good
        updates = [
            laid_like(part, matrix) if is_shard(matrix) else part
            for part, matrix in zip(_parts(update), matrices, strict=True)
        ]
        # beyond the largest number, the addition has an error
        rate = min(group["lr"] * step_size(ahead), torch.finfo(torch.float32).max)
        torch._foreach_mul_(matrices, decay)
        torch._foreach_add_(matrices, updates, alpha=-rate)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Return the momentum of a matrix, 0 before its first step."""
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(cast(Tensor, matrix.grad))
        return cast(Tensor, state["momentum_buffer"])


def _updated_together(matrices: Iterable[Tensor]) -> list[list[Tensor]]:
    """Return the matrices of a GPU by shape; on a CPU, and of shards, each alone."""
    together: dict[object, list[Tensor]] = {}
    for matrix in matrices:
        is_alone = matrix.device.type == "cpu" or is_shard(matrix)
        together.setdefault(id(matrix) if is_alone else matrix.shape, []).append(matrix)
    return list(together.values())


def _joined(matrices: list[Tensor]) -> Tensor:
    """Return b matrices of one shape as `[b, m, n]`, or the only one as it is, `[m, n]`."""
    return torch.stack(matrices) if len(matrices) > 1 else matrices[0]


def _parts(x: Tensor) -> list[Tensor]:
    """Return the matrices that were `_joined`."""
    return list(x.unbind()) if x.ndim == 3 else [x]


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
