"""`bertwright generate` on a small GPT-2 of random weights."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.atomic import sole_writer
from bertwright.checkpoint import checkpoint
from bertwright.config.corpus import CorpusConfig
from bertwright.config.generation import GenerationConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.decoding import texts
from bertwright.inference import generate as generating
from bertwright.inference.model import Model, load
from bertwright.models.gpt.config import Gpt2Config
from bertwright.text.tokenizer.train import train_tokenizer
from tests.cli.conftest import Ran
from tests.raising import assert_names
from tests.small_bert import scatter

PROMPTS = ("The old house", "A river", "Nobody")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("gpt2")
    (home / "corpus.txt").write_text("The old house near the river was quiet.\n" * 9)
    settings = TokenizerConfig(algorithm="byte-bpe", vocab_size=280)
    tokenizer, _ = train_tokenizer([str(home / "corpus.txt")], CorpusConfig(), settings)
    tokenizer.save(home / "tokenizer")
    config = Gpt2Config(
        vocab_size=280,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
    )
    learner = checkpoint.make_learner(config, ["next_token"])
    scatter(learner, 0.3, 0.1)
    (home / "model").mkdir()
    checkpoint.save(home / "model", learner, home / "tokenizer", "a card")
    return home / "model"


def test_one_prompt_is_streamed(folder: Path, ran: Ran) -> None:
    ((alone,),) = load(folder).generate(PROMPTS[0], max_new_tokens=12)
    printed = ran("generate", PROMPTS[0], "--model", folder, "--max-new-tokens", 12)
    assert printed.out == PROMPTS[0] + alone.text + "\n"


def test_files_standard_input_and_json(folder: Path, tmp_path: Path, ran: Ran) -> None:
    sampled = ("--sample", "--top-p", 0.9, "--num", 2, "--max-new-tokens", 5, "--seed", 4)
    printed = ran("generate", *PROMPTS, "--model", folder, "--json", *sampled)
    found = json.loads(printed.out)["prompts"]
    assert [each["prompt"] for each in found] == list(PROMPTS)
    assert found[0]["texts"][0]["text"] != found[0]["texts"][1]["text"]
    out, typed = tmp_path / "out.jsonl", "\n".join(PROMPTS).encode()
    ran("generate", "--input", "-", "--out", out, "--model", folder, *sampled, stdin=typed)
    assert [json.loads(line) for line in out.read_text().splitlines()] == found


def test_an_interrupted_run_keeps_what_was_written(
    folder: Path, tmp_path: Path, interrupted: Callable[[str], None], ran: Ran
) -> None:
    interrupted("bertwright.inference.generate.generate")
    out = tmp_path / "out.jsonl"
    ran("generate", *PROMPTS, "--out", out, "--model", folder, "--max-new-tokens", 3, code=130)
    assert len(out.read_text().splitlines()) == 2


def test_stop_strings_and_the_context(folder: Path) -> None:
    model = load(folder)
    ((free,),) = model.generate(PROMPTS[0], max_new_tokens=15)
    stop = free.text[4:6]
    ((stopped,),) = model.generate(PROMPTS[0], max_new_tokens=15, stop=(stop,))
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.reason == "stop"
    streamed = list(model.stream(PROMPTS[0], max_new_tokens=15, stop=(stop,)))
    assert "".join(streamed) == stopped.text
    ((full,),) = model.generate(PROMPTS[0], max_new_tokens=500)
    prompt = len(model.tokenizer.encode_bare_ids([PROMPTS[0]])[0]) + 1
    assert len(full.ids) == 32 - prompt + 1
    assert full.reason == "length"


@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"\n", "\n"), (r"a\tb", "a\tb"), (r"\\n", r"\n"), (r"\d", r"\d"), ("\n", "\n"), ("é", "é")],
)
def test_escapes_in_stop_strings(
    written: str, meant: str, folder: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    configs: list[GenerationConfig] = []

    def stream(model: Model, prompt: str, config: GenerationConfig) -> list[str]:
        configs.append(config)
        return []

    monkeypatch.setattr(Model, "stream", stream)
    ran("generate", "x", "--model", folder, "--stop", written)
    assert configs[0].stop == (meant,)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["x", "--beam", "0"], 2, "beam"),
        (["x", "--temperature", "0.5"], 2, "--sample"),
        ([], 2, "--input"),
        (["x " * 99], 4, "32"),
        (["x", "--input", "a.txt"], 2, "--input"),
        (["--input", "missing.txt"], 4, "missing.txt"),
    ],
)
def test_errors(folder: Path, words: list[str], code: int, message: str, ran: Ran) -> None:
    assert message in ran("generate", *words, "--model", folder, code=code).err


def test_half_a_character_waits(folder: Path) -> None:
    tokenizer = load(folder).tokenizer
    (ids,) = tokenizer.encode_bare_ids(["a \U0001f600 b"])
    text = generating.GrowingText(GenerationConfig(), len(ids), tokenizer=tokenizer)
    shown = []
    for reason in (*[None] * len(ids), "length"):
        text.ids, text.reason = ids[: len(shown) + 1], reason
        shown.append(text.write())
    assert "".join(shown) == "a \U0001f600 b"
    assert not any("\ufffd" in each for each in shown)


def test_a_long_text_is_written_as_it_is_decoded_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load(folder).tokenizer
    (ids,) = tokenizer.encode_bare_ids(["a\U0001f600 river. " * 60 + "the end"])
    assert len(ids) > 5 * texts.SETTLED
    whole, decode, decoded = tokenizer.decode(ids), tokenizer.decode, [0]

    def counted(ids: list[int]) -> str:
        decoded.append(len(ids))
        return decode(ids)

    monkeypatch.setattr(tokenizer, "decode", counted)
    for stop in ((), ("the",)):
        config = GenerationConfig(stop=stop)
        text = generating.GrowingText(config, len(ids), tokenizer=tokenizer)
        shown = []
        for count in range(1, len(ids) + 1):
            text.ids, text.reason = ids[:count], "length" if count == len(ids) else text.reason
            shown.append(text.write())
            if text.reason is not None:
                break
        assert "".join(shown) == text.text == (whole.partition("the")[0] if stop else whole)
        assert max(decoded) < 3 * texts.SETTLED


def test_blank_lines_of_a_file_are_not_continued(folder: Path, tmp_path: Path, ran: Ran) -> None:
    path, out = tmp_path / "prompts.txt", tmp_path / "out.jsonl"
    path.write_text("\nA river\n   \nNobody\n\n")
    words = ["generate", "--input", path, "--model", folder, "--max-new-tokens", 3]
    printed = ran(*words, "--out", out)
    assert "3 blank lines" in printed.err
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["prompt"] for each in found] == ["", "A river", "   ", "Nobody", ""]
    assert [len(each["texts"]) for each in found] == [0, 1, 0, 1, 0]
    assert ran(*words).out.splitlines()[2].startswith("A river")
    path.write_text("  \n")
    assert ran(*words).out == "  \n\n"


@pytest.mark.parametrize("name", ["long.txt", "long.jsonl", "long.txt.gz", "-"])
def test_a_line_over_a_megabyte_is_refused(
    folder: Path, tmp_path: Path, ran: Ran, name: str
) -> None:
    line = b"ab " * 400_000
    content = b"A river\n" + line + b"\nNobody\n"
    if name.endswith(".jsonl"):
        content = b'{"text": "A river"}\n{"text": "' + line + b'"}\n'
    path, stdin = tmp_path / name, b""
    if name == "-":
        path, stdin = Path("-"), content
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
    words = ["generate", "--model", folder, "--max-new-tokens", 2, "--input", path]
    said = ran(*words, code=4, stdin=stdin).err
    assert_names(said, "line 2", "1,000,000 ")


@pytest.mark.skipif(os.name != "posix", reason="needs file locks")
def test_a_second_process_does_not_write_the_same_file(
    folder: Path, tmp_path: Path, ran: Ran
) -> None:
    out = tmp_path / "out.jsonl"
    words = ["generate", PROMPTS[0], "--model", folder, "--out", out, "--max-new-tokens", 2]
    with sole_writer(out):
        assert "another process is writing" in ran(*words, "--overwrite", code=4).err
    ran(*words)
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
