"""`bertwright pretrain` as a user meets it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertwright.atomic import verify_manifest
from bertwright.cli.app import make_app, run
from bertwright.cli.reading import read
from bertwright.config import values
from bertwright.config.recipes import RECIPES
from bertwright.config.run import RunConfig
from bertwright.models.bert.config import BertRun
from bertwright.models.catalogue import MODELS, make_run, system_of_model, trainable
from bertwright.models.word_vectors.config import Word2VecRun
from bertwright.recipes import pretrain as pretraining
from bertwright.train.state import TENSORS
from tests.cli.conftest import Ran
from tests.raising import assert_names
from tests.small_runs import build_data, mapping_of, newest, records, tensors

Calls = list[tuple[RunConfig, dict[str, bool]]]
WEIGHTS = "model.safetensors"
SMALL = [
    *("--architecture.hidden-size", "16", "--architecture.num-hidden-layers", "1"),
    *("--architecture.num-attention-heads", "2", "--architecture.intermediate-size", "24"),
    *("--architecture.max-position-embeddings", "64", "--instances.sequence-length", "32"),
    *("--batch.tokens", "256"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)


@pytest.fixture
def pretrain(ran: Ran) -> Ran:
    return lambda data, out, *words, **code: ran(
        *("pretrain", "--data", data, "--out", out, *SMALL, *words),
        *(() if "--model" in words else ("--model", "bert-tiny")),
        **code,
    )


def test_a_run(data: Path, tmp_path: Path, pretrain: Ran) -> None:
    out = tmp_path / "run"
    said = pretrain(data, out, "--steps", "3", "--log.every-steps", "1")
    assert said.out == ""
    lines = said.err.splitlines()
    assert_names(lines[0], "bert-tiny", "5,137 parameters", "fp32", "cpu")
    assert_names(lines[2], "step 1", "33%", "masked LM 4.")
    assert_names(lines[-2], "learned nothing", "masked LM")
    assert_names(lines[-1], f"{out} is not ready", f"bertwright report {out}")
    assert [r["step"] for r in records(out) if r["split"] == "train"] == [1, 2, 3]


@pytest.fixture
def came(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The configurations and options that the recipe would have been called with."""
    calls: Calls = []

    def recipe(config: RunConfig, say: Callable[[str], None], **options: bool) -> Path:
        calls.append((config, options))
        return Path(config.out)

    monkeypatch.setattr(pretraining, "pretrain", recipe)
    return calls


def test_the_end_says_whether_the_model_is_ready(
    data: Path, tmp_path: Path, pretrain: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    pretrain(data, out, "--steps", "1")
    monkeypatch.setattr(pretraining, "pretrain", lambda config, say, **options: out)
    for accuracies, named in (
        ({"masked_lm.accuracy": 1.0}, f"{out} is ready;"),
        # each word is followed by the next one, so that a table of neighbours is as good
        ({"masked_lm.accuracy": 0.8}, f"{out} is ready in part;"),
        ({"masked_lm.accuracy": 1.0, "next_sentence.accuracy": 0.51}, f"{out} is ready in part;"),
        ({}, f"{out} is trained;"),  # it is not known whether it has learned
    ):
        (out / "metrics.jsonl").write_text(json.dumps({"split": "dev", **accuracies}) + "\n")
        lines = pretrain(data, out, "--steps", "3").err.splitlines()
        assert_names(lines[-2], named, f"bertwright report {out}")
        assert f"bertwright fill --model {out} " in lines[-1]


def test_options_reach_the_recipe(came: Calls, ran: Ran) -> None:
    words = ["pretrain", "--data", "d", "--out", "my run", "--steps", "2"]
    printed = ran(*words, "--optimizer.learning_rate=5e-4", "--masking.whole-word")
    assert "bertwright report 'my run'" in printed.err
    assert run([*words, "--resume"]) == run([*words, "--overwrite"]) == 0
    ran(*words, "--no-verify")
    (config, options), resumed, replaced, trusting = came
    assert isinstance(config, BertRun)
    assert (config.steps, config.masking.whole_word) == (2, True)
    assert config.optimizer.learning_rate == 5e-4
    assert options == {"overwrite": False, "resume": False, "verify": True}
    assert not trusting[1]["verify"]
    assert (resumed[1]["resume"], replaced[1]["overwrite"]) == (True, True)


def test_of_the_processes_of_torchrun_one_prints(
    came: Calls, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert ran("pretrain", "--data", "d", "--out", "o", "--steps", "1").err == ""


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--precision", "fp16"], ["--precision", '"fp16"', '"auto", "bf16", "fp32"']),
        ([], ["--steps, --minutes, --epochs"]),
        (["--steps", "1", "--minutes", "1"], ["--steps", "--minutes"]),
        (["--steps", "1", "--seed", str(2**32)], ["--seed", "4294967296", "4294967295"]),
        (
            ["--steps", "1", "--masking.random-fraction", "0.3"],
            ["--masking.random-fraction", "0.3", "0.2", "mask_fraction", "0.8"],
        ),
        (
            ["--steps", "1", "--architecture.hidden-dropout-prob", "2"],
            ["--architecture.hidden-dropout-prob", "2.0"],
        ),
        (["--steps", "1", "--model", "bert-huge"], ["'bert-huge'", "bert-tiny"]),
        (["--steps", "1", "--model", "bert-mimi"], ["'bert-mimi'", "bert-mini"]),
        (["--model", "word2vec"], ["word2vec-skip-gram", "word2vec-cbow"]),
        (["--batch-size", "32"], ["--batch-size", "--batch.tokens"]),
        (["--max-seq-length", "64"], ["--max-seq-length", "--instances.sequence-length"]),
        (["--steps", "1", "--batch.micro-tokens", "16"], ["16", "32 tokens"]),
        (["--steps", "1", "--resume", "--overwrite"], ["--resume", "--overwrite"]),
    ],
)
def test_usage_ends_with_2(
    data: Path, tmp_path: Path, pretrain: Ran, words: list[str], names: list[str]
) -> None:
    said = " ".join(pretrain(data, tmp_path / "run", *words, code=2).err.split())
    assert_names(said, *names)
    assert not (tmp_path / "run").exists()


