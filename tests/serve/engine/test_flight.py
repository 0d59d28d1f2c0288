"""Texts of many requests side by side: who joins when, who leaves, and what becomes of failures.

The decoder counts: after the token n comes n + 1, and the last one of the vocabulary ends a text.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.decoding.search import Row, RowsInFlight
from bertwright.inference.generate import rows_in_flight
from bertwright.inference.model import Model, load
from bertwright.nn.last_tokens import LastTokens
from bertwright.serve.engine.batching import FAILURES, Batcher, QueuedItem
from bertwright.serve.engine.generation import flight as flights
from bertwright.serve.engine.generation.flight import Flight, Generation, Piece, PromptTexts, Text
from bertwright.serve.errors import HttpError
from tests import small_bert
from tests.serve.conftest import GPT

V, BAD = 26, 20
LETTERS = cast(Any, SimpleNamespace(decode=lambda ids: "".join(chr(97 + n) for n in ids)))


class Counting:
    """A decoder whose state is the last token of each row."""

    def __init__(self) -> None:
        self.broken = False

    def begin(self, source: list[list[int]]) -> tuple[Tensor, LastTokens]:
        last = torch.tensor([ids[-1] for ids in source])
        if BAD in last.tolist():
            raise ValueError("a secret text")
        return self.logits(last), LastTokens(last)

    def advance(self, ids: Tensor, state: LastTokens) -> tuple[Tensor, LastTokens]:
        if self.broken:
            raise MemoryError
        return self.logits(ids), LastTokens(ids)

    def logits(self, last: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((last + 1) % V, V).float()


class Device:
    """Notes the turns and batches, in order; a batch is what is no flight's."""

    def __init__(self) -> None:
        self.order: list[Any] = []
        self.during: Callable[[], None] = lambda: None

    def __call__(self, model: Any, items: Sequence[Any], at_once: int) -> list[Any]:
        self.during()
        if isinstance(model, Flight):
            self.order.append("turn")
            return list(model.run(items))
        self.order.append(list(items))
        return list(items)


class Place:
    """A flight over a device of its own."""

    def __init__(self, **settings: Any) -> None:
        self.device, self.decoder = Device(), Counting()
        self.batcher = Batcher(self.device, 100, 1000, 50, **settings)
        self.dropped: list[str] = []
        self.tokens = 0
        self.batcher.on_dropped = self.dropped.append
        make_rows = partial(RowsInFlight, self.decoder, {V - 1})
        self.flight = Flight(make_rows, self.batcher, self.count)

    def count(self, tokens: int) -> None:
        self.tokens += tokens

    def add(
        self,
        prompts: str,
        limit: int = 40,
        begin: float = 30,
        end: float = 30,
        gone: Callable[[], bool] = lambda: False,
        streams: bool = False,
    ) -> Generation:
        """A request with a prompt a letter."""
        made = []
        for number, letter in enumerate(prompts):
            ids, config = [ord(letter) - 97], GenerationConfig()
            text = Text(config, limit, ids, tokenizer=LETTERS, streams=streams)
            made.append(PromptTexts(number, ids, [text]))
        now = time.monotonic()
        generation = Generation(made, now + begin, now + end, gone)
        self.flight.add(generation)
        return generation


def run(
    test: Callable[[Place], Awaitable[None]],
    rows: int = flights.ROWS,
    turn: float = flights.TURN,
    **settings: Any,
) -> Place:
    """A test over a place with room for so many rows; in a turn of 0 seconds there is one step."""

    async def main() -> Place:
        place = Place(**settings)
        try:
            await asyncio.wait_for(test(place), 20)
        finally:
            place.batcher.stop()
        return place

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flights, "ROWS", rows)
        patch.setattr(flights, "TURN", turn)
        return asyncio.run(main())


async def texts_of(generation: Generation) -> dict[int, str]:
    found: dict[int, str] = {}
    while more := await generation.more():
        for piece in more:
            found[piece.prompt] = found.get(piece.prompt, "") + piece.text
    return found


async def error_of(generation: Generation) -> HttpError:
    with pytest.raises(HttpError) as error:
        await texts_of(generation)
    return error.value


def test_all_texts_come() -> None:
    async def test(place: Place) -> None:
        asked = [place.add(each) for each in ("abc", "x", "wvwvw", "m")]
        found = await asyncio.gather(*map(texts_of, asked))
        assert found[0] == {n: "abcdefghijklmnopqrstuvwxy"[n + 1 :] for n in range(3)}
        assert found[1:] == [
            {0: "y"},
            {0: "xy", 1: "wxy", 2: "xy", 3: "wxy", 4: "xy"},
            {0: "nopqrstuvwxy"},
        ]
        assert place.tokens == sum(len(text) for each in found for text in each.values())

    run(test, rows=3)


