"""A request before the device sees it: sequences, and what is made of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import VectorConfig
from bertwright.errors import ConfigError, DataError
from bertwright.inference.embed import normalized
from bertwright.inference.encode import Text, tokenize
from bertwright.serve.engine import Engine, Reader, Work
from bertwright.serve.errors import Refusal, bad
from bertwright.serve.schemas import Args, Shape

LISTS = ("input", "documents", "sentences", "texts", "choices")
MOST_NUMBERS = 1 << 23
"""Numbers of a reply, or of the vectors it is made from: 2,048 texts by four layers of 1,024; about
90 MB as JSON."""
MOST_CHARACTERS = 1 << 24
"""Characters of a reply that holds a text, or labels, many times."""
Cut = dict[str, int | str]
"""`input`, the number of a text from 0 or what it is called, and `tokens_cut`."""
Called = Callable[[int], str] | None
"""What a text is called by its number; None: `input 0` and so on."""


@dataclass
class Plan:
    """Works for the device, and what becomes of their answers."""

    engine: Engine
    works: list[Work]
    finish: Callable[[list[Any]], Args]
    """Answers of the works, in order -> the body of the reply. It does not name its plan: that
    would be a cycle, and freeing those of thousands of requests stops all others for 0.05 s."""
    layers: Sequence[int] = ()
    pooling: str | None = None
    normalized: bool = False
    truncated: list[Cut] = field(default_factory=list)
    headers: Callable[[Plan], dict[str, str]] | None = None
    """Where the facts go in headers, as another's protocol has no place for them."""
    numbers: int = 0
    """Of the reply, where there may be many more than texts came; see `MOST_NUMBERS`."""
    characters: int = 0
    """Likewise; see `MOST_CHARACTERS`."""
    prompt: str | None = None
    """What stood before every text, of vectors: `none`, the model's `default`, or as `asked`."""

    @property
    def tokens(self) -> int:
        """Tokens that the model reads."""
        return sum(work.tokens for work in self.works)

    @property
    def size(self) -> int:
        """Bytes of the reply and of what it is made from, about: a number has 4, as JSON 12."""
        return 16 * self.numbers + self.characters

    @property
    def about(self) -> Args:
        """What every reply says of how it was made."""
        return {
            "model": self.engine.name,
            "sha256": self.engine.sha256,
            "layers": list(self.layers),
            "pooling": self.pooling,
            "normalized": self.normalized,
            "prompt": self.prompt,
            "tokens_used": self.tokens,
            "truncated": self.truncated,
        }

    def reply(self, answers: list[Any]) -> tuple[bytes, dict[str, str]]:
        """The body and more headers."""
        made = self.finish(answers)
        if self.headers is None:
            return dump({**self.about, **made}), {}
        return dump(made), self.headers(self)


@dataclass(frozen=True)
class Route:
    """A path, what it takes and how it is planned."""

    path: str
    shape: Shape
    plan: Callable[[Engine, Args, ServeConfig], Plan]
    help: str


