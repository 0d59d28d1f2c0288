"""Show what each system has learned on the same held-out text, for a page that compares them.

Language models continue the same prompts, masked language models fill in the word that follows each
prompt, and both predict each word of the same sentence. Systems with vectors name the nearest words
of the same words, among the same candidates. Text and words are chosen from the held-out text by a
fixed rule, before any model is run.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.config.generation import GenerationConfig
from bertwright.inference.generate import generates
from bertwright.inference.model import Model, load
from bertwright.inference.score import TextScore, is_pseudo, scores_texts
from bertwright.inference.vectors.embed import normalized
from bertwright.inference.word_vectors.table import open_words
from bertwright.text.scripts import is_word, length_in_words, words_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

PROMPTS, PROMPT_WORDS, NEW_TOKENS = 3, 6, 16
LENGTH = (10, 20)
"""The minimum and the maximum number of words of a sentence that is shown."""
COMMON = 5000
"""The words of a sentence that is shown are among so many most frequent ones, if there is one."""
TOO_COMMON = 200
"""The number of the most frequent words whose neighbours are not shown, because they occur beside
every word.
"""
WORDS, NEAREST, CANDIDATES = 6, 5, 3000
GUESSES = 3
END = "(end)"
"""What is shown of the token for the end of a text."""


@dataclass(frozen=True)
class Prompt:
    """The beginning of a held-out sentence."""

    text: str
    rest: str
    """The rest of the sentence."""

    def masked(self, mask: str) -> tuple[str, str]:
        """Return the sentence with a mask in place of the word after the prompt, and the word."""
        (word, *_) = words_of(self.rest) or [self.rest]
        before, _, after = self.rest.partition(word)
        return f"{self.text} {before}{mask}{after}", word


@dataclass(frozen=True)
class Chosen:
    """The held-out text and the words that all systems are shown with."""

    prompts: tuple[Prompt, ...]
    sentence: str
    """The sentence whose words are predicted; empty if the held-out text has none."""
    words: tuple[str, ...]
    """The words whose neighbours are shown, from frequent to rare."""
    candidates: tuple[str, ...]
    """The words that can be neighbours, from frequent to rare."""


def choose(held_out: Path, words: Tokenizer) -> Chosen:
    """Choose prompts, a sentence and words from held-out text.

    Sentences are drawn at random, always the same ones, from those of `LENGTH` words that are all
    among the `COMMON` most frequent, or else from all sentences of that length. Words are spread
    over the ranks by frequency of those that occur in the text.

    Args:
        held_out: the file of held-out text, with a sentence in each line.
        words: the vocabulary of words, whose ids are in the order of frequency.
    """
    written = held_out.read_text(encoding="utf-8").splitlines()
    lines = list(dict.fromkeys(filter(None, written)))  # each once
    flat, lengths = words.encode_sentence_ids(lines)
    ends = np.cumsum(lengths)
    fitting, common = [], []
    for line, ids in zip(lines, np.split(flat, ends[:-1]), strict=True):
        if LENGTH[0] <= length_in_words(line) <= LENGTH[1]:
            fitting.append(line)
            if ids.max() < COMMON and words.unk_id not in ids:
                common.append(line)
    of = common if len(common) > PROMPTS else fitting
    drawn = [of[n] for n in np.random.default_rng(0).permutation(len(of))[: PROMPTS + 1]]
    sentence, *beginnings = drawn or [""]
    occurring = set(flat.tolist())
    known = [(id, word) for id, word in enumerate(words.tokens_of(range(words.vocab_size)))]
    known = [(id, word) for id, word in known if is_word(word) and id not in words.special_ids]
    known = known[min(TOO_COMMON, len(known) // 10) : CANDIDATES]
    shown = [word for id, word in known if id in occurring]
    ranks = np.unique(np.geomspace(1, max(1, len(shown)), WORDS).astype(int)) - 1
    return Chosen(
        prompts=tuple(map(_prompt, beginnings)),
        sentence=sentence,
        words=tuple(shown[rank] for rank in ranks.tolist()) if shown else (),
        candidates=tuple(word for _, word in known),
    )


def _prompt(sentence: str) -> Prompt:
    """Split a sentence after `PROMPT_WORDS` words; in the middle if no blanks separate its words.

    (In Chinese, for example, words are not separated.)
    """
    parts = sentence.split(" ", PROMPT_WORDS)
    if len(parts) > PROMPT_WORDS:
        return Prompt(" ".join(parts[:-1]), parts[-1])
    middle = len(sentence) // 2
    return Prompt(sentence[:middle], sentence[middle:])


def examples(run: Path, chosen: Chosen, vectors: bool, device: str) -> dict[str, Any]:
    """Return what the model of a run makes of the chosen text and words, as plain values.

    A key is left out if the model cannot do what it is named after.

    Args:
        run: the folder of the run.
        chosen: the text and the words.
        vectors: whether the system has vectors of words.
        device: the device to run on; None: a GPU if there is one.
    """
    model = load(run, device)
    found: dict[str, Any] = {"prompts": [asdict(prompt) for prompt in chosen.prompts]}
    if chosen.prompts and generates(model.runner):
        config = GenerationConfig(max_new_tokens=NEW_TOKENS, sample=True, top_p=0.9)
        texts = model.generate([prompt.text for prompt in chosen.prompts], config)
        found["continuations"] = [text.text for (text,) in texts]
    if chosen.prompts and "masked_lm" in model.heads:
        found["fills"] = [_fill(model, prompt) for prompt in chosen.prompts]
    if chosen.sentence and scores_texts(model.runner):
        (score,) = model.score([chosen.sentence])
        found["surprisal"] = _bits_of_words(model.tokenizer, score)
        found["pseudo"] = is_pseudo(model.runner)
    if vectors and chosen.words:
        found["neighbours"] = neighbours(run, chosen)
    return found


def _fill(model: Model, prompt: Prompt) -> dict[str, Any]:
    """Return the most probable tokens for the word after a prompt, given the whole sentence."""
    tokenizer = model.tokenizer
    (mask,) = tokenizer.tokens_of([tokenizer.mask_id])
    text, word = prompt.masked(mask)
    (guesses, *_) = model.fill(text, GUESSES)
    return {"word": word, "guesses": [[token, probability] for token, probability in guesses]}


def _bits_of_words(tokenizer: Tokenizer, score: TextScore) -> dict[str, list[Any]]:
    """Return each word of a scored text, and the sum of the bits of its tokens."""
    bits = (-np.asarray(score.log_probabilities) / math.log(2)).tolist()
    words: list[str] = []
    of_words: list[float] = []
    ids: list[int] = []
    for id, own in zip(score.tokens, bits, strict=True):
        if ids and tokenizer.is_continuation[id]:
            ids.append(id)
            of_words[-1] += own
        else:
            ids = [id]
            words.append("")
            of_words.append(own)
        words[-1] = END if id in tokenizer.special_ids else tokenizer.decode(ids)
    return {"words": words, "bits": of_words}


def neighbours(run: Path, chosen: Chosen) -> dict[str, list[str]]:
    """Return the candidates with the largest cosine to each word.

    The vector of a word is its row in a table of vectors; for other models, the mean of its token
    embeddings, because vectors of higher layers depend on a sentence.
    """
    table = open_words(run)
    vectors = {word: table.vector(word) for word in (*chosen.words, *chosen.candidates)}
    known = {word: vector for word, vector in vectors.items() if vector is not None}
    if not known:
        return {}
    names, unit = list(known), normalized(np.stack(list(known.values())))
    found = {}
    for word in chosen.words:
        if word in known:
            order = np.argsort(-(unit @ known[word]), kind="stable")
            found[word] = [names[row] for row in order.tolist() if names[row] != word][:NEAREST]
    return found
