"""Plan the instances of an epoch: which tokens are A, which are B, and whether B follows A.

Devlin et al. 2019, section 3.1 (task 2) and appendix A.2, as in google-research/bert,
`create_instances_from_document` and `truncate_seq_pair`:

1. From the beginning of a document, sentences are taken until they reach a target length. It is the
   maximum length, or, for a fraction `short_probability` of the instances, a random length of 2 or
   more.
2. This chunk is split after a random sentence; A is the part before.
3. B is the part after. For a fraction `random_next_probability` of the pairs, and whenever the
   chunk has one sentence, B is instead text of the same length from a random sentence of another
   document, and the next chunk begins with the unused part of this one.
4. A pair that is too long loses tokens of its longer half, at random from the front or the back.

That is `mlm+nsp`. With `mlm+sop` (Lan et al. 2020, ALBERT, section 3.1) B always follows A, and the
two are swapped in a fraction `random_next_probability` of the pairs; a chunk of one sentence is
split inside the sentence. With `mlm` there are no pairs: a document is split into runs of the
target length, regardless of its sentences.

Where we differ from google-research/bert: the target length is drawn for each instance rather than
for each document (there, one short draw splits a whole book into fragments, so that more than 10 %
are short); the random document is never the document of A, unless it is the only one (there it may
be, after ten tries); documents of more than 131,072 tokens are processed in parts of that size,
split between sentences.

The chunks of a document do not depend on other documents, so all documents are processed in
lockstep, one instance of each per round. Every draw is a hash of (seed, epoch, begin of the
document, instance, draw). A plan is thus a pure function of its arguments.

Letters: D documents, S sentences, I instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertwright.arrays import Bools, Int64s, UInt64s
from bertwright.data.randomness import below, fair_coins, make_key, mix, permutation, uniform
from bertwright.data.shards import Shards
from bertwright.models.bert.config import InstanceConfig

PART_TOKENS = 1 << 17

# The numbers of an instance's draws. New draws are appended, otherwise every plan would change.
_IS_SHORT, _TARGET, _A_END, _IS_RANDOM, _DOCUMENT, _SENTENCE, _COINS_A, _COINS_B = range(8)


@dataclass(frozen=True)
class EpochPlan:
    """The instances of one epoch in the order of training; all arrays are `[I]`.

    Ranges are token positions in the shards; B is empty (0, 0) with `mlm`.
    """

    a_start: Int64s
    a_stop: Int64s
    b_start: Int64s
    b_stop: Int64s
    is_random: Bools
    """Whether B is random (`mlm+nsp`), or A and B are swapped (`mlm+sop`)."""
    lengths: Int64s
    """The length of each sequence, [CLS] and [SEP] included."""
    paired: bool
    """Whether sequences are [CLS] A [SEP] B [SEP]; otherwise they are [CLS] A [SEP]."""
    truncated: Int64s
    """The number of tokens by which each instance was truncated."""
    neighbours: Int64s | None
    """With `mlm+contrast`, the number of the pair of neighbours that each instance belongs to, or
    -1 if it belongs to none; both are next to each other in the order."""

    def __len__(self) -> int:
        return len(self.lengths)


def plan_epoch(
    shards: Shards, documents: Int64s, config: InstanceConfig, seed: int, epoch: int
) -> EpochPlan:
    """Return the plan of all instances of one epoch.

    Args:
        documents: the numbers of the documents of a split, from which random B are drawn too.
    """
    parts = _Parts.of(shards, np.asarray(documents, np.int64))
    key = make_key("instances", seed, epoch)
    neighbours = None
    is_single = config.objectives in ("mlm", "mlm+contrast")
    if is_single:
        ranges, first = _plan_runs(parts, config, key)
    else:
        ranges = _plan_pairs(parts, config, key)
    order = permutation(make_key("order", seed, epoch), len(ranges[0]))
    if config.objectives == "mlm+contrast":
        order, neighbours = _with_neighbours(order, first)
    a_start, a_stop, b_start, b_stop, swapped, lost = (values[order] for values in ranges)
    return EpochPlan(
        a_start=a_start,
        a_stop=a_stop,
        b_start=b_start,
        b_stop=b_stop,
        is_random=swapped.astype(np.bool_),
        lengths=(a_stop - a_start) + (b_stop - b_start) + (2 if is_single else 3),
        paired=not is_single,
        truncated=lost,
        neighbours=neighbours,
    )


@dataclass(frozen=True)
class _Parts:
    """The documents of a split, with long documents in parts.

    `first`, `last` and `document` are `[parts]`; `documents`, `document_first` and `document_last`
    are `[D]`; `bounds` is `[S + 1]`. The first and the last of each are sentence numbers, the last
    exclusive.
    """

    first: Int64s
    last: Int64s
    document: Int64s
    """The index in `documents` of each part's document."""
    documents: Int64s
    document_first: Int64s
    document_last: Int64s
    bounds: Int64s
    """The first token of each sentence of the shards."""

    @staticmethod
    def of(shards: Shards, documents: Int64s) -> _Parts:
        bounds = shards.sentence_tokens
        first = shards.document_sentences[documents]
        last = shards.document_sentences[documents + 1]
        starts, stops, owners = [first], [last], [np.arange(len(documents))]
        for document in np.flatnonzero(bounds[last] - bounds[first] > PART_TOKENS):
            edges = np.arange(bounds[first[document]], bounds[last[document]], PART_TOKENS)
            begins = np.unique(np.searchsorted(bounds, edges))
            begins = begins[begins < last[document]]
            starts.append(begins[1:])
            stops.append(np.append(begins[2:], last[document])[: len(begins) - 1])
            owners.append(np.full(len(begins) - 1, document))
            if len(begins) > 1:
                stops[0][document] = begins[1]
        return _Parts(
            first=np.concatenate(starts),
            last=np.concatenate(stops),
            document=np.concatenate(owners).astype(np.int64),
            documents=documents,
            document_first=first,
            document_last=shards.document_sentences[documents + 1],
            bounds=bounds,
        )


