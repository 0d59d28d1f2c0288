"""Answer the questions of stories with a memory network, for `bertwright answer`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bertwright.checkpoint import checkpoint
from bertwright.data.batch import collate
from bertwright.errors import DataError
from bertwright.models.memory_network.answer import StoryAnswer
from bertwright.models.memory_network.stories import StoryBatch
from bertwright.nn.finite import require_finite
from bertwright.rows.lines import ByteCounts, read_lines
from bertwright.rows.open import open_bytes
from bertwright.text.corpus.stories import babi_questions, is_babi
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def answer_stories(
    model: str, path: Path, counts: ByteCounts | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the answer to each question of a file of stories (see `_read_questions`).

    An answer has `sentences` (the most recent ones of the story, which the model's memory holds),
    `question`, `answer`, `probability`, and `attention`: for each hop, the attention on each
    sentence. `counts` receives what the bytes of the file were.

    Raises:
        DataError: the model is not a memory network, or the file has another format.
    """
    loaded = checkpoint.load(model)
    head = getattr(loaded.learner.objectives, "answer", None)
    if not isinstance(head, StoryAnswer):
        raise DataError(f"{model} is no memory network: train one with --model memory-network")
    tokenizer = load_tokenizer(loaded.opened.folder)
    learner = loaded.learner.eval()
    for sentences, question in _read_questions(path, ByteCounts() if counts is None else counts):
        memory = sentences[-head.config.memory_size :]
        ids = tokenizer.encode_bare_ids([*memory, question])
        inputs, _ = collate([[token for sentence in ids for token in sentence]])
        batch = StoryBatch(
            inputs,
            sentence_lengths=torch.tensor([len(sentence) for sentence in ids]),
            story_sentences=torch.tensor([len(ids)]),
            answers=torch.zeros(1, dtype=torch.long),
        )
        with torch.no_grad():
            logits, maps = head.hops(learner.encoder(batch.inputs), batch)
        probability, best = require_finite(logits[0].softmax(0), "probabilities").max(0)
        (word,) = tokenizer.tokens_of([int(best)])
        yield {
            "sentences": memory,
            "question": question,
            "answer": word,
            "probability": float(probability),
            "attention": [each.tolist() for each in maps],
        }


def _read_questions(path: Path, counts: ByteCounts) -> Iterator[tuple[list[str], str]]:
    """Yield the sentences and the question of each story of a file.

    A story has one sentence in each line, then a line with a question mark, then a blank line;
    lines between the question and the blank line are the known answer, and are not read.
    Alternatively, the file is one of the bAbI tasks, whose stories have several questions each.

    Raises:
        DataError: the file cannot be read, or a story has no question or no sentence before it.
    """
    text_lines = read_lines(open_bytes(path), str(path), counts)
    text = "\n".join(line for _, line in text_lines.numbered())
    if is_babi(text, answered=False):
        for each in babi_questions(text.split("\n"), str(path)):
            yield each.sentences, each.question
        return
    for number, story in enumerate(re.split(r"\n\s*\n", text.strip()), 1):
        lines = [line.strip() for line in story.splitlines()]
        asked = next((n for n, line in enumerate(lines) if "?" in line), 0)
        if asked < 1:
            raise DataError(
                f"story {number} of {path} has no sentence followed by a question; expected a "
                "sentence a line, then a line with a question mark; or a file of a bAbI task, "
                "with a number before each line"
            )
        yield lines[:asked], lines[asked]
