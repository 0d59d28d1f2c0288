"""Continuous batching of the texts of many requests (Yu et al. 2022, Orca).

One step of the decoder generates a token for each running text. Between steps, texts that have
ended leave and prompts join; the requests that wait take turns in adding a prompt. A long prompt is
read in parts, one part between two steps, so that the running texts do not wait for the whole
prompt (chunked prefill: Agrawal et al. 2023, SARATHI). Several long prompts take turns.

A turn of the device consists of several steps. Turns alternate with the batches of other requests
(`Batcher.turn`). A turn ends when a text has ended or a request has arrived, or with the step
during which its time (`TURN`) has passed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from bertwright.config.generation import GenerationConfig
from bertwright.decoding.search import BeamSteps, Row, RowsInFlight
from bertwright.decoding.texts import GrowingText
from bertwright.serve.engine.batching import Batcher
from bertwright.serve.errors import HttpError, busy, unavailable

TURN = 0.025
"""Seconds after which a turn begins no further step."""
ROWS = 32
"""The number of running texts or beams beyond which no further prompt joins."""
TOKENS = 16384
"""The bound of the running texts times the tokens of the longest, which limits the memory for what
is kept of each text (a KV cache)."""


@dataclass(eq=False)
class Text(GrowingText):
    """A text that is generated for a request."""

    streams: bool = False
    score: float | None = None
    """The score of a hypothesis of beam search; None without beam search."""
    new: str = ""
    """Text that was written but not yet delivered."""
    delivered: int = 0
    """The number of its tokens that were delivered."""
    ended: bool = False
    """Whether its end was delivered."""

    def go_on(self) -> None:
        """Add to `new` the text that can be emitted after the last step.

        Without streaming and stop strings, this is left until the text has ended.
        """
        if self.streams or self.config.stop or self.reason is not None:
            self.new += self.write()


@dataclass(eq=False)
class PromptTexts:
    """A prompt and the texts that continue it."""

    number: int
    """The number of the prompt in its request."""
    ids: list[int]
    texts: list[Text]
    failed: bool = False

    @property
    def rows(self) -> int:
        """The number of rows of the decoder: one for each text, or for each beam."""
        return max(len(self.texts), self.texts[0].config.beam)

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text together with the prompt."""
        return len(self.ids) + max(text.limit for text in self.texts)

    @property
    def tokens(self) -> int:
        """The maximum number of tokens of the prompt and all its rows."""
        return len(self.ids) + self.rows * self.texts[0].limit


@dataclass(frozen=True)
class PromptInParts:
    """A long prompt that is being read in parts."""

    prompt: PromptTexts
    parts: Iterator[None]
    """Reads a part at each `next`, and ends with the last one."""


@dataclass(frozen=True)
class Piece:
    """What was generated of a text since its last piece."""

    prompt: int
    number: int
    """The number of the text among those of its prompt."""
    text: str
    ids: list[int]
    reason: Literal["stop", "length"] | None
    score: float | None = None


class Generation:
    """The texts of one request."""

    def __init__(
        self, prompts: Sequence[PromptTexts], begin: float, end: float, gone: Callable[[], bool]
    ) -> None:
        """Make the prompts of the request wait.

        Args:
            prompts: the prompts.
            begin: the time of the monotonic clock by which the generation must begin.
            end: the time by which it must end.
            gone: returns whether the client has left.
        """
        self.tokens = sum(prompt.tokens for prompt in prompts)
        self.begin_by, self.end_by, self.gone = begin, end, gone
        self.waiting = deque(prompts)
        self.running: list[PromptTexts] = []
        self.begun = self.over = False
        self._made: list[Piece] = []
        self._error: HttpError | None = None
        self._news = asyncio.Event()

    async def more(self) -> list[Piece]:
        """Wait for pieces and return those since the last call; none if all texts have ended.

        Raises:
            HttpError: 499, the client left; 503, the texts could not be generated to the end.
        """
        await self._news.wait()
        found, self._made = self._made, []
        if not self.over:
            self._news.clear()
        elif not found and self._error is not None:
            raise self._error
        return found

    def deliver(self) -> int:
        """Make pieces of what the last turn generated, and return the number of their tokens."""
        count = 0
        for prompt in self.running:
            if prompt.failed:
                self.end(unavailable("this could not be computed; try again", "failed"))
                return count
            for number, text in enumerate(prompt.texts):
                if text.ended or not (text.reason or (text.streams and text.new)):
                    continue
                since, text.delivered = text.delivered, len(text.ids)
                count += text.delivered - since
                made = text.new, text.ids[since:], text.reason, text.score
                self._made.append(Piece(prompt.number, number, *made))
                self._news.set()
                text.new, text.ended = "", text.reason is not None
        self.running = [each for each in self.running if not all(t.ended for t in each.texts)]
        if not (self.running or self.waiting):
            self.end()
        return count

    def end(self, error: HttpError | None = None) -> None:
        """End the request, whose running texts leave at the next step; `more` raises the error."""
        if self.over:
            return
        self.over, self._error = True, error
        self._news.set()
        for prompt in self.running:
            for text in prompt.texts:
                text.reason = text.reason or "stop"


