"""What is generated for the site: pages of the command line, of Python and of routes, and links."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import pytest

import bertwright
from bertwright import errors
from bertwright.cli.app import VERBS
from bertwright.config import values
from bertwright.models.catalogue import MODELS, trainable
from bertwright.serve.app import MODEL_PATHS
from docs.generator import command_line, formats, notebook, python_names, rest
from docs.generator.options import options_of
from docs.generator.repository import pages, with_links
from docs.generator.write import GENERATED, expanded, with_contents
from tests.house.source import ROOT

PAGE = PurePosixPath("howto/serving.md")


def linked(text: str) -> tuple[str, set[PurePosixPath]]:
    """The text of a page of `docs/howto` as the site has it, and what it links to."""
    return with_links(text, PurePosixPath("docs/howto"), PAGE, ROOT / "docs/_build/source")


def test_links_out_of_the_documents_lead_to_pages_of_the_site() -> None:
    code = "src/bertwright/models/elmo/encoder.py"
    text, found = linked(f"[ELMo](../../{code}), [more](../../benchmarks/README.md#gpu)")
    assert f"](../repository/{code}.md)" in text
    assert "](../repository/benchmarks/README.md#gpu)" in text
    assert found == {PurePosixPath(code), PurePosixPath("benchmarks/README.md")}


def test_links_between_the_documents_and_to_elsewhere_stay() -> None:
    links = "[a](vectors.md#input) [b](../systems/elmo.md) [c](https://example.org/x.md) [d](#e)\n"
    assert linked(links)[0] == links


def test_links_to_data_lead_to_the_file() -> None:
    text, _ = linked("[rows](../../experiments/elmo/results.jsonl)")
    target = re.findall(r"\(([^)]+)\)", text)[0]
    folder = ROOT / "docs/_build/source/howto"
    assert (folder / target).resolve() == ROOT / "experiments/elmo/results.jsonl"


def test_code_is_not_changed() -> None:
    text = "```python\nx[0](../../src/bertwright/errors.py)\n% 3\n```\n"
    assert linked(text)[0] == text
    assert linked("50\n% of it")[0] == "50\n\\% of it\n"


def test_a_notebook_is_a_page_with_its_outputs(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": ["two\n", "lines\n"]},
        {"output_type": "display_data", "data": {"image/png": "aWs=\n", "text/plain": "Figure"}},
        {"output_type": "execute_result", "data": {"image/svg+xml": ["<svg>\n", "\n", "</svg>"]}},
        {"output_type": "execute_result", "data": {"text/markdown": ["**it**"], "text/plain": "x"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["print(2)"], "outputs": outputs},
    ]
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    text = notebook.markdown(path)
    assert text.startswith("# Title\ntext\n\n`````python\nprint(2)\n`````\n")
    assert "`````text\ntwo\nlines\n`````" in text
    assert "](data:image/png;base64,aWs=)" in text
    assert "Figure" not in text
    assert "\n<div>\n<svg>\n</svg>\n</div>\n" in text
    assert "\n**it**\n" in text


def test_every_page_is_in_the_contents() -> None:
    text = with_contents((ROOT / "docs/index.md").read_text("utf-8"))
    contents = re.findall(r"```\{toctree\}.*?```", text, re.S)
    named = set(" ".join(contents).split())
    here = {page.relative_to("docs").with_suffix("") for page in pages()}
    assert {str(page) for page in here} - named == {"index"}


def test_every_comment_is_known() -> None:
    texts = [(ROOT / page).read_text("utf-8") for page in pages()]
    named = re.findall(r"<!-- generated: (\w+) -->", "".join(texts))
    assert sorted(named) == sorted(GENERATED)


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_a_verb_has_its_options(verb: str) -> None:
    page = command_line.verb_page(verb)
    directives = re.findall(r"^`+\{option\} (.*)$", page, re.M)
    named = {name.split(" <")[0] for line in directives for name in line.split(", ")}
    some = [each for each in options_of(verb.split()) if each.section != command_line.SIZES]
    assert {name for option in some for name in command_line.shown_names(option)} <= named
    assert f"bertwright {verb}" in page


def test_an_option_says_which_variants_have_it() -> None:
    page = command_line.verb_page("finetune")
    directive = page[page.index("{option} --crf") :].partition("````")[0]
    assert "Only for: tagging" in directive


def test_the_configuration_has_every_key_of_every_system() -> None:
    text = command_line.configuration()
    for system, run in trainable().items():
        keys = [key.rpartition(".") for key in values.keys_of(run)]
        sizes = [name for section, _, name in keys if section == "architecture"]
        hidden = MODELS[system].fixed
        missing = [name for _, _, name in keys if f"`{name}`" not in text and name not in hidden]
        assert [name for name in missing if name not in (*sizes, "architecture")] == []
        assert f"### {system}\n" in text


def test_the_page_of_python_has_every_public_name() -> None:
    page = python_names.page()
    for name in bertwright.__all__:
        assert name == "__version__" or re.search(rf"\{{py:\w+\}} {name}\b", page), name
    assert "{py:method} Model.embed(" in page
    assert "{py:property} Run.metrics" in page
    assert "{py:attribute} Run.folder" in page


def test_a_docstring_becomes_markdown() -> None:
    arguments = "Args:\n    a, b: the first\n        of two.\n    c: last."
    text = f"Do it.\n\n{arguments}\n\nReturns:\n    `[n]`."
    expected = "Do it.\n\n**Arguments**\n\n`a`, `b`\n: the first of two.\n\n`c`\n: last.\n"
    assert python_names.markdown(text) == f"{expected}\n\n**Returns** `[n]`."


def test_the_page_of_routes_has_every_route() -> None:
    page = rest.page()
    assert [path for path in MODEL_PATHS if f" {path}\n" not in page] == []
    embed = page[page.index("## POST /embed\n") :].partition("\n## ")[0]
    assert re.search(r"\| `input` \| `[^`]*string.*` \| required \|", embed)
    assert "| `windows` | `boolean` | `false` |" in embed


def test_exit_codes_are_those_of_the_errors() -> None:
    table = formats.exit_codes()
    for error in (errors.ConfigError, errors.MissingExtra, errors.DataError, errors.IntegrityError):
        assert f"| {error.exit_code} | `{error.__name__}` |" in table


def test_file_formats_are_those_that_are_read() -> None:
    assert "| `conll` |" in formats.labelled_files()
    assert "`.bio`" in formats.labelled_files()
    assert "| `fasttext` |" in formats.models()
    assert "`.parquet`" in formats.corpora()


def test_a_comment_is_replaced() -> None:
    text = expanded(PurePosixPath("reference/x.md"), "a\n\n<!-- generated: corpora -->\n")
    assert text == f"a\n\n{formats.corpora()}\n"


def test_tables_keep_their_columns() -> None:
    lines = command_line.table(("a", "b"), [("int | none", "x")])
    assert lines == ["| a | b |", "| --- | --- |", "| int \\| none | x |"]
