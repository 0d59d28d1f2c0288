"""ELMo: a language model in each direction over words that are built from their characters.

Peters, Neumann, Iyyer, Gardner, Clark, Lee, Zettlemoyer 2018, "Deep contextualized word
representations", section 3. A token's vector is that of `nn/layers/characters.py`. With the
`direction` "forward", the model is the forward language model of TagLM (Peters et al. 2017).

    token:     x_0 = W highway(relu(max over positions of convolutions(bytes)))
    layer k:   x_k = LSTM_k(x_(k-1)) + x_(k-1) for k > 1, LSTM_1(x_0) for k = 1, in each direction
    vectors:   layer 0 is [x_0; x_0], layer k is [x_k from the left; x_k from the right]

Each direction predicts its next token from its half of the top layer. A task that uses the model
reads `gamma * sum_k softmax(s)_k x_k` (equation 1, `nn/features.py`).

A word outside the vocabulary is spelled like any other; the LSTMs read it, but no direction
predicts it.

Letters: N tokens, V vocabulary, C bytes of a token, P projection of a direction, H = 2 P (P for one
direction), L layers, U different tokens of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertwright.models.elmo.config import ElmoConfig
from bertwright.nn.encoder import Encoder, EncoderSpec, FurtherWords
from bertwright.nn.init import initialize
from bertwright.nn.layers.characters import (
    BEGIN_TEXT,
    END_TEXT,
    PADDING,
    CharacterCnn,
    character_ids,
)
from bertwright.nn.layers.dropout import Dropout
from bertwright.nn.layers.recurrent import ClippedLstm, Direction
from bertwright.nn.sequences import Inputs


def elmo_spec(config: ElmoConfig) -> EncoderSpec:
    """Return the specification of an encoder with this configuration."""
    causal = config.direction == "forward"
    return EncoderSpec(
        width=config.projection_dim * (1 if causal else 2),
        depth=config.n_layers,
        vocab_size=config.vocab_size,
        causal=causal,
        # no direction is trained to predict from the token it reads last
        averages_begin=causal,
        averages_end=False,
        feature_based=True,
    )


class Elmo(Encoder):
    """The encoder of ELMo: a character CNN, and LSTMs from the left and from the right."""

    characters: Tensor
    """`[V, C]` int16: the character ids of each token of the vocabulary."""
    further_words: FurtherWords | None = None
    """The words outside the vocabulary, whose ids are V and above."""

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__(elmo_spec(config))
        self.directions: tuple[Direction, ...] = ("forward", "backward")
        if self.spec.causal:
            self.directions = ("forward",)
        self.config, self.skips = config, config.use_skip_connections
        size = (config.vocab_size, config.max_characters_per_token)
        self.register_buffer("characters", torch.full(size, PADDING, dtype=torch.int16))
        p, clips = config.projection_dim, (config.cell_clip, config.proj_clip)
        self.token = CharacterCnn(config.character_size, config.filters, p, config.n_highway)
        self.layers = nn.ModuleList(
            nn.ModuleList(ClippedLstm(p, config.dim, each, p, *clips) for each in self.directions)
            for _ in range(config.n_layers)
        )
        self.dropout = Dropout(config.hidden_dropout_prob)

    def set_tokens(self, tokens: Sequence[str], ends: tuple[int, int] | None) -> None:
        """Set the characters of the vocabulary.

        Args:
            tokens: the V tokens.
            ends: the ids of the tokens that begin and end a text; None: there are none.
        """
        rows = [character_ids(token, self.characters.shape[1]) for token in tokens]
        for index, mark in zip(ends or (), (BEGIN_TEXT, END_TEXT), strict=False):
            rows[index] = character_ids(mark, self.characters.shape[1])
        self.characters.copy_(torch.tensor(rows))

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        unique: Any = torch.unique
        different, which = unique(inputs.ids, return_inverse=True)  # [U], [N]
        x = self.token(self.token.trim(self._spelling(different)))[which]  # [N, P]
        halves = [x] * len(self.directions)
        layers = [torch.cat(halves, 1)]  # [N, H]
        for number, lstms in enumerate(self.layers[:top]):
            assert isinstance(lstms, nn.ModuleList)
            for k, (lstm, before) in enumerate(zip(lstms, halves, strict=True)):
                states = self.dropout(lstm(self.dropout(before), inputs.sequences))
                halves[k] = states + before if number and self.skips else states
            layers.append(torch.cat(halves, 1))
        return layers

    def can_spell(self, word: str) -> bool:
        """Return True, because every word has characters."""
        return True

    def _spelling(self, ids: Tensor) -> Tensor:
        """Return the character ids of different tokens: `[U]` -> `[U, C]`."""
        words = self.further_words
        if not words:
            return self.characters[ids].long()
        size, length = self.characters.shape
        characters = self.characters[ids.clamp(max=size - 1)].long()
        further = (ids >= size).nonzero()[:, 0]
        if len(further):
            spelled = [words.word_of(index) for index in ids[further].tolist()]
            rows = torch.tensor([character_ids(word, length) for word in spelled])
            characters[further] = rows.to(characters.device)
        return characters

    def stages(self) -> Sequence[nn.Module]:
        return [self.token, *self.layers]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the weights as the authors' program does. The characters of tokens are not
        changed.
        """
        initialize(self, 0.1, generator)
        self.token.reset_parameters(generator)
        for name, parameter in self.layers.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                bound = (6 / sum(parameter.shape)) ** 0.5  # Glorot and Bengio 2010
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
        for lstm in self.layers.modules():
            if isinstance(lstm, nn.LSTM):  # the forget gate starts open
                bias = lstm.get_parameter("bias_ih_l0").data
                nn.init.ones_(bias[lstm.hidden_size : 2 * lstm.hidden_size])
