"""A learner's weights behind the interface of other libraries: padded batches of ids and a mask.

    input_ids [B, T], attention_mask [B, T], token_type_ids [B, T]  ->  one tensor or two

In Bertwright, sequences are concatenated and nothing is padded; the runtimes of exported models
expect padded batches. Attention and pooling are therefore implemented a second time, with only the
operations that every runtime supports. Where the mask is 0, a score is so low that its probability
is exactly 0, and pooling ignores the position, so that padding does not change the results of real
tokens. The results at padded positions are meaningless. Positions count from the first column, as
in transformers, so padding must come after the text.

| head | outputs |
|---|---|
| none | `last_hidden_state [B, T, H]` or `hidden_states.N [B, T, H]`; `pooler_output [B, H]` |
| masked LM | `logits [B, T, V]` |
| next sentence; classes, labels, a number | `logits [B, 2]`; `logits [B, C]` |
| tagging | `logits [B, T, C]`, valid at each word's first token; a CRF decodes them afterwards |
| span | `start_logits [B, T]`, `end_logits [B, T]` |
| multiple choice | inputs are `[B, M, T]`, `logits [B, M]` |

Letters: B sequences, T the length of the longest, P cached tokens before them, H hidden,
A attention heads, D = H / A, V vocabulary, C scores, M choices, F width of a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.vocabulary import VocabularyOutput
from bertwright.nn.sequences import BatchCache
from bertwright.nn.transformer.attention import SelfAttention
from bertwright.nn.transformer.blocks import split
from bertwright.nn.transformer.cache import attend_rows
from bertwright.nn.transformer.stack import Stack
from bertwright.tasks.catalogue import kind_of

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
LAST = "last_hidden_state"
POOLED = "pooler_output"
LOGITS = "logits"
PAST, PRESENT = "past_key_values.", "present."


class Graph(nn.Module):
    """A model to export, or a part of one: (ids, mask, list of all other inputs) -> outputs."""

    file: str = "model"
    """The name of its file without a suffix, as in Optimum."""
    inputs: dict[str, tuple[str | int, ...]]
    """The name of each input -> its axes, as a size or as the name of a dynamic size. Inputs whose
    names begin with `PAST` are float32, all others int64."""
    outputs: dict[str, bool]
    """The name of each output -> whether it has a row for each token."""

    @property
    def state(self) -> list[str]:
        """The inputs that are outputs of an earlier step or of another graph."""
        return [name for name in self.inputs if name.startswith(PAST)]


class PaddedEncoder(Graph):
    """An encoder with one head, or without a head, over padded batches."""

    def __init__(
        self,
        learner: Learner,
        head: str | None = None,
        task: TaskConfig | None = None,
        layers: tuple[int, ...] = (),
    ) -> None:
        """Create the graph. It shares the parameters of the learner.

        Args:
            learner: the learner, in eval mode.
            head: the name of one of its heads; None: the outputs are vectors.
            task: the task of the head, if it is a task head.
            layers: without a head, the layers to return, where 0 is the embeddings; empty: the last
                layer and the output of the pooler, if there is one.
        """
        super().__init__()
        encoder = learner.encoder
        assert isinstance(encoder, Stack)
        self.encoder, self.task = encoder, task
        self.head: Any = None if head is None else learner.objectives[head]
        self.kind = None if task is None else task.kind
        self.graph = None if task is None else kind_of(task.kind).graph
        if getattr(self.head, "network", None) is not None:
            raise ConfigError(
                f"the head {head} has an LSTM, and an export is of linear heads: run it here, or "
                "train one without --network"
            )
        if task is not None and task.head.compares:
            raise ConfigError(
                f"the head {head} compares the vectors of two texts, and an exported graph reads "
                "one sequence: use it here, or train one without --transfer features"
            )
        last = encoder.spec.depth
        self.layers = layers or (last,)
        self.mix = getattr(self.head, "mix", None)
        self.top = max(self.layers if self.mix is None else self.mix.numbers)
        self.of_choices = self.graph is not None and self.graph.choices
        choices = ["choices"] * self.of_choices
        self.inputs = dict.fromkeys(INPUTS, ("batch", *choices, "sequence"))
        if self.head is None:
            names = [LAST if n == last else f"hidden_states.{n}" for n in self.layers]
            self.outputs = dict.fromkeys(names, True)
            if not layers and encoder.spec.pooled:
                self.outputs[POOLED] = False
        elif self.graph is not None:
            self.outputs = dict.fromkeys(self.graph.outputs, self.graph.of_tokens)
        elif not isinstance(self.head, (VocabularyOutput, NextSentence)):
            raise ConfigError(
                f"the head {head} cannot be exported; leave out --task for the vectors, or export "
                "a model that finetune trained"
            )
        else:
            self.outputs = {LOGITS: isinstance(self.head, VocabularyOutput)}

    def forward(self, ids: Tensor, mask: Tensor, more: list[Tensor]) -> list[Tensor]:
        """Return the outputs, in the order of `outputs`.

        Args:
            ids: `[B, T]`; `[B, M, T]` for a head over choices.
            mask: of the same shape, 0 at padding.
            more: a list of one tensor of the same shape, the segments.
        """
        if not self.of_choices:
            return self._outputs(ids, mask, more[0])
        (scores,) = self._outputs(ids.flatten(0, 1), mask.flatten(0, 1), more[0].flatten(0, 1))
        return [scores.reshape(ids.shape[0], ids.shape[1])]

    def _outputs(self, ids: Tensor, mask: Tensor, types: Tensor) -> list[Tensor]:
        head = self.head
        x = self.encoder.embed_rows(ids, types)
        positions = torch.arange(ids.shape[1], device=ids.device)
        rows = Rows(positions.expand(ids.shape))
        hidden = hide(mask, x)[:, None, None]  # [B, 1, 1, T]
        layers = [x]

        def biased(attention: SelfAttention) -> Tensor:
            by_distance = attention.bias_between(positions, positions)
            return hidden if by_distance is None else hidden + by_distance  # [B, A, T, T]

        for number in range(self.top):
            layer = self.encoder.layer(number)
            bias = rows.once(("bias", layer.attention.bias_key), partial(biased, layer.attention))
            x = layer(x, None, None, over(layer, bias, rows))
            layers.append(x)
        if head is None:
            found = [layers[number] for number in self.layers]
            return [*found, self._pooled(x, mask)] if POOLED in self.outputs else found
        if isinstance(head, VocabularyOutput):
            return [head.logits(x)]
        if isinstance(head, NextSentence):
            return [head.logits(self._pooled(x, mask))]
        assert self.task is not None
        assert self.graph is not None
        if self.mix is not None:
            x = self.mix(layers)  # [B, T, F]
        elif head.before_scores is not None:
            x = head.before_scores(x)
        if self.graph.of_tokens:
            scores = _linear(head.scorer, x)  # [B, T, C]
            count = len(self.graph.outputs)
            return [scores] if count == 1 else [scores[:, :, n] for n in range(count)]
        if head.reads_pooled:
            x = self._pooled(x, mask)
        else:
            poolings = self.task.head.pooling.split("+")
            x = torch.cat([_pool(x, mask, how) for how in poolings], 1)
        if head.hidden is not None:
            x = torch.relu(_linear(head.hidden, x))
        return [_linear(head.scorer, x)]

    def _pooled(self, x: Tensor, mask: Tensor) -> Tensor:
        assert self.encoder.pooler is not None
        pooled: Tensor = self.encoder.pooler(_pool(x, mask, self.encoder.pooler_reads))
        return pooled


class Rows(BatchCache):
    """The positions of the tokens of padded sequences, in place of `Sequences`."""

    def __init__(self, positions: Tensor) -> None:
        """Keep the positions `[B, T]`."""
        super().__init__()
        self.positions = positions.flatten()


def over(
    layer: Any,
    bias: Tensor,
    rows: Rows,
    past: Sequence[Tensor] = (),
    present: list[Tensor] | None = None,
) -> Callable[[Tensor], Tensor]:
    """Return a function that replaces the attention of a layer: queries, keys and values
    `[B, T, 3 H]` -> `[B, T, H]`.

    Args:
        bias: added to the scores.
        rows: the positions of the tokens.
        past: the keys and the values of the P earlier tokens; empty: there are none.
        present: a list to which the keys and the values of all tokens are appended.
    """

    def attention(qkv: Tensor) -> Tensor:
        parts = layer.attention.parts(qkv.flatten(0, 1), rows)
        shape = qkv.shape[0], qkv.shape[1], layer.attention.heads, -1
        q, k, v = (x.reshape(shape).transpose(1, 2) for x in split(parts))  # [B, A, T, D]
        if past:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        if present is not None:
            present.extend([k, v])
        return attend_rows(q, k, v, bias)

    return attention


def hide(mask: Tensor, like: Tensor) -> Tensor:
    """Return what is added to the scores: the lowest number of the type of `like` where the mask is
    0, else 0."""
    return (mask == 0).to(like.dtype) * torch.finfo(like.dtype).min


def _linear(scorer: nn.Linear, x: Tensor) -> Tensor:
    """Compute `Scorer.forward` without its autocast context, which exporters do not support."""
    return nn.functional.linear(x, scorer.weight, scorer.bias)


def _pool(x: Tensor, mask: Tensor, how: str) -> Tensor:
    """Pool x `[B, T, F]` to `[B, F]` over the positions where the mask is 1."""
    if how == "cls":
        return x[:, 0]
    if how == "last":
        index = (mask.sum(1) - 1)[:, None, None].expand(-1, 1, x.shape[2])
        return x.gather(1, index)[:, 0]
    real = (mask != 0)[:, :, None]
    if how == "max":
        return x.masked_fill(~real, torch.finfo(x.dtype).min).amax(1)
    weights = real.to(x.dtype)
    if how == "weighted":  # by position from 1
        weights = weights * torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
    total, weight = (x * weights).sum(1), weights.sum(1)
    return total / (weight.sqrt() if how == "mean-sqrt" else weight)