def test_turns_and_batches_alternate() -> None:
    async def test(place: Place) -> None:
        def compute(model: Any, items: Sequence[Any], at_once: int) -> list[Any]:
            while not isinstance(model, Flight) and not place.batcher.turns:
                time.sleep(0.001)  # a batch ends while the next turn waits
            return place.device(model, items, at_once)

        place.batcher.compute = compute
        going = asyncio.ensure_future(texts_of(place.add("a")))
        model = object()
        items = [QueuedItem(model, n, 100) for n in range(8)]  # each fills a batch
        await place.batcher.run(items, 30)
        assert not going.done()
        await going

    order = run(test, turn=0.0).device.order
    assert order.count("turn") == 25
    first, last = order.index([0]), order.index([7])
    between = order[first : last + 1]
    assert between == [each for n in range(7) for each in ([n], "turn")] + [[7]]


def test_one_request_does_not_keep_others_waiting() -> None:
    async def test(place: Place) -> None:
        ended: list[str] = []

        async def wait(name: str, generation: Generation) -> None:
            await texts_of(generation)
            ended.append(name)

        asked = [
            ("many", place.add("aaaaaaaaaa")),
            ("one", place.add("a")),
            ("two", place.add("aa")),
        ]
        await asyncio.gather(*(wait(*each) for each in asked))
        assert ended == ["one", "two", "many"]

    run(test, rows=1, turn=0.0)


@pytest.mark.parametrize("memory", [50, None])
def test_a_long_text_keeps_others_waiting_only_for_memory(memory: int | None) -> None:
    async def test(place: Place) -> None:
        ended: list[str] = []
        place.flight._memory = memory

        async def wait(name: str, generation: Generation) -> None:
            await texts_of(generation)
            ended.append(name)

        long, short = place.add("a", limit=30), place.add("w", limit=30)
        await asyncio.gather(wait("long", long), wait("short", short))
        assert ended == (["long", "short"] if memory else ["short", "long"])

    run(test, turn=0.0)


def test_a_stream_comes_as_it_is_made() -> None:
    async def test(place: Place) -> None:
        generation, pieces = place.add("a", limit=6, streams=True), list[Piece]()
        while more := await generation.more():
            pieces += more
        assert len(pieces) > 3
        assert [n for piece in pieces for n in piece.ids] == [1, 2, 3, 4, 5, 6]
        assert "".join(piece.text for piece in pieces) == "bcdefg"
        assert [piece.reason for piece in pieces] == [None] * (len(pieces) - 1) + ["length"]

    run(test, turn=0.0)


def test_who_has_left_makes_room() -> None:
    async def test(place: Place) -> None:
        left = place.add("a", gone=lambda: place.tokens > 3, streams=True)
        waits = place.add("a", gone=lambda: True)
        other = place.add("x")
        assert (await error_of(left)).status == 499
        assert await texts_of(other) == {0: "y"}
        assert (await error_of(waits)).status == 499
        assert place.tokens < 10
        assert place.dropped == ["gone", "gone"]

    run(test, rows=1, turn=0.0)


def test_deadlines() -> None:
    async def test(place: Place) -> None:
        place.device.during = lambda: time.sleep(0.02)
        running, waiting = place.add("a", end=0.2), place.add("a", begin=0.1)
        for generation in (waiting, running):
            error = await error_of(generation)
            assert (error.status, error.code) == (503, "deadline")
        assert await texts_of(place.add("x")) == {0: "y"}

    assert run(test, rows=1, turn=0.0).dropped == ["deadline", "deadline"]


def test_a_prompt_that_fails_fails_alone() -> None:
    async def test(place: Place) -> None:
        bad = chr(97 + BAD)
        asked = [place.add("a"), place.add("x" + bad), place.add("v")]
        found = await asyncio.gather(*map(texts_of, asked), return_exceptions=True)
        assert isinstance(found[1], HttpError)
        assert (found[1].status, found[1].code) == (503, "failed")
        assert found[2] == {0: "wxy"}

    run(test)


def test_a_step_that_fails_fails_what_runs_and_the_next_is_served() -> None:
    failing: list[bool] = []

    async def test(place: Place) -> None:
        place.decoder.broken = True
        for _ in range(FAILURES - 1):
            assert (await error_of(place.add("a"))).code == "failed"
        place.decoder.broken = False
        assert await texts_of(place.add("x")) == {0: "y"}
        assert not failing
        place.decoder.broken = True
        for _ in range(FAILURES):
            await error_of(place.add("a"))
        assert failing  # the device is at fault

    run(test, on_failing=lambda: failing.append(True))


def test_too_much_is_refused_at_once() -> None:
    async def test(place: Place) -> None:
        first = place.add("a", limit=2000)  # alone it may
        with pytest.raises(HttpError) as error:
            place.add("a")
        assert error.value.status == 429
        assert len((await texts_of(first))[0]) == 24
        assert await texts_of(place.add("x")) == {0: "y"}

    run(test)


def test_the_end_of_the_server_ends_them() -> None:
    async def test(place: Place) -> None:
        running = place.add("a", streams=True)
        await running.more()
        place.batcher.stop()
        assert (await error_of(running)).code == "draining"

    run(test, turn=0.0)


PART = 50
"""Tokens of a part: half a batch of `Place`."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A GPT that reads long prompts."""
    folder = tmp_path_factory.mktemp("flight") / "gpt"
    config = replace(GPT, max_position_embeddings=400)
    small_bert.write_model(folder, ["next_token"], config, seed=3, std=0.4)
    return load(folder, device="cpu")


