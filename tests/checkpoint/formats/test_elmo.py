"""The published files of ELMo, both ways."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertwright.checkpoint.checkpoint import load
from bertwright.checkpoint.convert import convert
from bertwright.checkpoint.formats.catalogue import ELMO
from bertwright.checkpoint.inspection import inspect
from bertwright.cli.app import run as run_verb
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.models.elmo.encoder import Elmo
from bertwright.nn.objective import Learner
from bertwright.text.tokenizer.tokenizer import make_tokenizer
from tests.models.elmo.sample import CONFIG, TOKENS, inputs

h5py = pytest.importorskip("h5py")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def model() -> Elmo:
    made = Elmo(CONFIG)
    made.set_tokens(TOKENS, (1, 2))
    made.reset_parameters(torch.Generator().manual_seed(3))
    for parameter in made.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return made


@pytest.fixture
def published(model: Elmo, tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    folder.mkdir()
    ELMO.write(Learner(model, {}), make_tokenizer([*SPECIAL, "a"]), folder)
    return folder


def test_written_and_read_is_the_same_model(model: Elmo, published: Path) -> None:
    make_tokenizer([*SPECIAL, "a", "the"]).save(published)
    again = ELMO.read(published).learner.encoder
    assert isinstance(again, Elmo)
    assert again.config == replace(CONFIG, vocab_size=7, hidden_dropout_prob=0.1)
    with torch.no_grad():
        found = again.eval()(inputs([[2, 5, 6, 3]])).last
        expected = model.eval()(inputs([[1, 3, 4, 2]])).last
    torch.testing.assert_close(found, expected)


def test_the_layout_is_tensorflows(model: Elmo, published: Path) -> None:
    with h5py.File(published / "weights.hdf5") as file:
        cell = file["RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell"]
        assert cell["W_0"].shape == (12, 28)  # input and state of 6, four gates of 7
        assert cell["W_P_0"].shape == (7, 6)
        assert file["CNN/W_cnn_1"].shape == (1, 2, 5, 3)
        # the forget gate: second of ours, third of theirs, without the 1 that theirs adds
        bias = model.state_dict()["layers.2.1.inner.lstm.bias_ih_l0"]
        bias = bias + model.state_dict()["layers.2.1.inner.lstm.bias_hh_l0"]
        np.testing.assert_allclose(cell["B"][14:21], bias[7:14].numpy() - 1, rtol=1e-6)
        np.testing.assert_allclose(cell["B"][7:14], bias[14:21].numpy(), rtol=1e-6)
        state = model.state_dict()["layers.2.1.inner.lstm.weight_hh_l0"]
        np.testing.assert_allclose(cell["W_0"][6:, 14:21], state[7:14].T.numpy())


def test_convert_both_ways(published: Path, tmp_path: Path) -> None:
    make_tokenizer([*SPECIAL, "a", "the"]).save(published)
    convert(published, tmp_path / "ours")
    ours = load(tmp_path / "ours").learner.encoder
    assert isinstance(ours, Elmo)
    convert(tmp_path / "ours", tmp_path / "back", to="elmo")
    assert json.loads((tmp_path / "back/options.json").read_text()) == json.loads(
        (published / "options.json").read_text()
    )
    with (
        h5py.File(published / "weights.hdf5") as a,
        h5py.File(tmp_path / "back/weights.hdf5") as b,
    ):
        names: list[str] = []
        a.visit(lambda name: names.append(name) if isinstance(a[name], h5py.Dataset) else None)
        for name in names:
            np.testing.assert_allclose(b[name][()], a[name][()], atol=1e-6)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("lstm", "dim", 9, "W_0 in .* is .12, 28., which is not what options.json says"),
        ("lstm", "n_layers", 4, "has no RNN_0/.*Cell3/.* different models"),
        ("lstm", "n_layers", 2, "has RNN_0/.*Cell2/.* different models"),
        ("char_cnn", "n_highway", 0, "has CNN_high_0/W_carry, which is not what"),
        ("char_cnn", "filters", [[1, 2]], "W_cnn_1, .* different models"),
        ("char_cnn", "filters", "x", "options.json .* wrong kind"),
        ("lstm", "n_layers", "two", "options.json .* wrong kind"),
        ("lstm", "n_layers", 1_000_000, "options.json .*n_layers is 1000000"),
        ("char_cnn", "n_highway", 1_000_000, "options.json .*n_highway is 1000000"),
        ("char_cnn", "filters", [[1, 1_000_000_000]], "options.json .*filters is"),
        ("char_cnn", "filters", [-1, 2, 3], "options.json .* wrong kind"),
        ("lstm", "use_skip_connections", "yes", "use_skip_connections is 'yes'"),
    ],
)
def test_options_of_other_weights(
    published: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    section: str,
    key: str,
    value: object,
    message: str,
) -> None:
    make_tokenizer([*SPECIAL, "a"]).save(published)
    options = json.loads((published / "options.json").read_text())
    assert options[section][key] != value
    options[section][key] = value
    (published / "options.json").write_text(json.dumps(options))
    assert run_verb(["convert", str(published), str(tmp_path / "out")]) == 4
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "out").exists()


def test_errors_say_what_is_wrong(published: Path, tmp_path: Path) -> None:
    with pytest.raises(BertwrightError, match=r"tokenizer\.json"):
        convert(published, tmp_path / "out")
    tokenizer = make_tokenizer([*SPECIAL, "a"])
    tokenizer.save(published)
    options = json.loads((published / "options.json").read_text())
    (published / "weights.hdf5").write_bytes(b"cut")
    with pytest.raises(IntegrityError, match="HDF5"):
        ELMO.read(published)
    del options["char_cnn"]["filters"]
    (published / "options.json").write_text(json.dumps(options))
    with pytest.raises(DataError, match="filters"):
        ELMO.read(published)
    forward = Elmo(replace(CONFIG, direction="forward"))
    with pytest.raises(ConfigError, match="forward alone"):
        ELMO.write(Learner(forward, {}), tokenizer, tmp_path)


def test_weights_without_skip_connections(model: Elmo, published: Path, tmp_path: Path) -> None:
    options = json.loads((published / "options.json").read_text())
    options["lstm"]["use_skip_connections"] = False
    (published / "options.json").write_text(json.dumps(options))
    make_tokenizer([*SPECIAL, "a", "the"]).save(published)
    convert(published, tmp_path / "ours")
    found = load(tmp_path / "ours").learner.encoder.eval()
    assert isinstance(found, Elmo)
    read = inputs([[2, 5, 6, 3]])
    with torch.no_grad():
        layers = found(read, keep_layers=True).layers
        for number, lstms in enumerate(found.layers):
            forward, backward = lstms  # type: ignore[misc]
            left, right = layers[number].chunk(2, 1)
            own = [forward(left, read.sequences), backward(right, read.sequences)]
            torch.testing.assert_close(layers[number + 1], torch.cat(own, 1))
    convert(tmp_path / "ours", tmp_path / "back", to="elmo")
    again = json.loads((tmp_path / "back/options.json").read_text())
    assert again["lstm"]["use_skip_connections"] is False


def test_a_folder_of_ours_is_verified(published: Path, tmp_path: Path) -> None:
    make_tokenizer([*SPECIAL, "a", "the"]).save(published)
    convert(published, tmp_path / "ours")
    convert(tmp_path / "ours", tmp_path / "whole", to="elmo")
    assert run_verb(["inspect", str(tmp_path / "whole")]) == 0
    for name in ("options.json", "weights.hdf5", "tokenizer.json"):
        folder = tmp_path / name
        shutil.copytree(tmp_path / "whole", folder)
        content = bytearray((folder / name).read_bytes())
        content[-2] ^= 1
        (folder / name).write_bytes(content)
        assert run_verb(["convert", str(folder), str(tmp_path / "out")]) == 5, name
    outside = tmp_path / "outside.hdf5"
    (published / "weights.hdf5").rename(outside)
    (published / "weights.hdf5").symlink_to(outside)
    assert run_verb(["convert", str(published), str(tmp_path / "out")]) == 5
    assert not (tmp_path / "out").exists()


def test_published_files_are_inspected(published: Path) -> None:
    found = inspect(published)
    assert (found.format, found.loads) == ("elmo", False)
    assert "bertwright convert" in str(found.reason)
    assert (found.sizes["n_layers"], found.sizes["dim"]) == (CONFIG.n_layers, CONFIG.dim)
    assert any("no tokenizer" in each for each in found.odd)
    (published / "weights.hdf5").write_bytes(b"cut")
    assert "HDF5" in str(inspect(published).reason)
