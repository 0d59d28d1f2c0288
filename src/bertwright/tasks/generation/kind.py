"""Generation: the encoder itself generates a target from a source, without a separate decoder.

**Instances.** A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read
in one window. A source is truncated so that it leaves room for a target, and a target to
`max_target_tokens`. Both are counted in `Lengths`.

**Head.** BERT reads the source bidirectionally and the target from left to right (UniLM; section
2.1, the sequence-to-sequence mask); a causal encoder reads both from left to right. From the last
token of the source on, the vector at each position predicts the next token:

`loss = -sum_i log softmax(W t(x_i) + b)[token_(i+1)]`

W is the token embeddings, and t is the dense layer, activation and norm of the masked-LM head
(`models/bert/masked_lm.py`), whose weights initialize it; for a causal encoder, t is the identity.
Training smooths the target distribution by 0.1, as UniLM's fine-tuning does (section 3.1). One
thing differs from UniLM, which masks some tokens of the target and predicts these: here every
position predicts the next token, so that each step trains on all of them and decoding reads each
token once.

**Predictions.** Each distinct source is read once, without padding, and continued token by token
(`decoding/texts.py`). Batching is continuous: a finished text leaves the batch and the next source
joins it.

**Metrics.** Rows with the same source are references of one example, as in E2E.

- ROUGE-L (Lin 2004) as Google's rouge-score computes it: F1 with stemming, against the best
  reference. For languages other than English, it compares Unicode words or characters
  (`text_metrics.py`). It is the main metric, because BLEU is 0 as long as no four tokens in a row
  are right, as early in training.
- BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018; with `exp` smoothing), over all
  predictions together. The tokenizer is chosen by the script of the targets, or by `bleu_tokenize`.
- Exact match, ignoring white space around the text.

If no prediction has a capital letter, as with an uncased model, BLEU and exact match are computed
on lower-cased text (`rules` says so).

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
from bertwright.config.generation import GenerationConfig
from bertwright.decoding.texts import CausalDecoder, Prompt, continue_prompts
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import GenerationExample
from bertwright.labelled.texts import TARGETS
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Learner, Loss
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.products import lay_out
from bertwright.nn.sequences import Sequences
from bertwright.tasks.batch import TaskBatch, flat, windows_of
from bertwright.tasks.generation.options import GenerationOptions, GenerationTask
from bertwright.tasks.head import Head
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    segments_of,
    tokenized,
    whole_length,
)
from bertwright.tasks.kind import (
    Kind,
    RowColumns,
    one_window,
)
from bertwright.tasks.metrics import Metrics, of_sums, only_prediction, ratio
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.tasks.text_metrics import bleu_of, bleu_signature, rouge_l_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

ROWS = 128
"""The most targets that are generated at once, counting beams."""


@dataclass(frozen=True)
class GenerationInstance(Instance):
    """A source and its target in one window."""

    label: int = 0
    """The number of tokens before the target: those of the source, with special tokens."""


@dataclass(frozen=True)
class GenerationBatch(TaskBatch):
    """A batch of sources, each with its target if that is known."""

    labels: Tensor | None = None
    """[K] int64: the tokens of the targets, with their end tokens."""
    before: Tensor | None = None
    """[K] int64: the position in N of the token before each label."""


class Generator(VocabularyOutput, Head[GenerationBatch]):
    """Head that predicts the next token of the target."""

    reads_embeddings = True

    def __init__(self, spec: EncoderSpec, task: GenerationTask) -> None:
        """Build the head; `tie` gives it the token embeddings of the encoder."""
        if not (spec.causal or spec.prefixed):
            raise ConfigError(
                "generation needs an encoder that can read a target from left to right, as a BERT "
                "or a causal language model can; this one only reads both ways"
            )
        transform = spec.before_tokens
        super().__init__(spec.vocab_size, transform=transform)
        self.embedding_width = spec.width if transform is None else transform.output or spec.width
        self.task, self.mix, self.before_scores = task, None, None

    def tie(self, encoder: Encoder) -> None:
        """Use an encoder's token embeddings as W."""
        table = encoder.token_embedding()
        if table is None or table.embedding_dim != self.embedding_width:
            raise ConfigError(
                "generation needs token embeddings that can also predict tokens, as those of a "
                "BERT can; this encoder's have another width than its vectors, or it has none"
            )
        self.tie_to(table)

    def count(self, batch: GenerationBatch) -> int:
        """Return K, the number of predicted tokens in a batch."""
        return len(cast(Tensor, batch.labels))

    def positions(self, batch: GenerationBatch) -> Tensor | None:
        """Return the positions that predict: the last token of each source, and the target's
        tokens.
        """
        return batch.before

    def forward(self, encoded: Encoded, batch: GenerationBatch) -> Loss:
        """Return the cross-entropy summed over the target tokens of a batch, including end
        tokens.
        """
        before, labels = cast(Tensor, batch.before), cast(Tensor, batch.labels)
        return self.cross_entropy(
            encoded.at(before), labels, smoothing=SMOOTHING if self.training else 0.0
        )

    def flops(self, batch: GenerationBatch) -> float:
        """Return the number of floating-point operations of the dense layer and the vocabulary's
        scores at the positions that predict.
        """
        return self.output_flops(self.count(batch))