def test_bad_data_ends_with_4(tmp_path: Path, pretrain: Ran) -> None:
    error = pretrain(tmp_path, tmp_path / "run", "--steps", "1", code=4).err
    assert_names(error, tmp_path, "bertwright data build")


@pytest.mark.parametrize("named", ["model", "model in a file", "init", "run", "latest", "file"])
def test_a_system_brings_its_own_keys(came: Calls, tmp_path: Path, ran: Ran, named: str) -> None:
    """By the model, the checkpoint or the file that is named; help and values are its own."""
    step = tmp_path / "run" / "checkpoints" / "step-00000001"
    step.mkdir(parents=True)
    (step / "config.json").write_text('{"model_type": "word2vec"}')
    (tmp_path / "file.toml").write_text(f'model = "none"\ninit = "{step}"\n')
    (tmp_path / "model.toml").write_text('model = "word2vec-cbow"\n')
    words = {
        "model": ["--model", "word2vec-cbow"],
        "model in a file": ["--config", tmp_path / "model.toml"],
        "init": [f"--init={step}"],
        "run": ["--init", tmp_path / "run"],
        "latest": ["--init", tmp_path / "run" / "checkpoints" / "latest"],
        "file": ["--config", tmp_path / "file.toml"],
    }[named]
    out = ran("pretrain", *words, "--help-all").out
    assert "--window" in out
    assert "--masking" not in out
    given = ["--data", "d", "--out", "o", "--epochs", "3", "--window", "7"]
    ran("pretrain", *words, *given)
    config = came[0][0]
    assert isinstance(config, Word2VecRun)
    assert (config.window, config.epochs) == (7, 3)
    printed = ran("pretrain", *words, *given, "--masking.whole-word", code=2)
    assert "--masking.whole-word" in printed.err


def test_a_system_that_is_only_read_names_the_one_to_train(tmp_path: Path, ran: Ran) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "distilbert"}')
    for named in (["--model", "distilbert-mini"], ["--init", tmp_path]):
        error = ran("pretrain", "--data", "d", "--out", "o", *named, code=2).err
        assert_names(error, "distilbert", "--model bert-mini")


def test_a_length_on_the_command_line_replaces_those_of_the_file(
    came: Calls, tmp_path: Path, ran: Ran
) -> None:
    (tmp_path / "run.toml").write_text("minutes = 30.0\n")
    words = ["pretrain", "--data", "d", "--out", "o", "--config", tmp_path / "run.toml"]
    ran(*words, "--steps", "1")
    assert (came[0][0].steps, came[0][0].minutes) == (1, None)
    ran(*words, "--epochs", "2")
    assert (came[1][0].epochs, came[1][0].minutes) == (2, None)
    printed = ran(*words, "--steps", "1", "--epochs", "1", code=2)
    assert_names(printed.err, "--steps", "--epochs")


