"""Compiled loops that train word vectors one word at a time (numba; extra `words`).

Each step is one prediction; batches of torch would spend their time on gathering rows. All threads
run the same function on different chunks and write to the same tables without locks (Recht et al.
2011, "Hogwild"), as word2vec.c does. A single thread gives the same bytes each time.

Letters: N tokens, D documents, V vocabulary, H width, R rows of the input table (V words; for
fastText also character n-grams), m rows that are averaged to h.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from bertwright.arrays import Float32s, Float64s, Int32s, Int64s

compiled = njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
inlined = njit(inline="always")

ONE, ZERO = np.float32(1), np.float32(0)
_FLOOR = 1e-30  # the least probability whose logarithm is reported


@inlined
def advance(state: np.uint64) -> np.uint64:
    """Return the next state of a linear congruential generator (Knuth's MMIX); high bits are
    random.
    """
    return state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)


@inlined
def below(state: np.uint64, limit: int) -> np.uint64:
    """Return a number from 0 to `limit` - 1, from the highest 32 bits."""
    return ((state >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32)


@inlined
def fraction(state: np.uint64) -> np.float32:
    """Return a number in [0, 1), from the 24 bits in the middle."""
    return np.float32((state >> np.uint64(8)) & np.uint64(0xFFFFFF)) * np.float32(2.0**-24)


@compiled
def train_context_words(
    tokens: Int32s,
    ends: Int64s,
    inputs: Float32s,
    outputs: Float32s,
    unit_starts: Int64s,
    units: Int32s,
    keep: Float32s,
    noise: tuple[Float32s, Int32s],
    paths: tuple[Int64s, Int32s, Float32s],
    cbow: bool,
    window: int,
    negative: int,
    rates: tuple[float, float],
    seed: np.uint64,
) -> tuple[float, int]:
    """Train word2vec or fastText on one chunk; return its summed loss and the number of
    predictions.

    The context of a word is the words at most b before or after it, where b is uniform from 1 to
    `window`. CBOW predicts the word from the mean of their vectors. Skip-gram predicts it from each
    of them separately, the direction that word2vec.c has. As there, the gradient of a mean goes
    undivided to each of its rows.

    Args:
        tokens: `[N]`
        ends: `[D]`, where in the tokens documents end.
        inputs: `[R, H]`; changed.
        outputs: `[V, H]` or `[V - 1, H]`; changed.
        unit_starts: `[V + 1]`, where in `units` the rows of each word start.
        units: the rows whose mean is a word's vector.
        keep: `[V]`, the probability that an occurrence is kept.
        noise: the distribution of sampled words (`alias_table`).
        paths: the paths of the hierarchical softmax (`huffman_codes`).
        cbow: whether the algorithm is CBOW.
        window: the maximum of b.
        negative: the number of sampled words per prediction; 0: the hierarchical softmax.
        rates: the learning rate at the start and at the end of the chunk.
        seed: of everything that is drawn.
    """
    (accept, other), (path_starts, path_nodes, path_branches) = noise, paths
    width, vocabulary, state = inputs.shape[1], len(keep), np.uint64(seed)
    h, gradient = np.empty(width, np.float32), np.empty(width, np.float32)
    text = np.empty(len(tokens), np.int32)
    rows = np.empty(2 * window * np.diff(unit_starts).max(), np.int32)
    loss, predictions, start = 0.0, 0, 0
    for stop in ends:
        n = 0
        for i in range(start, stop):
            word = tokens[i]
            if keep[word] > ZERO:
                state = advance(state)
                if fraction(state) < keep[word]:
                    text[n] = word
                    n += 1
        rate = np.float32(rates[0] + (rates[1] - rates[0]) * start / len(tokens))
        start = stop
        for i in range(n):
            target = text[i]
            state = advance(state)
            reach = 1 + int(below(state, window))
            j, last = max(0, i - reach), min(n, i + reach + 1)
            while j < last:
                m = 0
                while j < last and (cbow or m == 0):
                    if j != i:
                        for unit in range(unit_starts[text[j]], unit_starts[text[j] + 1]):
                            rows[m] = units[unit]
                            m += 1
                    j += 1
                if m == 0:
                    break
                row = rows[0]
                for k in range(width):
                    h[k] = inputs[row, k]
                    gradient[k] = ZERO
                if m > 1:
                    for r in range(1, m):
                        row = rows[r]
                        for k in range(width):
                            h[k] += inputs[row, k]
                    scale = ONE / np.float32(m)
                    for k in range(width):
                        h[k] *= scale
                steps = negative + 1
                if negative == 0:
                    steps = path_starts[target + 1] - path_starts[target]
                probability = 1.0
                for step in range(steps):
                    if negative == 0:
                        at = path_starts[target] + step
                        out, label = np.int64(path_nodes[at]), path_branches[at]
                    elif step == 0:
                        out, label = np.int64(target), ONE
                    else:
                        state = advance(state)
                        out, label = np.int64(below(state, vocabulary)), ZERO
                        if fraction(state) >= accept[out]:
                            out = np.int64(other[out])
                        if out == target:
                            continue
                    score = ZERO
                    for k in range(width):
                        score += h[k] * outputs[out, k]
                    sigmoid = ONE / (ONE + np.exp(-score))
                    probability *= sigmoid if label else ONE - sigmoid
                    change = (label - sigmoid) * rate
                    for k in range(width):
                        gradient[k] += change * outputs[out, k]
                        outputs[out, k] += change * h[k]
                loss -= np.log(max(probability, _FLOOR))
                predictions += 1
                for r in range(m):
                    row = rows[r]
                    for k in range(width):
                        inputs[row, k] += gradient[k]
    return loss, predictions


@compiled
def train_cooccurrences(
    keys: Int64s,
    counts: Float64s,
    order: Int64s,
    vectors: Float32s,
    biases: Float32s,
    vector_squares: Float32s,
    bias_squares: Float32s,
    most: float,
    power: float,
    rate: float,
) -> tuple[float, int]:
    """Train GloVe on some entries; return their summed loss, and their number, counting (i, j) and
    (j, i) separately.

    As in the published program, AdaGrad sums the squares of gradients times the rate, starting at
    1.

    Args:
        keys: `[E]`, i V + j of pairs with i <= j.
        counts: `[E]`, the sums of 1/d over pairs of occurrences.
        order: the positions in `[E]` to train on.
        vectors: `[2, V, H]`, of words and of contexts; changed.
        biases: `[2, V]`, of words and of contexts; changed.
        vector_squares: the summed squares of `vectors`; changed.
        bias_squares: the summed squares of `biases`; changed.
        most: x_max.
        power: the exponent of f.
        rate: the learning rate.
    """
    (_, size, width), loss, entries, step = vectors.shape, 0.0, 0, np.float32(rate)
    for at in order:
        one, other, count = keys[at] // size, keys[at] % size, counts[at]
        if one == other:
            count *= 2  # each pair of occurrences counts in both directions
        weight = np.float32(min(1.0, (count / most) ** power))
        logarithm = np.float32(np.log(count))
        for turn in range(1 if one == other else 2):
            word, context = (one, other) if turn == 0 else (other, one)
            score = biases[0, word] + biases[1, context] - logarithm
            for k in range(width):
                score += vectors[0, word, k] * vectors[1, context, k]
            loss += 0.5 * weight * score * score
            entries += 1
            change = weight * score * step
            for k in range(width):
                of_word = change * vectors[1, context, k]
                of_context = change * vectors[0, word, k]
                vectors[0, word, k] -= of_word / np.sqrt(vector_squares[0, word, k])
                vectors[1, context, k] -= of_context / np.sqrt(vector_squares[1, context, k])
                vector_squares[0, word, k] += of_word * of_word
                vector_squares[1, context, k] += of_context * of_context
            biases[0, word] -= change / np.sqrt(bias_squares[0, word])
            biases[1, context] -= change / np.sqrt(bias_squares[1, context])
            bias_squares[0, word] += change * change
            bias_squares[1, context] += change * change
    return loss, entries
