"""Sequence to sequence with attention: an LSTM writes the target, attending to the vectors of a
bidirectional LSTM over the source (Bahdanau, Cho and Bengio 2014; Luong, Pham and Manning 2015).

Encoder: L layers of LSTM in both directions, their states side by side, `m_i` `[H]`. Decoder, as
Luong et al. have it (sections 3.1 and 3.3), over the token before:

    h_t = LSTM([y_(t-1); a_(t-1)], h_(t-1))      h_0, c_0 = tanh(W_s [m_N forward; m_1 backward])
    w_t = softmax_i(score(h_t, m_i))
    a_t = tanh(W_a [sum_i w_ti m_i; h_t])        logits = W a_t + b, W the token embeddings

- additive (Bahdanau): `score = v tanh(W_h h_t + W_m m_i)`; multiplicative (Luong, "general"):
  `h_t W_m m_i`; none: `a_t = tanh(W_a h_t)` (Sutskever, Vinyals and Le 2014).
- input feeding: `a_(t-1)` is read beside the token; without it the token alone.

Where we differ: Bahdanau et al. attend with the state before and have GRUs and a maxout layer;
attention is global; the embeddings are those of the output (Press and Wolf 2017). With
`fixed_source` the source has word vectors that are not trained, and the target a table of its own:
the encoder is then that of CoVe (McCann et al. 2017), its layer 0 GloVe.

Letters: B pairs, N source and M target tokens, R rows, S longest source, E width of the embeddings,
H of states, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bertwright.models.seq2seq.config import Seq2SeqConfig
from bertwright.nn.dropout import Dropout
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.ragged import pack
from bertwright.nn.recurrent import Lstm
from bertwright.nn.sequences import Inputs


def seq2seq_spec(config: Seq2SeqConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    return EncoderSpec(
        width=config.hidden_size,
        depth=config.num_hidden_layers,
        vocab_size=config.vocab_size,
        own_widths=(config.embedding_size, *[config.hidden_size] * config.num_hidden_layers),
    )


class Seq2Seq(Encoder):
    """The bidirectional LSTM over the source."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(seq2seq_spec(config))
        width, widths = config.hidden_size, self.spec.widths
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.embeddings.requires_grad_(not config.fixed_source)
        self.layers = nn.ModuleList(Lstm(below, width // 2, "both") for below in widths[:-1])
        self.dropout = Dropout(config.dropout)

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """See `Encoder`."""
        kept = [self.embeddings(inputs.ids)]  # [N, E]
        for layer in self.layers[:top]:
            kept.append(layer(self.dropout(kept[-1]), inputs.sequences.lengths))  # [N, H]
        return kept

    def stages(self) -> Sequence[nn.Module]:
        """See `Encoder`."""
        return [self.embeddings, *self.layers]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Embeddings with a deviation of 1 / sqrt(E), LSTMs uniform to 1 / sqrt(H), other matrices
        as Glorot and Bengio (2010): from -0.1 to 0.1, as published, attention begins late."""
        _reset(self, generator)


class Attention(nn.Module):
    """How much a state attends to each vector of its source."""

    def __init__(self, additive: bool, size: int) -> None:
        super().__init__()
        self.keys = nn.Linear(size, size, bias=False)
        self.query = nn.Linear(size, size, bias=False) if additive else None
        self.score = nn.Linear(size, 1, bias=False) if additive else None

    def forward(self, h: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """h `[R, H]`, keys `[R, S, H]`, bias `[R, S]` -> `[R, S]`, each row sums to 1"""
        if self.query is None or self.score is None:
            scores = torch.bmm(keys, h[:, :, None])[:, :, 0]
        else:
            scores = self.score((self.query(h)[:, None] + keys).tanh())[:, :, 0]
        return (scores + bias).softmax(1)


@dataclass(frozen=True)
class DecoderState:
    """What the decoder keeps of R rows."""

    states: tuple[tuple[Tensor, Tensor], ...]
    """Of each layer h and c, `[R, H]`."""
    fed: Tensor
    """`[R, E]`, what predicted the token before."""
    source: tuple[Tensor, ...]
    """Of the source: vectors and keys, `[R, S, H]`, their bias `[R, S]`; nothing without
    attention."""
    owners: Tensor
    """`[R]`, on the host: which of the B sources a row is of."""

    def select(self, rows: Tensor | slice) -> DecoderState:
        """Of these rows, `[r]` on the host, any of them more than once."""
        owners, source = self.owners[rows], self.source
        there = rows if isinstance(rows, slice) else send(rows, self.fed.device)
        if not torch.equal(owners, self.owners):  # else other beams of the same sources
            source = tuple(x[there] for x in source)
        states = tuple((h[there], c[there]) for h, c in self.states)
        return DecoderState(states, self.fed[there], source, owners)


class Seq2SeqDecoder(nn.Module):
    """The decoder; without attention it reads the source's last states alone."""

    def __init__(self, config: Seq2SeqConfig, encoder: Seq2Seq) -> None:
        super().__init__()
        size, depth = config.hidden_size, config.num_hidden_layers
        self.width, self.feeds = config.embedding_size, config.input_feeding
        widths = [self.width * (1 + self.feeds), *[size] * (depth - 1)]
        self.initial = nn.Linear(size, 2 * depth * size)
        self.cells = nn.ModuleList(nn.LSTMCell(width, size) for width in widths)
        attends = config.attention != "none"
        self.output = nn.Linear(size * (1 + attends), self.width, bias=False)
        self.dropout = Dropout(config.dropout)
        own = nn.Embedding(config.vocab_size, self.width) if config.fixed_source else None
        self.embeddings = own
        self._table = (own or encoder.embeddings,)  # in a tuple: the encoder may own it
        self.attention = Attention(config.attention == "additive", size) if attends else None

    @property
    def table(self) -> nn.Embedding:
        """The token vectors of the target."""
        return self._table[0]

    def forward(self, memory: Encoded, target: Inputs) -> Tensor:
        """B sources, and B targets of M tokens -> `[M, E]`"""
        found: Tensor = self.dropout(self._read(memory, target)[0])
        return found

    def begin(self, memory: Encoded) -> DecoderState:
        """The state of one row a source, nothing read."""
        sequences = memory.sequences
        x = memory.last.to(self.initial.weight.dtype)
        last = sequences.cu_seqlens[1:].long() - 1
        half = x.shape[1] // 2
        ends = torch.cat([x[last, :half], x[sequences.first, half:]], 1)  # [B, H]
        first = self.initial(ends).tanh().chunk(2 * len(self.cells), 1)
        states = tuple(zip(first[::2], first[1::2], strict=True))
        owners = torch.arange(sequences.count)
        fed = x.new_zeros(sequences.count, self.width)
        return DecoderState(states, fed, self._source(x, memory), owners)

    def advance(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The next token of each row, `[R]` -> the vectors that predict the one after, `[R, E]`"""
        state, _ = self._step(self.table(ids), state)
        return state.fed, state

    def attention_maps(self, memory: Encoded, target: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """See `Decoder`: one layer, one attention head."""
        maps = self._read(memory, target)[1]
        return [], [torch.cat(maps)[None]] if self.attention is not None else []

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the decoder as the encoder is initialized."""
        _reset(self, generator)

    def _read(self, memory: Encoded, target: Inputs) -> tuple[Tensor, list[Tensor]]:
        """`[M, E]`, and of each position the attention `[R, S]` of the rows that have one."""
        packing = pack(target.sequences.lengths, target.ids.device)
        with torch.autocast(target.ids.device.type, enabled=False):  # a recurrence: no rounding
            state = self.begin(memory)
            rows = self.dropout(self.table(target.ids))[packing.order]
            state = state.select(packing.owners_on_host)
            found, maps = [], []
            for x in rows.split(packing.sizes):
                if len(x) < len(state.fed):
                    state = state.select(slice(len(x)))
                state, weights = self._step(x, state)
                found.append(state.fed)
                maps.append(weights)
        return torch.cat(found)[packing.inverse], maps

    def _step(self, x: Tensor, state: DecoderState) -> tuple[DecoderState, Tensor]:
        """Tokens `[R, E]` -> the state after them, whose `fed` predicts; attention `[R, S]`."""
        x = torch.cat([x, state.fed], 1) if self.feeds else x
        states = []
        for number, (cell, before) in enumerate(zip(self.cells, state.states, strict=True)):
            states.append(cell(self.dropout(x) if number else x, before))
            x = states[-1][0]
        context = weights = x[:, :0]
        if self.attention is not None:
            source, keys, bias = state.source
            weights = self.attention(x, keys, bias)
            context = torch.bmm(weights[:, None], source)[:, 0]
        fed = self.output(torch.cat([context, x], 1)).tanh()
        return replace(state, states=tuple(states), fed=fed), weights

    def _source(self, x: Tensor, memory: Encoded) -> tuple[Tensor, ...]:
        """What attention reads of `x`, `[N, H]`."""
        if self.attention is None:
            return ()
        rows = memory.sequences.padded(x)
        return rows, self.attention.keys(rows), memory.sequences.bias(x)


def _reset(module: nn.Module, generator: torch.Generator) -> None:
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, 0, part.weight.shape[1] ** -0.5, generator=generator)
        elif isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, (nn.LSTM, nn.LSTMCell)):
            for parameter in part.parameters():
                width = part.hidden_size**-0.5
                nn.init.uniform_(parameter, -width, width, generator=generator)
