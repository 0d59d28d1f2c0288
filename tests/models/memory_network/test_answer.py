"""The memory network against its equations, a story and a word at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import load
from bertwright.cli.app import run as run_verb
from bertwright.data.shards import Shards, open_shards
from bertwright.errors import DataError
from bertwright.models.memory_network.answer import StoryAnswer
from bertwright.models.memory_network.config import MemoryNetworkConfig
from bertwright.models.memory_network.stories import Stories
from bertwright.models.word_vectors.encoder import WordVectors
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from tests.small_runs import build_data, build_stories

CONFIG = MemoryNetworkConfig(hidden_size=7, hops=2, memory_size=5)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return open_shards(build_stories(tmp_path_factory.mktemp("stories")))


def by_hand(
    config: MemoryNetworkConfig,
    tables: list[np.ndarray],
    times: list[np.ndarray],
    story: list[list[int]],
) -> tuple[np.ndarray, list[np.ndarray]]:
    *memory, question = story

    def sentence(table: np.ndarray, words: list[int]) -> np.ndarray:
        total = np.zeros(config.hidden_size)
        for j, word in enumerate(words, 1):
            for h in range(1, config.hidden_size + 1):
                part, width = j / len(words), h / config.hidden_size
                weight = (1 - part) - width * (1 - 2 * part)
                total[h - 1] += weight * table[word, h - 1]
        return total

    u, maps = sentence(tables[0], question), []
    for k in range(config.hops):
        scores = []
        for i, words in enumerate(memory):
            age = len(memory) - 1 - i
            m = sentence(tables[k], words) + times[k][age]
            scores.append(u @ m)
        p = np.exp(scores) / np.exp(scores).sum() if config.softmax else np.array(scores)
        o = np.zeros(config.hidden_size)
        for i, words in enumerate(memory):
            age = len(memory) - 1 - i
            o += p[i] * (sentence(tables[k + 1], words) + times[k + 1][age])
        u = u + o
        maps.append(p)
    return tables[-1] @ u, maps


@pytest.mark.parametrize("softmax", [True, False])
def test_it_is_the_papers(shards: Shards, softmax: bool) -> None:
    config = replace(CONFIG, vocab_size=shards.vocab_size, softmax=softmax)
    torch.manual_seed(0)
    encoder, head = WordVectors(config).double(), StoryAnswer(config).double()
    encoder.table.weight.data.normal_()
    stories = Stories(shards, np.arange(20), config.memory_size, 999)
    batch = stories.batch(0, np.arange(6))
    logits, maps = head.hops(encoder(batch.inputs), batch)
    tables = [t.weight.detach().numpy() for t in (encoder.table, *head.tables)]
    times = [t.weight.detach().numpy() for t in head.times]
    ids = batch.inputs.ids.split(batch.sentence_lengths.tolist())
    done = memories = 0
    for row, count in enumerate(batch.story_sentences.tolist()):
        story = [each.tolist() for each in ids[done : done + count]]
        expected, attended = by_hand(config, tables, times, story)
        np.testing.assert_allclose(logits[row].detach().numpy(), expected, rtol=1e-5, atol=1e-5)
        for found, own in zip(maps, attended, strict=True):
            part = found[memories : memories + count - 1].detach().numpy()
            np.testing.assert_allclose(part, own, rtol=1e-9, atol=1e-12)
        done, memories = done + count, memories + count - 1


def test_a_softmax_is_added_to_what_began_without_one(shards: Shards, tmp_path: Path) -> None:
    words = ["pretrain", "--data", str(shards.folder), "--steps", "1", "--device", "cpu"]
    linear, whole = str(tmp_path / "linear"), str(tmp_path / "whole")
    keys = ["--model", "memory-network", "--architecture.no-softmax"]
    assert run_verb([*words, *keys, "--out", linear]) == 0
    assert run_verb([*words, "--init", linear, "--architecture.softmax", "--out", whole]) == 0
    found = [load(folder).learner.objectives["answer"].config for folder in (linear, whole)]
    assert [config.softmax for config in found] == [False, True]
    assert found[0] == replace(found[1], softmax=False)


def test_only_the_newest_sentences_are_kept(shards: Shards) -> None:
    whole = Stories(shards, np.arange(20), 99, 999).batch(0, np.arange(20))
    few = Stories(shards, np.arange(20), 2, 999).batch(0, np.arange(20))
    assert few.story_sentences.max() == 3 < whole.story_sentences.max()
    assert sorted(few.answers.tolist()) == sorted(whole.answers.tolist())


def test_what_is_no_story_is_an_error(shards: Shards, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"--longest-story.*20"):
        Stories(shards, np.arange(20), 99, 20)
    with pytest.raises(DataError, match=r"document 1 .*story"):
        Stories(open_shards(build_data(tmp_path)), np.arange(3), 9, 999)


TASK = """\
1 Anna took the train to Oslo.
2 Where is Anna? \tOslo\t1
3 Ben stayed in Rome.
4 Where is Ben? \tRome\t3
1 Ben took the train to Rome.
2 Where is Ben? \tRome\t1
"""


@pytest.mark.slow
def test_a_file_of_a_babi_task_is_built_trained_on_and_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tmp_path / "task.txt"
    task.write_text(TASK)
    words, data, run = (str(tmp_path / name) for name in ("words", "shards", "run"))
    train = ["tokenizer", "train", str(task), "--algorithm", "word", "--min-frequency", "1"]
    assert run_verb([*train, "--vocab-size", "40", "--out", words]) == 0
    build = ["data", "build", str(task), "--sentences", "line", "--tokenizer", words]
    assert run_verb([*build, "--out", data]) == 0
    assert "bAbI" in capsys.readouterr().out
    shards = open_shards(data)
    tokenizer = load_tokenizer(words)
    answers = shards.tokens_at(shards.sentence_tokens[shards.document_sentences[1:] - 1])
    assert tokenizer.tokens_of(answers.tolist()) == ["oslo", "rome", "rome"]
    words_of_run = ["pretrain", "--model", "memory-network", "--data", data, "--steps", "2"]
    assert run_verb([*words_of_run, "--device", "cpu", "--out", run]) == 0
    capsys.readouterr()

    assert run_verb(["answer", str(task), "--model", run, "--json"]) == 0
    found = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [row["question"] for row in found] == ["Where is Anna?", *["Where is Ben?"] * 2]
    assert [len(row["sentences"]) for row in found] == [1, 2, 1]
    assert found[1]["sentences"][-1] == "Ben stayed in Rome."

    mine = tmp_path / "mine.txt"
    mine.write_text("1 Anna took the train to Oslo.\n2 Where is Anna?\n")
    assert run_verb(["answer", str(mine), "--model", run, "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["sentences"] == ["Anna took the train to Oslo."]
    assert row["answer"] == found[0]["answer"]
