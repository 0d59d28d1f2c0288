"""The texts of a request, tokenized and within its limits: the items that the device computes.

There is one function for each kind of output (`engine/outputs.py`). They run in a thread beside
the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from bertwright.config.serve import ServeConfig
from bertwright.config.vectors import OF_DOCUMENTS, OF_QUERIES, VectorConfig, usual_prompt
from bertwright.errors import DataError
from bertwright.inference.encode import Text, Tokenized, tokenize
from bertwright.inference.fill import find_blanks
from bertwright.inference.inputs import make_examples
from bertwright.inference.next_sentence import make_pair
from bertwright.inference.vectors.embed import with_prompt
from bertwright.serve.engine.engine import Engine, Output, RequestItem
from bertwright.serve.engine.generation.flight import PromptTexts
from bertwright.serve.engine.outputs import (
    Attention,
    Fill,
    NextSentences,
    Task,
    Tokens,
    Vectors,
)
from bertwright.serve.errors import invalid_request
from bertwright.serve.limits import check_characters, check_reply, check_tokens, texts_in
from bertwright.serve.schemas.replies import About, Truncated
from bertwright.tasks.task_data import TaskData

ANSWER = 64
"""The approximate characters of an answer beside its text or label: keys, a number, a token."""


@dataclass(kw_only=True)
class Prepared:
    """What a model reads for a request, and what its reply says of that."""

    engine: Engine
    items: list[RequestItem] = field(default_factory=list)
    """What the device computes."""
    sequences: Sequence[Sequence[int]] = ()
    """The ids that the model reads."""
    layers: Sequence[int] = ()
    pooling: str | None = None
    normalized: bool = False
    truncated: list[Truncated] = field(default_factory=list)
    numbers: int = 0
    """Numbers of the reply, at most."""
    characters: int = 0
    """Characters of the reply, at most, where they may be many more than those of the request."""

    def __post_init__(self) -> None:
        if self.items:
            self.sequences = [ids for item in self.items for ids in item.ids]
        self.tokens = sum(map(len, self.sequences))
        """The number of tokens that the model reads."""
        self.unknown_words = None
        """The number of words that the model does not know; None if its tokens are not words, or if
        it reads nothing."""
        if self.sequences:
            self.unknown_words = self.engine.unknown_words(self.sequences)

    @property
    def size(self) -> int:
        """The approximate bytes of the reply and of its arrays: 4 a number, and 12 as JSON."""
        return 16 * self.numbers + self.characters

    @property
    def about(self) -> About:
        """What every reply says of how it was made."""
        about: About = {
            "model": self.engine.name,
            "sha256": self.engine.sha256,
            "layers": list(self.layers),
            "pooling": self.pooling,
            "normalized": self.normalized,
            "tokens_used": self.tokens,
            "truncated": self.truncated,
        }
        if self.unknown_words is not None:
            about["unknown_words"] = self.unknown_words
        return about


@dataclass(kw_only=True)
class PreparedPrompts(Prepared):
    """The prompts that a model continues for a request."""

    prompts: list[PromptTexts]

    def __post_init__(self) -> None:
        self.sequences = [prompt.ids for prompt in self.prompts]
        super().__post_init__()


def vector_items(
    engine: Engine,
    texts: list[Text],
    config: VectorConfig,
    truncate: bool,
    windows: bool = False,
    numbers: int = 0,
) -> Prepared:
    """Return one vector for each text. `numbers` are those of the reply, if they may be more."""
    engine.spec.require_vectors()
    prompted = with_prompt(config.prompt, texts)
    tokenized, truncated = tokenize_texts(engine, prompted, truncate, windows, engine.vector_tokens)
    items = items_of(Vectors(engine, config), tokenized)
    prepared = _of_vectors(engine, config, items, truncated, len(texts))
    prepared.numbers = max(prepared.numbers, numbers)
    return prepared


def token_items(
    engine: Engine, texts: list[Text], config: VectorConfig, truncate: bool, windows: bool
) -> Prepared:
    """Return one vector for each token of each text."""
    prompted = with_prompt(config.prompt, texts)
    tokenized, truncated = tokenize_texts(engine, prompted, truncate, windows, engine.vector_tokens)
    items = items_of(Tokens(engine, config), tokenized)
    count = sum(count_tokens(item) for item in items)
    prepared = _of_vectors(engine, config, items, truncated, count)
    prepared.pooling = None
    return prepared


def count_tokens(item: RequestItem) -> int:
    """Return the number of tokens of a text, whose windows each repeat the special tokens."""
    special = item.output.engine.tokenizer.framing.special_tokens()
    return item.tokens - (len(item.ids) - 1) * special


def query_items(
    engine: Engine,
    query: str,
    documents: Sequence[str],
    truncate: bool,
    limits: ServeConfig,
) -> Prepared:
    """Return the vectors of a query and of documents, each with the prompt of its sort.

    A document counts as truncated if it or the query loses tokens, as in a pair of the two.
    """
    of_query, of_document = _prompt(engine, OF_QUERIES), _prompt(engine, OF_DOCUMENTS)
    texts = [*with_prompt(of_query, [query]), *with_prompt(of_document, [*documents])]
    check_characters(sum(map(len, texts)), limits)
    tokenized, cut = tokenize_texts(engine, texts, True, longest=engine.vector_tokens)
    lost = {each.input: each.tokens_cut for each in cut}
    truncated = []
    for number in range(len(documents)):
        if tokens := lost.get(0, 0) + lost.get(number + 1, 0):
            too_long = "the query" if 0 in lost else f"document {number}"
            reason = f"{too_long} has more than the {engine.vector_tokens} tokens of a vector"
            truncated.append(truncation(truncate, number, tokens, reason))
    items = items_of(Vectors(engine, engine.default), tokenized)
    return _of_vectors(engine, engine.default, items, truncated, len(texts))


def _prompt(engine: Engine, names: Sequence[str]) -> str:
    """Return the folder's prompt of one of these names, else its default prompt."""
    found = usual_prompt(engine.prompts, names)
    return engine.default.prompt if found is None else found


