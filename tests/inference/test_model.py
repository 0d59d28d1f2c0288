"""A loaded model: encode, embed, fill and next_sentence, against transformers and by hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertwright.checkpoint.convert import convert
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.inference import next_sentence
from bertwright.inference.fill import find_blanks
from bertwright.inference.model import Model, load
from tests.small_bert import CONFIG, write_model

LONG = "abcdefghijklmnopqrstuvwxyz"
TEXTS = ["a b c", "", "the dog.", "x", "a [MASK] b", " ".join(LONG), "q w e r t y u i o p"]


@pytest.fixture(scope="session")
def theirs(model_folder: Path) -> Any:
    """transformers' model and tokenizer of the same folder."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForPreTraining.from_pretrained(model_folder).eval()
    return model, transformers.AutoTokenizer.from_pretrained(model_folder)


def test_what_it_tells(model: Model) -> None:
    assert model.config == CONFIG
    assert model.heads == ("masked_lm", "next_sentence")
    assert model.report.missing == ()
    assert not any(p.requires_grad for p in model.runner.learner.parameters())
    assert not model.runner.learner.training


def test_fill_against_transformers(model: Model, theirs: Any) -> None:
    bert, tokenizer = theirs
    text = "the [MASK] a [MASK]."
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = bert(**inputs).prediction_logits[0]
    places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
    blanks = model.fill(text, top=4)
    assert len(blanks) == 2
    for place, blank in zip(places, blanks, strict=True):
        expected = logits[place].softmax(-1)[: model.tokenizer.vocab_size].topk(4)
        assert [token for token, _ in blank] == tokenizer.convert_ids_to_tokens(expected.indices)
        np.testing.assert_allclose([p for _, p in blank], expected.values, atol=1e-6)
        assert [p for _, p in blank] == sorted((p for _, p in blank), reverse=True)


def test_fill_gives_no_more_than_there_is(model: Model) -> None:
    ((*blank,),) = model.fill("[MASK]", top=1000)
    assert len(blank) == model.tokenizer.vocab_size
    assert sum(p for _, p in blank) <= 1 + 1e-6


def test_fill_of_a_long_text_reads_around_each_blank(model: Model) -> None:
    letters = list(LONG)
    letters[3] = letters[20] = "[MASK]"
    both = model.fill(" ".join(letters), top=3)
    # room is 10: the blank's window, alone, gives the same
    for found, window in zip(both, (letters[0:10], letters[15:25]), strict=True):
        (alone,) = model.fill(" ".join(window), top=3)
        assert [token for token, _ in found] == [token for token, _ in alone]
        np.testing.assert_allclose([p for _, p in found], [p for _, p in alone], atol=1e-6)
    blanks = find_blanks(model.runner, " ".join(letters))
    assert (blanks.tokens, blanks.tokens_read) == (28, 24)


def test_the_last_layer_is_computed_where_it_is_read(model: Model) -> None:
    """At blanks and, for the pooler, at [CLS]."""
    seen: list[int] = []
    last = model.runner.encoder.layer(2).feed_forward
    last.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    blanks = model.fill("a [MASK] c d [MASK] f", top=2)
    assert seen == [1 + 2]
    assert len(blanks) == 2
    model.next_sentence("a b", "c d")
    assert seen[1:] == [1]


def test_fill_says_what_it_needs(model: Model, bare_folder: Path) -> None:
    with pytest.raises(DataError, match=r"\[MASK\]"):
        model.fill("a mask")
    with pytest.raises(ConfigError, match="top is 0"):
        model.fill("[MASK]", top=0)
    with pytest.raises(DataError, match="no masked_lm head"):
        load(bare_folder).fill("[MASK]")


def test_next_sentence_against_transformers(model: Model, theirs: Any) -> None:
    bert, tokenizer = theirs
    with torch.no_grad():
        logits = bert(**tokenizer("a b", "c d e", return_tensors="pt")).seq_relationship_logits
    expected = float(logits.softmax(-1)[0, 0])
    assert model.next_sentence("a b", "c d e") == pytest.approx(expected, abs=1e-6)
    assert model.next_sentence("a b", "c d e") != model.next_sentence("c d e", "a b")


def test_next_sentence_of_a_long_pair_keeps_the_joint(model: Model) -> None:
    long = " ".join(LONG)
    with pytest.warns(UserWarning, match="43 tokens"):
        found = model.next_sentence(long, long)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found == model.next_sentence("w x y z", "a b c d e")
    probability, left_out = next_sentence.next_sentence(model.runner, "a b", long)
    assert left_out == 26 + 2 - 9
    assert probability == model.next_sentence("a b", "a b c d e f g")


def test_next_sentence_says_what_it_needs(bare_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="next_sentence"):
        load(bare_folder).next_sentence("a", "b")
    small = replace(CONFIG, max_position_embeddings=4)  # [CLS] [SEP] [SEP] and one token
    with pytest.raises(DataError, match="pairs"):
        load(write_model(tmp_path / "small", ("next_sentence",), small)).next_sentence("a", "b")


def test_next_sentence_of_one_segment(tmp_path: Path) -> None:
    config = replace(CONFIG, type_vocab_size=1)
    model = load(write_model(tmp_path / "single", ("next_sentence",), config))
    assert 0 < model.next_sentence("a b", "c d e") < 1


