"""What the verbs do with the family of BERT: folders of transformers, and runs of our own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertwright
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.export.padded import PaddedEncoder
from bertwright.checkpoint.extension import extend_learner
from bertwright.config.run import RunConfig
from bertwright.data.shards import open_shards
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import load
from bertwright.models.catalogue import MODELS, trainable
from bertwright.nn.init import initialize
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.recipes.configure import configure
from bertwright.recipes.extend import extend
from bertwright.tasks.catalogue import KINDS
from tests.small_runs import build_data, mapping_of, newest, records, train
from tests.text.tokenizer.sample import TEXTS, byte_bpe, unigram

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
FAMILY = ("roberta", "electra")


@pytest.mark.parametrize("name", ["Roberta", "XLMRoberta"])
def test_a_folder_of_transformers(name: str, tmp_path: Path) -> None:
    """It fills, embeds, is fine-tuned, predicts, and loads in transformers again."""
    backend = byte_bpe() if name == "Roberta" else unigram()
    folder = tmp_path / "theirs"
    theirs = getattr(transformers, f"{name}ForMaskedLM")(
        getattr(transformers, f"{name}Config")(
            vocab_size=backend.get_vocab_size(),
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=40,
            max_position_embeddings=66,
            type_vocab_size=1,
        )
    ).eval()
    theirs.save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    model = load(folder)
    ids = torch.tensor([backend.encode("The cat <mask> there.").ids])
    with torch.no_grad():
        best = theirs(input_ids=ids).logits[0, ids[0] == 4].softmax(-1).max().item()
    ((first, *_),) = model.fill("The cat <mask> there.", top=3)
    assert first[1] == pytest.approx(best, abs=1e-5)
    ids = torch.tensor([backend.encode(TEXTS[0]).ids])
    with torch.no_grad():
        states = theirs(input_ids=ids, output_hidden_states=True).hidden_states[-2][0]
    assert model.embed(TEXTS)[0] == pytest.approx(states.mean(0).numpy(), abs=1e-5)

    rows = [{"text": text, "label": str(n % 2)} for n, text in enumerate(TEXTS * 4)]
    run = tmp_path / "run"
    bertwright.finetune(
        "classification",
        model=folder,
        train=rows,
        dev=rows,
        out=run,
        epochs=1,
        pooling="pooler",
        progress=False,
    )
    (found,) = load(run).predict([TEXTS[0]])
    again = transformers.AutoModelForSequenceClassification.from_pretrained(run / "model")
    with torch.no_grad():
        scores = again.eval()(input_ids=ids).logits.softmax(-1)[0].tolist()
    assert list(found.scores.values()) == pytest.approx(scores, abs=1e-5)
    (tmp_path / "corpus.txt").write_text("catlike catlike\n")
    with pytest.raises(DataError, match="WordPiece"):
        extend(folder, [str(tmp_path / "corpus.txt")], tmp_path / "larger", min_count=1, workers=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


def config_of(system: str, data: Path, out: Path, **over: Any) -> RunConfig:
    cls = trainable()[system]
    still = {"hidden_dropout_prob": 0.0}
    base = {"model": f"{system}-tiny", "architecture": still}
    return configure(cls, mapping_of(data, out, **{**base, **over}))


@pytest.mark.parametrize("system", FAMILY)
def test_a_run_learns_and_goes_on(system: str, data: Path, tmp_path: Path) -> None:
    config = config_of(system, data, tmp_path / "run", steps=20, log={"every_steps": 5})
    train(config)
    name = "replaced_tokens" if system == "electra" else "masked_lm"
    of_run = [r[f"{name}.loss"] for r in records(tmp_path / "run") if r["split"] == "train"]
    assert of_run[-1] < of_run[0]
    loaded = checkpoint.load(tmp_path / "run")
    assert loaded.learner.encoder.pooler is None
    folder = newest(tmp_path / "run")
    more = replace(config, out=str(tmp_path / "more"), init=str(folder), model=None, steps=2)
    train(more)
    again = checkpoint.load(tmp_path / "more")
    assert again.config == loaded.config
    convert(folder, tmp_path / "vectors", "sentence-transformers")
    vectors = load(tmp_path / "vectors").embed(["one two ."])
    assert vectors.shape == (1, loaded.learner.encoder.spec.width)
    size = loaded.config.vocab_size
    larger, grown = extend_learner(loaded.learner, loaded.config, {}, size, [[6, 7], []])
    assert grown.vocab_size == size + 2
    table, old = (x.encoder.token_embedding() for x in (larger, loaded.learner))
    assert table is not None
    assert old is not None
    assert torch.allclose(table.weight[size], old.weight[[6, 7]].mean(0))

    learner = loaded.learner.eval()
    ids = torch.tensor([[2, 6, 7, 3, 0], [2, 8, 9, 10, 3]])
    mask = (ids > 0).long()
    graph = PaddedEncoder(learner)
    with torch.no_grad():
        (padded, *_) = graph(ids, mask, [torch.zeros_like(ids)])
        ours = learner.encoder(Inputs(ids[mask.bool()], Sequences([4, 5]))).last
    assert (padded[mask.bool()] - ours).abs().max() <= 1e-5


def test_a_published_discriminator_is_not_trained_further(data: Path, tmp_path: Path) -> None:
    train(config_of("electra", data, tmp_path / "run", steps=1))
    loaded = checkpoint.load(newest(tmp_path / "run"), [])
    folder = tmp_path / "encoder"
    folder.mkdir()
    checkpoint.save(folder, loaded.learner, newest(tmp_path / "run"), "")
    config = config_of("electra", data, tmp_path / "more", steps=1)
    with pytest.raises(ConfigError, match="has no generator"):
        train(replace(config, init=str(folder), model=None))


def test_a_run_does_not_continue_a_model_of_another_system(data: Path, tmp_path: Path) -> None:
    folder = folder_of("distilbert", data, tmp_path / "folder")
    config = config_of("bert", data, tmp_path / "run", steps=1)
    with pytest.raises(ConfigError, match=r"folder is a distilbert.*bert"):
        train(replace(config, init=str(folder), model=None))


@pytest.mark.parametrize("system", FAMILY)
def test_pairs_are_refused(system: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mlm"):
        config_of(system, data, tmp_path, instances={"objectives": "mlm+nsp"})


def folder_of(system: str, data: Path, folder: Path, **sizes: Any) -> Path:
    """A folder of a system that has no runs, of random weights, over the tokenizer of the data."""
    member = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes = {**member, "intermediate_size": 512, "pooler": False, **sizes}
    tokenizer = open_shards(data).tokenizer_folder
    config = MODELS[system].config(vocab_size=open_shards(data).vocab_size, **sizes)
    learner = checkpoint.make_learner(config, ["masked_lm"])
    initialize(learner, 0.02, torch.Generator().manual_seed(1))
    folder.mkdir()
    checkpoint.save(folder, learner, tokenizer, "")
    return folder


@pytest.mark.parametrize("system", ["modernbert", "mpnet", "distilbert"])
def test_what_a_newer_member_does(system: str, data: Path, tmp_path: Path) -> None:
    """It is transformers', and goes on if it is pre-trained; each kind of task is too."""
    if MODELS[system].run is None:
        folder = folder_of(system, data, tmp_path / "folder")
    else:
        config = config_of(system, data, tmp_path / "run", steps=2)
        train(config)
        folder = newest(tmp_path / "run")
        start = {"init": str(folder), "model": None, "architecture": None}
        train(replace(config, out=str(tmp_path / "more"), **start))
        assert checkpoint.load(tmp_path / "more").config == checkpoint.load(folder).config
    learner = checkpoint.load(folder).learner.eval()
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ids = torch.tensor([[2, 6, 7, 4, 9, 3]])
    with torch.no_grad():
        last = learner.encoder(Inputs(ids[0], Sequences([6]))).last
        head: Any = learner.objectives["masked_lm"]
        assert (head.logits(last) - theirs(ids).logits[0]).abs().max() <= 1e-5
    convert(folder, tmp_path / "vectors", "sentence-transformers")
    np.testing.assert_allclose(
        load(tmp_path / "vectors").embed(["ba be"])[0], last_mean(learner, folder), atol=1e-5
    )
    rows, out = [(["ba", "be"], ["B-X", "O"])] * 4, tmp_path / "task"
    options: Any = {"epochs": 1, "max_length": 16, "stride": 4, "progress": False}
    bertwright.finetune("tagging", model=folder, train=rows, dev=rows, out=out, **options)
    auto = transformers.AutoModelForTokenClassification
    _, report = auto.from_pretrained(out / "model", output_loading_info=True)
    assert not any(report.values()), report


