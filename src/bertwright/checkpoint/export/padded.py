"""A learner's weights behind the signature that others expect: rectangles of ids, and a mask.

    input_ids [B, T], attention_mask [B, T], token_type_ids [B, T]  ->  one tensor or two

Here sequences lie end to end and nothing is padded; runtimes of exported models are fed rectangles.
So the computation is written a second time, over the same parameters, with nothing in it but what
every runtime knows: products, softmax, norms. Where the mask is 0 a score becomes so low that its
probability is exactly 0, and pooling leaves the position out: a real token's numbers are those it
has alone. Results at padded positions mean nothing. Positions count from the first column, as in
transformers: padding comes after the text.

| head | outputs |
|---|---|
| none | `last_hidden_state [B, T, H]` or `hidden_states.N [B, T, H]`; `pooler_output [B, H]` |
| masked LM | `logits [B, T, V]` |
| next sentence; classes, labels, a number | `logits [B, 2]`; `logits [B, C]` |
| tagging | `logits [B, T, C]`: read at each word's first token; a CRF decodes them afterwards |
| span | `start_logits [B, T]`, `end_logits [B, T]` |
| multiple choice | inputs are `[B, M, T]`, `logits [B, M]` |

Letters: B sequences, T the longest, H hidden, A attention heads, D = H / A, V vocabulary, C scores,
M choices, F width of a feature.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.models.bert import Bert
from bertwright.nn.attention import SelfAttention
from bertwright.nn.recurrent import BiLstm
from bertwright.nn.transformer import TransformerLayer
from bertwright.objectives.masked_lm import MaskedLM
from bertwright.objectives.next_sentence import NextSentence
from bertwright.objectives.objective import Learner

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Names of the inputs, all int64, in this order."""

LAST = "last_hidden_state"
POOLED = "pooler_output"
LOGITS = "logits"


class PaddedBert(nn.Module):
    """A `Bert` over rectangles."""

    def __init__(self, bert: Bert, layers: tuple[int, ...] = (), pooled: bool = True) -> None:
        """Share the parameters of a BERT.

        Args:
            bert: whose parameters are used.
            layers: the layers to give, 0 the embeddings; none: the last.
            pooled: give the pooler's vector too.
        """
        super().__init__()
        self.bert = bert
        self.layers = layers or (bert.config.num_hidden_layers,)
        self.pooled = pooled
        self.top = bert.config.num_hidden_layers if pooled else max(self.layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, types: Tensor) -> list[Tensor]:
        """Three of `[B, T]` -> `layers`, `[B, T, H]` each, and the pooled `[B, H]`, if `pooled`"""
        x = self._embed(input_ids, types)  # [B, T, H]
        bias = hide(attention_mask, x)[:, None, None]  # [B, 1, 1, T]
        kept = [x]
        for number in range(self.top):
            x = _layer(self.bert.layer(number), x, bias)
            kept.append(x)
        found = [kept[number] for number in self.layers]
        if self.pooled:
            assert self.bert.pooler is not None
            found.append(torch.tanh(self.bert.pooler.dense(x[:, 0])))
        return found

    def _embed(self, input_ids: Tensor, types: Tensor) -> Tensor:
        embeddings = self.bert.embeddings
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = embeddings.token(input_ids) + embeddings.segment(types)
        normed: Tensor = embeddings.norm(x + embeddings.position(positions))
        return normed


