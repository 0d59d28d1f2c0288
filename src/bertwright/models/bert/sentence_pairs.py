"""Documents to training instances: which tokens are A, which are B, and is B what follows A.

Devlin et al., BERT, section 3.1 (task 2) and appendix A.2, in the form of google-research/bert,
`create_instances_from_document` and `truncate_seq_pair`. From the beginning of a document sentences
are taken until they reach the target length: the longest that fits, or for `short_probability` of
the instances a random one from 2 up. The chunk is split after a random sentence: A is what lies
before. B is what lies after, or (for `random_next_probability` of the pairs, and whenever the chunk
is one sentence) as much text from a random sentence of another document; what was not used of the
chunk is then given back and begins the next one. A pair that is too long loses tokens of its longer
half, from the front or the back by the toss of a coin.

- `mlm+nsp`: the above.
- `mlm+sop` (Lan et al., ALBERT, section 3.1): B always follows A; for `random_next_probability` of
  the pairs the two are swapped. A chunk of one sentence is split inside it.
- `mlm`: no pairs; a document is split into runs of the target length, across its sentences.

Where we differ from google-research/bert: the target length is drawn for each instance, not once a
document (there a short draw splits a whole book into fragments, so more than 10 % are short); the
random document is never the same one unless there is only one (there: never after ten tries);
documents over 131,072 tokens are walked in parts of that size, split between sentences.

The walk depends on the document alone, so all documents are walked in lockstep, one instance each a
round, and every draw is a hash of (seed, epoch, where the document begins, instance, draw). A plan
is thus a pure function of its arguments. Letters: D documents, S sentences, I instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bertwright.arrays import Bools, Int64s, UInt64s
from bertwright.data.randomness import below, fair_coins, make_key, mix, permutation, uniform
from bertwright.data.shards import Shards
from bertwright.models.bert.config import InstanceConfig

PART_TOKENS = 1 << 17

# Which draw of an instance is which; new ones go last, or every plan changes.
_IS_SHORT, _TARGET, _A_END, _IS_RANDOM, _DOCUMENT, _SENTENCE, _COINS_A, _COINS_B = range(8)


@dataclass(frozen=True)
class EpochPlan:
    """The instances of one epoch in the order of training; all arrays are [I].

    Ranges are token positions in the shards; B is empty (0, 0) for `mlm`.
    """

    a_start: Int64s
    a_stop: Int64s
    b_start: Int64s
    b_stop: Int64s
    is_random: Bools
    """B is not what follows A: it is random (`mlm+nsp`), or A and B are swapped (`mlm+sop`)."""
    lengths: Int64s
    """Tokens of each sequence, [CLS] and [SEP] included."""
    paired: bool
    """Sequences are [CLS] A [SEP] B [SEP]; otherwise [CLS] A [SEP]."""
    truncated: Int64s
    """Tokens each instance lost to make it fit."""

    def __len__(self) -> int:
        return len(self.lengths)


def plan_epoch(
    shards: Shards, documents: Int64s, config: InstanceConfig, seed: int, epoch: int
) -> EpochPlan:
    """Draw every instance of one epoch.

    `documents` are indices of the documents to train on (a split); random B come from them too.
    """
    parts = _Parts.of(shards, np.asarray(documents, np.int64))
    key = make_key("instances", seed, epoch)
    if config.objectives == "mlm":
        ranges = _plan_runs(parts, config, key)
    else:
        ranges = _plan_pairs(parts, config, key)
    order = permutation(make_key("order", seed, epoch), len(ranges[0]))
    a_start, a_stop, b_start, b_stop, swapped, lost = (values[order] for values in ranges)
    paired = config.objectives != "mlm"
    return EpochPlan(
        a_start=a_start,
        a_stop=a_stop,
        b_start=b_start,
        b_stop=b_stop,
        is_random=swapped.astype(np.bool_),
        lengths=(a_stop - a_start) + (b_stop - b_start) + (3 if paired else 2),
        paired=paired,
        truncated=lost,
    )


@dataclass(frozen=True)
class _Parts:
    """The documents of a split, long ones split; arrays are [parts], `bounds` is [S + 1]."""

    first: Int64s
    last: Int64s
    document: Int64s
    """Which of `documents` each part is of."""
    documents: Int64s
    document_first: Int64s
    document_last: Int64s
    bounds: Int64s
    """First token of each sentence of the shards."""

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
    """Target lengths in tokens without special tokens; `draws` is [draws, n]."""
    short = uniform(draws[_IS_SHORT]) < config.short_probability
    return np.where(short, 2 + below(draws[_TARGET], longest - 1), longest)


def _plan_runs(parts: _Parts, config: InstanceConfig, key: np.uint64) -> tuple[Int64s, ...]:
    """`mlm`: consecutive runs of the target length, [I] each: A, empty B, 0, 0."""
    start, stop = parts.bounds[parts.first], parts.bounds[parts.last]
    bases = mix(key, start)
    starts, stops = [], []
    instance = 0
    while start.size:
        targets = _draw_targets(
            mix(mix(bases, instance), np.arange(2)[:, None]), config, config.sequence_length - 2
        )
        end = np.minimum(start + targets, stop)
        starts.append(start)
        stops.append(end)
        more = np.flatnonzero(end < stop)
        start, stop, bases = end[more], stop[more], bases[more]
        instance += 1
    a_start, a_stop = _join(starts), _join(stops)
    nothing = np.zeros_like(a_start)
    return a_start, a_stop, nothing, nothing, nothing, nothing


def _plan_pairs(parts: _Parts, config: InstanceConfig, key: np.uint64) -> tuple[Int64s, ...]:
    """`mlm+nsp` and `mlm+sop`: [I] each: A, B, is B not what follows, tokens lost."""
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
        wanted = (targets - (a_stop - a_start))[rows]
        b_start[rows], b_stop[rows] = _random_next(parts, owner[rows], wanted, all_keys[rows])
    else:
        # A sentence alone is split inside; one of a single token is the only thing lost here.
        alone = chunk_end - begin == 1
        room = np.maximum(b_stop - a_start - 1, 1)
        a_stop = np.where(alone, a_start + 1 + below(mix(all_keys, _SENTENCE), room), a_stop)
        b_start = a_stop.copy()
        kept = np.flatnonzero(b_stop > b_start)
        columns = (column[kept] for column in (a_start, a_stop, b_start, b_stop, random))
        a_start, a_stop, b_start, b_stop, random = columns
        all_keys = all_keys[kept]
        swap = random == 1
        a_start, b_start = np.where(swap, b_start, a_start), np.where(swap, a_start, b_start)
        a_stop, b_stop = np.where(swap, b_stop, a_stop), np.where(swap, a_stop, b_stop)
    before = (a_stop - a_start) + (b_stop - b_start)
    ranges = _truncate((a_start, a_stop, b_start, b_stop), longest, all_keys)
    lost: Int64s = before - (ranges[1] - ranges[0]) - (ranges[3] - ranges[2])
    return *ranges, random, lost


def _random_next(
    parts: _Parts, owner: Int64s, wanted: Int64s, keys: UInt64s
) -> tuple[Int64s, Int64s]:
    """From a random sentence of another document: sentences until they are `wanted` tokens."""
    count = len(parts.documents)
    if count > 1:
        other = below(mix(keys, _DOCUMENT), count - 1)
        other += other >= owner
    else:
        other = owner
    first, last = parts.document_first[other], parts.document_last[other]
    sentence = first + below(mix(keys, _SENTENCE), last - first)
    start: Int64s = parts.bounds[sentence]
    end = np.searchsorted(parts.bounds, start + np.maximum(wanted, 1))
    stop: Int64s = parts.bounds[np.minimum(end, last)]
    return start, stop


def _truncate(
    ranges: tuple[Int64s, Int64s, Int64s, Int64s], longest: int, keys: UInt64s
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """`truncate_seq_pair` at once: one token of the longer half (B of equal ones) at a time.

    The lengths it ends with are fixed: each half keeps what fits, at least its half of the room.
    Each token went from the front or from the back by a coin, so the front loses a binomial number.
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
