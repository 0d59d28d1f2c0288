"""Saving, loading and finding checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertwright.atomic import atomic_folder, write_manifest
from bertwright.checkpoint.checkpoint import load, make_learner, save
from bertwright.checkpoint.find import (
    DamagedCheckpoint,
    find_checkpoint,
    list_checkpoints,
    write_latest,
)
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.nn.objective import Learner
from tests.checkpoint.conftest import CONFIG, VOCABULARY, assert_same, new_learner, refused


def test_bit_for_bit(folder: Path, learner: Learner) -> None:
    files = {path.name for path in folder.iterdir()}
    assert files >= {"config.json", "model.safetensors", "README.md", "vocab.txt", "tokenizer.json"}
    assert (folder / "README.md").read_text() == "# A card\n"
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1
    loaded = load(folder)
    assert (loaded.config, loaded.opened.folder) == (CONFIG, folder)
    assert_same(loaded.learner, learner)


def test_extra_files_and_a_state_of_elsewhere(tmp_path: Path, learner: Learner) -> None:
    state = {name: torch.zeros_like(value) for name, value in learner.state_dict().items()}
    save(tmp_path, learner, None, "", {"a.json": "{}", "b.bin": b"\x00\xff"}, state)
    assert (tmp_path / "a.json").read_text() == "{}"
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert load(tmp_path).learner.encoder.embeddings.token.weight.abs().max() == 0


def test_the_pad_is_where_the_vocabulary_has_it(tmp_path: Path, learner: Learner) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(reversed(VOCABULARY)))
    (tmp_path / "out").mkdir()
    save(tmp_path / "out", learner, tmp_path, "")
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert written["pad_token_id"] == len(VOCABULARY) - 1


def test_no_tokenizer_to_copy(tmp_path: Path, learner: Learner) -> None:
    with pytest.raises(DataError, match=r"tokenizer.json nor vocab.txt"):
        save(tmp_path, learner, tmp_path, "")


def test_an_encoder_of_no_format_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a Linear keeps no `config`"):
        save(tmp_path, Learner(torch.nn.Linear(1, 1), {}), None, "")


def test_a_head_that_is_not_there(tmp_path: Path) -> None:
    save(tmp_path, new_learner(("masked_lm",)), None, "")
    with pytest.raises(DataError, match=r"next_sentence.*encoder, pooler, m"):
        load(tmp_path, ["masked_lm", "next_sentence"])


def test_a_head_that_is_not_there_starts_by_the_generator(tmp_path: Path) -> None:
    trained = new_learner(("masked_lm",))
    save(tmp_path, trained, None, "")
    wanted = ["masked_lm", "next_sentence"]
    one = load(tmp_path, wanted, torch.Generator().manual_seed(1)).learner
    same = load(tmp_path, wanted, torch.Generator().manual_seed(1)).learner
    other = load(tmp_path, wanted, torch.Generator().manual_seed(2)).learner
    name = "objectives.next_sentence.classifier.weight"
    assert torch.equal(one.state_dict()[name], same.state_dict()[name])
    assert not torch.equal(one.state_dict()[name], other.state_dict()[name])
    assert one.objectives["next_sentence"].classifier.bias.abs().max() == 0
    assert_same(one.encoder, trained.encoder)
    assert_same(one.objectives["masked_lm"], trained.objectives["masked_lm"])
    save(tmp_path, new_learner(()), None, "")
    bare = load(tmp_path, ["masked_lm"], torch.Generator().manual_seed(1)).learner
    assert (bare.objectives["masked_lm"].norm.weight == 1).all()


def test_a_configuration_of_other_sizes(folder: Path) -> None:
    with pytest.raises(IntegrityError, match="has the shape"):
        load(folder, config=replace(CONFIG, max_position_embeddings=99))


def test_no_such_objective() -> None:
    with pytest.raises(ConfigError, match=r"'translation'.*masked_lm, next_sentence"):
        make_learner(CONFIG, ["translation"])


@pytest.fixture
def run(tmp_path: Path, learner: Learner, tokenizer_folder: Path) -> Path:
    """A run with three checkpoints."""
    run = tmp_path / "run"
    for step in (9_000, 10_000, 200_000):
        name = f"step-{step:05d}"
        with atomic_folder(run / "checkpoints" / name) as partial:
            save(partial, learner, tokenizer_folder, "")
            write_manifest(partial, {"step": step})
        write_latest(run, name)
    return run


def test_steps_are_numbers_not_words(run: Path) -> None:
    (run / "checkpoints" / "step-x").mkdir()
    (run / "checkpoints" / ".step-99.partial-1").mkdir()
    names = [path.name for path in list_checkpoints(run)]
    assert names == ["step-09000", "step-10000", "step-200000"]


def test_paths_that_mean_a_run(run: Path) -> None:
    newest = run / "checkpoints" / "step-200000"
    assert (run / "checkpoints" / "latest").read_text() == "step-200000\n"
    (run.parent / "quickstart").mkdir()
    (run.parent / "quickstart" / "run").symlink_to(run)
    assert find_checkpoint(run.parent / "quickstart").samefile(newest)
    assert (run / "model" / "config.json").samefile(newest / "config.json")
    for path in (run, run / "model", run / "checkpoints", run / "checkpoints" / "latest", newest):
        assert find_checkpoint(path) == newest
        assert find_checkpoint(str(path)) == newest
    assert find_checkpoint(run / "checkpoints" / "step-09000").name == "step-09000"


def test_a_damaged_checkpoint_is_skipped_with_a_warning(run: Path) -> None:
    weights = run / "checkpoints" / "step-200000" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    with pytest.warns(DamagedCheckpoint, match=r"SHA-256.*step-10000"):
        assert find_checkpoint(run).name == "step-10000"
    refused(weights.parent, IntegrityError, r"model\.safetensors was changed")
    (run / "checkpoints" / "step-10000" / "MANIFEST.json").write_text('{"files": null}')
    with pytest.warns(DamagedCheckpoint) as told:
        assert find_checkpoint(run / "checkpoints" / "latest").name == "step-09000"
    assert [str(each.message).split()[0].split("/")[-2] for each in told] == [
        "step-200000",
        "step-10000",
    ]
    (run / "checkpoints" / "step-10000" / "MANIFEST.json").unlink()
    (run / "checkpoints" / "step-09000" / "config.json").unlink()
    with pytest.raises(IntegrityError, match=r"SHA-256.*no MANIFEST.*missing"):
        find_checkpoint(run)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json", "tokenizer_config.json"])
def test_tokenizer_files_are_those_of_the_manifest(folder: Path, name: str) -> None:
    write_manifest(folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b"\n")
    refused(folder, IntegrityError, f"{name} has .* bytes")
    (folder / name).write_bytes(content)
    load(folder)
    (folder / "added_tokens.json").write_text("{}")
    refused(folder, IntegrityError, r"'added_tokens\.json'.*MANIFEST\.json")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_saved(tmp_path: Path, learner: Learner, wrong: float) -> None:
    learner.encoder.layers[1].attention.qkv.bias.data[3] = wrong
    with pytest.raises(BertwrightError, match=r"query\.bias'") as error:
        save(tmp_path, learner, None, "")
    assert error.value.exit_code == 1  # a run that failed, not a damaged file
    assert not (tmp_path / "model.safetensors").exists()


def test_the_tokenizer_tells_the_positions_of_the_model(
    tmp_path: Path, learner: Learner, tokenizer_folder: Path
) -> None:
    path = tokenizer_folder / "tokenizer_config.json"
    given = json.loads(path.read_text())
    for own, expected in ((None, 17), (512, 17), (9, 9), (1e30, 17)):
        path.write_text(json.dumps({**given, "model_max_length": own}))
        out = tmp_path / str(own)
        out.mkdir()
        save(out, learner, tokenizer_folder, "")
        written = json.loads((out / "tokenizer_config.json").read_text())
        assert written == {**given, "model_max_length": expected}


def test_a_checkpoint_without_the_trainers_files_loads(folder: Path) -> None:
    (folder / "trainer.json").write_text("{}")
    write_manifest(folder)
    (folder / "trainer.json").unlink()
    (folder / "README.md").write_text("edited")
    assert load(folder).config == CONFIG


def test_nothing_to_find(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: .*pretrain .*--out .*nowhere"):
        find_checkpoint(tmp_path / "nowhere")
    (tmp_path / "mine").mkdir()
    with pytest.raises(DataError, match=r"no folder .*; did you mean .*mine\? "):
        find_checkpoint(tmp_path / "mien")
    with pytest.raises(DataError, match=r"config.json nor checkpoints/"):
        find_checkpoint(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    for path in (tmp_path, tmp_path / "checkpoints" / "latest"):
        with pytest.raises(DataError, match="has no checkpoint yet"):
            find_checkpoint(path)
