"""Find the attention heads that attend from *it* and *its* to the noun they refer to.

The test has twenty sentences of our own, each with two endings. With one ending the pronoun refers
to the first of two nouns, with the other to the second (like Winograd's schemas, Levesque et al.
2012), so that choosing the nearest noun, or the first, is right in only half of the cases. A head
is right if the pronoun attends more to the right noun than to the other. The best head is chosen on
ten of the pairs and evaluated on the other ten, and vice versa.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from syntax import Best, best_head, split_words, word_maps

from bertwright.errors import DataError
from bertwright.inference.attention.maps import maps_of_all
from bertwright.inference.encode import ModelRunner

SENTENCES = """
The [animal] did not cross the [street] because *it* was too | tired | wide .
The [trophy] did not fit into the [box] because *it* was too | big | small .
The [dog] chased the [ball] until *it* | was out of breath | rolled under the car .
The [ship] could not enter the [harbour] because *it* was too | large | shallow .
The [cup] fell onto the [table] and *it* | broke | shook .
The [child] was afraid of the [house] because *it* was | very young | very dark .
The [bird] left the [tree] when *it* | grew hungry | was cut down .
The [army] could not take the [city] because *it* was too | weak | well defended .
The [horse] jumped over the [wall] although *it* was | old and lame | high .
The [train] stopped before the [bridge] because *it* was | late | broken .
The [book] would not lie on the [shelf] because *it* was too | heavy | narrow .
The [cat] slept in the [garden] because *it* was | tired | warm and quiet .
The [company] sold the [factory] because *it* | needed money | made no profit .
The [king] lost the [war] and *its* | people left him | cost was great .
The [animal] ran into the [forest] and *its* | young followed | trees hid them .
The [church] stands by the [river] and *its* | bells are heard | water is clear .
The [town] built a [school] and *its* | mayor opened it | pupils came at once .
The [plant] fills the [room] and *its* | leaves are green | windows are open .
The [village] lies below the [mountain] and *its* | houses are old | top is white .
The [car] drove along the [road] and *its* | driver sang | stones were wet .
""".strip().split("\n")


@dataclass(frozen=True)
class PronounSentence:
    """W words, with the indices of the pronoun, the right noun and the wrong noun."""

    words: list[str]
    pronoun: int
    right: int
    wrong: int


def pronoun_sentences(lines: Sequence[str] = SENTENCES) -> list[PronounSentence]:
    """Return two sentences for each line, one for each ending. In a line, nouns are in brackets and
    the pronoun is in asterisks.
    """
    sentences = []
    for line in lines:
        begin, *endings = line.split("|")
        last = endings[-1].split()[-1]
        for number, ending in enumerate(endings):
            marked = [*begin.split(), *ending.split()]
            marked += [] if number else [last]
            nouns = [n for n, word in enumerate(marked) if word[0] == "["]
            (pronoun,) = (n for n, word in enumerate(marked) if word[0] == "*")
            words = [re.sub(r"[\[\]*]", "", word) for word in marked]
            sentences.append(PronounSentence(words, pronoun, nouns[number], nouns[1 - number]))
    return sentences


def score_coreference(runner: ModelRunner) -> Best:
    """Return the attention head that resolves the most pronouns, and the best baseline.

    A head resolves a pronoun if the pronoun attends more to the noun it refers to than to the other
    noun.

    Raises:
        DataError: the model has no attention, or cannot read these words.
    """
    sentences = pronoun_sentences()
    split = [split_words(runner, each.words) for each in sentences]
    read = [ids_and_words for ids_and_words in split if ids_and_words is not None]
    if len(read) < len(sentences):
        raise DataError(f"{runner.name} cannot read these English sentences word by word")
    heads, fixed, halves = [], [], []
    for row, maps in maps_of_all(runner, [ids for ids, _ in read]):
        each = sentences[row]
        attended = word_maps(maps, read[row][1])[..., each.pronoun, :]
        heads.append([attended[..., each.right] > attended[..., each.wrong]])
        fixed.append([each.right < each.wrong, each.right > each.wrong])
        halves.append(row // 2 % 2)
    cases = np.array(heads), np.array(fixed), np.array(halves)
    return best_head(*cases, ["pronoun to noun"], ["first noun", "nearest noun"])
