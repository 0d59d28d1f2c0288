"""Generation: the encoder itself writes a target from a source, without a decoder of its own.

**Instances.** A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read
in one window: of a source that leaves no room for a target the rest is not read, and a target's
tokens beyond `max_target_tokens` are not trained on. Both are counted in `Lengths`.

**Head.** BERT reads the source both ways and the target from left to right (UniLM; section 2.1, the
sequence-to-sequence mask); a causal encoder reads both from left to right. From the last token of
the source on, each position's vector predicts the token that follows:

`loss = -sum_i log softmax(W t(x_i) + b)[token_(i+1)]`, W the token embeddings, t the dense layer,
activation and norm of the masked-LM head (`models/bert/masked_lm.py`), whose weights initialize it,
and of a causal encoder the identity. Training smooths the target distribution by 0.1, as UniLM's
fine-tuning does (section 3.1). Where we differ: UniLM masks some tokens of the target and predicts
these; here every position predicts the next token, so that each step trains on all of them and
decoding reads each token once.

**Predictions.** The sources, each once, are read without padding and continued token by token
(`decoding/texts.py`); rows leave when their text ends, and the next source joins.

**Metrics.** Rows with the same source are references of one example, as E2E has them.

- ROUGE-L (Lin 2004) as Google's rouge-score, F1 with stemming, against the best reference; of
  other languages than English, over Unicode words or characters (`text_metrics.py`). It selects the
  model: BLEU is 0 where no four tokens in a row are right, as at first;
- BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018; not smoothed but for exp), of all
  predictions together, its tokenizer chosen by the script of the targets or by `bleu_tokenize`;
- exact match, but for blanks around the text.

Where no prediction has a capital letter, as of an uncased model, BLEU and exact match compare in
lower case (`rules` says so).

Letters: N tokens, K predicted tokens, B sources, R rows (texts), H hidden, V vocabulary.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from bertwright.arrays import Float64s
from bertwright.config.finetune import TaskFilesConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.decoding.texts import CausalDecoder, Prompt, continue_prompts
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import GenerationExample
from bertwright.labelled.texts import TARGETS
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Learner, Loss
from bertwright.nn.outputs.vocabulary import Transform, VocabularyOutput
from bertwright.nn.products import lay_out
from bertwright.progress import OnProgress
from bertwright.tasks.collation import Collated, flat, windows_of
from bertwright.tasks.head import Head, LabelledBatch
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    segments_of,
    tokenized,
    whole_length,
)
from bertwright.tasks.kind import Data, Row, Scored, TaskKind, are_texts, input_values, one_window
from bertwright.tasks.metrics import Metrics, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.tasks.text_metrics import bleu_of, bleu_signature, rouge_l_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

ROWS = 128
"""Targets that are searched for at once, beams counted."""


@dataclass(frozen=True)
class GenerationInstance(Instance):
    """A source and its target in one window."""

    label: int = 0
    """Tokens of the source, which the target follows."""


def make_generation_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[GenerationExample]
) -> tuple[list[GenerationInstance], Lengths]:
    """One instance an example; its label is how many tokens are the source's.

    Raises:
        DataError: an empty source or target, or one of which the tokenizer keeps nothing; with the
            line.
    """

    def texts_of(example: GenerationExample) -> dict[str, str]:
        target = {} if example.target is None else {"target": example.target}
        return {"source": example.source} | target

    framing = tokenizer.framing
    room = task.max_length - task.max_target_tokens - framing.special_tokens(True)
    instances: list[GenerationInstance] = []
    lengths = Lengths()
    for number, example, (source, *targets) in tokenized(tokenizer, examples, texts_of):
        if targets and not targets[0]:
            where = in_words(example, number)
            raise DataError(
                f"{where}: the tokenizer keeps nothing of the target {example.target!r}"
            )
        target: Sequence[int] = targets[0] if targets else ()
        first, second = source[:room], target[: task.max_target_tokens]
        ids = framing.two(first, second)
        prefix = len(ids) - len(second) - (framing.special_tokens(True) > 0)
        if len(second) < len(target):
            ids = ids[:-1]  # it does not end here
        segments = segments_of(framing, len(first), len(second))[: len(ids)]
        instances.append(GenerationInstance(number, (array("i", ids),), (segments,), prefix))
        lost = len(source) - len(first) + len(target) - len(second)
        lengths.add(whole_length(framing, source, target), 1, lost)
    return instances, lengths


class Generator(VocabularyOutput, Head):
    """Predict the next token of the target."""

    reads_embeddings = True

    def __init__(self, spec: EncoderSpec, task: TaskConfig) -> None:
        """Build the head; `tie` gives it the token embeddings of the encoder.

        Raises:
            ConfigError: the encoder cannot read from left to right.
        """
        if not (spec.causal or spec.prefixed):
            raise ConfigError(
                "generation needs a BERT or a causal language model; this one reads both ways"
            )
        transform = Transform(spec.width, spec.activation, spec.norm_eps)
        super().__init__(spec.vocab_size, transform=None if spec.causal else transform)
        self.task, self.mix = task, None

    def tie(self, encoder: Encoder) -> None:
        """Use an encoder's token embeddings as W.

        Raises:
            ConfigError: they are not as wide as the encoder's vectors.
        """
        table = encoder.token_embedding()
        if table is None or table.embedding_dim != encoder.spec.width:
            raise ConfigError(
                "generation needs token embeddings that predict tokens too, as those of a BERT do; "
                "this encoder's are of another width, or it has none"
            )
        self.tie_to(table)

    def count(self, batch: LabelledBatch) -> int:
        """Return K, the predicted tokens of a batch."""
        return len(cast(Tensor, batch.labels))

    def positions(self, batch: LabelledBatch) -> Tensor | None:
        """Return the last token of each source, and those of the target."""
        return batch.words

    def forward(self, encoded: Encoded, batch: LabelledBatch) -> Loss:
        """Return the cross-entropy summed over the target tokens of a batch, ends included."""
        words, labels = cast(Tensor, batch.words), cast(Tensor, batch.labels)
        return self.cross_entropy(
            encoded.at(words), labels, smoothing=SMOOTHING if self.training else 0.0
        )

    def scores(self, encoded: Encoded, batch: LabelledBatch) -> Tensor:
        """Raise ConfigError: targets are searched for token by token."""
        raise ConfigError("a generation task has no scores of a text: use bertwright predict")

    def flops(self, batch: LabelledBatch) -> float:
        """Return those of the dense layer and the vocabulary at the predicted positions."""
        return self.output_flops(self.count(batch))


def generate_targets(
    learner: Learner,
    data: Data,
    precision: str,
    batch_tokens: int,
    config: GenerationConfig | None,
    on_progress: OnProgress,
) -> Iterator[tuple[int, GenerationPrediction]]:
    """Yield numbers of examples, and the texts that the head of the task writes: greedily unless
    `config` says otherwise, and never of more than the task's `max_target_tokens`."""
    config = config or GenerationConfig(max_new_tokens=data.task.max_target_tokens)
    limit = min(config.max_new_tokens, data.task.max_target_tokens)
    decoder = _decoder(learner, data.name, precision)
    instances = cast(Sequence[GenerationInstance], data.instances)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, instance in enumerate(instances):
        groups.setdefault(tuple(instance.ids[0][: instance.label]), []).append(row)
    sources = sorted(groups, key=len, reverse=True)
    prompts = [Prompt([*ids], limit) for ids in sources]
    done = 0
    texts = continue_prompts(decoder, data.tokenizer, prompts, config, batch_tokens, ROWS)
    for number, found in texts:
        first, *others = (each.text.strip() for each in found)
        score = found[0].score
        for row in groups[sources[number]]:
            yield row, GenerationPrediction(first, score, tuple(others))
            done += instances[row].num_tokens
        on_progress(done, data.num_tokens)


