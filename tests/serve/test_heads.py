"""Replies of the heads, key by key, and what they say of inputs that lose tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from bertwright.inference import next_sentence
from bertwright.inference.inputs import make_examples
from bertwright.inference.model import Model
from bertwright.tasks.task_data import TaskData
from tests.serve.conftest import ask, check_no

LONG = " ".join("abcdefghijklmnopqrst")
CONTEXT = "b c d e f g h i j k l m n o p q"


def test_entities(client: TestClient, model: Model) -> None:
    inputs: list[Any] = ["a, b.", ["a", "fishing"], LONG]
    found = ask(client, "/tag", input=inputs)["results"]
    predicted = [each.as_dict() for each in model.predict(inputs, "names")]
    assert sum(len(known["entities"]) for known in predicted) > 2
    for each, known in zip(found, predicted, strict=True):
        entities = [
            {
                "entity_group": one["label"],
                "score": pytest.approx(one["score"], abs=1e-5),
                "word": one["text"],
                "start": one["start"],
                "end": one["end"],
            }
            for one in known["entities"]
        ]
        assert each["entities"] == entities
        assert (tuple(each["words"]), tuple(each["tags"])) == (known["words"], known["tags"])
        assert each["scores"] == pytest.approx(list(known["scores"]), abs=1e-5)
        offsets = each["offsets"]
        assert (offsets and tuple(map(tuple, offsets))) == known["offsets"]


def test_answers(client: TestClient, model: Model) -> None:
    question = {"question": "a ?", "context": CONTEXT}
    (found,) = ask(client, "/answer", input=question, top_k=3)["results"]
    known = model.predict([question], "answer")[0].as_dict()
    best = [
        {
            "answer": one["text"],
            "start": one["start"],
            "end": one["end"],
            "score": pytest.approx(one["probability"], abs=1e-5),
        }
        for one in known["n_best"]
    ]
    assert len(best) > 3
    assert found["answers"] == best[:3]
    (own,) = [one for one in best if (one["start"], one["end"]) == (known["start"], known["end"])]
    assert {key: found[key] for key in own} == own
    assert own["answer"] == known["answer"]
    null = known["null_score"]
    assert found["null_score"] == (pytest.approx(null, abs=1e-4) if np.isfinite(null) else None)
    assert len(ask(client, "/answer", input=question)["results"][0]["answers"]) == 1


def test_choices(client: TestClient, model: Model) -> None:
    given = [
        {"text": "a", "choices": choices, "text2": "x"} for choices in (["b", "c d"], ["c d", "b"])
    ]
    found = ask(client, "/choose", input=given)["results"]
    for each, known in zip(found, model.predict(given, "next"), strict=True):
        assert each["choice"] == known.choice
        assert each["scores"] == pytest.approx(known.scores, abs=1e-5)
    assert sorted(each["choice"] for each in found) == [0, 1]
    assert found[0]["scores"] == pytest.approx(found[1]["scores"][::-1], abs=1e-5)


def test_replies_name_the_layers_that_heads_read(client: TestClient) -> None:
    layers = {
        task: ask(client, "/classify", input="a", task=task)["layers"] for task in ("mood", "mixed")
    }
    assert layers == {"mood": [3], "mixed": [0, 1, 2, 3]}


def test_a_question_that_fits_no_window(client: TestClient, model: Model) -> None:
    inputs = [{"question": question, "context": "a b"} for question in ("a", LONG)]
    error = check_no(client.post("/answer", json={"input": inputs}), 400)
    assert error["code"] == "too_long"
    assert error["message"].startswith("input 1 ")
    task = model.tasks["answer"]
    data = TaskData("answer", task, model.tokenizer, make_examples(task, inputs[1:]))
    assert data.lengths.tokens_cut > 1
    reply = ask(client, "/answer", input=inputs, truncate=True)
    assert reply["truncated"] == [{"input": 1, "tokens_cut": data.lengths.tokens_cut}]


def test_a_text_with_blanks_may_be_as_long_as_the_model_reads(client: TestClient) -> None:
    for letters, status in ((13, 200), (14, 400)):
        reply = client.post("/fill-mask", json={"input": "[MASK] " + "a " * letters})
        assert reply.status_code == status
    (blank,) = ask(client, "/fill-mask", input="[MASK]")["results"][0]
    assert len(blank) == 5


def test_a_pair_of_sentences_that_is_cut(client: TestClient, model: Model) -> None:
    probability, left_out = next_sentence.next_sentence(model.runner, LONG, "x y")
    reply = ask(client, "/next-sentence", input=[["a", "b"], [LONG, "x y"]], truncate=True)
    assert reply["truncated"] == [{"input": 1, "tokens_cut": left_out}]
    assert reply["results"][1]["probability"] == pytest.approx(probability, abs=1e-5)
