"""Generate stories with questions, in the manner of the bAbI tasks (Weston et al. 2015).

People walk between rooms, take things and drop them. The question at the end is answered by one,
two or three of the sentences before it, or by how many things somebody carries. The tasks, with
their numbers in the paper:

| task | question | answer |
|---|---|---|
| `one-fact` (1) | where is mary ? | the room she went to last |
| `two-facts` (2) | where is the milk ? | the room of the person who took it last |
| `three-facts` (3) | where was the milk before the garden ? | the room it came from |
| `yes-no` (6) | is mary in the garden ? | yes, no |
| `counting` (7) | how many objects does mary carry ? | none, one, two, three |
| `lists` (8) | what does mary carry ? | nothing, or the things in alphabetical order, as one word |
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, get_args

Task = Literal["one-fact", "two-facts", "three-facts", "yes-no", "counting", "lists"]
TASKS: tuple[Task, ...] = get_args(Task)

PEOPLE = ("mary", "john", "sandra", "daniel")
ROOMS = ("kitchen", "garden", "hallway", "office", "bedroom", "bathroom")
THINGS = ("milk", "apple", "football")
NUMBERS = ("none", "one", "two", "three")


class _World:
    """The state of a story: where each person is, what they carry, and where each thing has
    been.
    """

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.room = dict.fromkeys(PEOPLE, "")
        self.carried: dict[str, list[str]] = {person: [] for person in PEOPLE}
        self.rooms_of: dict[str, list[str]] = {thing: [] for thing in THINGS}
        self.lies_in: dict[str, str] = {thing: generator.choice(ROOMS) for thing in THINGS}

    def step(self, with_things: bool) -> str:
        """Perform a random action of a random person. Return the sentence that describes it."""
        person = self.generator.choice(PEOPLE)
        here = [thing for thing, room in self.lies_in.items() if room == self.room[person]]
        action = self.generator.random()
        if with_things and here and action < 0.6:
            thing = self.generator.choice(here)
            del self.lies_in[thing]
            self.carried[person].append(thing)
            self._moved(thing, self.room[person])
            return f"{person} took the {thing} ."
        if with_things and self.carried[person] and action < 0.3:
            thing = self.generator.choice(self.carried[person])
            self.carried[person].remove(thing)
            self.lies_in[thing] = self.room[person]
            return f"{person} dropped the {thing} ."
        self.room[person] = self.generator.choice([r for r in ROOMS if r != self.room[person]])
        for thing in self.carried[person]:
            self._moved(thing, self.room[person])
        verb = self.generator.choice(("went", "moved", "travelled"))
        return f"{person} {verb} to the {self.room[person]} ."

    def _moved(self, thing: str, room: str) -> None:
        if self.rooms_of[thing][-1:] != [room]:
            self.rooms_of[thing].append(room)

    def question(self, task: Task) -> tuple[str, str] | None:
        """Return a question that the story answers, and the answer; None if the story does not
        answer any yet.
        """
        draw = self.generator
        person = draw.choice([p for p in PEOPLE if self.room[p]] or [""])
        if not person:
            return None
        if task == "one-fact":
            return f"where is {person} ?", self.room[person]
        if task == "yes-no":
            other = [room for room in self.room.values() if room] + list(ROOMS)
            room = self.room[person] if draw.random() < 0.5 else draw.choice(other)
            return f"is {person} in the {room} ?", "yes" if room == self.room[person] else "no"
        if task == "counting":
            return f"how many objects does {person} carry ?", NUMBERS[len(self.carried[person])]
        if task == "lists":
            return f"what does {person} carry ?", "".join(sorted(self.carried[person])) or "nothing"
        least = 1 if task == "two-facts" else 2
        seen = [thing for thing, rooms in self.rooms_of.items() if len(rooms) >= least]
        if not seen:
            return None
        thing = draw.choice(seen)
        rooms = self.rooms_of[thing]
        if task == "two-facts":
            return f"where is the {thing} ?", rooms[-1]
        last = {room: number for number, room in enumerate(rooms) if number}
        room = draw.choice(list(last))
        return f"where was the {thing} before the {room} ?", rooms[last[room] - 1]


def generate_stories(task: Task, count: int, seed: int = 0) -> Iterator[list[str]]:
    """Yield stories of 4 to 14 sentences, each followed by its question and its answer."""
    generator = random.Random(f"{task} {seed}")
    for _ in range(count):
        world, story = _World(generator), list[str]()
        length = generator.randint(4, 14)
        asked = None
        while asked is None or len(story) < length:
            story.append(world.step(with_things=task not in ("one-fact", "yes-no")))
            asked = world.question(task)
        yield [*story, *asked]
