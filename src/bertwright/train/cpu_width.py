"""Choose how many threads compute at once, so that training is fastest beside other processes.

A step waits for its slowest thread. Beside a busy process, two threads on two cores train half as
fast as one thread that has a core to itself (`benchmarks/beside_others.py`).

Measured speedups on two cores with bert-mini (`benchmarks/README.md`, "Beside other processes"),
together with additions by one thread, which were introduced at the same time: 1.02 on quiet cores;
1.26 beside one busy process, and 1.18 beside two; 1.87 beside one busy process of another session,
and 1.18 beside two that have a session each. By itself this was measured only beside a dozen
processes, with bert-tiny: 1.04.
"""

from __future__ import annotations

from collections.abc import Callable

from bertwright.progress import silent

BUSY = 0.8
"""If threads get less than this fraction of a core each, they share it with another process."""
GAIN = 1.05
"""The width is changed to another one only if that is faster by this factor."""
SECONDS, STEPS = 1.0, 2
"""A rate is measured over at least this many seconds and steps."""
WAIT, MOST_WAIT = 4, 64
"""The number of measurements between two trials; it doubles after each unsuccessful one."""


class Width:
    """The number of threads in use, `now`.

    Another number is tried when threads share their cores, and kept if it is faster. The results of
    the computation do not depend on it.
    """

    def __init__(self, most: int, say: Callable[[str], object] = silent) -> None:
        self.now = self.most = most
        self._say = say
        self._kept: tuple[int, float] | None = None
        """During a trial: the previous width, and its tokens per second."""
        self._left, self._wait = 0, WAIT
        self._restart()

    def _restart(self) -> None:
        self._steps, self._tokens, self._seconds, self._used = 0, 0, 0.0, 0.0

    def measure(self, tokens: int, seconds: float, used: float) -> None:
        """Record a step: its tokens, its seconds, and the `used` seconds of all cores."""
        self._steps += 1
        self._tokens += tokens
        self._seconds += seconds
        self._used += used
        if self._steps < STEPS or self._seconds < SECONDS:
            return
        rate, cores = self._tokens / self._seconds, self._used / self._seconds
        self._restart()
        if self._kept is not None:
            self._judge(rate)
        elif self._left:
            self._left -= 1
        elif self.now < self.most:
            self._try(self.now + 1, rate)
        elif cores < BUSY * self.now and self.now > 1:
            self._try(self.now - 1, rate)

    def _try(self, width: int, rate: float) -> None:
        self._kept, self.now = (self.now, rate), width

    def _judge(self, rate: float) -> None:
        assert self._kept is not None
        before, old = self._kept
        self._kept = None
        if rate > GAIN * old:
            self._wait = WAIT
            self._say(
                f"{self.now} of {self.most} threads compute from here on, beside other processes: "
                f"{rate:,.0f} tokens/s, {old:,.0f} with {before}"
            )
        else:
            self.now, self._wait = before, min(MOST_WAIT, 2 * self._wait)
        self._left = self._wait