def _draw_targets(draws: UInt64s, config: InstanceConfig, longest: int) -> Int64s:
    """Return target lengths without special tokens, `[n]`; `draws` is `[draws, n]`."""
    short = uniform(draws[_IS_SHORT]) < config.short_probability
    return np.where(short, 2 + below(draws[_TARGET], longest - 1), longest)


def _plan_runs(
    parts: _Parts, config: InstanceConfig, key: np.uint64
) -> tuple[tuple[Int64s, ...], Int64s]:
    """Return the instances without pairs, which are consecutive runs of the target length.

    The six arrays `[I]` are the start and stop of A, and zeros for the start and stop of B, for
    `is_random` and for the number of truncated tokens. The runs of a document are taken two by two:
    the last array `[I]` has the number of the first run of each two.
    """
    start, stop = parts.bounds[parts.first], parts.bounds[parts.last]
    bases = mix(key, start)
    starts, stops, firsts = [], [], []
    first = np.arange(len(start))
    instance = count = 0
    while start.size:
        targets = _draw_targets(
            mix(mix(bases, instance), np.arange(2)[:, None]), config, config.sequence_length - 2
        )
        end = np.minimum(start + targets, stop)
        if instance % 2 == 0:
            first = np.arange(count, count + len(start))
        starts.append(start)
        stops.append(end)
        firsts.append(first)
        count += len(start)
        more = np.flatnonzero(end < stop)
        start, stop, bases, first = end[more], stop[more], bases[more], first[more]
        instance += 1
    a_start, a_stop = _join(starts), _join(stops)
    nothing = np.zeros_like(a_start)
    return (a_start, a_stop, nothing, nothing, nothing, nothing), _join(firsts)


def _with_neighbours(order: Int64s, first: Int64s) -> tuple[Int64s, Int64s]:
    """Return the order in which the second of two runs comes directly after the first, and the
    number of the pair of each run in this order, or -1 where a run is alone.

    Args:
        order: the random order of all runs, `[I]`.
        first: the number of the first run of the two that each run belongs to, `[I]`.
    """
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    together = np.lexsort((first != np.arange(len(first)), place[first]))
    pairs = np.where(np.bincount(first, minlength=1)[first] == 2, first, -1)
    return together, pairs[together]