def test_a_model_on_the_command_line_replaces_the_architecture_of_the_file(
    came: Calls, tmp_path: Path, ran: Ran
) -> None:
    sizes = "hidden_size = 16\nnum_attention_heads = 2\nhidden_dropout_prob = 0.2\n"
    (tmp_path / "run.toml").write_text(f'model = "bert-tiny"\n[architecture]\n{sizes}')
    words = ["pretrain", "--data", "d", "--out", "o", "--steps", "1"]
    words += ["--config", str(tmp_path / "run.toml")]
    ran(*words)
    ran(*words, "--model", "bert-small", "--architecture.num-hidden-layers", "3")
    of_file, of_model = (config.architecture for config, _ in came)
    assert (of_file.hidden_size, of_file.num_hidden_layers) == (16, 2)
    assert of_file.hidden_dropout_prob == 0.2
    assert (of_model.hidden_size, of_model.num_hidden_layers) == (512, 3)
    assert of_model.hidden_dropout_prob == 0.0
    printed = ran(*words, "--architecture.vocab-size", "9", code=2)
    assert "--architecture.vocab-size" in printed.err


def test_a_shipped_recipe_by_its_name(
    came: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["pretrain", "--config", "bert-base-paper", "--data", "d", "--out", "run"]
    assert run(words) == 0
    assert run([*words, "--seed", "3"]) == 0
    (paper, _), (seeded, _) = came
    assert isinstance(paper, BertRun)
    assert (paper.model, paper.steps, paper.seed, seeded.seed) == ("bert-base", 1_000_000, 1, 3)
    assert (paper.instances.sequence_length, paper.long_phase.sequence_length) == (128, 512)
    assert paper.batch.tokens == 256 * 128
    assert paper.long_phase.batch_tokens == 256 * 512
    assert paper.model_config(30522).attention_probs_dropout_prob == 0.1
    assert paper.schedule.warmup * 1_000_000 == 10_000
    (tmp_path / "bert-base-paper").write_text("steps = 3\n")
    assert run(words) == 0
    assert came[-1][0].steps == 3  # a file of the name goes first


def test_no_such_recipe_lists_them(ran: Ran) -> None:
    printed = ran("pretrain", "--config", "bert-base-papr", "--data", "d", "--out", "o", code=2)
    said = " ".join(printed.err.split())
    assert_names(said, "bert-base-papr ", "bert-base-paper", "half-hour")
    printed = ran("pretrain", "--config", "none/such.toml", "--data", "d", "--out", "o", code=2)
    assert "none/such.toml" in printed.err


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_a_configuration(path: Path) -> None:
    mapping = values.merge(values.read_toml(path), {"data": "d", "out": "o"})
    assert make_run(BertRun, mapping, path.name).data == "d"


def start_two(*words: str) -> subprocess.Popen[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    return subprocess.Popen(
        [sys.executable, *launcher, "-m", "bertwright", "pretrain", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        start_new_session=True,
    )


def run_two(*words: str) -> str:
    """Two processes under torchrun; what they said."""
    process = start_two(*words)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
@pytest.mark.parametrize(("objectives", "parallel"), [("mlm", "ddp"), ("mlm+nsp", "fsdp")])
def test_two_processes_train_as_one(
    data: Path, tmp_path: Path, objectives: str, parallel: str
) -> None:
    """The same steps, shared: the same weights, told and saved once; gone on with bit for bit."""
    files = {}
    for name in ("one", "two"):
        mapping = mapping_of(
            data,
            tmp_path / name,
            steps=10,
            architecture={"hidden_dropout_prob": 0.0},
            parallel=parallel,
            instances={"objectives": objectives},
            batch={"tokens": 280},  # in some steps one process has a micro-batch more
            checkpoint={"every_steps": 4, "keep": 9},
            optimizer={"eps": 1e-4},  # the first steps of Adam are signs: rounding would show
        )
        files[name] = tmp_path / f"{name}.toml"
        files[name].write_text(values.to_toml(mapping))
    assert run(["pretrain", "--config", str(files["one"])]) == 0
    said = run_two("--config", str(files["two"]))
    assert said.count("step 3 ·") == said.count("is not ready") == 1
    assert said.count(f"2 processes ({parallel})") == 1
    one, two = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=0, atol=1e-5, msg=name)
    alone, shared = records(tmp_path / "one"), records(tmp_path / "two")
    assert [(r["step"], r["split"], r["tokens"]) for r in alone] == [
        (r["step"], r["split"], r["tokens"]) for r in shared
    ]
    for ours, theirs in zip(alone, shared, strict=True):
        assert ours["masked_lm.loss"] == pytest.approx(theirs["masked_lm.loss"], abs=1e-5)
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["world_size"] == 2
    trained, moments = (load_file(newest(tmp_path / "two") / name) for name in (WEIGHTS, TENSORS))
    shutil.rmtree(newest(tmp_path / "two"))
    shutil.copytree(tmp_path / "two", tmp_path / "copy", symlinks=True)
    said = run_two("--config", str(files["two"]), "--resume")
    assert said.count("going on after step 8") == 1
    for name, expected in ((WEIGHTS, trained), (TENSORS, moments)):
        found = load_file(newest(tmp_path / "two") / name)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], value) for key, value in expected.items())
    elsewhere = ["--out", str(tmp_path / "copy"), "--parallel", "ddp", "--resume"]
    assert run(["pretrain", "--config", str(files["two"]), *elsewhere]) == 0
    for name, value in tensors(tmp_path / "copy").items():
        torch.testing.assert_close(value, one[name], rtol=0, atol=1e-5, msg=name)


