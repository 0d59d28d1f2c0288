"""The micro-batches of a step on a CPU: each core computes its own.

Threads that share a matrix product wait for each other at its end, hundreds of times per batch, and
so they all wait for a thread whose core is taken by another process. A thread that computes whole
micro-batches alone waits for no other thread: a training stays usable beside a browser.

The table shows the speed of training in tokens per second, relative to the plain step
(`Trainer.backward` in `train/loop.py`), whose micro-batch has all cores, on two processors with two
cores (`benchmarks/README.md`, "Beside other processes"):

| | bert-mini | bert-tiny |
|---|---|---|
| quiet cores | 1.04, 1.05 | 0.88, 0.97 |
| beside one busy process | 1.5, 1.7 | 1.1 |
| beside two busy processes | 1.3, 2.9 | 2.1 |

Weights are those of the plain step but for the order in which its gradients are added
(`tests/train/test_cpu_step.py`). They are added in the order of the micro-batches, so a step is
reproducible bit for bit, whatever the timing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertwright.cpu_threads import one_core_each, own_draws
from bertwright.nn.batch import Batch
from bertwright.nn.objective import EncodedBatch, Learner, Loss
from bertwright.train.hardware import Hardware
from bertwright.train.loss_sums import weighted
from bertwright.train.step_loss import share


@contextmanager
def open_cores(learner: Learner, hardware: Hardware) -> Iterator[Cores | None]:
    """Provide the cores of this computer for the micro-batches of a learner.

    None: the plain step is used, because there is one core, a GPU or several processes, or because
    the learner cannot be computed by several threads at once.
    """
    count = torch.get_num_threads()
    is_alone = hardware.ranks.world_size == 1 and hardware.device.type == "cpu"
    if count == 1 or not is_alone or not all(map(_may_run_beside, learner.modules())):
        yield None
        return
    with one_core_each(count) as pool:
        yield Cores(learner, hardware, count, pool)


@dataclass(frozen=True)
class Cores:
    """Computes the micro-batches of a step at the same time, one on each core."""

    learner: Learner
    hardware: Hardware
    count: int
    pool: ThreadPoolExecutor
    """A thread for each core, in which torch uses one core."""

    def backward(
        self, batches: Sequence[Batch], weights: dict[str, float], seed_of: Callable[[int], int]
    ) -> Iterator[dict[str, Loss]]:
        """Yield the losses of each micro-batch, as `Trainer.backward` does."""
        parameters = [p for p in self.learner.parameters() if p.requires_grad]
        threads = max(1, self.count // len(batches))
        numbers = range(len(batches))
        objective = self.learner.step_objective(batches[0])
        # Where each micro-batch has a core, all are in memory anyway, and are encoded only once.
        encodes_once = objective is not None and len(batches) <= self.count
        encoded: list[tuple[EncodedBatch, dict[str, Loss]]] = []

        def encode(number: int) -> tuple[EncodedBatch, dict[str, Loss]]:
            torch.set_num_threads(threads)
            with (
                torch.set_grad_enabled(encodes_once),
                own_draws(seed_of(number)),
                self.hardware.autocast(),
            ):
                found = self.learner.encoded(batches[number])
                return found, found.other_losses() if encodes_once else {}

        def gradients_of(number: int) -> tuple[dict[str, Loss], Sequence[Tensor | None]]:
            torch.set_num_threads(threads)
            losses: dict[str, Loss]
            with own_draws(seed_of(number)), self.hardware.autocast():
                if encodes_once:
                    once, others = encoded[number]
                    losses = once.losses(others, batches[number].share)
                else:
                    losses = self.learner(batches[number])
            total = weighted(losses, weights)
            return losses, torch.autograd.grad(total, parameters, allow_unused=True)

        if objective is not None:
            encoded = list(self.pool.map(encode, numbers))
            vectors = [each.vectors.detach() for each, _ in encoded if each.vectors is not None]
            if not encodes_once:
                encoded = []
            batches = share(objective, batches, vectors, self.hardware.ranks)
        for losses, gradients in self.pool.map(gradients_of, numbers):
            add_gradients(parameters, gradients)
            yield losses


def _may_run_beside(module: nn.Module) -> bool:
    """Return whether several threads may compute this module at the same time.

    PyTorch's LSTM draws its dropout from the generator that all threads share, and a compiled
    module is made for one thread.
    """
    draws = isinstance(module, nn.RNNBase) and module.dropout > 0
    return not draws and module._compiled_call_impl is None


def add_gradients(parameters: Iterable[nn.Parameter], gradients: Iterable[Tensor | None]) -> None:
    """Add to each parameter's gradient; None adds nothing."""
    ours, theirs, first = [], [], set()
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        if parameter.grad is not None:
            ours.append(parameter.grad)
            theirs.append(gradient)
        elif gradient.is_contiguous() and gradient.data_ptr() not in first:
            parameter.grad = gradient
            first.add(gradient.data_ptr())
        else:  # autograd may return the same tensor for two parameters
            parameter.grad = gradient.clone(memory_format=torch.contiguous_format)
    if ours:
        torch._foreach_add_(ours, theirs)