def _decoder(learner: Learner, name: str, precision: str) -> CausalDecoder:
    """Of a copy of the weights that a head needs, in a precision: autocast would cast all of them
    at each step, and those of training are laid out for it."""
    with torch.inference_mode(False):  # tensors that it makes do not tell whether they changed
        own = deepcopy(nn.ModuleList([learner.encoder, learner.objectives[name]]))
        if precision == "bf16":
            own.to(torch.bfloat16)
        return target_decoder(cast(Encoder, own[0]), own[1])


def target_decoder(encoder: Encoder, head: Any) -> CausalDecoder:
    """What generates the targets of sources by the head of a generation task; the weights are laid
    out for it, and must not be trained any more."""
    lay_out(nn.ModuleList([encoder, head]), head.weight)
    return CausalDecoder(encoder, head, paired=True)


SMOOTHING = 0.1
"""Fraction of the target distribution that is uniform, in training."""


def generation_metrics(
    task: TaskConfig,
    examples: Sequence[GenerationExample],
    predictions: Sequence[GenerationPrediction],
) -> Metrics:
    """BLEU, ROUGE-L and exact match of each source against all its targets."""
    all_targets = [cast(str, example.target) for example in examples]
    bleu = bleu_of(
        task.bleu_tokenize,
        all_targets,
        "generation",
        "BLEU of generated texts",
        effective_order=True,
    )
    rouge_l_best, rouge_words = rouge_l_of(all_targets)
    rows: dict[str, list[int]] = {}
    for row, example in enumerate(examples):
        rows.setdefault(example.source, []).append(row)
    lower = not any(any(map(str.isupper, each.text)) for each in predictions)
    lower &= any(any(map(str.isupper, target)) for target in all_targets)  # some scripts have none
    fold = str.lower if lower else str
    parts = np.zeros((len(examples), 13))  # a source counts where its first row stands
    errors: dict[int, float] = {}
    for own in rows.values():
        first = own[0]
        text = predictions[first].text
        targets = [cast(str, examples[row].target) for row in own]
        found = bleu.sentence_score(fold(text), [fold(each) for each in targets])
        overlap = rouge_l_best(targets, text)
        exact = fold(text).strip() in {fold(each).strip() for each in targets}
        parts[first] = *found.counts, *found.totals, found.sys_len, found.ref_len, overlap, exact, 1
        if not exact:
            errors[first] = 1 - overlap

    def formula(sums: Float64s) -> dict[str, Float64s]:
        scores = [
            bleu.compute_bleu(row[:4], row[4:8], row[8], row[9], "exp").score / 100
            for row in sums.astype(np.int64).tolist()
        ]
        rouge_l, exact = (ratio(sums[:, n], sums[:, 12]) for n in (10, 11))
        return {"rouge_l": rouge_l, "bleu": np.array(scores), "exact_match": exact}

    bleu.lowercase, bleu.effective_order = lower, False  # as the corpus is scored
    counts = {len(own) for own in rows.values()}
    firsts = [own[0] for own in rows.values()]
    return Metrics(
        main="rouge_l",
        statistic=of_sums(parts, formula),
        errors=errors,
        describe=lambda row: (cast(str, examples[row].target), predictions[row].text),
        degenerate=only_prediction(
            [examples[row].target for row in firsts], [predictions[row].text for row in firsts], str
        ),
        rules="lower case" if lower else None,
        signatures={
            "bleu": bleu_signature(bleu, counts.pop() if len(counts) == 1 else 0),
            "rouge_l": f"words:{rouge_words}",
        },
    )


