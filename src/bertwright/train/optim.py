"""Make the optimizers of a run (AdamW, or Muon for the matrices), and clip gradients.

BERT was trained with AdamW (Kingma & Ba 2015; Loshchilov & Hutter 2019); it is PyTorch's, with bias
correction. With Muon (`train/muon.py`), embeddings, norms and biases are still trained with AdamW.
Lower layers may have lower learning rates (Howard & Ruder 2018, section 3.1: discriminative
fine-tuning).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.run import OptimizerConfig
from bertwright.nn.objective import Learner
from bertwright.train.distributed import whole
from bertwright.train.hardware import Precision
from bertwright.train.muon import Muon


class Optimizers:
    """One or two optimizers of disjoint parameters, used as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        for part in parts:
            for group in part.param_groups:
                group["highest"] = group["lr"]

    def set_rates(self, factor: float) -> None:
        """Set every group's learning rate to `factor` times its highest rate."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = group["highest"] * factor

    def step(self, good: Tensor | None = None) -> None:
        """Update the parameters with their gradients.

        `good` is a scalar on the device that says whether to do this step; the host does not wait
        for it. None: do it.
        """
        found_inf = None if good is None else (~good).float()
        for part in self.parts:
            # AdamW's fused kernel reads this attribute, which `torch.amp.GradScaler` also sets.
            part.found_inf = found_inf  # type: ignore[attr-defined]
            part.step()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for part in self.parts:
            part.zero_grad()

    def state_of(self, parameter: nn.Parameter) -> dict[str, Any]:
        """Return the optimizer's state of a parameter: its moments and, for AdamW, its number of
        steps.
        """
        for part in self.parts:
            if parameter in part.state:
                state: dict[str, Any] = part.state[parameter]
                return state
        return {}

    def set_state(self, parameter: nn.Parameter, state: dict[str, Any]) -> None:
        """Restore the state of a parameter that `state_of` returned."""
        for part in self.parts:
            for group in part.param_groups:
                if any(parameter is other for other in group["params"]):
                    part.state[parameter] = state


def make_optimizers(
    module: nn.Module, config: OptimizerConfig, precision: Precision = "fp32"
) -> Optimizers:
    """Return the optimizers of a module's parameters. Weight decay applies to matrices and
    embeddings only.

    Parameters that do not require gradients are left out. Muon's products have the given
    `precision`. A layer decay needs a `Learner`.
    """
    by_muon = _hidden_matrices(module) if config.matrices == "muon" else []
    taken = {id(parameter) for parameter in by_muon}
    rest = [p for p in module.parameters() if p.requires_grad and id(p) not in taken]
    factors = _factors(module, config.layer_decay)
    rates = ((p, config.learning_rate * factors[id(p)]) for p in rest)
    groups = parameter_groups(rates, config.weight_decay)
    betas = config.beta1, config.beta2
    adamw = torch.optim.AdamW(groups, betas=betas, eps=config.eps, fused=True)
    if not by_muon:
        return Optimizers(adamw)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    rate = config.matrix_learning_rate
    matrix_groups = parameter_groups(
        ((p, rate * factors[id(p)]) for p in by_muon), config.weight_decay
    )
    return Optimizers(adamw, Muon(matrix_groups, rate, config.weight_decay, dtype))


def parameter_groups(
    rates: Iterable[tuple[nn.Parameter, float]], weight_decay: float
) -> list[dict[str, Any]]:
    """Group parameters by learning rate, lowest first. Weight decay applies to matrices and
    embeddings only.

    Args:
        rates: each parameter and its learning rate.
        weight_decay: the weight decay of matrices and embeddings.

    Returns:
        Groups for an optimizer, with `params`, `lr` and `weight_decay`.
    """
    grouped: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter, rate in rates:
        grouped.setdefault((rate, parameter.ndim >= 2), []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay if decays else 0.0}
        for (rate, decays), parameters in sorted(grouped.items(), key=lambda item: item[0])
    ]


def _factors(module: nn.Module, layer_decay: float) -> dict[int, float]:
    """Return the factor of each parameter's learning rate, by its id.

    The factor of token embeddings is 1, because output weights are tied to them.
    """
    if layer_decay == 1:
        return {id(parameter): 1.0 for parameter in module.parameters()}
    assert isinstance(module, Learner)
    depth_of, table = module.depths(), module.encoder.token_embedding()
    top = max(depth_of.values())
    factors = {
        id(parameter): layer_decay ** (top - depth_of[name])
        for name, parameter in module.named_parameters()
    }
    return factors | ({} if table is None else {id(table.weight): 1.0})


def _hidden_matrices(module: nn.Module) -> list[nn.Parameter]:
    """Return the weights of linear layers between hidden vectors. A classifier, with its few rows,
    is not one of them.
    """
    linear = {f"{name}.weight" for name, m in module.named_modules() if isinstance(m, nn.Linear)}
    return [
        parameter
        for name, parameter in module.named_parameters()
        if name in linear and parameter.requires_grad and min(parameter.shape) >= 16
    ]


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> float:
    """Scale gradients down to a global norm of `most` (0: never), and return the norm before
    clipping.

    Gradients that are not finite are left as they are; the norm shows them.
    """
    gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
    norm = float(whole(torch.nn.utils.get_total_norm(gradients)))
    if most and most < norm < float("inf"):
        torch._foreach_mul_(gradients, most / norm)
    return norm