@pytest.mark.parametrize("system", ["electra", "albert", "mpnet", "modernbert"])
def test_a_member_generates(system: str, data: Path, tmp_path: Path) -> None:
    """It learns to generate a target, also where its embeddings are narrower than its layers."""
    if MODELS[system].run is None:
        folder = folder_of(system, data, tmp_path / "folder")
    else:
        narrow = {"embedding_size": 24} if system in ("electra", "albert") else {}
        train(config_of(system, data, tmp_path / "run", steps=1, architecture=narrow))
        folder = newest(tmp_path / "run")
    rows, out = [("ba be", "be ba")] * 32, tmp_path / "task"
    files: Any = {"train": rows, "dev": rows[:1], "out": out, "progress": False}
    sizes: Any = {"max_length": 24, "max_target_tokens": 8, "batch_size": 8, "epochs": 40}
    bertwright.finetune("generation", model=folder, learning_rate=3e-3, **sizes, **files)
    (found,) = load(out).predict(["ba be"])
    assert found.text == "be ba"


def test_new_heads_begin_with_that_of_the_masked_lm(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MODELS["modernbert"].config(vocab_size=9, intermediate_size=8, pooler=False, **sizes)
    learner = checkpoint.make_learner(config, ["masked_lm"])
    checkpoint.save(tmp_path, learner, None, "")
    wanted: Any = learner.objectives["masked_lm"]
    labels = {"labels": ("a", "b"), "max_length": 16, "stride": 4}
    tasks = {kind: KINDS[kind].task(**labels) for kind in ("tagging", "classification")}
    found = checkpoint.load(tmp_path, tasks=tasks, generator=torch.Generator()).learner
    tagger: Any = found.objectives["tagging"]
    for head in (found.encoder.pooler, tagger.before_scores):
        assert torch.equal(head.dense.weight, wanted.transform.weight)


def last_mean(learner: Any, folder: Path) -> Any:
    """The mean of the last layer over a text."""
    ids = load(folder).tokenizer.encode("ba be").ids
    with torch.no_grad():
        return learner.encoder(Inputs(torch.tensor(ids), Sequences([len(ids)]))).last.mean(0)