class PaddedLstm(nn.Module):
    """Both directions of a `BiLstm` over rectangles.

    An exporter gets ONNX's own operator: of torch's it takes the length it traces for the only one.
    """

    def __init__(self, network: BiLstm) -> None:
        """Share the parameters; those of the operator are copies, as runtimes want constants."""
        super().__init__()
        self.network = network
        # ONNX's gates are input, output, forget, cell; torch's are input, forget, cell, output
        i, f, c, o = torch.arange(4 * network.size).chunk(4)
        order = torch.cat([i, o, f, c])
        for direction in ("", "_reverse"):
            weights = [each.detach()[order] for each in self._weights(direction)]
            of_input, of_state, *biases = weights
            self.register_buffer(f"of_input{direction}", of_input[None])
            self.register_buffer(f"of_state{direction}", of_state[None])
            self.register_buffer(f"biases{direction}", torch.cat(biases)[None])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x `[B, T, F]`, mask `[B, T]` -> `[B, T, 2 size]`

        What is behind a sequence never reaches the direction from the left. For the other the
        sequence is turned around alone, its padding left behind it.
        """
        positions = torch.arange(x.shape[1], device=x.device)[None]
        lengths = mask.sum(1, keepdim=True)
        turned = torch.where(positions < lengths, lengths - 1 - positions, positions)[:, :, None]
        left = self._one_way(x, "")
        right = self._one_way(x.gather(1, turned.expand(-1, -1, x.shape[2])), "_reverse")
        right = right.gather(1, turned.expand(-1, -1, self.network.size))
        return torch.cat([left, right], 2)

    def _weights(self, direction: str) -> list[Tensor]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self.network.lstm, f"{name}_l0{direction}") for name in names]

    def _one_way(self, x: Tensor, direction: str) -> Tensor:
        """x `[B, T, F]` -> `[B, T, size]`, from the first to the last."""
        size = self.network.size
        if not torch.onnx.is_in_onnx_export():
            start = x.new_zeros(1, x.shape[0], size)
            weights = self._weights(direction)
            return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, True)[0]
        names = ("of_input", "of_state", "biases")
        states: Tensor = torch.onnx.ops.symbolic(
            "LSTM",
            (x.transpose(0, 1), *(getattr(self, name + direction) for name in names)),
            {"hidden_size": size},
            dtype=x.dtype,
            shape=(x.shape[1], 1, x.shape[0], size),
        )
        return states[:, 0].transpose(0, 1)


class Padded(nn.Module):
    """An encoder, and one head or none, over rectangles."""

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
            ConfigError: the head reads what rectangles of tokens have not.
        """
        super().__init__()
        bert = learner.encoder
        assert isinstance(bert, Bert)
        self.task = task
        self.head: Any = None if head is None else learner.objectives[head]
        last = bert.config.num_hidden_layers
        network = getattr(self.head, "network", None)
        if task is not None and task.kind == "tagging" and network is not None:
            raise ConfigError(
                f"the tagger {head} has an LSTM over words, and an exported model sees tokens "
                "without knowing where words begin: export a head whose network is linear"
            )
        mix = getattr(self.head, "mix", None)
        if self.head is None:
            self.outputs = [LAST if n == last else f"hidden_states.{n}" for n in layers] or [LAST]
            self.outputs += [] if layers else [POOLED]
            numbers, pooled = layers, not layers
        else:
            span = task is not None and task.kind == "span"
            self.outputs = ["start_logits", "end_logits"] if span else [LOGITS]
            of_pooler = task is None or task.kind in (
                "classification",
                "regression",
                "multiple-choice",
            )
            of_pooler = of_pooler and not isinstance(self.head, MaskedLM)
            pooled = of_pooler and mix is None and network is None
            numbers = (last,) if mix is None else mix.numbers
        self.encoder = PaddedBert(bert, numbers, pooled)
        self.reader = None if network is None else PaddedLstm(network)

    @property
    def of_tokens(self) -> set[str]:
        """The outputs that have a row for each token."""
        kind = None if self.task is None else self.task.kind
        if self.head is None or isinstance(self.head, MaskedLM) or kind in ("tagging", "span"):
            return set(self.outputs) - {POOLED}
        return set()

    @property
    def choices(self) -> bool:
        """Whether inputs are `[B, M, T]`."""
        return self.task is not None and self.task.kind == "multiple-choice"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, ...]:
        """Three of `[B, T]`, or `[B, M, T]` -> what `outputs` names"""
        if not self.choices:
            return self._outputs(input_ids, attention_mask, token_type_ids)
        shape = input_ids.shape
        flat = [x.reshape(-1, shape[2]) for x in (input_ids, attention_mask, token_type_ids)]
        (scores,) = self._outputs(flat[0], flat[1], flat[2])  # [B M, 1]
        return (scores.reshape(shape[0], shape[1]),)

    def _outputs(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
        found = self.encoder(ids, mask, types)
        head = self.head
        if head is None:
            return tuple(found)
        if isinstance(head, MaskedLM):
            return (head.logits(found[0]),)
        if isinstance(head, NextSentence):
            return (head.logits(found[-1]),)
        assert self.task is not None
        if self.encoder.pooled:
            return (_scores(head, found[-1]),)
        x = _mixed(head.mix, found)  # [B, T, F]
        if self.reader is not None:
            x = self.reader(x, mask)
        if self.task.kind == "span":
            scores = _linear(head.qa_outputs, x)  # [B, T, 2]
            return scores[:, :, 0], scores[:, :, 1]
        if self.task.kind == "tagging":
            return (_linear(head.classifier, x),)
        how = "max" if head.network is not None else self.task.head.pooling
        pooled = [_pool(x, mask, each) for each in how.split("+")]
        return (_scores(head, torch.cat(pooled, 1)),)


def _layer(layer: TransformerLayer, x: Tensor, bias: Tensor) -> Tensor:
    """x `[B, T, H]`, bias `[B, 1, 1, T]` -> `[B, T, H]`"""
    x = layer.attention_norm(x + _attend(layer.attention, x, bias))
    normed: Tensor = layer.feed_forward_norm(x + layer.feed_forward(x))
    return normed


def _attend(attention: SelfAttention, x: Tensor, bias: Tensor) -> Tensor:
    """x `[B, T, H]`, bias `[B, 1, 1, T]` -> `[B, T, H]`"""
    q, k, v = heads_of(attention.qkv(x), attention.heads, 3)
    output: Tensor = attention.output(attend(q, k, v, bias))
    return output


def heads_of(x: Tensor, heads: int, parts: int) -> list[Tensor]:
    """`[B, T, parts H]`, of queries, keys or values side by side -> `[B, A, T, D]` each"""
    rows = x.view(x.shape[0], x.shape[1], parts, heads, -1)
    return list(rows.permute(2, 0, 3, 1, 4).unbind(0))


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """q `[B, A, T, D]`, k and v `[B, A, S, D]`, bias as scores `[B, A, T, S]` -> `[B, T, A D]`"""
    scores = (q * q.shape[3] ** -0.5) @ k.transpose(2, 3) + bias
    context: Tensor = (scores.softmax(3) @ v).transpose(1, 2).flatten(2)
    return context


def hide(mask: Tensor, like: Tensor) -> Tensor:
    """What is added to scores: 0, and the lowest number where the mask is 0."""
    return (mask == 0).to(like.dtype) * torch.finfo(like.dtype).min


def _linear(scorer: nn.Linear, x: Tensor) -> Tensor:
    """`Scorer.forward` without its autocast, which exporters do not take."""
    return nn.functional.linear(x, scorer.weight, scorer.bias)


def _scores(head: Any, x: Tensor) -> Tensor:
    """`[B, F]` -> `[B, C]`, through the hidden layer if there is one."""
    if head.hidden is not None:
        x = torch.relu(_linear(head.hidden, x))
    return _linear(head.classifier, x)


def _mixed(mix: Any, layers: list[Tensor]) -> Tensor:
    """`LayerMix.forward` over the layers it reads, and only those."""
    if mix is None or len(layers) == 1:
        return layers[0]
    if mix.concatenated:
        return torch.cat(layers, -1)
    if mix.weights is None:
        return torch.stack(layers).sum(0)
    shares = mix.gamma * mix.weights.softmax(0)  # [K]
    mixed: Tensor = (torch.stack(layers, -1) * shares).sum(-1)
    return mixed


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
