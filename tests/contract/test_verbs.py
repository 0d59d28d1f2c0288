"""Every system goes by the same verbs: pre-trained and resumed if it has runs, embedded, fine-tuned
and served in any case."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from tokenizers import Tokenizer

import bertwright
from bertwright.checkpoint import checkpoint, find
from bertwright.cli.app import run as run_verb
from bertwright.config.run import RunConfig, StepRun
from bertwright.config.serve import ServeConfig
from bertwright.data.shards import Shards
from bertwright.decoding.texts import ends_of
from bertwright.errors import ConfigError, DataError
from bertwright.inference.generate import generates
from bertwright.models.load import load
from bertwright.models.system import System
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.recipes.learned.catalogue import LEARNED
from bertwright.recipes.learned.run import validation_batches
from bertwright.recipes.pretrain import make_learner
from bertwright.serve.app import make_app
from tests.contract.conftest import CHECKPOINTS, RUNS, STEPS, config_of, mapping
from tests.serve.conftest import until_ready
from tests.small_runs import WORDS, assert_same_run, records, train

TEXTS = [f"{WORDS[n]} {WORDS[n + 1]} ." for n in range(0, 40, 2)]


ANSWERS = {
    **dict.fromkeys(("ngram", "elmo", "word2vec", "glove"), "yes"),
    **dict.fromkeys(("bert-ltr", "awd-lstm", "nnlm", "fasttext"), "perhaps"),
    **dict.fromkeys(("electra", "toy-lstm"), "unknown"),  # their pages have curves alone
}
"""Whether a tiny run has learned something, where a dozen steps are not too few for it."""


def verb(*words: object) -> None:
    assert run_verb([str(word) for word in words]) == 0


def steps_of(name: str) -> int:
    """Steps of its tiny run, or passes; a model that is counted has one."""
    return int(RUNS[name].get("epochs", RUNS[name].get("steps", STEPS)))


def loss_of(learner: Learner, batches: list[Any]) -> float:
    """The mean loss of each objective over the batches, summed over objectives."""
    with torch.inference_mode():
        losses = [learner.eval()(batch) for batch in batches]
    return sum(
        float(sum(loss[name].total for loss in losses)) / sum(loss[name].count for loss in losses)
        for name in losses[0]
    )


def test_a_run_learns(name: str, system: System, run: Path, data: Path, shards: Shards) -> None:
    found = records(run)
    assert found[-1]["step"] == steps_of(name)
    if system.instances is None:  # no text is held out
        losses = [each["loss"] for each in found if each["split"] == "train"]
        assert losses[-1] < losses[0]
        return
    assert found[-1]["split"] == "dev"
    config = config_of(name, data, run, checkpoint=CHECKPOINTS)
    learner = checkpoint.load(run).learner
    batches = validation_batches(shards, config, "dev")
    loss = loss_of(learner, batches)
    assert found[-1]["loss"] == pytest.approx(loss, rel=1e-4)
    if name == "ngram":  # without counts it has no probabilities: a uniform distribution instead
        assert loss < np.log(shards.vocab_size)
    else:
        assert loss < loss_of(make_learner(config, shards), batches)


def test_saved_and_loaded_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load(folder)
    tokenizer = loaded.opened.folder
    checkpoint.save(tmp_path, loaded.learner, tokenizer, "a card")
    again = checkpoint.load(tmp_path)
    assert again.config == loaded.config
    state = loaded.learner.state_dict()
    assert state.keys() == again.learner.state_dict().keys()
    for key, value in again.learner.state_dict().items():
        assert torch.equal(value, state[key]), key


def test_resumed_is_the_same_run(name: str, run: Path, data: Path, tmp_path: Path) -> None:
    stopped = tmp_path / "run"
    shutil.copytree(run, stopped)
    for folder in find.list_checkpoints(stopped)[1:]:
        shutil.rmtree(folder)
    kept = min(5, steps_of(name))
    find.write_latest(stopped, f"step-{kept:08d}")
    config: Any = config_of(name, data, stopped, checkpoint=CHECKPOINTS)
    (stopped / "config.toml").write_text(
        (run / "config.toml").read_text("utf-8").replace(str(run), str(stopped)), "utf-8"
    )
    said = train(config, resume=True)
    assert any(f"step {kept}" in line for line in said)
    assert_same_run(stopped, run)


@pytest.mark.slow
def test_help_shows_its_own_keys(
    name: str, data: Path, config: RunConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    model = mapping(name, data, data / "run")["model"]
    verb("pretrain", "--model", model, "--help-all")
    shown = capsys.readouterr().out
    assert ("--optimizer.learning-rate" in shown) == isinstance(config, StepRun)
    assert ("--masking.whole-word" in shown) == load(name).is_padded


def test_embed(folder: Path, tmp_path: Path) -> None:
    model = bertwright.load(folder)
    if not model.spec.has_vectors:
        with pytest.raises(ConfigError, match="no vectors"):
            model.embed(TEXTS)
        return
    vectors = model.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), model.spec.widths[model.spec.default_layer])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[3], model.embed(TEXTS[3:4])[0], atol=1e-5)
    (of_no_words,) = model.embed([""])
    assert ("zeros" in model.embedder().describe_empty()) == (not of_no_words.any())
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    verb("embed", "--model", folder, "--input", tmp_path / "texts.txt", "--out", tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), vectors, atol=1e-5)


def test_pairs(folder: Path) -> None:
    model = bertwright.load(folder)
    if not model.spec.has_vectors:
        return
    pair = (TEXTS[0], TEXTS[1])
    if not model.spec.reads_pairs:
        with pytest.raises(DataError, match="pairs"):
            model.embed([pair])
        return
    (found,) = model.encode([pair])
    # the tokenizer.json that other programs read frames pairs alike
    file = find.find_checkpoint(folder) / "tokenizer.json"
    assert found.ids == Tokenizer.from_file(str(file)).encode(*pair).ids
    vectors = model.embed([pair, TEXTS[2], pair[::-1]])
    layer = found.layers[model.spec.default_layer]
    np.testing.assert_allclose(vectors[0], layer.mean(0), atol=1e-5)
    np.testing.assert_allclose(vectors[1], model.embed(TEXTS[2])[0], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[2], atol=1e-5)
    assert all(np.isfinite(each.weights).all() for each in model.attention(pair))
    config = ServeConfig(model=(f"m={folder}",), device="cpu", log_requests=False)
    with TestClient(make_app(config)) as client:
        until_ready(client)
        reply = client.post("/embed", json={"inputs": [pair]})
        assert reply.status_code == 200, reply.text
    np.testing.assert_allclose(reply.json()["vectors"], vectors[:1], atol=1e-4)


def test_generate(folder: Path) -> None:
    model = bertwright.load(folder)
    if not generates(model.runner):
        with pytest.raises(DataError, match=r"next_token|generate"):
            model.generate(TEXTS[0])
        return
    prompts = ["", TEXTS[0], " ".join(WORDS[:5])]
    (alone,) = model.generate(prompts[1], max_new_tokens=6)
    together = model.generate(prompts, max_new_tokens=6)
    assert together[1] == alone
    assert "".join(model.stream(prompts[1], max_new_tokens=6)) == alone[0].text
    head: Any = model.runner.learner.objectives["next_token"]
    ends, never = ends_of(model.tokenizer)
    for prompt, (found,) in zip(prompts, together, strict=True):
        ids = model.tokenizer.encode(prompt).ids[:-1]
        start = len(ids)
        while len(ids) < start + 6:  # the whole text is read again at each token
            inputs = Inputs(torch.tensor(ids), Sequences([len(ids)]))
            with torch.inference_mode():
                encoded = model.runner.encoder(inputs)
                logits = head.logits(encoded.at(torch.tensor([len(ids) - 1])))[0]
                logits[list(never)] = -torch.inf
            if (token := int(logits.argmax())) in ends:
                break
            ids.append(token)
        assert found.ids == ids[start:]
    beams = model.generate(prompts, max_new_tokens=4, beam=3, num=2)
    assert all(best.score >= other.score for best, other in beams)


@pytest.mark.parametrize(
    "transfer",
    ["finetune", *(pytest.param(each, marks=pytest.mark.slow) for each in ("features", "gradual"))],
)
def test_finetune_evaluate_predict(
    folder: Path, tmp_path: Path, transfer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{text}\t{('yes', 'no')[n % 2]}" for n, text in enumerate(TEXTS)]
    for file in ("train.tsv", "dev.tsv"):
        (tmp_path / file).write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "new.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    out = tmp_path / "task"
    files = ["--train", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", "--out", out]
    sizes = ["--max-length", "16", "--stride", "4", "--epochs", "1"]
    options = ["--model", folder, *files, *sizes, "--transfer", transfer]
    words = ["finetune", "classification", *options]
    if not bertwright.load(folder).spec.has_vectors:
        assert run_verb([str(word) for word in words]) == 2
        assert "no vectors" in capsys.readouterr().err
        assert not out.exists()
        return
    verb(*words)
    capsys.readouterr()
    verb("evaluate", "--model", out, "--data", tmp_path / "dev.tsv", "--json")
    evaluated = json.loads(capsys.readouterr().out)
    predicted = tmp_path / "predicted.jsonl"
    verb("predict", "--model", out, "--input", tmp_path / "new.txt", "--out", predicted)
    labels = [json.loads(line)["label"] for line in predicted.read_text("utf-8").splitlines()]
    assert evaluated["data"]["examples"] == len(labels) == len(TEXTS)
    right = [label == ("yes", "no")[n % 2] for n, label in enumerate(labels)]
    assert evaluated["metrics"]["accuracy"] == pytest.approx(np.mean(right))


@pytest.mark.slow
def test_finetune_vectors_of_sentences(folder: Path, tmp_path: Path) -> None:
    if not bertwright.load(folder).spec.has_vectors:
        return
    rows = list(pairwise(TEXTS[:9]))
    tuned = bertwright.finetune(
        "similarity",
        model=folder,
        train=rows,
        dev=rows,
        out=tmp_path / "tuned",
        max_length=16,
        stride=4,
        epochs=1,
        learning_rate=1e-3,
        micro_tokens=32,
        baselines=False,
        precision="fp32",
        progress=False,
    ).model
    u, v = tuned.embed(rows[0])
    assert np.linalg.norm(u) == pytest.approx(1, abs=1e-5)
    predicted: Any = tuned.predict(rows[:1])[0]
    assert predicted.value == pytest.approx(float(u @ v), abs=1e-5)


def test_serve(folder: Path) -> None:
    config = ServeConfig(model=(f"m={folder}",), device="cpu", log_requests=False)
    with TestClient(make_app(config)) as client:
        until_ready(client)
        reply = client.post("/embed", json={"inputs": TEXTS[:3]})
        if not bertwright.load(folder).spec.has_vectors:
            assert reply.status_code == 400
            assert "no vectors" in reply.text
            return
        assert reply.status_code == 200, reply.text
        vectors = np.array(reply.json()["vectors"])
    np.testing.assert_allclose(vectors, bertwright.load(folder).embed(TEXTS[:3]), atol=1e-4)


@pytest.mark.slow
def test_its_page_says_what_it_has_learned(name: str, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    verb("report", copy)
    found = json.loads((copy / "examples.json").read_text())
    assert found["verdict"]["answer"] == ANSWERS.get(name, "no")
    last = records(run)[-1]
    for key in found.get("baselines", {}):
        if key.endswith("accuracy") and "bits" not in found["verdict"]["sentence"]:
            assert f"{last[key]:.1%}" in found["verdict"]["sentence"]
    assert found["step"] == last["step"]
    page = (copy / "report.html").read_text()
    for section in found.get("sections", []):
        assert section["title"] in page
    assert bool(found.get("sections")) == (name in LEARNED and name != "elmo")
