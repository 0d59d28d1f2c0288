"""Compare an exported model with the original: on sequences of random lengths, and for int8 also on
text.

The reference outputs are computed sequence by sequence, without padding, by the heads that training
uses. The comparison therefore covers the second implementation of the computation (`padded.py`),
the exporter, the runtime and the padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bertwright.checkpoint.export.exported import Arrays, Exported
from bertwright.checkpoint.export.padded import LOGITS, POOLED
from bertwright.config.task import TaskConfig
from bertwright.errors import BertwrightError
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.tasks.head import Head
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.text.tokenizer.tokenizer import Tokenizer

LARGEST_DIFFERENCE = 1e-4
"""The largest difference allowed between the outputs of our model and of a float32 export, relative
to the largest magnitude in the output, or to 1 if that is smaller."""

SENTENCES = (
    "The river rose after three days of rain, and the bridge was closed.",
    "She opened the letter, read it twice and put it back into the drawer.",
    "A committee of nine members will report to the council in June.",
    "He did not say a word until the train had left the station.",
    "Prices of wheat fell by four per cent, the largest drop in a year.",
    "The museum holds a collection of maps from the sixteenth century.",
    "If the pressure is too low, the valve closes and the pump stops.",
    "They walked along the coast as far as the old lighthouse.",
    "The film is too long, but the last half hour is worth the wait.",
    "I would not buy it again: the handle broke after a week.",
    "A function returns the value of its last expression.",
    "Most of the island is covered with forest; few people live there.",
    "The second edition corrects some errors of the first.",
    "When the war ended, the factory made bicycles again.",
    "Doctors advise drinking more water in hot weather.",
    "The orchestra played the symphony without a conductor.",
    "Is there a train to the north before eight in the morning?",
    "The bird builds its nest under the roofs of houses.",
    "Nobody knew who had painted the picture.",
    "The court decided that the contract was not valid.",
    "It was a quiet street with small shops and a school.",
    "Water boils at a lower temperature in the mountains.",
    "The team won the match in the last minute.",
    "Her first novel was written in a kitchen at night.",
    "The road is narrow, and lorries are not allowed on it.",
    "Sort the list, then remove what occurs twice.",
    "The king had three daughters and no son.",
    "Yes.",
    "This phone is light, quick and not expensive; I like it very much.",
    "The glacier has lost a third of its length in forty years.",
    "Paris is the capital of France, and Lyon its third largest city.",
    "The experiment was repeated with twice as many people, and the result was the same.",
)
"""The sentences on which an int8 export is evaluated if no texts are given."""


def ours(
    learner: Learner,
    exported: Exported,
    ids: Sequence[Sequence[int]],
    types: Sequence[Sequence[int]],
) -> dict[str, Arrays]:
    """Compute the outputs of the learner for each sequence, in the form of `Exported.run_all`."""
    found: dict[str, Arrays] = {name: [] for name in exported.outputs}
    for row, kinds in zip(ids, types, strict=True):
        with torch.inference_mode():
            tensors = _of_one(learner, exported, list(row), list(kinds))
        for name, tensor in zip(exported.outputs, tensors, strict=True):
            found[name].append(tensor.float().numpy())
    return found


def _of_one(
    learner: Learner, exported: Exported, row: list[int], kinds: list[int]
) -> list[torch.Tensor]:
    """Return the outputs of one sequence, in the order of `Exported.outputs`."""
    encoder = learner.encoder
    inputs = Inputs(torch.tensor(row), Sequences([len(row)]), torch.tensor(kinds))
    if exported.head is None:
        encoded = encoder(inputs, keep_layers=True)
        vectors = [encoded.layers[number] for number in exported.layers]
        if POOLED not in exported.outputs:
            return vectors
        assert encoded.pooled is not None
        return [*vectors, encoded.pooled[0]]
    head = learner.objectives[exported.head]
    if isinstance(head, VocabularyOutput):
        return [head.logits(encoder(inputs).last)]
    if isinstance(head, NextSentence):
        pooled = encoder(inputs).pooled
        assert pooled is not None
        return [head.logits(pooled)[0]]
    assert isinstance(head, Head)
    graph = exported.graph
    assert graph is not None
    batch = replace(graph.batch(inputs), task=exported.head)
    scores = head.scores(learner.encode(batch, [head]), batch)
    if graph.of_tokens:
        count = len(graph.outputs)
        return [scores] if count == 1 else [scores[:, n] for n in range(count)]
    return [scores.reshape(1) if graph.one_number and not graph.choices else scores[0]]


def check_random(learner: Learner, exported: Exported) -> float:
    """Return the largest difference, by `compare`, between an export and our model on sequences of
    random lengths in batches of several.
    """
    generator, spec = np.random.default_rng(0), learner.encoder.spec
    most = min(exported.longest, 512)
    lengths = [1, most, *generator.integers(1, min(most, 128) + 1, 10).tolist()]
    ids = [generator.integers(0, spec.vocab_size, length).tolist() for length in lengths]
    types = [np.sort(generator.integers(0, spec.segments, length)).tolist() for length in lengths]
    theirs = exported.run_all(ids, types, batch_tokens=2048)
    return compare(ours(learner, exported, ids, types), theirs)


def compare(own: Mapping[str, Arrays], theirs: Mapping[str, Arrays]) -> float:
    """Return the largest difference between the outputs of our model and of an export, relative to
    the largest magnitude in an output, or to 1 if that is smaller. Above `LARGEST_DIFFERENCE` it is
    an error.
    """
    worst, output = 0.0, ""
    for name, arrays in own.items():
        for array in arrays:
            require_finite(array, name)
        scale = max(1.0, max(float(np.abs(array).max()) for array in arrays))
        for a, b in zip(arrays, theirs[name], strict=True):
            difference = float(np.abs(a - b).max()) / scale if a.shape == b.shape else np.inf
            if not difference <= worst:  # true for NaN as well
                worst, output = difference, name
    if not worst <= LARGEST_DIFFERENCE:
        raise BertwrightError(
            f"the export is off: its {output} and ours differ by {worst:.2g} on random input; "
            f"expected at most {LARGEST_DIFFERENCE:g}. Nothing was written; another version of "
            "torch, onnx or the runtime may export it right"
        )
    return worst


def check_text(
    learner: Learner,
    exported: Exported,
    task: TaskConfig | None,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    least: float,
) -> dict[str, Any]:
    """Measure how close an int8 export is to our model on texts. Below `least` it is an error.

    Returns:
        `texts` and `tokens`, their numbers; `largest_difference`, over all outputs; and one figure
        that depends on the head. Without a head, it is `cosine_texts`, the cosine between the means
        of a text's token vectors: its `mean` and its `least` over texts, for the layer with the
        lowest mean. With a head that gives one number per text or choice, it is `correlation`, that
        of the scores. With any other head, it is `agreement`, the fraction of texts, tokens or
        labels for which both predict the same.
    """
    encodings = [tokenizer.encode(text) for text in texts]
    ids = [_truncated(encoding.ids, exported.longest) for encoding in encodings]
    types = [encoding.type_ids[: exported.longest] for encoding in encodings]
    theirs = exported.run_all(ids, types)
    own = ours(learner, exported, ids, types)
    pairs = {name: list(zip(own[name], theirs[name], strict=True)) for name in own}
    figures: dict[str, Any] = {
        "texts": len(ids),
        "tokens": sum(map(len, ids)),
        "largest_difference": max(
            float(np.abs(a - b).max()) for each in pairs.values() for a, b in each
        ),
    }
    if exported.head is None:
        pairs.pop(POOLED, None)
        cosines = [[_cosine(a.mean(0), b.mean(0)) for a, b in each] for each in pairs.values()]
        mean, least_of_all = min((float(np.mean(each)), min(each)) for each in cosines)
        figures["cosine_texts"] = {"mean": mean, "least": least_of_all}
        what, reached = "mean cosine of texts", mean
    elif exported.graph is not None and exported.graph.one_number:
        flat = np.array([[a.item(), b.item()] for a, b in pairs[LOGITS]])
        what, reached = "correlation", _correlation(flat[:, 0], flat[:, 1])
        figures["correlation"] = reached
    else:
        same = [_same(a, b, task) for each in pairs.values() for a, b in each]
        what, reached = "agreement", float(np.concatenate(same).mean())
        figures["agreement"] = reached
    if not reached >= least:
        raise BertwrightError(
            f"int8 is too far from ours: {what} {reached:.4f} on {len(ids)} texts; expected "
            f"{least} or more. Nothing was written; export without --int8, give text of your own "
            "with --sample, or lower --least"
        )
    return figures


def _truncated(ids: list[int], longest: int) -> list[int]:
    return ids if len(ids) <= longest else [*ids[: longest - 1], ids[-1]]


def _same(a: Any, b: Any, task: TaskConfig | None) -> Any:
    """Return whether two outputs predict the same: for a text, each token or each label."""
    if isinstance(task, ClassificationTask) and task.options.multi_label:
        return (a > 0) == (b > 0)
    return np.atleast_1d(a.argmax(-1) == b.argmax(-1))


def _cosine(a: Any, b: Any) -> float:
    """Return the cosine of two vectors `[H]`; -1 if it is NaN."""
    cosine = a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-12)
    return float(np.nan_to_num(cosine, nan=-1.0))


def _correlation(a: Any, b: Any) -> float:
    """Return Pearson's correlation; 1 for fewer than two numbers or if neither series varies."""
    if len(a) < 2 or (a.std() == 0 and b.std() == 0):
        return 1.0
    return float(np.corrcoef(a, b)[0, 1])