def _of_vectors(
    engine: Engine,
    config: VectorConfig,
    items: list[RequestItem],
    truncated: list[Truncated],
    count: int,
) -> Prepared:
    """Return items whose reply holds `count` vectors; `ConfigError` if the model's export does not
    compute one of their layers."""
    layers = config.numbers(engine.top)
    engine.require_layers(layers)
    return Prepared(
        engine=engine,
        items=items,
        layers=layers,
        pooling=config.pooling,
        normalized=config.normalize,
        truncated=truncated,
        numbers=count * config.width(engine.spec.widths),
    )


def blank_items(
    engine: Engine, texts: Sequence[str], top: int, truncate: bool, limits: ServeConfig
) -> Prepared:
    """Return the `top` most probable tokens of the mask positions of each text."""
    (mask,) = engine.tokenizer.tokens_of([engine.tokenizer.mask_id])
    output, items, truncated = Fill(engine), list[RequestItem](), list[Truncated]()
    tokens = characters = 0
    for number, text in enumerate(texts):
        try:
            blanks = find_blanks(engine.runner, text)
        except DataError as error:
            raise invalid_request(f"input {number} has no {mask}", "no_mask") from error
        if (excess := blanks.tokens - engine.longest) > 0:
            reason = f"input {number} has {blanks.tokens} tokens; this model reads {engine.longest}"
            reason += f" at once, truncated to what is around each {mask}"
            truncated.append(truncation(truncate, number, excess, reason))
        tokens += blanks.tokens_read
        check_tokens(tokens, limits)
        characters += sum(map(len, blanks.positions)) * top * (ANSWER + len(text))
        check_reply(0, characters)
        items.append(RequestItem(output, blanks.sequences(), None, (blanks, top)))
    return Prepared(
        engine=engine,
        items=items,
        layers=(engine.top,),
        truncated=truncated,
        characters=characters,
    )


def pair_items(engine: Engine, pairs: Sequence[tuple[str, str]], truncate: bool) -> Prepared:
    """Return the probability that the second text of each pair follows the first."""
    output, items, truncated = NextSentences(engine), list[RequestItem](), list[Truncated]()
    for number, (first, second) in enumerate(pairs):
        try:
            pair = make_pair(engine.runner, first, second)
        except DataError as error:
            raise invalid_request("this model reads no pairs", "no_pairs") from error
        if excess := pair.tokens_truncated:
            reason = f"pair {number} is {excess} tokens too long"
            truncated.append(truncation(truncate, number, excess, reason))
        items.append(RequestItem(output, [pair.ids], [pair.segments]))
    return Prepared(engine=engine, items=items, layers=(engine.top,), truncated=truncated)


def attention_items(
    engine: Engine, text: Text, layers: Sequence[int], heads: int, truncate: bool
) -> Prepared:
    """Return the attention maps of a text."""
    tokenized, truncated = tokenize_texts(engine, [text], truncate)
    if not all(1 <= layer <= engine.top for layer in layers):
        raise invalid_request(f"layers must be from 1 to {engine.top}", "no_layer")
    (ids,), segments = tokenized.ids, tokenized.segments
    return Prepared(
        engine=engine,
        items=[RequestItem(Attention(engine, tuple(layers)), [ids], segments)],
        layers=layers,
        truncated=truncated,
        numbers=len(layers) * heads * len(ids) ** 2,
    )