def _plan_pairs(parts: _Parts, config: InstanceConfig, key: np.uint64) -> tuple[Int64s, ...]:
    """Return the instances of `mlm+nsp` or `mlm+sop`.

    The six arrays `[I]` are the start and stop of A, the start and stop of B, whether B is random
    (or A and B are swapped), and the number of truncated tokens.
    """
    next_sentence = config.objectives == "mlm+nsp"
    longest = config.sequence_length - 3
    bounds = parts.bounds
    sentence, last, document = parts.first, parts.last, parts.document
    bases = mix(key, bounds[sentence])
    rounds: list[tuple[Int64s, ...]] = []
    keys: list[UInt64s] = []
    instance = 0
    while sentence.size:
        instance_keys = mix(bases, instance)
        draws = mix(instance_keys, np.arange(4)[:, None])
        targets = _draw_targets(draws, config, longest)
        chunk_end = np.searchsorted(bounds, bounds[sentence] + targets)
        chunk_end = np.clip(chunk_end, sentence + 1, last)
        count = chunk_end - sentence
        a_end = sentence + 1 + below(draws[_A_END], np.maximum(count - 1, 1))
        wants_random = uniform(draws[_IS_RANDOM]) < config.random_next_probability
        if next_sentence:
            wants_random |= count == 1
            following = np.where(wants_random, a_end, chunk_end)
        else:
            following = chunk_end
        rounds.append(
            (sentence, a_end, chunk_end, targets, wants_random.astype(np.int64), document)
        )
        keys.append(instance_keys)
        more = np.flatnonzero(following < last)
        sentence, last, document, bases = following[more], last[more], document[more], bases[more]
        instance += 1
    if not rounds:
        return (np.zeros(0, np.int64),) * 6
    columns = (np.concatenate(column) for column in zip(*rounds, strict=True))
    begin, a_end, chunk_end, targets, random, owner = columns
    all_keys = np.concatenate(keys)
    a_start, a_stop = bounds[begin], bounds[a_end]
    b_start, b_stop = a_stop.copy(), bounds[chunk_end]
    if next_sentence:
        rows = np.flatnonzero(random)
        rest = (targets - (a_stop - a_start))[rows]
        b_start[rows], b_stop[rows] = _random_next(parts, owner[rows], rest, all_keys[rows])
    else:
        # A chunk of one sentence is split inside it, and is dropped if it has a single token.
        alone = chunk_end - begin == 1
        room = np.maximum(b_stop - a_start - 1, 1)
        a_stop = np.where(alone, a_start + 1 + below(mix(all_keys, _SENTENCE), room), a_stop)
        b_start = a_stop.copy()
        pairs = np.flatnonzero(b_stop > b_start)
        columns = (column[pairs] for column in (a_start, a_stop, b_start, b_stop, random))
        a_start, a_stop, b_start, b_stop, random = columns
        all_keys = all_keys[pairs]
        swap = random == 1
        a_start, b_start = np.where(swap, b_start, a_start), np.where(swap, a_start, b_start)
        a_stop, b_stop = np.where(swap, b_stop, a_stop), np.where(swap, a_stop, b_stop)
    before = (a_stop - a_start) + (b_stop - b_start)
    ranges = _truncate((a_start, a_stop, b_start, b_stop), longest, all_keys)
    lost: Int64s = before - (ranges[1] - ranges[0]) - (ranges[3] - ranges[2])
    return *ranges, random, lost


def _random_next(
    parts: _Parts, owner: Int64s, length: Int64s, keys: UInt64s
) -> tuple[Int64s, Int64s]:
    """Return the start and stop of sentences of another document.

    They begin with a random sentence and have at least `length` tokens, unless the document ends
    before.
    """
    count = len(parts.documents)
    if count > 1:
        other = below(mix(keys, _DOCUMENT), count - 1)
        other += other >= owner
    else:
        other = owner
    first, last = parts.document_first[other], parts.document_last[other]
    sentence = first + below(mix(keys, _SENTENCE), last - first)
    start: Int64s = parts.bounds[sentence]
    end = np.searchsorted(parts.bounds, start + np.maximum(length, 1))
    stop: Int64s = parts.bounds[np.minimum(end, last)]
    return start, stop


def _truncate(
    ranges: tuple[Int64s, Int64s, Int64s, Int64s], longest: int, keys: UInt64s
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Truncate pairs as `truncate_seq_pair` does, which repeatedly removes one token of the longer
    half, or of B where both are equally long.

    The final lengths follow from the initial ones: a half keeps all its tokens if they fit into the
    space that the other leaves, and otherwise at least half of the maximum. A coin decides for each
    token whether it is removed from the front or the back, so the number of tokens removed from the
    front is binomial.
    """
    a_start, a_stop, b_start, b_stop = ranges
    a, b = a_stop - a_start, b_stop - b_start
    over = np.flatnonzero(a + b > longest)
    a, b = a[over], b[over]
    a_kept = np.minimum(a, np.maximum(longest - longest // 2, longest - b))
    b_kept = longest - a_kept
    a_front = fair_coins(mix(keys[over], _COINS_A), a - a_kept)
    b_front = fair_coins(mix(keys[over], _COINS_B), b - b_kept)
    a_start[over] += a_front
    a_stop[over] = a_start[over] + a_kept
    b_start[over] += b_front
    b_stop[over] = b_start[over] + b_kept
    return a_start, a_stop, b_start, b_stop


def _join(parts: list[Int64s]) -> Int64s:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
