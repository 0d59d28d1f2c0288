"""Our GPT and GPT-2 are transformers': logits, losses, gradients, what is generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from bertwright.checkpoint import checkpoint
from bertwright.config.generation import GenerationConfig
from bertwright.data.token_streams import TokenStreamBatch
from bertwright.decoding.search import Row, RowsInFlight, beam_steps, finish
from bertwright.decoding.texts import CausalDecoder
from bertwright.errors import DataError
from bertwright.models.load import system_of_config
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.next_token import NextToken
from bertwright.nn.sequences import Inputs, Sequences
from bertwright.storage.tensor_names import to_foreign
from tests.parity.conftest import transformers

TOLERANCE = 1e-5
SIZES = {"vocab_size": 61, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 19}
STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LENGTHS = [11, 7, 7, 3]


class Pair(NamedTuple):
    theirs: Any
    learner: Learner


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-gpt": ("openai-gpt", {}),
    "gpt2": ("gpt2", {}),
    "gpt2, exact gelu": ("gpt2", {"activation_function": "gelu"}),
    "gpt2, relu of 43": ("gpt2", {"activation_function": "relu", "n_inner": 43}),
    "openai-gpt, relu": ("openai-gpt", {"afn": "relu"}),
}


def make_theirs(name: str, seed: int = 3, **changes: Any) -> Any:
    torch.manual_seed(seed)
    config, model = {
        "openai-gpt": ("OpenAIGPTConfig", "OpenAIGPTLMHeadModel"),
        "gpt2": ("GPT2Config", "GPT2LMHeadModel"),
    }[name]
    ends = {"bos_token_id": 5, "eos_token_id": 5, "pad_token_id": 5}
    theirs = getattr(transformers, model)(
        getattr(transformers, config)(**SIZES, **STILL, **ends, **changes)
    )
    for parameter in theirs.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.15)
    return theirs


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    name, changes = KINDS[request.param]
    theirs = make_theirs(name, **changes)
    theirs.save_pretrained(tmp_path / "theirs")
    return Pair(theirs, checkpoint.load(tmp_path / "theirs").learner)


@pytest.fixture
def texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(6, 61, (n,), generator=generator).tolist() for n in LENGTHS]


@pytest.mark.parametrize("training", [False, True])
def test_logits_losses_gradients(pair: Pair, texts: list[list[int]], training: bool) -> None:
    theirs, learner = pair
    theirs.train(training)
    learner.train(training)
    padded = torch.zeros(len(texts), max(LENGTHS), dtype=torch.long)
    labels = torch.full_like(padded, -100)
    for row, ids in enumerate(texts):
        padded[row, : len(ids)] = labels[row, : len(ids)] = torch.tensor(ids)
    expected = theirs(input_ids=padded, labels=labels)

    tokens = torch.tensor([token for ids in texts for token in ids])
    ends = torch.tensor(LENGTHS).cumsum(0)
    positions = torch.tensor([n for n in range(len(tokens)) if n + 1 not in ends])
    batch = TokenStreamBatch(Inputs(tokens, Sequences(LENGTHS)), tokens, positions)
    head = learner.objectives["next_token"]
    assert isinstance(head, NextToken)
    with torch.no_grad():
        encoded = learner.encoder(batch.inputs, keep_layers=True)
        ours = head.logits(encoded.last)
        for row, each in enumerate(ours.split(LENGTHS)):
            torch.testing.assert_close(
                each, expected.logits[row, : LENGTHS[row]], atol=TOLERANCE, rtol=0
            )
    loss = learner(batch)["next_token"]
    mean = loss.total / loss.count
    torch.testing.assert_close(mean, expected.loss, atol=TOLERANCE, rtol=0)
    mean.backward()
    expected.loss.backward()
    config = learner.encoder.config
    gradients = {
        name: parameter.grad
        for name, parameter in learner.named_parameters()
        if parameter.grad is not None
    }
    named = to_foreign(gradients, system_of_config(config).mappings(config))
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(
            named.pop(name),
            parameter.grad,
            atol=TOLERANCE,
            rtol=0,
            msg=name,
        )
    assert not named


def test_the_cache_is_reading_again(pair: Pair, texts: list[list[int]]) -> None:
    learner = pair.learner.eval()
    decoder = CausalDecoder(learner.encoder, learner.objectives["next_token"])
    with torch.inference_mode():
        logits, state = decoder.begin(texts)
        for _ in range(5):
            for row, ids in enumerate(texts):
                whole = pair.theirs.eval()(torch.tensor([ids])).logits[0, -1]
                torch.testing.assert_close(logits[row], whole, atol=TOLERANCE, rtol=0)
            new = logits.argmax(1)
            texts = [[*ids, token] for ids, token in zip(texts, new.tolist(), strict=True)]
            logits, state = decoder.advance(new, state)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [1.0, 1.4])
def test_greedy_as_theirs(pair: Pair, texts: list[list[int]], penalty: float) -> None:
    learner = pair.learner.eval()
    config = GenerationConfig(repetition_penalty=penalty)
    rows = [Row(config, 8, ids) for ids in texts]
    flight = RowsInFlight(CausalDecoder(learner.encoder, learner.objectives["next_token"]), {5})
    flight.add(texts, [[row] for row in rows])
    while len(flight):
        flight.step()
    for ids, row in zip(texts, rows, strict=True):
        theirs = pair.theirs.eval().generate(
            torch.tensor([ids]), max_new_tokens=8, do_sample=False, repetition_penalty=penalty
        )
        expected = [token for token in theirs[0, len(ids) :].tolist() if token != 5]
        assert row.ids == expected


@pytest.mark.slow
@pytest.mark.parametrize(("beam", "penalty"), [(2, 1.0), (4, 0.6), (5, 2.0)])
def test_beams_as_theirs(pair: Pair, texts: list[list[int]], beam: int, penalty: float) -> None:
    learner = pair.learner.eval()
    greedy = pair.theirs.generate(torch.tensor(texts[:1]), max_new_tokens=4, do_sample=False)
    end = int(greedy[0, -2])  # a token that comes
    decoder = CausalDecoder(learner.encoder, learner.objectives["next_token"])
    limits = [7] * len(texts)
    found = finish(beam_steps(decoder, texts, {end}, limits, beam=beam, norm=lambda n: n**penalty))
    ended = 0
    for ids, hypotheses in zip(texts, found, strict=True):
        theirs = pair.theirs.eval().generate(
            torch.tensor([ids]),
            max_new_tokens=7,
            num_beams=beam,
            num_return_sequences=beam,
            length_penalty=penalty,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            eos_token_id=end,
        )
        for mine, row, score in zip(
            hypotheses, theirs.sequences, theirs.sequences_scores, strict=True
        ):
            expected = row[len(ids) :].tolist()
            ended += end in expected
            assert mine.ids == (expected[: expected.index(end)] if end in expected else expected)
            assert abs(mine.score - float(score)) < TOLERANCE
    assert ended


def test_ours_opens_in_transformers(pair: Pair, tmp_path: Path, texts: list[list[int]]) -> None:
    (tmp_path / "ours").mkdir()
    checkpoint.save(tmp_path / "ours", pair.learner, None, "a card")
    again = type(pair.theirs).from_pretrained(tmp_path / "ours")
    ids = torch.tensor(texts[:1])
    torch.testing.assert_close(again(ids).logits, pair.theirs.eval()(ids).logits)
    assert again.config.n_embd == 24


def test_the_bare_names_of_published_files(pair: Pair, tmp_path: Path) -> None:
    pair.theirs.transformer.save_pretrained(tmp_path / "bare")
    loaded = checkpoint.load(tmp_path / "bare")
    assert "next_token" in loaded.learner.objectives
    for name, value in loaded.learner.state_dict().items():
        assert torch.equal(value, pair.learner.state_dict()[name]), name


@pytest.mark.parametrize(
    ("key", "value"),
    [("activation_function", "silu"), ("add_cross_attention", True), ("n_head", 5)],
)
def test_another_kind_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    theirs = make_theirs("gpt2")
    theirs.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    content = transformers.GPT2Config.from_pretrained(tmp_path).to_dict() | {key: value}
    transformers.GPT2Config(**content).save_pretrained(tmp_path)
    assert config.is_file()
    with pytest.raises(DataError, match=key if key != "n_head" else "multiple"):
        checkpoint.load(tmp_path)
