"""Sequence to sequence with attention: an LSTM predicts the target while it attends to the vectors
of a bidirectional LSTM over the source (Bahdanau, Cho and Bengio 2014; Luong, Pham and Manning
2015).

The encoder is L layers of LSTM in both directions, whose states are concatenated to `m_i` `[H]`.
The decoder follows Luong et al. (sections 3.1 and 3.3) and reads the previous token:

    h_t = LSTM([y_(t-1); a_(t-1)], h_(t-1))      h_0, c_0 = tanh(W_s [m_N forward; m_1 backward])
    w_t = softmax_i(score(h_t, m_i))
    a_t = tanh(W_a [sum_i w_ti m_i; h_t])        logits = W a_t + b, W the token embeddings

- The score is additive (Bahdanau), `v tanh(W_h h_t + W_m m_i)`, or multiplicative (Luong,
  "general"), `h_t W_m m_i`. Without attention, `a_t = tanh(W_a h_t)` (Sutskever, Vinyals and Le
  2014).
- With input feeding, the decoder reads `a_(t-1)` beside the token; otherwise it reads only the
  token.

Some things differ from the papers. Bahdanau et al. attend with the previous state and have GRUs and
a maxout layer. Attention is always global. The embeddings are also the output weights (Press and
Wolf 2017). With `fixed_source`, the source has word vectors that are not trained, and the target
has its own table: the encoder is then that of CoVe (McCann et al. 2017), and its layer 0 is GloVe.

Letters: B pairs, N source and M target tokens, R rows, S longest source, E width of the embeddings,
H of states, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from bertwright.models.seq2seq.config import Seq2SeqConfig
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.host import send
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.layers.recurrent import Lstm
from bertwright.nn.ragged import pack
from bertwright.nn.sequences import Inputs


def seq2seq_spec(config: Seq2SeqConfig) -> EncoderSpec:
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
        layers = [self.embeddings(inputs.ids)]  # [N, E]
        for layer in self.layers[:top]:
            layers.append(layer(self.dropout(layers[-1]), inputs.sequences.lengths))  # [N, H]
        return layers

    def stages(self) -> Sequence[nn.Module]:
        return [self.embeddings, *self.layers]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw embeddings with a standard deviation of 1 / sqrt(E), LSTMs uniformly within 1 /
        sqrt(H), and other matrices as Glorot and Bengio (2010) do. With the published range, -0.1
        to 0.1, the decoder learns to attend late.
        """
        _reset(self, generator)


class SourceAttention(nn.Module):
    """Computes the attention of a decoder state to the vectors of its source."""

    def __init__(self, additive: bool, size: int) -> None:
        super().__init__()
        self.keys = nn.Linear(size, size, bias=False)
        self.query = nn.Linear(size, size, bias=False) if additive else None
        self.score = nn.Linear(size, 1, bias=False) if additive else None

    def forward(self, h: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """Return the attention probabilities: h `[R, H]`, keys `[R, S, H]`, bias `[R, S]` ->
        `[R, S]`, whose rows sum to 1."""
        if self.query is None or self.score is None:
            scores = torch.bmm(keys, h[:, :, None])[:, :, 0]
        else:
            scores = self.score((self.query(h)[:, None] + keys).tanh())[:, :, 0]
        return (scores + bias).softmax(1)


@dataclass(frozen=True)
class LstmDecoderState:
    """The state of the decoder for R rows."""

    states: tuple[tuple[Tensor, Tensor], ...]
    """h and c of each layer, `[R, H]`."""
    fed: Tensor
    """`[R, E]`: the vectors that predicted the previous token."""
    source: tuple[Tensor, ...]
    """The vectors and keys of the source, `[R, S, H]`, and their bias `[R, S]`; empty without
    attention.
    """
    owners: Tensor
    """`[R]`, on the host: the index of each row's source among the B sources."""

    def select(self, rows: Tensor | slice) -> LstmDecoderState:
        owners, source = self.owners[rows], self.source
        there = rows if isinstance(rows, slice) else send(rows, self.fed.device)
        if not torch.equal(owners, self.owners):  # equal: other beams of the same sources
            source = tuple(x[there] for x in source)
        states = tuple((h[there], c[there]) for h, c in self.states)
        return LstmDecoderState(states, self.fed[there], source, owners)


class Seq2SeqDecoder(nn.Module):
    """The decoder. Without attention it reads only the last states of the source."""

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
        self.attention = SourceAttention(config.attention == "additive", size) if attends else None

    @property
    def table(self) -> nn.Embedding:
        """The token vectors of the target."""
        return self._table[0]

    def forward(self, memory: Encoded, target: Inputs) -> Tensor:
        """Read B encoded sources and B targets of M tokens in all. Return the vectors that predict
        the next tokens, `[M, E]`."""
        return self.dropout(self._read(memory, target)[0])

    def begin(self, memory: Encoded) -> LstmDecoderState:
        sequences = memory.sequences
        x = memory.last.to(self.initial.weight.dtype)
        half = x.shape[1] // 2
        ends = torch.cat([x[sequences.last, :half], x[sequences.first, half:]], 1)  # [B, H]
        first = self.initial(ends).tanh().chunk(2 * len(self.cells), 1)
        states = tuple(zip(first[::2], first[1::2], strict=True))
        owners = torch.arange(sequences.count)
        fed = x.new_zeros(sequences.count, self.width)
        return LstmDecoderState(states, fed, self._source(x, memory), owners)

    def advance(self, ids: Tensor, state: LstmDecoderState) -> tuple[Tensor, LstmDecoderState]:
        state, _ = self._step(self.table(ids), state)
        return state.fed, state

    def attention_maps(self, memory: Encoded, target: Inputs) -> tuple[list[Tensor], list[Tensor]]:
        """Return the attention to the source, which has one layer and one head; see `Decoder`."""
        maps = self._read(memory, target)[1]
        return [], [torch.cat(maps)[None]] if self.attention is not None else []

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the decoder as the encoder is initialized."""
        _reset(self, generator)

    def _read(self, memory: Encoded, target: Inputs) -> tuple[Tensor, list[Tensor]]:
        """Return the vectors `[M, E]`, and for each position the attention `[R, S]` of the rows
        that have a token there.
        """
        packing = pack(target.sequences.lengths, target.ids.device)
        with torch.autocast(target.ids.device.type, enabled=False):  # rounding errors would add up
            state = self.begin(memory)
            rows = self.dropout(self.table(target.ids))[packing.order]
            state = state.select(packing.owners_on_host)
            vectors, maps = [], []
            for x in torch.split(rows, packing.sizes):
                if len(x) < len(state.fed):
                    state = state.select(slice(len(x)))
                state, weights = self._step(x, state)
                vectors.append(state.fed)
                maps.append(weights)
        return torch.cat(vectors)[packing.inverse], maps

    def _step(self, x: Tensor, state: LstmDecoderState) -> tuple[LstmDecoderState, Tensor]:
        """Read the vectors of tokens `[R, E]`. Return the state after them, whose `fed` predicts
        the next tokens, and the attention `[R, S]`.
        """
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
        """Return `LstmDecoderState.source`, given the source's vectors `x` `[N, H]`."""
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