@pytest.mark.slow
def test_shards_with_muon(data: Path, tmp_path: Path) -> None:
    """Orthogonal steps of whole matrices, of which each process has some rows."""
    runs = []
    for name, start in (("one", lambda *words: run(["pretrain", *words])), ("two", run_two)):
        over = {"architecture": {"hidden_dropout_prob": 0.0}, "optimizer": {"matrices": "muon"}}
        mapping = mapping_of(data, tmp_path / name, steps=6, parallel="fsdp", **over)
        file = tmp_path / f"{name}.toml"
        file.write_text(values.to_toml(mapping))
        start("--config", str(file))
        runs.append(tensors(tmp_path / name))
    for name, value in runs[0].items():  # its products are bfloat16
        torch.testing.assert_close(runs[1][name], value, rtol=0, atol=3e-3, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_processes_stop_and_go_on(data: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches the launcher and both processes, and the launcher passes it on once more."""
    mapping = mapping_of(data, tmp_path / "run", steps=100_000, log={"every_steps": 10})
    config = tmp_path / "run.toml"
    config.write_text(values.to_toml(mapping))
    process = start_two("--config", str(config))
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step 20 "):
            break
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    said = process.communicate(timeout=240)[1]
    assert process.returncode != 0
    stopped = newest(tmp_path / "run")
    step = int(stopped.name.removeprefix("step-"))
    assert step >= 20
    verify_manifest(stopped)
    assert_names(said, "interrupted", f"step {step + 1}")
    if number == signal.SIGTERM:
        return  # what is saved is the same
    (tmp_path / "run" / "config.toml").write_text(values.to_toml({**mapping, "steps": step + 10}))
    run_two("--config", str(tmp_path / "run" / "config.toml"), "--resume")
    told = [r["step"] for r in records(tmp_path / "run") if r["split"] == "train"]
    assert told == sorted(set(told))
    assert told[-1] == step + 10


def test_a_text_given_as_data_is_to_be_built(tmp_path: Path, pretrain: Ran) -> None:
    corpus = tmp_path / "my corpus.txt"
    corpus.write_text("A text.\n")
    said = pretrain(corpus, tmp_path / "run", "--steps", "1", code=4).err
    assert f"bertwright data build '{corpus}'" in said
    assert f"--out '{corpus}'" not in said
    assert "my corpus-shards" in said


@pytest.mark.parametrize("model", ["awd-lstm-mini", "nnlm-small", "gpt2-mini", "ngram"])
def test_the_command_at_the_end_works(data: Path, tmp_path: Path, model: str, ran: Ran) -> None:
    use = MODELS[system_of_model(model)].use
    out = tmp_path / "run"
    small = ["--architecture.hidden-size", "16"] if model != "ngram" else []
    length = [] if model == "ngram" else ["--steps", "1"]
    if model == "gpt2-mini":
        small += ["--architecture.num-attention-heads", "2", "--sequence-length", "32"]
    ran("pretrain", "--data", data, "--out", out, "--model", model, *small, *length)
    (tmp_path / "test.txt").write_text((data.parent / "corpus.txt").read_text()[:500])
    words = shlex.split(use.format(run=out).replace("test.txt", str(tmp_path / "test.txt")))
    ran(*words)


@pytest.mark.parametrize("system", trainable())
def test_the_options_of_every_system_are_read(system: str) -> None:
    words = ["pretrain", "--data", "shards", "--out", "run", "--model", MODELS[system].default]
    _, bound = read(make_app(words=words), words)
    assert type(bound.arguments["config"]) is MODELS[system].run


def test_an_option_that_runs_in_passes_do_not_have(ran: Ran) -> None:
    words = ["pretrain", "--data", "d", "--out", "o", "--model", "word2vec-cbow"]
    for option, meant in (
        ("--steps", "--epochs"),
        ("--optimizer.learning-rate", "--learning-rate"),
        ("--validation.fraction", "--model word2vec-cbow --help-all"),
    ):
        assert_names(ran(*words, option, "1", code=2).err, option, meant)
    steps = ran(*words, "--steps", "1", code=2).err
    assert "did you mean" not in steps  # epochs are no steps
    fixed = ran(*words, "--architecture.vocab-size", "9", code=2)
    assert_names(fixed.err, "--architecture.vocab-size", "word2vec")