BeginSearch = Callable[[Sequence[list[int]], Sequence[int], GenerationConfig], BeamSteps]
"""Takes sources, longest first, the maximum number of tokens of a text of each, and settings, and
returns a search."""


class Searches:
    """Beam searches side by side, with the same interface as `RowsInFlight`.

    Prompts that begin together and have the same settings are one search.
    """

    def __init__(self, begin: BeginSearch) -> None:
        self._begin_search = begin
        self._going: list[tuple[list[list[Text]], BeamSteps]] = []
        self.rows: list[Row] = []
        """The texts that are searched for: one for each prompt, or its best several."""

    def __len__(self) -> int:
        return sum(row.reason is None for row in self.rows)

    def add(self, source: Sequence[list[int]], rows: Sequence[Sequence[Row]]) -> None:
        """Begin to search for the texts of prompts."""
        prompts: dict[GenerationConfig, list[int]] = {}
        for number in sorted(range(len(source)), key=lambda number: -len(source[number])):
            prompts.setdefault(rows[number][0].config, []).append(number)
        begun: list[tuple[list[list[Text]], BeamSteps]] = []
        for config, numbers in prompts.items():
            texts = [[row for row in rows[n] if isinstance(row, Text)] for n in numbers]
            limits = [own[0].limit for own in texts]
            steps = self._begin_search([source[n] for n in numbers], limits, config)
            next(steps)  # reads the prompts
            begun.append((texts, steps))
        self._going += begun
        self.rows += [text for texts, _ in begun for own in texts for text in own]

    def step(self) -> list[Row]:
        """Run a step of each search, and return the texts that had not ended before it."""
        self.rows = [row for row in self.rows if row.reason is None]
        for texts, steps in self._going:
            for number, found in next(steps, None) or ():
                for text, best in zip_longest(texts[number], found[: len(texts[number])]):
                    if text.reason is not None:  # its client has left
                        continue
                    if best is None:  # with a tiny vocabulary there may be fewer hypotheses
                        text.reason, text.ended = "stop", True
                        continue
                    text.ids, text.score, text.reason = best.ids, best.score, best.reason
        self._going = [
            each for each in self._going if not all(t.reason for own in each[0] for t in own)
        ]
        return self.rows


