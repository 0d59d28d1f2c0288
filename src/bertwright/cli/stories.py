"""`bertwright data stories` and `bertwright answer`: questions about made-up stories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bertwright.atomic import atomic_file, refuse_existing
from bertwright.cli.options import Json, Overwrite
from bertwright.cli.output import print_json, print_table
from bertwright.console import say
from bertwright.errors import ConfigError
from bertwright.models.memory_network.generate import Task, generate_stories


def generate(
    *,
    out: Path,
    task: Task = "one-fact",
    count: int = 10_000,
    seed: int = 1,
    overwrite: Overwrite = False,
) -> None:
    """Generate stories, each with a question and its answer, like those of the bAbI tasks.

    Args:
        out: Text file to write.
        task: Kind of question.
        count: Number of stories.
        seed: Seed of the random number generator.
    """
    if count < 1:
        raise ConfigError(f"count is {count}; expected 1 or more")
    refuse_existing(out, overwrite)
    with atomic_file(out) as file:
        for story in generate_stories(task, count, seed):
            file.write("\n".join(story) + "\n\n")
    say(f"{out}: {count:,} stories, a sentence a line, the last two a question and its answer")


def answer(
    story: Annotated[Path, Parameter(name="FILE")], *, model: str, json: Json = False
) -> None:
    """Answer the question of each story, and show the attention on its sentences.

    Args:
        story: File of stories: one sentence per line, then the question, then a blank line; or a
            file of a bAbI task.
        model: A run or a checkpoint of a memory network.
    """
    from bertwright.inference.stories import answer_stories
    from bertwright.rows.lines import ByteCounts

    counts = ByteCounts()
    for found in answer_stories(model, story, counts):
        if json:
            print_json(found)
            continue
        hops = [f"hop {number}" for number in range(1, len(found["attention"]) + 1)]
        rows = [
            (text, *(f"{p:.2f}" for p in attended))
            for text, *attended in zip(found["sentences"], *found["attention"], strict=True)
        ]
        print_table((found["question"], *hops), rows)
        print(f"{found['answer']} ({found['probability']:.0%})\n")
    for remark in counts.byte_remarks():
        say(f"{story}: {remark}")
