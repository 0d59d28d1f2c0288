"""AdamW, or Muon for the matrices; and clipping by the global norm.

AdamW (Kingma & Ba 2015; Loshchilov & Hutter 2019) with bias correction, PyTorch's own, is what BERT
is known with. With Muon (`train/muon.py`) embeddings, norms and biases stay with AdamW.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.run import OptimizerConfig
from bertwright.train.distributed import whole
from bertwright.train.hardware import Precision
from bertwright.train.muon import Muon


class Optimizers:
    """One or two optimizers of disjoint parameters, stepped as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        for part in parts:
            for group in part.param_groups:
                group["highest"] = group["lr"]

    def set_rates(self, factor: float) -> None:
        """Set every group's learning rate to `factor` of its highest."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["highest"] * factor

    def step(self) -> None:
        """Change the parameters by their gradients."""
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self.parts:
            part.zero_grad()

    def state_of(self, parameter: nn.Parameter) -> dict[str, Any]:
        """What is kept for a parameter: its moments and, for AdamW, the steps it took."""
        for part in self.parts:
            if parameter in part.state:
                state: dict[str, Any] = part.state[parameter]
                return state
        return {}

    def set_state(self, parameter: nn.Parameter, state: dict[str, Any]) -> None:
        """Put back what `state_of` gave."""
        for part in self.parts:
            for group in part.param_groups:
                if any(parameter is other for other in group["params"]):
                    part.state[parameter] = state


def make_optimizers(
    module: nn.Module, config: OptimizerConfig, precision: Precision = "fp32"
) -> Optimizers:
    """The optimizers of a module's parameters; matrices and embeddings decay, the rest do not.

    Parameters that do not require gradients are left out. Muon's products are in `precision`.
    """
    by_muon = _hidden_matrices(module) if config.matrices == "muon" else []
    taken = {id(parameter) for parameter in by_muon}
    rest = [p for p in module.parameters() if p.requires_grad and id(p) not in taken]
    groups = [
        {"params": [p for p in rest if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in rest if p.ndim < 2], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(
        groups,
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    if not by_muon:
        return Optimizers(adamw)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    muon = Muon(by_muon, config.matrix_learning_rate, config.weight_decay, dtype)
    return Optimizers(adamw, muon)


def _hidden_matrices(module: nn.Module) -> list[nn.Parameter]:
    """Weights of linear layers that turn vectors into vectors: a classifier's few rows do not."""
    linear = {f"{name}.weight" for name, m in module.named_modules() if isinstance(m, nn.Linear)}
    return [
        parameter
        for name, parameter in module.named_parameters()
        if name in linear and parameter.requires_grad and min(parameter.shape) >= 16
    ]


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale gradients down to a global norm of `most` (0: never); the norm as it was.

    Gradients that are not finite are left as they are: the norm shows them.
    """
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    norm = float(whole(torch.nn.utils.get_total_norm(gradients)))
    if most and most < norm < float("inf"):
        torch._foreach_mul_(gradients, most / norm)
    return norm