def _decoder(learner: Learner, name: str, precision: str) -> CausalDecoder:
    """Return a decoder that works on a copy of the weights, in the given precision.

    The copy is needed because autocast would cast all weights at each step, and because the weights
    in training have another memory layout.
    """
    with torch.inference_mode(False):  # tensors made in inference mode have no version counter
        modules = deepcopy(nn.ModuleList([learner.encoder, learner.objectives[name]]))
        if precision == "bf16":
            modules.to(torch.bfloat16)
        return target_decoder(cast(Encoder, modules[0]), modules[1])


def target_decoder(encoder: Encoder, head: Any) -> CausalDecoder:
    """Return the decoder of a generation task. The weights are laid out for inference and must not
    be trained afterwards.
    """
    lay_out(nn.ModuleList([encoder, head]), head.weight)
    return CausalDecoder(encoder, head, paired=True)


SMOOTHING = 0.1
"""The fraction of the target distribution that is uniform during training."""


class GenerationKind(
    Kind[GenerationTask, GenerationExample, GenerationInstance, GenerationPrediction]
):
    """Generation of a target from a source."""

    name = "generation"
    task_class = GenerationTask
    prediction = GenerationPrediction
    reader = TARGETS
    example = GenerationExample
    fields = (("source", "target"),)
    inputs = ("source",)
    expected_input = "a source text"
    scores_tokens = True
    generates = True

    def check_packages(self, options: GenerationOptions) -> None:
        """Raise MissingExtra before the run if a package of the metrics is missing."""
        bleu_of(options.bleu_tokenize, (), "generation", "BLEU of generated texts")
        rouge_l_of(())

    def row(self, task: GenerationTask) -> RowColumns:
        return RowColumns((task.text_column or "source",), "a source")

    def make(
        self, task: GenerationTask, tokenizer: Tokenizer, examples: Sequence[GenerationExample]
    ) -> tuple[list[GenerationInstance], Lengths]:

        def texts_of(example: GenerationExample) -> dict[str, str]:
            target = {} if example.target is None else {"target": example.target}
            return {"source": example.source} | target

        framing = tokenizer.framing
        room = task.max_length - task.most_target_tokens - framing.special_tokens(True)
        instances: list[GenerationInstance] = []
        lengths = Lengths()
        for number, example, (source, *targets) in tokenized(tokenizer, examples, texts_of):
            if targets and not targets[0]:
                where = in_words(example, number)
                raise DataError(
                    f"{where}: the tokenizer gives no token for the target {example.target!r}"
                )
            target: Sequence[int] = targets[0] if targets else ()
            first, second = source[:room], target[: task.most_target_tokens]
            ids = framing.two(first, second)
            prefix = len(ids) - len(second) - (framing.special_tokens(True) > 0)
            if len(second) < len(target):
                ids = ids[:-1]  # a truncated target has no end token
            segments = segments_of(framing, len(first), len(second))[: len(ids)]
            instances.append(GenerationInstance(number, (array("i", ids),), (segments,), prefix))
            lost = len(source) - len(first) + len(target) - len(second)
            lengths.add(whole_length(framing, source, target), 1, lost)
        return instances, lengths

    def collate(
        self,
        task: GenerationTask,
        instances: Sequence[GenerationInstance],
        rows: Sequence[int],
        with_labels: bool,
    ) -> GenerationBatch:
        """Return the batch of some instances: without labels only the sources, otherwise each
        sequence without its last token.
        """
        prefixes = [instance.label for instance in instances]
        ids = [instance.ids[0] for instance in instances]
        ends = [len(own) - 1 for own in ids] if with_labels else prefixes
        read = [
            replace(each, ids=(own[:end],), segments=(each.segments[0][:end],))
            for each, own, end in zip(instances, ids, ends, strict=True)
        ]
        inputs, lengths, order, _ = windows_of(read)
        batch = GenerationBatch(inputs, rows=tuple(rows))
        if not with_labels:
            return batch
        sources = np.array(prefixes)[order]
        sequences = Sequences(lengths.tolist(), prefixes=sources.tolist())
        labels = flat(ids[n][prefixes[n] :] for n in order)
        stops = lengths.cumsum()
        starts = stops - lengths + sources - 1
        before = np.concatenate([*map(np.arange, starts, stops)])
        return replace(
            batch,
            inputs=replace(inputs, sequences=sequences),
            labels=torch.from_numpy(labels),
            before=torch.from_numpy(before),
        )

    def room(self, task: GenerationTask) -> str:
        target = f"{task.most_target_tokens} of them for the target (--max-target-tokens)"
        return f"{one_window(task)}, {target}"

    def head(self, spec: EncoderSpec, task: GenerationTask) -> Head[GenerationBatch]:
        return Generator(spec, task)

    def generate(
        self,
        task: GenerationTask,
        tokenizer: Tokenizer,
        instances: Sequence[GenerationInstance],
        learner: Learner,
        head: str,
        precision: str,
        batch_tokens: int,
        config: GenerationConfig | None,
    ) -> Iterator[tuple[int, GenerationPrediction]]:
        """Yield indices of instances with the texts that the task's head generates.

        Decoding is greedy unless `config` says otherwise; a target has at most `max_target_tokens`
        tokens.
        """
        most = task.most_target_tokens
        config = config or GenerationConfig(max_new_tokens=most)
        limit = min(config.max_new_tokens, most)
        decoder = _decoder(learner, head, precision)
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, instance in enumerate(instances):
            groups.setdefault(tuple(instance.ids[0][: instance.label]), []).append(row)
        sources = sorted(groups, key=len, reverse=True)
        prompts = [Prompt([*ids], limit) for ids in sources]
        texts = continue_prompts(decoder, tokenizer, prompts, config, batch_tokens, ROWS)
        for number, generated in texts:
            first, *others = (each.text.strip() for each in generated)
            score = generated[0].score
            for row in groups[sources[number]]:
                yield row, GenerationPrediction(first, score, tuple(others))

    def parse_prediction(
        self, value: Any, example: GenerationExample, where: str
    ) -> GenerationPrediction:
        return GenerationPrediction(str(value))

    def metric_names(self, task: GenerationTask) -> tuple[str, ...]:
        return "rouge_l", "bleu", "exact_match"

    def metrics(
        self,
        task: GenerationTask,
        examples: Sequence[GenerationExample],
        predictions: Sequence[GenerationPrediction],
    ) -> Metrics:
        """Return BLEU, ROUGE-L and exact match of each source against all its targets. All three
        compare texts in lower case.
        """
        all_targets = [cast(str, example.target) for example in examples]
        bleu = bleu_of(
            task.options.bleu_tokenize,
            all_targets,
            "generation",
            "BLEU of generated texts",
            effective_order=True,
        )
        rouge_l_best, rouge_words = rouge_l_of(all_targets)
        rows: dict[str, list[int]] = {}
        for row, example in enumerate(examples):
            rows.setdefault(example.source, []).append(row)
        # as ROUGE-L compares; predictions must not decide, or two models would have two metrics
        lower = any(any(map(str.isupper, target)) for target in all_targets)
        fold = str.lower if lower else str
        parts = np.zeros((len(examples), 13))  # a source is counted at its first row
        errors: dict[int, float] = {}
        for same_source in rows.values():
            first = same_source[0]
            text = predictions[first].text
            targets = [cast(str, examples[row].target) for row in same_source]
            bleu_score = bleu.sentence_score(fold(text), [fold(each) for each in targets])
            overlap = rouge_l_best(targets, text)
            exact = fold(text).strip() in {fold(each).strip() for each in targets}
            lengths = bleu_score.sys_len, bleu_score.ref_len
            parts[first] = *bleu_score.counts, *bleu_score.totals, *lengths, overlap, exact, 1
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
        counts = {len(same_source) for same_source in rows.values()}
        firsts = [same_source[0] for same_source in rows.values()]
        return Metrics(
            main="rouge_l",
            statistic=of_sums(parts, formula),
            errors=errors,
            describe=lambda row: (cast(str, examples[row].target), predictions[row].text),
            degenerate=only_prediction(
                [examples[row].target for row in firsts],
                [predictions[row].text for row in firsts],
                str,
            ),
            rules="lower case" if lower else None,
            signatures={
                "bleu": bleu_signature(bleu, counts.pop() if len(counts) == 1 else 0),
                "rouge_l": f"words:{rouge_words}",
            },
        )

    def gold(self, example: GenerationExample) -> str | None:
        return example.target

    def shown(self, example: GenerationExample) -> tuple[str | None, str | None]:
        return example.source, None