def test_embed_says_what_it_needs(model: Model) -> None:
    for layer in (4, -5):
        with pytest.raises(ConfigError, match=f"no layer {layer}"):
            model.embed(["a"], [layer])
    with pytest.raises(DataError, match=r"text 1 .*int.*str"):
        model.embed(["a", 3])


def test_progress_counts_tokens(model_folder: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    model = load(model_folder, batch_tokens=8)
    model.embed(TEXTS, on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 3
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_encode_against_transformers(model: Model, theirs: Any) -> None:
    bert, tokenizer = theirs
    for item in ("The dog.", ("a b", "c"), ""):
        (found,) = model.encode([item])
        pair = (item,) if isinstance(item, str) else item
        inputs = tokenizer(*pair, return_tensors="pt")
        with torch.no_grad():
            expected = bert.bert(**inputs, output_hidden_states=True)
        assert found.ids == inputs["input_ids"][0].tolist()
        assert found.type_ids == inputs["token_type_ids"][0].tolist()
        states = torch.stack(expected.hidden_states)[:, 0]
        np.testing.assert_allclose(found.layers, states, atol=2e-6)
        np.testing.assert_allclose(found.pooled, expected.pooler_output[0], atol=1e-6)


def test_encode_gives_every_token_of_a_long_text_its_row(model: Model) -> None:
    long = " ".join(LONG)
    short, found = model.encode(["a b", long])
    assert short.layers.shape == (4, 4, 24)
    assert len(found.tokens) == len(found.offsets) == 28
    assert found.layers.shape == (4, 28, 24)
    (window,) = model.encode([" ".join(LONG[8:17])])
    np.testing.assert_allclose(found.layers[:, 9:18], window.layers[:, 1:-1], atol=1e-6)
    assert [long[a:b] for a, b in found.offsets[1:-1]] == list(LONG)


def test_encode_refuses_what_it_cannot(model: Model) -> None:
    with pytest.raises(DataError, match=r"pair 1 has 29 tokens; .* 12"):
        model.encode(["a", (" ".join(LONG), "")])
    for wrong in (3, ("a", None), ("a", 2), ("a", "b", "c")):
        with pytest.raises(DataError, match="text 0 "):
            model.encode([wrong])
    for table in (None, 3, b"a", {"a": 1}):
        with pytest.raises(DataError, match=r"texts.*list"):
            model.encode(table)


def test_encode_takes_texts_as_embed_does(model: Model) -> None:
    for texts in ("a b", (text for text in ["a b"]), np.array([["a b"]])):
        assert [each.tokens for each in model.encode(texts)] == [["[CLS]", "a", "b", "[SEP]"]]
    for none in ([], iter([])):
        assert (model.encode(none), model.embed(none).shape) == ([], (0, 24))
    assert model.embed("a b").shape == (1, 24)


def test_one_text_is_asked_for(model: Model) -> None:
    for wrong in (None, ["a [MASK]"], b"[MASK]"):
        with pytest.raises(DataError, match=r"text .*type.*one str"):
            model.fill(wrong)
        with pytest.raises(DataError, match=r"text .*type.*one str"):
            model.next_sentence("a", wrong)
    for top in (2.0, "3", True, None):
        with pytest.raises(ConfigError, match=f"top.* {top!r}"):
            model.fill("a [MASK]", top)


def test_one_layer_needs_no_list(model: Model) -> None:
    for wrong in ("-1", 1.5):
        with pytest.raises(ConfigError, match=r"layers.*whole numbers"):
            model.embed(["a"], wrong)
    one, several = model.embed(["a b"], -1), model.embed(["a b"], [-1])
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, several)


def test_bfloat16_is_near(model_folder: Path, model: Model) -> None:
    low = load(model_folder, precision="bf16")
    exact, near = model.embed(TEXTS, normalize=True), low.embed(TEXTS, normalize=True)
    assert near.dtype == np.float32
    assert (exact * near).sum(1).min() > 0.999
    assert abs(model.next_sentence("a", "b") - low.next_sentence("a", "b")) < 0.02
    assert dict(low.fill("a [MASK]", top=41)[0])["the"] == pytest.approx(
        dict(model.fill("a [MASK]", top=41)[0])["the"], rel=0.2
    )


def test_load_says_what_it_needs(model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="precision is 'int8'"):
        load(model_folder, precision="int8")
    for device in ("gpu", "CPU", "meta", "", 1.5):
        with pytest.raises(ConfigError, match=f"device is {device!r}"):
            load(model_folder, device=device)
    for tokens in (0, -3, 1.5, "10"):
        with pytest.raises(ConfigError, match=f"batch_tokens is {tokens!r}"):
            load(model_folder, batch_tokens=tokens)
    assert load(model_folder, torch.device("cpu")).runner.device.type == "cpu"
    folder = write_model(tmp_path / "m", (), replace(CONFIG, vocab_size=20))
    with pytest.raises(IntegrityError, match=r"37 tokens.*20"):
        load(folder)


def test_texts_that_a_folder_truncates_are_told(model_folder: Path, tmp_path: Path) -> None:
    convert(model_folder, tmp_path / "model", "sentence-transformers")
    truncating = load(tmp_path / "model", device="cpu")
    with pytest.warns(UserWarning, match=r"1 \(16 tokens"):
        cut = truncating.embed(["a b", " ".join(LONG)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (truncating.embed(["a b", "c d"])[0] == cut[0]).all()
        assert (truncating.embed([" ".join(LONG)], truncate=True)[0] == cut[1]).all()
