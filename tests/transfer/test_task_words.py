"""Token embeddings of a task's words alone: the same model, at every moment of a training."""

from __future__ import annotations

import copy
from typing import cast

import torch

from bertwright.checkpoint.checkpoint import make_learner
from bertwright.config.finetune import FinetuneConfig
from bertwright.models.bert.encoder import Bert
from bertwright.nn.encoder import Encoded, Encoder, EncoderSpec
from bertwright.nn.objective import Learner
from bertwright.tasks.batch import TaskBatch
from bertwright.tasks.instances import Instance
from bertwright.tasks.task_data import make_batch
from bertwright.tasks.texts.options import ClassificationTask
from bertwright.train.optim import clip_gradients
from bertwright.transfer.stepping import Stepping
from bertwright.transfer.task_words import TaskWords, train_task_words
from tests.small_bert import STILL, scatter

TASK = ClassificationTask(labels=("no", "yes"), max_length=16, stride=4)
TEXTS = [
    Instance(0, ((1, 7, 9, 2),), ((0, 0, 0, 0),), 1),
    Instance(1, ((1, 30, 7, 7, 12, 2),), ((0, 0, 0, 1, 1, 1),), 0),
]
OWN = [1, 2, 7, 9, 12, 30]
TABLE = "encoder.embeddings.token.weight"


def new_learner() -> Learner:
    learner = make_learner(STILL, [], {"task": TASK}).double()
    scatter(learner, 0.1, 0.1)
    return learner


def teach(learner: Learner, transfer: str, steps: int, decay: float = 0.3) -> None:
    """Some steps, as the loop does them."""
    config = FinetuneConfig("", "", transfer=transfer, weight_decay=decay)
    stepping = Stepping(learner, config, 0.02, 2.0, steps)
    learner.train()
    for step in range(steps):
        torch.manual_seed(step)
        stepping(step / steps, 1 / steps)
        batch = make_batch("task", TASK, TEXTS, [0, 1] if step % 3 else [step % 2])
        stepping.optimizers.zero_grad()
        learner(batch)["task"].total.backward()
        clip_gradients(learner.parameters(), 1.0)
        stepping.optimizers.step()


def encode(learner: Learner, batch: TaskBatch) -> torch.Tensor:
    with torch.no_grad():
        encoded = learner.eval().encoder(batch.inputs)
    return cast(Encoded, encoded).last


def words_of(learner: Learner) -> torch.nn.Module:
    assert isinstance(learner.encoder, Bert)
    return cast(torch.nn.Module, learner.encoder.embeddings.token)


def ids() -> list[int]:
    return [i for text in TEXTS for window in text.ids for i in window]


def test_a_training_ends_with_the_weights_of_one_that_has_all_rows() -> None:
    for transfer in ("finetune", "gradual", "top-1"):
        plain, own = new_learner(), new_learner()
        start = plain.state_dict()[TABLE].clone()
        train_task_words(own, ids())
        for learner in (plain, own):
            teach(learner, transfer, steps=12)
        expected, found = plain.state_dict(), own.state_dict()
        assert list(expected) == list(found)
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-12, atol=1e-12, msg=name)
        moved = (found[TABLE] != start).any(1)
        if transfer == "top-1":  # its embeddings are frozen
            assert not moved.any()
            continue
        assert moved.all()
        shrunk = found[TABLE] / start
        others = [i for i in range(STILL.vocab_size) if i not in OWN]
        assert shrunk[others].std() < 1e-12  # all by one factor
        assert shrunk[others].mean() < 0.999


def test_without_decay_the_other_rows_stay() -> None:
    learner = new_learner()
    start = learner.state_dict()[TABLE].clone()
    train_task_words(learner, ids())
    teach(learner, "finetune", steps=4, decay=0.0)
    moved = (learner.state_dict()[TABLE] != start).any(1)
    assert moved.nonzero()[:, 0].tolist() == OWN


def test_only_the_rows_of_the_task_have_gradients_and_moments() -> None:
    learner = new_learner()
    train_task_words(learner, ids())
    words = words_of(learner)
    assert isinstance(words, TaskWords)
    assert words.weight.shape == (len(OWN) + 1, STILL.hidden_size)
    assert learner.get_parameter(TABLE) is words.weight
    teach(learner, "finetune", steps=1)
    gradient = words.weight.grad
    assert gradient is not None
    assert gradient[:-1].abs().sum(1).gt(0).sum() == 4  # pieces of the one text of the step
    assert not gradient[-1].any()


def test_held_out_texts_have_pieces_of_their_own() -> None:
    plain, own = new_learner(), new_learner()
    train_task_words(own, ids())
    for learner in (plain, own):
        teach(learner, "finetune", steps=5)
    strange = Instance(0, ((1, 40, 7, 5, 2), (1, 41, 2)), ((0,) * 5, (0,) * 3), 0)
    for text in (strange, *TEXTS):
        batch = make_batch("task", TASK, [text], [0])
        torch.testing.assert_close(encode(own, batch), encode(plain, batch), rtol=1e-11, atol=1e-11)


def test_a_state_is_a_copy_and_loads_into_a_whole_table() -> None:
    learner = new_learner()
    train_task_words(learner, ids())
    before = learner.state_dict()
    kept = copy.deepcopy(before[TABLE])
    teach(learner, "finetune", steps=2)
    torch.testing.assert_close(before[TABLE], kept)
    fresh = new_learner()
    fresh.load_state_dict(learner.state_dict())
    batch = make_batch("task", TASK, TEXTS, [0, 1])
    torch.testing.assert_close(encode(fresh, batch), encode(learner, batch))


def test_most_of_a_vocabulary_stays_one_table() -> None:
    learner = new_learner()
    train_task_words(learner, range(STILL.vocab_size - 3))
    assert not isinstance(words_of(learner), TaskWords)


def test_other_encoders_stay_as_they_are() -> None:
    class Empty(Encoder):
        def stages(self) -> list[torch.nn.Module]:
            return []

    learner = Learner(Empty(EncoderSpec(width=4, depth=0, vocab_size=9)), {})
    train_task_words(learner, [1, 2])
    assert list(learner.state_dict()) == []
