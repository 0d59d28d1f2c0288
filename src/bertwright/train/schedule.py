"""The length of a run, and the learning rate over it.

Linear warm-up and decay are BERT's (Devlin et al. 2019, appendix A.2). The inverse square root is
the Transformer's (Vaswani et al. 2017, equation 3); its peak is the configured rate. Slanted
triangles are ULMFiT's (Howard & Ruder 2018, equation 3). A run's length is given in steps or
seconds; either way the rate is a function of the fraction of the run that is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertwright.config.run import ScheduleConfig


@dataclass(frozen=True)
class Budget:
    """The length of a run: a number of steps, seconds of wall-clock time, or whichever of the two
    ends first.
    """

    steps: int | None = None
    seconds: float | None = None

    def done(self, step: int, seconds: float) -> float:
        """Return the fraction of the run before step `step` (from 0), which begins after
        `seconds`.
        """
        of_steps = 0.0 if self.steps is None else step / self.steps
        if self.seconds is None:
            return of_steps
        if seconds >= self.seconds:  # also if there is no time at all
            return 1.0
        return max(of_steps, seconds / self.seconds)

    def left(self, step: int, seconds: float, since: tuple[int, float] = (0, 0.0)) -> float | None:
        """Return the seconds that are left after step `step`, which ended at `seconds`; None if
        unknown.

        `since` is the step and the second from which the rate is measured: it leaves out the
        preparation, and the time of an earlier session that may have run on another machine.
        """
        left = [] if self.seconds is None else [max(0.0, self.seconds - seconds)]
        done, taken = step - since[0], seconds - since[1]
        if self.steps is not None and done:
            left.append((self.steps - step) * taken / done)
        return min(left, default=None)


def rate_factor(config: ScheduleConfig, done: float, width: float) -> float:
    """Return the factor of the learning rate in pre-training, by the configured curve."""
    if config.curve == "slanted":
        return slanted_triangular(done, config.warmup)
    if config.curve == "inverse-sqrt":
        return inverse_square_root(done, config.warmup, width)
    return warmup_decay(done, config.warmup, width)


def warmup_decay(done: float, warmup: float, width: float = 0.0) -> float:
    """Return a factor that rises linearly from 0 to 1, then falls linearly to 0.

    `done` is the fraction of the run before the step, and `warmup` that in which the factor rises.
    One step is a fraction `width` of the run, so that neither the first nor the last has rate 0.
    """
    if done < warmup:
        return min(1.0, (done + width) / warmup)
    return max(0.0, (1 - done) / (1 - warmup))


def inverse_square_root(done: float, warmup: float, width: float = 0.0) -> float:
    """Return a factor that rises linearly during the warm-up, then falls as 1 / sqrt(step)."""
    now = done + width
    return min(now / warmup, (warmup / now) ** 0.5) if now else 0.0


def slanted_triangular(done: float, cut: float = 0.1, ratio: float = 32.0) -> float:
    """Return a factor that rises quickly from 1/`ratio` to 1, then falls slowly back.

    `done` is the fraction of the run before the step, and `cut` that in which the factor rises.
    """
    p = done / cut if done < cut else 1 - (done - cut) / (1 - cut)
    return (1 + p * (ratio - 1)) / ratio


def without_bias_correction(step: int, beta1: float = 0.9, beta2: float = 0.999) -> float:
    """Return the factor that undoes AdamW's bias correction in its step `step`, from 1.

    Adam divides its two moments by `1 - beta ** step` (Kingma & Ba 2015, section 3). BERT's
    original optimizer did not, so its first steps were up to three times as long.
    """
    return float((1 - beta1**step) / (1 - beta2**step) ** 0.5)
