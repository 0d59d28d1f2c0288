"""Made-up stories: every answer is what the sentences say."""

from __future__ import annotations

from collections import defaultdict

import pytest

from bertwright.models.memory_network.generate import NUMBERS, TASKS, Task, generate_stories


def read(story: list[str]) -> tuple[dict[str, str], dict[str, list[str]], dict[str, list[str]]]:
    """Where people are, what they carry, and the rooms each thing was seen in, from the text."""
    room: dict[str, str] = {}
    carried: dict[str, list[str]] = defaultdict(list)
    seen: dict[str, list[str]] = defaultdict(list)

    def note(thing: str, where: str) -> None:
        if seen[thing][-1:] != [where]:
            seen[thing].append(where)

    for line in story:
        person, verb, *_, last, _ = line.split()
        if verb == "took":
            carried[person].append(last)
            note(last, room[person])
        elif verb == "dropped":
            carried[person].remove(last)
        else:
            room[person] = last
            for thing in carried[person]:
                note(thing, last)
    return room, carried, seen


@pytest.mark.parametrize("task", TASKS)
def test_answers_follow_from_the_sentences(task: Task) -> None:
    answers = set()
    for *story, question, answer in generate_stories(task, 300, seed=2):
        room, carried, seen = read(story)
        words = question.split()
        if task == "one-fact":
            expected = room[words[2]]
        elif task == "yes-no":
            expected = "yes" if room[words[1]] == words[4] else "no"
        elif task == "counting":
            expected = NUMBERS[len(carried[words[4]])]
        elif task == "lists":
            expected = "".join(sorted(carried[words[2]])) or "nothing"
        elif task == "two-facts":
            expected = seen[words[3]][-1]
        else:
            rooms = seen[words[3]]
            last = max(n for n, where in enumerate(rooms) if where == words[6])
            expected = rooms[last - 1]
        assert answer == expected, (story, question)
        answers.add(answer)
    assert len(answers) >= {"yes-no": 2, "counting": 3}.get(task, 5)


def test_a_seed_gives_the_same_stories() -> None:
    first = list(generate_stories("lists", 5, seed=4))
    assert first == list(generate_stories("lists", 5, seed=4))
    assert first != list(generate_stories("lists", 5, seed=5))