def task_items(
    engine: Engine,
    name: str,
    inputs: Sequence[Any],
    truncate: bool,
    limits: ServeConfig,
    characters: int = 0,
) -> Prepared:
    """Return the predictions of a task for inputs. `characters` are those of the reply, if they may
    be many more than those of the request."""
    task, output, pairs = engine.model.tasks[name], Task(engine, name), engine.reads_pairs(name)
    items, truncated = list[RequestItem](), list[Truncated]()
    read = tokens = 0
    for number, given in enumerate(inputs):
        if pairs is not None and pairs != isinstance(given, tuple):
            came, taught = ("one text", "pairs") if pairs else ("a pair", "single texts")
            reason = f"input {number} is {came}; {name} was trained on {taught}"
            raise invalid_request(reason, "needs_pair" if pairs else "no_pairs")
        texts = _texts_read(given)
        read += sum(map(len, texts))
        check_characters(read, limits)
        check_texts(engine, texts, tokens, limits)
        try:
            data = TaskData(name, task, engine.tokenizer, make_examples(task, [given]))
        except DataError as error:  # its message may have the text
            reason = f"input {number} is not one that a {task.kind} task takes"
            raise invalid_request(reason) from error
        if data.lengths.cut:
            reason = f"input {number} fits no window of {task.max_length} tokens"
            truncated.append(truncation(truncate, number, data.lengths.tokens_cut, reason))
        ids = [each for instance in data.instances for each in instance.ids]
        segments = [each for instance in data.instances for each in instance.segments]
        items.append(RequestItem(output, ids, segments if any(map(any, segments)) else None, data))
        tokens += items[-1].tokens
        check_tokens(tokens, limits)
    return Prepared(
        engine=engine,
        items=items,
        layers=output.layers,
        truncated=truncated,
        characters=characters,
    )


def _texts_read(given: Any) -> list[str]:
    """Return the texts of an input as often as the model reads them: those before choices are read
    with each choice."""
    if isinstance(given, dict) and "choices" in given:
        before = given["text"], given.get("text2") or ""
        return [text for choice in given["choices"] for text in (*before, choice)]
    return list(texts_in(given))


def check_texts(engine: Engine, texts: Sequence[str], before: int, limits: ServeConfig) -> None:
    """Raise `HttpError` if texts, with the `before` tokens of earlier ones, have too many tokens.

    A text must be given as often as the model reads it. Only the ids of its tokens are needed for
    this check, so it comes before anything larger is made.
    """
    if before + sum(map(len, texts)) > limits.max_tokens:  # a token has at least one character
        ids = engine.tokenizer.encode_bare_ids(texts)
        check_tokens(before + sum(map(len, ids)), limits)


def tokenize_texts(
    engine: Engine, texts: Sequence[Text], truncate: bool, windows: bool = False, longest: int = 0
) -> tuple[Tokenized, list[Truncated]]:
    """Return texts and pairs as sequences of at most `longest` tokens, and what was truncated.

    If `longest` is 0, a sequence has at most as many tokens as the model reads at once.

    Raises:
        HttpError: a text is too long, or a pair is given to a model that reads none.
    """
    longest = min(longest or engine.longest, engine.longest)
    room = longest - engine.tokenizer.framing.special_tokens(True)
    paired = engine.spec.reads_pairs and room > 1
    if not paired and not all(isinstance(text, str) for text in texts):
        raise invalid_request("this model reads no pairs", "no_pairs")
    found, truncated = tokenize(engine.tokenizer, texts, longest, True, windows=windows), []
    for number, excess in found.left_out.items():
        count = f"{excess + longest} tokens; this model reads {longest} at once"
        truncated.append(truncation(truncate, number, excess, f"input {number} has {count}"))
    return found, truncated


def truncation(allowed: bool, number: int, tokens: int, reason: str) -> Truncated:
    """Return the note that an input loses tokens; `HttpError` if the request does not allow it."""
    if not allowed:
        raise invalid_request(f'{reason}: shorten it, or request "truncate": true', "too_long")
    return Truncated(number, tokens)


def items_of(output: Output, texts: Tokenized) -> list[RequestItem]:
    """Return an item for each text, whose data are the starts of its windows."""
    items = []
    for _, group in groupby(range(len(texts.ids)), texts.owners.__getitem__):
        rows = slice((numbers := list(group))[0], numbers[-1] + 1)
        segments = None if texts.segments is None else texts.segments[rows]
        items.append(RequestItem(output, texts.ids[rows], segments, texts.starts[rows]))
    return items
