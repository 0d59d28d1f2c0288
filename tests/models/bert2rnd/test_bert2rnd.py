"""A translation model whose encoder starts as a pre-trained BERT: its weights, its vocabulary."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.cli.app import run
from bertwright.config import values
from bertwright.config.generation import TranslationConfig
from bertwright.data.shards import open_shards
from bertwright.errors import ConfigError, DataError
from bertwright.inference.model import load
from bertwright.inference.translation.translate import target_search
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert2rnd.config import Bert2RndRun
from bertwright.models.transformer.config import TransformerConfig
from bertwright.nn.objective import Learner
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.recipes.configure import configure
from bertwright.recipes.pretrain import make_learner
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.tokenizer import load_tokenizer, make_tokenizer
from tests import small_bert
from tests.small_runs import SPECIAL, WORDS, build_pairs, mapping_of, train

VOCABULARY = [*SPECIAL, *WORDS, "."]
BERT = BertConfig(
    vocab_size=len(VOCABULARY) + 3,  # more than the tokenizer has
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=48,
)
TREES = [f"(S (NP (NN {a})) (VP (VB {b}) (NP (NN {a}))))" for a in WORDS[:9] for b in WORDS[9:15]]
IDS = torch.tensor([2, 7, 9, 30, 3, 2, 12, 3])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "bert"
    return small_bert.write_model(folder, ["masked_lm"], BERT, vocabulary=VOCABULARY)


@pytest.fixture(scope="module")
def trees(bert: Path) -> Path:
    """Shards of a treebank over BERT's vocabulary."""
    file, out = bert.with_name("train.mrg"), bert.with_name("trees")
    file.write_text("\n".join(TREES), "utf-8")
    assert run(["data", "trees", str(file), "--tokenizer", str(bert), "--out", str(out)]) == 0
    return out


def config(data: Path, out: Path, encoder: Path | None, **over: Any) -> Bert2RndRun:
    given = mapping_of(data, out, model="bert2rnd", sequence_length=32, steps=6)
    del given["instances"]
    given["architecture"] = {"num_decoder_layers": 2}
    given["encoder"] = None if encoder is None else str(encoder)
    return configure(Bert2RndRun, values.merge(given, over))


def made(data: Path, out: Path, encoder: Path | None, **over: Any) -> Learner:
    return make_learner(config(data, out, encoder, **over), open_shards(data))


def test_the_encoder_is_the_bert(bert: Path, trees: Path, tmp_path: Path) -> None:
    learner = made(trees, tmp_path / "run", bert).eval()
    theirs = checkpoint.load(bert, []).learner.eval()
    sequences = Sequences([5, 3])
    with torch.no_grad():
        for segments in (None, torch.tensor([0, 0, 0, 1, 1, 0, 1, 1])):
            inputs = Inputs(IDS, sequences, segments)
            found, expected = (each.encoder(inputs) for each in (learner, theirs))
            assert torch.equal(found.last, expected.last)
            assert torch.equal(found.pooled, expected.pooled)
    assert len(learner.objectives["translation"].decoder.layers) == 2


def test_new_tokens_have_vectors_of_their_own(bert: Path, trees: Path, tmp_path: Path) -> None:
    learner = made(trees, tmp_path / "run", bert)
    table = learner.encoder.token_embedding().weight.detach()
    old = checkpoint.load(bert, []).learner.encoder.token_embedding().weight[: len(VOCABULARY)]
    assert len(table) == open_shards(trees).vocab_size > len(VOCABULARY) + 200
    assert torch.equal(table[: len(VOCABULARY)], old)
    new = table[len(VOCABULARY) :]
    assert len(new.unique(dim=0)) == len(new)
    assert 0.9 < new.std() / old.std() < 1.1


def test_the_decoder_reads_and_predicts_by_its_embeddings(
    bert: Path, trees: Path, tmp_path: Path
) -> None:
    learner = made(trees, tmp_path / "run", bert).eval()
    embeddings, translation = learner.encoder.embeddings, learner.objectives["translation"]
    target = Inputs(torch.tensor([2, 40, 41]), Sequences([3]))
    encoded = learner.encoder(Inputs(IDS[:5], Sequences([5])))
    with torch.no_grad():
        before = translation.decoder(encoded, target)
        embeddings.position.weight[1] *= -3
        after = translation.decoder(encoded, target)
        expected = before @ embeddings.token.weight.T + translation.bias
    assert torch.equal(before[0], after[0])
    assert not torch.isclose(before[1:], after[1:]).all(1).any()
    torch.testing.assert_close(translation.logits(before), expected)
    embedded = {name for name, _ in translation.named_parameters() if "embeddings" in name}
    assert not embedded  # the encoder has them


def test_without_a_bert_all_weights_are_random(trees: Path, tmp_path: Path) -> None:
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3}
    learner = made(trees, tmp_path / "run", None, architecture=sizes)
    assert learner.encoder.spec.width == 12
    table = learner.encoder.token_embedding().weight.detach()
    assert 0.01 < table.std() < 0.03