def dump(value: Any) -> bytes:
    """JSON; arrays of numbers as they are."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def make_plan(route: Route, engines: Mapping[str, Engine], args: Args, config: ServeConfig) -> Plan:
    """Judge a request's bounds and cut its texts into sequences.

    Raises:
        Refusal: unknown model, too much, too long, too much to answer, or no such head, layer or
            task.
    """
    name = args.get("model")
    if name is not None and name not in engines:
        known = ", ".join(engines)
        raise Refusal(404, "model_not_found", f"no such model; there are: {known}")
    engine = engines[name] if name is not None else next(iter(engines.values()))
    for key in LISTS:
        if isinstance(args.get(key), list) and len(args[key]) > config.max_items:
            reason = f"{key} has {len(args[key])} items; at most {config.max_items} are taken"
            raise Refusal(413, "too_many_items", reason)
    judge_characters(sum(map(len, texts_in(args))), config)
    try:
        plan = route.plan(engine, args, config)
    except ConfigError as error:
        raise bad(str(error)) from error
    judge_tokens(plan.tokens, config)
    judge_reply(plan.numbers, plan.characters)
    return plan


def judge_characters(count: int, config: ServeConfig) -> None:
    """Raise `Refusal` if they are too many."""
    if count > config.max_characters:
        reason = f"{count} characters; at most {config.max_characters} are taken"
        raise Refusal(413, "too_many_characters", reason)


def judge_texts(engine: Engine, texts: Sequence[str], before: int, config: ServeConfig) -> None:
    """Raise `Refusal` if texts have too many tokens, before more is made of them than bare ids.

    Args:
        engine: the model.
        texts: as often as the model reads each.
        before: tokens of the request that are judged already.
        config: the bounds.
    """
    if before + sum(map(len, texts)) > config.max_tokens:  # a token has a character
        ids = engine.tokenizer.encode_bare_ids(texts)
        judge_tokens(before + sum(map(len, ids)), config)


def judge_tokens(count: int, config: ServeConfig) -> None:
    """Raise `Refusal` if they are too many."""
    if count > config.max_tokens:
        reason = f"{count} tokens; at most {config.max_tokens} are taken in one request"
        raise Refusal(413, "too_many_tokens", reason)


def judge_reply(numbers: int, characters: int) -> None:
    """Raise `Refusal` if a reply would hold too much: what is asked may be short and its answer
    without end."""
    for count, most, what in (
        (numbers, MOST_NUMBERS, "numbers"),
        (characters, MOST_CHARACTERS, "characters"),
    ):
        if count > most:
            reason = f"the answer would have {count} {what}; at most {most} are given: ask for less"
            raise Refusal(413, f"too_many_{what}", reason)


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


@dataclass
class Cuts:
    """Sequences of texts, and what was cut."""

    ids: list[list[list[int]]]
    """Of each text its windows."""
    types: list[list[list[int]] | None]
    starts: list[list[int]]
    truncated: list[Cut]


def cut_texts(
    engine: Engine,
    texts: Sequence[Text],
    truncate: bool,
    windows: bool = False,
    longest: int = 0,
    called: Called = None,
) -> Cuts:
    """Texts and pairs as sequences.

    Args:
        engine: the model.
        texts: texts and pairs.
        truncate: cut what is too long, and say so.
        windows: read long texts in windows instead.
        longest: tokens of a sequence; unset: as many as the model has positions.
        called: what a text is called, in reasons and in what was cut.

    Raises:
        Refusal: something is too long, or a pair is given to a model of one segment.
    """
    longest = min(longest or engine.longest, engine.longest)
    paired = engine.config.type_vocab_size > 1
    plain = [number for number, text in enumerate(texts) if isinstance(text, str)]
    found = tokenize(engine.tokenizer, [texts[n] for n in plain], longest, False)
    cuts = Cuts([[] for _ in texts], [None] * len(texts), [[] for _ in texts], [])
    for ids, owner, start in zip(found.ids, found.owners, found.starts, strict=True):
        cuts.ids[plain[owner]].append(ids)
        cuts.starts[plain[owner]].append(start)
    for number, text in enumerate(texts):
        if isinstance(text, str):
            if len(cuts.ids[number]) > 1 and not windows:
                _shorten(cuts, number, longest, truncate, called)
            continue
        try:
            pair = tokenize(engine.tokenizer, [text], longest, True, paired)
        except DataError as error:
            raise bad("this model reads no pairs", "no_pairs") from error
        if pair.tokens_truncated:
            _cut(cuts, number, pair.tokens_truncated, longest, truncate, called)
        cuts.ids[number], cuts.types[number], cuts.starts[number] = pair.ids, pair.segments, [0]
    return cuts


def vector_config(engine: Engine, args: Args) -> VectorConfig:
    """Which vectors a request means.

    Raises:
        ConfigError: a layer that the model has not.
        Refusal: a layer is named twice, or there is no such prompt.
    """
    refuse_twice(engine, args.get("layers") or ())
    asked = {name: args.get(name) for name in ("layers", "combine", "pooling", "normalize")}
    prompt, name = args.get("prompt"), args.get("prompt_name")
    if name is not None and (prompt is not None or name not in engine.prompts):
        known = ", ".join(engine.prompts) or "none"
        raise bad(f"prompt_name is one of the model's ({known}), without prompt", "no_prompt")
    asked["prompt"] = engine.prompts[name] if name else prompt
    found = engine.default.over(**asked)
    if found.numbers(engine.top) == engine.default.numbers(engine.top):
        # the default's layers, perhaps by other numbers: its dense layers stay
        found = engine.default.over(**asked | {"layers": None})
    return found


def which_prompt(engine: Engine, config: VectorConfig) -> str:
    """What a reply says of the prompt; see `Plan.prompt`."""
    if not config.prompt:
        return "none"
    return "default" if config.prompt == engine.default.prompt else "asked"


def refuse_twice(engine: Engine, layers: Sequence[int]) -> None:
    """Raise `Refusal` if a layer is named twice: its numbers would be sent twice."""
    if len({layer % (engine.top + 1) for layer in layers}) < len(layers):
        raise bad("layers names one twice (negative numbers count from the top)", "same_layer")


def works_of(reader: Reader, cuts: Cuts) -> list[Work]:
    """A work a text."""
    rows = zip(cuts.ids, cuts.types, cuts.starts, strict=True)
    return [Work(reader, ids, types, starts) for ids, types, starts in rows]


def cosines(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`[n, W]` and `[m, W]` -> `[n, m]`."""
    found: np.ndarray[Any, Any] = np.clip(normalized(a) @ normalized(b).T, -1, 1)
    return found


def _shorten(cuts: Cuts, number: int, longest: int, truncate: bool, called: Called) -> None:
    windows = cuts.ids[number]
    inner = [token for window in windows for token in window[1:-1]]
    room = longest - 2
    _cut(cuts, number, len(inner) - room, longest, truncate, called)
    cuts.ids[number] = [[windows[0][0], *inner[:room], windows[0][-1]]]
    cuts.starts[number] = [0]


def _cut(
    cuts: Cuts, number: int, tokens: int, longest: int, truncate: bool, called: Called
) -> None:
    """Say that a text loses so many tokens, or refuse it."""
    if not truncate:
        raise bad(
            f"{called(number) if called else f'input {number}'} has {tokens + longest} tokens; "
            f'this model reads {longest} at once: shorten it, or ask for "truncate": true',
            "too_long",
        )
    cuts.truncated.append({"input": called(number) if called else number, "tokens_cut": tokens})
