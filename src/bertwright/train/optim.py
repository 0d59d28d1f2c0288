"""Make the optimizers of a run (AdamW, or Muon for the matrices), and clip gradients.

BERT was trained with AdamW (Kingma & Ba 2015; Loshchilov & Hutter 2019); it is PyTorch's, with bias
correction. With Muon (`train/muon.py`), embeddings, norms and biases are still trained with AdamW.
Lower layers may have lower learning rates (Howard & Ruder 2018, section 3.1: discriminative
fine-tuning).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

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
                return cast(dict[str, Any], part.state[parameter])
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
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    matrices = _hidden_matrices(module) & trained.keys() if config.matrices == "muon" else set()
    factors = _factors(module, config.layer_decay)

    def groups(names: Iterable[str], rate: float) -> list[dict[str, Any]]:
        rates = ((trained[name], rate * factors[name]) for name in names)
        return parameter_groups(rates, config.weight_decay)

    adamw = torch.optim.AdamW(
        groups([name for name in trained if name not in matrices], config.learning_rate),
        betas=(config.beta1, config.beta2),
        eps=config.eps,
        fused=True,
    )
    if not matrices:
        return Optimizers(adamw)
    rate = config.matrix_learning_rate
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    of_muon = groups([name for name in trained if name in matrices], rate)
    return Optimizers(adamw, Muon(of_muon, rate, config.weight_decay, dtype))


def parameter_groups(
    rates: Iterable[tuple[nn.Parameter, float]], weight_decay: float
) -> list[dict[str, Any]]:
    """Return an optimizer's groups of parameters, given each parameter's learning rate; lowest
    rates first. Weight decay applies to matrices and embeddings only.
    """
    grouped: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter, rate in rates:
        grouped.setdefault((rate, parameter.ndim >= 2), []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay if decays else 0.0}
        for (rate, decays), parameters in sorted(grouped.items(), key=lambda item: item[0])
    ]


def layer_factors(learner: Learner, layer_decay: float) -> dict[str, float]:
    """Return the factor of each parameter's learning rate, by its name (discriminative
    fine-tuning: Howard & Ruder 2018, section 3.1).

    It is `layer_decay ** (top - depth)`; depths are those of `Learner.depths`.
    """
    depth_of = learner.depths()
    top = max(depth_of.values())
    return {name: layer_decay ** (top - depth) for name, depth in depth_of.items()}


def _factors(module: nn.Module, layer_decay: float) -> dict[str, float]:
    """Return the factor of each parameter's learning rate in pre-training, by its name.

    The factor of token embeddings is 1, because output weights are tied to them.
    """
    if layer_decay == 1:
        return {name: 1.0 for name, _ in module.named_parameters()}
    assert isinstance(module, Learner)
    factors, table = layer_factors(module, layer_decay), module.encoder.token_embedding()
    for name, parameter in module.named_parameters():
        if table is not None and parameter is table.weight:
            factors[name] = 1.0
    return factors


def _hidden_matrices(module: nn.Module) -> set[str]:
    """Return the names of the weights of linear layers between hidden vectors. A classifier, with
    its few rows, is not one of them.
    """
    linear = {f"{name}.weight" for name, m in module.named_modules() if isinstance(m, nn.Linear)}
    return {name for name, p in module.named_parameters() if name in linear and min(p.shape) >= 16}


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