def collate_targets(
    task: TaskConfig,
    instances: Sequence[GenerationInstance],
    rows: Sequence[int],
    with_labels: bool,
) -> Collated:
    """Return the batch of some instances: without labels the sources alone, otherwise all but the
    token that ends each target."""
    prefixes = [instance.label for instance in instances]
    ids = [instance.ids[0] for instance in instances]
    ends = [len(own) - 1 for own in ids] if with_labels else prefixes
    read = [
        replace(each, ids=(own[:end],), segments=(each.segments[0][:end],))
        for each, own, end in zip(instances, ids, ends, strict=True)
    ]
    inputs, order, owners = windows_of(read)
    if not with_labels:
        return Collated(inputs, rows, None, owners)
    sources = np.array(prefixes)[order]
    inputs = replace(inputs, prefixes=sources)
    labels = flat(ids[n][prefixes[n] :] for n in order)
    stops = inputs.lengths.cumsum()
    starts = stops - inputs.lengths + sources - 1
    words = np.concatenate([*map(np.arange, starts, stops)])
    return Collated(inputs, rows, labels, owners, words)


def _no_scores(
    task: TaskConfig,
    examples: Sequence[GenerationExample],
    instances: Sequence[GenerationInstance],
    scored: Iterator[Scored],
) -> Iterator[tuple[int, GenerationPrediction]]:
    raise ConfigError("a generation task has no scores of a text: use bertwright predict")


def _parse_input(given: Any) -> GenerationExample | None:
    values = input_values(given, GenerationExample, ("source",))
    fits = values is not None and len(values) == 1 and are_texts(*values)
    return GenerationExample(*values) if values is not None and fits else None


def _parse_prediction(value: Any, example: GenerationExample, where: str) -> GenerationPrediction:
    return GenerationPrediction(str(value))


def _check_files(files: TaskFilesConfig) -> None:
    """Raise MissingExtra before the run where a package of the metrics is missing."""
    bleu_of(files.bleu_tokenize, (), "generation", "BLEU of generated texts")
    rouge_l_of(())


def _room(task: TaskConfig) -> str:
    target = f"{task.max_target_tokens} of them for the target (--max-target-tokens)"
    return f"{one_window(task)}, {target}"


GENERATION = TaskKind[GenerationExample, GenerationInstance, GenerationPrediction](
    name="generation",
    reader=TARGETS,
    fields=(("source", "target"),),
    inputs=("source",),
    check_files=_check_files,
    parse_input=_parse_input,
    expected_input="a source text",
    row=lambda task: Row((task.text_column or "source",), "a source"),
    make=make_generation_instances,
    collate=collate_targets,
    room=_room,
    head=Generator,
    scores_tokens=True,
    decode=_no_scores,
    generate=generate_targets,
    parse_prediction=_parse_prediction,
    metric_names=lambda task: ("rouge_l", "bleu", "exact_match"),
    metrics=generation_metrics,
    gold=lambda example: example.target,
    shown=lambda example: (example.source, None),
)