def let_read(place: Place, model: Model) -> list[tuple[str, int]]:
    """Have the flight generate by a model; the calls of its decoder are noted as they come, with
    the number of tokens."""
    calls: list[tuple[str, int]] = []

    def note(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(given: Any, *state: Any) -> Any:
            calls.append((name, len(given) if name == "advance" else sum(map(len, given))))
            return call(given, *state)

        return noted

    def make_rows() -> RowsInFlight:
        rows = rows_in_flight(model.runner)
        for name in ("begin", "extend", "advance"):
            setattr(rows.decoder, name, note(name, getattr(rows.decoder, name)))
        return rows

    place.flight = Flight(make_rows, place.batcher, place.count)
    return calls


def request(
    place: Place, prompts: Sequence[Sequence[int]], config: GenerationConfig, num: int = 1
) -> tuple[Generation, list[Text]]:
    """A request for `num` streams of each prompt."""
    made = []
    for number, ids in enumerate(prompts):
        given = config, config.max_new_tokens, list(ids)
        texts = [Text(*given, n, tokenizer=LETTERS, streams=True) for n in range(num)]
        made.append(PromptTexts(number, list(ids), texts))
    now = time.monotonic()
    generation = Generation(made, now + 30, now + 30, lambda: False)
    place.flight.add(generation)
    return generation, [text for prompt in made for text in prompt.texts]


def read_whole(model: Model, ids: Sequence[int], config: GenerationConfig, num: int) -> list[Row]:
    flight = rows_in_flight(model.runner)
    rows = [Row(config, config.max_new_tokens, ids, n) for n in range(num)]
    flight.add([ids], [rows])
    while len(flight):
        flight.step()
    return rows


def prompt_of(length: int, seed: int) -> list[int]:
    return torch.randint(5, 41, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def test_a_long_prompt_is_read_in_parts_between_the_steps_of_others(reader: Model) -> None:
    prompt, short = prompt_of(4 * PART + 30, 1), prompt_of(3, 2)
    sampled = GenerationConfig(9, sample=True, temperature=1.5, seed=4, repetition_penalty=1.2)
    endless = GenerationConfig(300)  # not ended before the long prompt joins

    async def test(place: Place) -> None:
        calls = let_read(place, reader)
        running, (stream,) = request(place, [short], endless)
        await running.more()
        begun = len(calls)
        long, texts = request(place, [prompt], sampled, num=2)
        await asyncio.gather(texts_of(long), texts_of(running))
        later = calls[begun:]
        parts = [n for n, (name, _) in enumerate(later) if name != "advance"]
        assert [later[n] for n in parts] == [
            ("begin", PART),
            *[("extend", PART)] * 3,
            ("extend", 30),
        ]
        for part, following in pairwise(parts):
            assert ("advance", 1) in later[part + 1 : following]
        whole = read_whole(reader, prompt, sampled, 2)
        assert [text.ids for text in texts] == [row.ids for row in whole]
        assert stream.ids == read_whole(reader, short, endless, 1)[0].ids

    run(test)


def test_long_prompts_take_turns_and_let_short_ones_join(reader: Model) -> None:
    config = GenerationConfig(3)
    prompts = [prompt_of(6 * PART, 1), prompt_of(2 * PART, 2), prompt_of(5, 3)]

    async def test(place: Place) -> None:
        calls = let_read(place, reader)
        generation, texts = request(place, prompts, config)
        ended: list[int] = []
        while more := await generation.more():
            ended += [piece.prompt for piece in more if piece.reason is not None]
        assert ended == [2, 1, 0]
        assert max(tokens for _, tokens in calls) == PART
        for ids, text in zip(prompts, texts, strict=True):
            assert text.ids == read_whole(reader, ids, config, 1)[0].ids

    run(test, turn=0.0)


def test_a_long_prompt_whose_client_leaves_is_not_read_further(reader: Model) -> None:
    async def test(place: Place) -> None:
        calls = let_read(place, reader)
        left, _ = request(place, [prompt_of(7 * PART, 1)], GenerationConfig(3))
        left.gone = lambda: len(calls) > 2
        assert (await error_of(left)).status == 499
        assert len(calls) < 5
        after, texts = request(place, [prompt_of(2 * PART, 2)], GenerationConfig(3))
        await texts_of(after)
        assert len(texts[0].ids) == 3

    run(test, turn=0.0)


def test_a_part_that_fails_fails_its_prompt_alone(reader: Model) -> None:
    async def test(place: Place) -> None:
        let_read(place, reader)
        bad = [*prompt_of(2 * PART, 1), 999]  # no such id
        failing, _ = request(place, [bad], GenerationConfig(3))
        other, (text,) = request(place, [prompt_of(2 * PART, 2)], GenerationConfig(30))
        error = await error_of(failing)
        assert (error.status, error.code) == (503, "failed")
        await texts_of(other)
        assert len(text.ids) == 30

    run(test, turn=0.0)