class Flight:
    """Generates the texts of many requests by one decoder."""

    def __init__(
        self,
        make_rows: Callable[[], RowsInFlight | Searches],
        batcher: Batcher,
        on_tokens: Callable[[int], None],
        memory: int | None = TOKENS,
    ) -> None:
        """Begin without requests.

        Args:
            make_rows: returns the rows or searches that generate; called again after a failure.
            batcher: the queue before the device, which gives turns. The prompts that join in one
                turn have at most `batch_tokens` tokens, where a long prompt counts as one part. All
                requests have at most `queue_tokens` tokens, including those of the texts that they
                may get.
            on_tokens: called with the number of tokens that were generated.
            memory: the bound of the running texts times the tokens of the longest; None: no bound,
                as what the model keeps of a text has the same size for every length.
        """
        self._memory = memory
        self._make_rows, self._batcher, self._on_tokens = make_rows, batcher, on_tokens
        self._rows = make_rows()
        self._reading: deque[PromptInParts] = deque()
        self._part = max(1, batcher.batch_tokens // 2)
        """The tokens of a part of a long prompt: 512 on a CPU, unless `--batch-tokens` is given."""
        self._generations: list[Generation] = []
        self._arrived = False
        self._task: asyncio.Task[None] | None = None

    def add(self, generation: Generation) -> None:
        """Add a request, which then awaits its texts by `Generation.more`.

        Raises:
            HttpError: too many tokens wait.
        """
        tokens = sum(each.tokens for each in self._generations)
        if tokens and tokens + generation.tokens > self._batcher.queue_tokens:
            raise busy("too many tokens wait to be generated; try again")
        self._generations.append(generation)
        self._arrived = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._fly())

    async def _fly(self) -> None:
        """Take turns until all texts have ended."""
        try:
            while True:
                joining = self._join()
                if not (joining or any(each.running for each in self._generations)):
                    return
                self._arrived = False
                try:
                    await self._batcher.turn(self, joining)
                except HttpError as error:
                    self._start_anew()
                    for each in self._generations:
                        if each.running or error.code != "failed":
                            each.end(error)
                made = sum(each.deliver() for each in self._generations if not each.over)
                self._on_tokens(made)
                joining = []
        finally:
            self._task = None
            if self._rows.rows or self._reading:  # of clients that have left
                self._start_anew()

    def _start_anew(self) -> None:
        """Discard all running texts, and all prompts that are being read."""
        self._rows = self._make_rows()
        self._reading.clear()

    def _join(self) -> list[PromptTexts]:
        """Return the prompts that join in the next turn, and remove the requests that are over.

        Prompts join while there is room for them. The requests take turns in adding a prompt.
        """
        now = time.monotonic()
        for each in self._generations:
            self._drop(each, now, looks=bool(each.running))
        joining: list[PromptTexts] = []
        going = [each for each in self._generations if not each.over]
        running = [prompt for each in going for prompt in each.running]
        rows = sum(prompt.rows for prompt in running)
        longest, read = max((prompt.longest for prompt in running), default=0), 0
        queue = deque(each for each in going if each.waiting)
        while queue:
            first = queue.popleft()
            prompt = first.waiting[0]
            rows += prompt.rows
            longest, own = max(longest, prompt.longest), min(len(prompt.ids), self._part)
            read += own
            full = rows > ROWS or (self._memory is not None and rows * longest > self._memory)
            if (running and full) or (joining and read > self._batcher.batch_tokens):
                break
            self._drop(first, now, looks=not first.running)
            if first.over:
                rows, read = rows - prompt.rows, read - own
                continue
            first.begun = True
            first.running.append(first.waiting.popleft())
            joining.append(prompt)
            running.append(prompt)
            self._generations.remove(first)
            self._generations.append(first)  # the other requests come first now
            if first.waiting:
                queue.append(first)
        self._generations = [each for each in self._generations if not each.over]
        return joining

    def _drop(self, generation: Generation, now: float, looks: bool) -> None:
        """End a request whose deadline has passed or, if `looks` is set, whose client has left."""
        if generation.over:
            return
        if now > (generation.end_by if generation.begun else generation.begin_by):
            self._batcher.on_dropped("deadline")
            generation.end(unavailable("it took longer than its deadline", "deadline"))
        elif looks and generation.gone():
            self._batcher.on_dropped("gone")
            generation.end(HttpError(499, "gone", "the client left"))

    def run(self, items: Sequence[list[PromptTexts]]) -> list[None]:
        """Run a turn in a thread of the device: add these prompts, and continue running texts."""
        for joining in items:
            self._begin(joining)
        end, goes_on = time.monotonic() + TURN, True
        while goes_on and (len(self._rows) or self._reading):
            self._read_part()
            rows = self._rows.step()
            for row in rows:
                assert isinstance(row, Text)
                row.go_on()
            ended = any(row.reason is not None for row in rows)
            goes_on = not (ended or self._arrived) and time.monotonic() < end
        if not len(self._rows):
            self._rows.step()  # frees what was kept of the last texts
        return [None] * len(items)

    def _begin(self, prompts: list[PromptTexts]) -> None:
        """Read the short ones of these prompts, and queue the long ones to be read in parts."""
        short = []
        for prompt in prompts:
            if (
                len(prompt.ids) > self._part
                and isinstance(self._rows, RowsInFlight)
                and self._rows.reads_parts
            ):
                parts = self._rows.add_in_parts(prompt.ids, prompt.texts, self._part)
                self._reading.append(PromptInParts(prompt, parts))
            else:
                short.append(prompt)
        self._read(short)

    def _read(self, prompts: list[PromptTexts]) -> None:
        """Read prompts together; if that fails, read each alone to find those that fail."""
        if not prompts:
            return
        try:
            self._rows.add([prompt.ids for prompt in prompts], [prompt.texts for prompt in prompts])
        except Exception:
            if len(prompts) > 1:
                for prompt in prompts:
                    self._read([prompt])
            else:
                prompts[0].failed = True

    def _read_part(self) -> None:
        """Read a part of the long prompt whose turn it is, and put it behind the others."""
        if not self._reading:
            return
        first = self._reading.popleft()
        if all(text.reason for text in first.prompt.texts):  # its client has left
            return
        try:
            is_read = next(first.parts, True)
        except Exception:
            first.prompt.failed = True
            return
        if not is_read:
            self._reading.append(first)
