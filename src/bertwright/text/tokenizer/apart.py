"""Run the regular expressions of a `tokenizer.json` in a process of their own, with a deadline.

An expression may need time that grows with the square of the text, or faster: `(?:(?:a+)+)+b` takes
a millisecond on a line and days on a million times "a". The checks at loading (`safety.py`) find
only those that are slow on a short text, and a thread that runs one cannot be stopped. A process
can: it is killed at the deadline, the text is an error, and the next call starts another.

A server does this for tokenizers that bring expressions (`Tokenizer.limit_time`). Those of BERT,
of byte-level BPE and of SentencePiece bring none, and run in the server itself.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import tokenizers

from bertwright.errors import DataError

SECONDS = 1.0
"""The time limit of a call, beside that of its characters."""
RATE = 200_000
"""Characters a second, a tenth of what the expressions of published tokenizers reach."""
START_SECONDS = 60.0
"""The time limit for the start of the process, which imports `tokenizers` and reads the rules."""


class TooSlow(DataError):
    """A text that a tokenizer does not read within the deadline. The message has no text."""


class Encoded(NamedTuple):
    """What is used of an encoding of `tokenizers`."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]


def brings_expressions(description: Mapping[str, Any]) -> bool:
    """Return whether the rules of a `tokenizer.json` have regular expressions of their own."""
    rules = [description[name] for name in ("normalizer", "pre_tokenizer", "decoder")]
    return any(_has_expression(rule) for rule in rules)


def _has_expression(rule: Any) -> bool:
    if isinstance(rule, dict):
        return "Regex" in rule or any(map(_has_expression, rule.values()))
    return isinstance(rule, list) and any(map(_has_expression, rule))


class TokenizerProcess:
    """A process that runs the rules of one tokenizer. Threads take turns."""

    def __init__(self, backend: str) -> None:
        """Take the rules, a `tokenizer.json`; the process starts with the first call."""
        self._backend = backend
        self._turn = threading.Lock()
        self._calls: Connection | None = None
        self._process: BaseProcess | None = None
        self._closed = False

    def encode_batch(self, texts: Sequence[str], recognize: bool) -> list[Encoded]:
        """Return the encodings of texts without added tokens.

        Args:
            texts: the texts.
            recognize: whether special tokens written in a text are recognized.

        Raises:
            DataError: the rules fail, or take too long (`TooSlow`).
        """
        found = self._call("encode", sum(map(len, texts)), list(texts), recognize)
        return [Encoded(*each) for each in found]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool) -> str:
        """Return the text of ids; errors are those of `encode_batch`."""
        return str(self._call("decode", 8 * len(ids), list(ids), skip_special_tokens))

    def interrupt(self, for_good: bool = False) -> None:
        """End the call that is under way in another thread, as if its time were over.

        Args:
            for_good: whether calls that wait, and all later ones, end so too.
        """
        self._closed = self._closed or for_good
        if self._process is not None:
            self._process.kill()

    def _call(self, name: str, characters: int, *args: Any) -> Any:
        seconds = SECONDS + characters / RATE
        with self._turn:
            if self._closed:
                raise TooSlow("the tokenizer has ended")
            calls = self._started()
            try:
                calls.send((name, seconds, args))
                if not calls.poll(seconds):
                    raise EOFError
                failure, outcome = calls.recv()
            except (EOFError, OSError) as error:
                self._end()
                raise TooSlow(
                    f"a text took more than {seconds:.1f} seconds: the regular expressions in "
                    "tokenizer.json are too slow for it"
                ) from error
        if failure:
            raise DataError(f"the tokenizer failed on a text ({failure})")
        return outcome

    def _started(self) -> Connection:
        """Return the connection to the process, which is started if there is none."""
        if self._calls is None:
            context = multiprocessing.get_context("spawn")
            self._calls, other = context.Pipe()
            self._process = context.Process(
                target=_answer, args=(other, self._backend), daemon=True, name="tokenizer"
            )
            self._process.start()
            other.close()
            weakref.finalize(self, self._process.kill)
            if not self._calls.poll(START_SECONDS):
                self._end()
                raise DataError("the process of the tokenizer did not start")
            self._calls.recv()
        return self._calls

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._calls is not None:
            self._calls.close()
        self._calls = self._process = None


def _answer(calls: Connection, backend: str) -> None:
    """Run calls until the connection ends. Each has a timer, at which the system ends the process:
    so none goes on whose parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    recognizing = tokenizers.Tokenizer.from_str(backend)
    reading_all = tokenizers.Tokenizer.from_str(backend)
    reading_all.encode_special_tokens = True
    calls.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            name, seconds, args = calls.recv()
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 2 * seconds)
            failure: str = ""
            outcome: Any = None
            try:
                if name == "decode":
                    ids, skip = args
                    outcome = recognizing.decode(ids, skip_special_tokens=skip)
                else:
                    texts, recognize = args
                    rules = recognizing if recognize else reading_all
                    found = rules.encode_batch(texts, add_special_tokens=False)
                    outcome = [(each.ids, each.offsets, each.word_ids) for each in found]
            except BaseException as error:  # a panic of Rust is no `Exception`
                failure = type(error).__name__
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0)
            calls.send((failure, outcome))