@pytest.mark.slow
def test_it_is_trained_and_parses(
    bert: Path, trees: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = ["pretrain", "--model", "bert2rnd", "--encoder", str(bert), "--data", str(trees)]
    words += ["--architecture.num-decoder-layers", "2", "--sequence-length", "32"]
    words += ["--optimizer.learning-rate", "5e-3", "--optimizer.layer-decay", "0.5"]
    words += ["--schedule.curve", "linear", "--validation.fraction", "0.1", "--precision", "fp32"]
    assert run([*words, "--batch.tokens", "256", "--steps", "80", "--out", str(out)]) == 0
    capsys.readouterr()
    text = f"{WORDS[3]} {WORDS[11]} {WORDS[3]}"
    assert run(["parse", "--model", str(out), text, "--words", "--json"]) == 0
    (parsed,) = json.loads(capsys.readouterr().out)["parses"]
    assert parsed["words"] == text.split()
    assert parsed["well_formed"]
    assert [maps.name for maps in load(out).attention(text)] == [
        "encoder",
        "decoder",
        "encoder-decoder",
    ]
    more = config(trees, tmp_path / "more", None, init=str(out), model=None, steps=1)
    train(more)
    with pytest.raises(ConfigError, match=r"bert only.*bert2rnd"):
        made(trees, tmp_path / "again", out)


@pytest.mark.parametrize(("trained", "length"), [(None, 20), (36, 36), (12, 20)])
def test_it_reads_as_many_tokens_as_were_trained(
    trained: int | None, length: int, bert: Path, trees: Path, tmp_path: Path
) -> None:
    """Of BERT's 48 positions those that BERT was trained on, or else the run itself was."""
    encoder = None
    if trained is not None:
        encoder = tmp_path / "bert"
        shutil.copytree(bert, encoder)
        for name, more in (
            ("config.json", {"bertwright_version": "1"}),
            ("tokenizer_config.json", {"model_max_length": trained}),
        ):
            content = json.loads((encoder / name).read_text("utf-8"))
            (encoder / name).write_text(json.dumps(content | more), "utf-8")
    sizes = None if encoder else {"max_position_embeddings": 48, "hidden_size": 12}
    over = {"architecture": sizes | {"num_attention_heads": 3}} if sizes else {}
    out = tmp_path / "run"
    train(config(trees, out, encoder, sequence_length=20, steps=1, **over))
    model = load(out, "cpu")
    assert model.spec.max_length == length
    source = [[2, *[7] * (length - 2), 3]]
    assert target_search(model.runner).search(source, TranslationConfig(1, max_length=2))
    with pytest.raises(DataError, match=f"{length + 1} tokens.*{length}"):
        target_search(model.runner).search([[7, *source[0]]], TranslationConfig(1))


def test_a_vocabulary_that_does_not_begin_as_berts(bert: Path, tmp_path: Path) -> None:
    same = build_pairs(tmp_path)
    made(same, tmp_path / "run", bert)
    swapped = [*VOCABULARY[:9], VOCABULARY[10], VOCABULARY[9], *VOCABULARY[11:]]
    for number, (vocabulary, rules) in enumerate(
        [
            (swapped, None),
            ([*swapped, "more"], None),
            (VOCABULARY[:-1], None),
            (VOCABULARY, BertRules(lowercase=False)),
            ([*VOCABULARY, "more"], BertRules(lowercase=False)),
        ]
    ):
        folder = tmp_path / str(number)
        make_tokenizer(vocabulary, rules).save(folder)
        out = folder / "shards"
        texts = [str(tmp_path / side) for side in ("source", "target")]
        words = ["data", "build", *texts, "--parallel", "--tokenizer", str(folder)]
        assert run([*words, "--out", str(out)]) == 0
        with pytest.raises(DataError, match=f"{len(VOCABULARY)} of .*--tok"):
            made(out, tmp_path / "run", bert)
    assert load_tokenizer(bert).vocab_size == len(VOCABULARY)


def test_what_does_not_fit(bert: Path, trees: Path, tmp_path: Path) -> None:
    other = small_bert.write_model(
        tmp_path / "other",
        ["translation"],
        TransformerConfig(len(VOCABULARY), 12, 1, 3, 20),
        vocabulary=VOCABULARY,
    )
    for encoder, over, message in (
        (other, {}, "--encoder is for bert only; this model is a transformer"),
        (bert, {"architecture": {"hidden_size": 48}}, "hidden_size is 48, but .* has 24"),
        (
            bert,
            {"sequence_length": 64, "batch": {"micro_tokens": 128}},
            "64 tokens .* 48 positions",
        ),
        (bert, {"init": "x"}, "--encoder and --init"),
    ):
        with pytest.raises(ConfigError, match=message):
            made(trees, tmp_path / "run", encoder, **over)
    with pytest.raises(ConfigError, match="would take its place"):
        make_learner(replace(config(trees, bert, bert)), open_shards(trees))
