"""A character CNN: word vectors from bytes, by convolutions and highway layers.

Kim et al. 2016; Jozefowicz et al. 2016; highway layers: Srivastava et al. 2015. ELMo computes its
token vectors with it, and TagLM its word vectors.

    vector = W highway(relu(max over positions of convolutions(bytes)))

Letters: W words, C bytes of a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BYTES = 256
"""The number of byte ids: ids below it are bytes. The five ids from it on mark the begin and end of
a text, the begin and end of a word, and padding."""
CHARACTERS = BYTES + 5
BEGIN_TEXT, END_TEXT, BEGIN_WORD, END_WORD, PADDING = range(BYTES, CHARACTERS)


def character_ids(word: str | int, count: int) -> list[int]:
    """Return the C ids of a word: the begin mark, its UTF-8 bytes, the end mark and padding.

    Args:
        word: a word, or the id that marks the begin or the end of a text and is used as its only
            byte.
        count: C; the bytes of a longer word are truncated.
    """
    inner = [word] if isinstance(word, int) else list(word.encode()[: count - 2])
    ids = [BEGIN_WORD, *inner, END_WORD]
    return ids + [PADDING] * (count - len(ids))


class CharacterCnn(nn.Module):
    """Computes a vector for each word from its bytes."""

    def __init__(
        self, size: int, filters: Sequence[tuple[int, int]], projection: int, highways: int = 0
    ) -> None:
        """Build the layers.

        Args:
            size: the width of a byte's vector.
            filters: for each convolution, its width in bytes and its number of filters.
            projection: the width of a word's vector.
            highways: the number of highway layers.
        """
        super().__init__()
        self.widest = max(width for width, _ in filters)
        self.bytes = nn.Embedding(CHARACTERS, size)
        self.convolutions = nn.ModuleList(nn.Conv1d(size, n, width) for width, n in filters)
        width = sum(number for _, number in filters)
        self.highways = nn.ModuleList(Highway(width) for _ in range(highways))
        self.projection = nn.Linear(width, projection)

    def trim(self, characters: Tensor) -> Tensor:
        """Remove padding that changes no vector: `[W, C]` -> `[W, c]`.

        This reads the characters, so they should be on the host.
        """
        # All windows that contain only padding are equal: one of the widest filter is enough.
        longest = int((characters != PADDING).sum(1).max()) if len(characters) else 0
        return characters[:, : longest + self.widest]

    def forward(self, characters: Tensor) -> Tensor:
        """Return the vectors of words: `[W, C]` -> `[W, projection]`. `trim` makes it faster."""
        x = self.bytes(characters).transpose(1, 2)  # [W, size, C]
        maxima = [convolution(x).amax(2) for convolution in self.convolutions]
        x = F.relu(torch.cat(maxima, 1))  # [W, filters]
        for highway in self.highways:
            x = highway(x)
        projected: Tensor = self.projection(x)
        return projected

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize as ELMo's program does: byte vectors and convolutions are uniform, and the
        highway gates pass most of their input on at first."""
        nn.init.uniform_(self.bytes.weight, -1, 1, generator=generator)
        for part in self.modules():
            if isinstance(part, nn.Conv1d):
                nn.init.uniform_(part.weight, -0.05, 0.05, generator=generator)
                nn.init.zeros_(part.bias)  # type: ignore[arg-type]
            if isinstance(part, nn.Linear):
                deviation = part.in_features**-0.5
                nn.init.normal_(part.weight, 0.0, deviation, generator=generator)
        for highway in self.highways:
            assert isinstance(highway, Highway)
            nn.init.constant_(highway.carry.bias, -2.0)


class Highway(nn.Module):
    """`g relu(W x + b) + (1 - g) x`, with `g = sigmoid(W_g x + b_g)`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.carry = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the highway layer: x `[W, filters]` -> `[W, filters]`."""
        gate = torch.sigmoid(self.carry(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x
