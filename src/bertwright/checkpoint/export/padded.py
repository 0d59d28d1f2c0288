"""A learner's weights behind the signature that others expect: rectangles of ids, and a mask.

    input_ids [B, T], attention_mask [B, T], token_type_ids [B, T]  ->  one tensor or two

Here sequences lie end to end and nothing is padded; runtimes of exported models are fed rectangles.
So attention and pooling are written a second time, with nothing in them but what every runtime
knows. Where the mask is 0 a score becomes so low that its probability is exactly 0, and pooling
leaves the position out: a real token's numbers are those it has alone. Results at padded positions
mean nothing. Positions count from the first column, as in transformers: padding comes after the
text.

| head | outputs |
|---|---|
| none | `last_hidden_state [B, T, H]` or `hidden_states.N [B, T, H]`; `pooler_output [B, H]` |
| masked LM | `logits [B, T, V]` |
| next sentence; classes, labels, a number | `logits [B, 2]`; `logits [B, C]` |
| tagging | `logits [B, T, C]`: read at each word's first token; a CRF decodes them afterwards |
| span | `start_logits [B, T]`, `end_logits [B, T]` |
| multiple choice | inputs are `[B, M, T]`, `logits [B, M]` |

Letters: B sequences, T the longest, P tokens before them, H hidden, A attention heads, D = H / A,
V vocabulary, C scores, M choices, F width of a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.models.bert.encoder import Bert
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.next_sentence import NextSentence
from bertwright.nn.objective import Learner
from bertwright.nn.transformer.attention import attend_rows, heads_of
from bertwright.tasks.catalogue import kind_of

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
LAST = "last_hidden_state"
POOLED = "pooler_output"
LOGITS = "logits"
PAST, PRESENT = "past_key_values.", "present."


class Graph(nn.Module):
    """A model, or a part of one: (ids, mask, list of the rest) -> what `outputs` names."""

    file: str = "model"
    """Its name, as Optimum has it."""
    inputs: dict[str, tuple[str | int, ...]]
    """Name -> axes: a name where the size is open. Those of `PAST` are float32, others int64."""
    outputs: dict[str, bool]
    """Name -> whether it has a row for each token."""

    @property
    def state(self) -> list[str]:
        """The inputs that an earlier run, or another graph, gives."""
        return [name for name in self.inputs if name.startswith(PAST)]


class PaddedBert(Graph):
    """A BERT, and one head or none, over rectangles."""

    def __init__(
        self,
        learner: Learner,
        head: str | None = None,
        task: TaskConfig | None = None,
        layers: tuple[int, ...] = (),
    ) -> None:
        """Share the parameters of a learner.

        Args:
            learner: whose parameters are used, in eval mode.
            head: the name of one of its heads; None: vectors of layers, and the pooler.
            task: what the head is for, if it is a task head.
            layers: without a head, the layers to give, 0 the embeddings; none: the last, and the
                pooler, which is left out where layers are named.

        Raises:
            ConfigError: the head has an LSTM.
        """
        super().__init__()
        bert = learner.encoder
        assert isinstance(bert, Bert)
        self.bert, self.task = bert, task
        self.head: Any = None if head is None else learner.objectives[head]
        self.kind = None if task is None else task.kind
        self.graph = None if task is None else kind_of(task.kind).graph
        if getattr(self.head, "network", None) is not None:
            raise ConfigError(
                f"the head {head} has an LSTM, and an export is of linear heads: run it here, or "
                "train one without --network"
            )
        last = bert.config.num_hidden_layers
        self.layers = layers or (last,)
        self.mix = getattr(self.head, "mix", None)
        self.top = max(self.layers if self.mix is None else self.mix.numbers)
        self.of_choices = self.graph is not None and self.graph.choices
        choices = ["choices"] * self.of_choices
        self.inputs = dict.fromkeys(INPUTS, ("batch", *choices, "sequence"))
        if self.head is None:
            names = [LAST if n == last else f"hidden_states.{n}" for n in self.layers]
            self.outputs = dict.fromkeys(names, True)
            if not layers and bert.spec.pooled:
                self.outputs[POOLED] = False
        elif self.graph is not None:
            self.outputs = dict.fromkeys(self.graph.outputs, self.graph.of_tokens)
        else:
            self.outputs = {LOGITS: isinstance(self.head, MaskedLM)}

    def forward(self, ids: Tensor, mask: Tensor, more: list[Tensor]) -> list[Tensor]:
        """Ids, mask and segments, `[B, T]` each, or `[B, M, T]`"""
        if not self.of_choices:
            return self._outputs(ids, mask, more[0])
        (scores,) = self._outputs(ids.flatten(0, 1), mask.flatten(0, 1), more[0].flatten(0, 1))
        return [scores.reshape(ids.shape[0], ids.shape[1])]

    def _outputs(self, ids: Tensor, mask: Tensor, types: Tensor) -> list[Tensor]:
        head = self.head
        x = self.bert.embeddings(ids, torch.arange(ids.shape[1], device=ids.device), types)
        bias = hide(mask, x)[:, None, None]  # [B, 1, 1, T]
        layers = [x]
        for layer in self.bert.layers[: self.top]:
            x = layer(x, None, None, over(layer, bias))
            layers.append(x)
        if head is None:
            found = [layers[number] for number in self.layers]
            return [*found, self._pooled(x)] if POOLED in self.outputs else found
        if isinstance(head, MaskedLM):
            return [head.logits(x)]
        if isinstance(head, NextSentence):
            return [head.logits(self._pooled(x))]
        assert self.task is not None
        assert self.graph is not None
        if self.mix is not None:
            x = self.mix(layers)  # [B, T, F]
        if self.graph.of_tokens:
            scores = _linear(head.scorer, x)  # [B, T, C]
            count = len(self.graph.outputs)
            return [scores] if count == 1 else [scores[:, :, n] for n in range(count)]
        if head.reads_pooled:
            x = self._pooled(x)
        else:
            poolings = self.task.head.pooling.split("+")
            x = torch.cat([_pool(x, mask, how) for how in poolings], 1)
        if head.hidden is not None:
            x = torch.relu(_linear(head.hidden, x))
        return [_linear(head.scorer, x)]

    def _pooled(self, x: Tensor) -> Tensor:
        assert self.bert.pooler is not None
        pooled: Tensor = self.bert.pooler(x[:, 0])
        return pooled


def over(
    layer: Any, bias: Tensor, past: Sequence[Tensor] = (), present: list[Tensor] | None = None
) -> Callable[[Tensor], Tensor]:
    """What stands for a layer's attention: of tokens to themselves and to those before, whose keys
    and values are `past`; those of all are put into `present`."""

    def attention(qkv: Tensor) -> Tensor:
        q, k, v = heads_of(qkv, layer.attention.heads, 3)
        if past:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        if present is not None:
            present.extend([k, v])
        return attend_rows(q, k, v, bias)

    return attention


def hide(mask: Tensor, like: Tensor) -> Tensor:
    """What is added to scores: 0, and the lowest number where the mask is 0."""
    return (mask == 0).to(like.dtype) * torch.finfo(like.dtype).min


def _linear(scorer: nn.Linear, x: Tensor) -> Tensor:
    """`Scorer.forward` without its autocast, which exporters do not take."""
    return nn.functional.linear(x, scorer.weight, scorer.bias)


def _pool(x: Tensor, mask: Tensor, how: str) -> Tensor:
    """x `[B, T, F]` -> `[B, F]` over the positions where the mask is 1."""
    if how == "cls":
        return x[:, 0]
    if how == "last":
        index = (mask.sum(1) - 1)[:, None, None].expand(-1, 1, x.shape[2])
        return x.gather(1, index)[:, 0]
    real = (mask != 0)[:, :, None]
    if how == "mean":
        return (x * real).sum(1) / real.sum(1)
    return x.masked_fill(~real, torch.finfo(x.dtype).min).amax(1)
