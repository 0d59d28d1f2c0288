"""The pages of exit codes and file formats, from the classes and tables that decide them."""

from __future__ import annotations

import inspect
from typing import get_args

from bertwright import errors
from bertwright.checkpoint.formats.catalogue import FILES, FOLDERS
from bertwright.checkpoint.formats.format import FileFormat, FolderFormat
from bertwright.config.task import Form
from bertwright.errors import BertwrightError
from bertwright.rows.compressed import COMPRESSED_SUFFIXES
from bertwright.rows.read import FORMS
from bertwright.text.corpus.find import ROW_SUFFIXES, TEXT_SUFFIXES
from docs.generator.command_line import table


def exit_codes() -> str:
    """Return the table of exit codes, with the errors of Python that have them."""
    done = "The command is done, whatever a model has learned: its last lines say that."
    rows = [("0", "", done)]
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass)]
    ours = [each for each in classes if issubclass(each, BertwrightError)]
    for each in sorted(ours, key=lambda error: error.exit_code):
        if "exit_code" in vars(each):
            meaning = (inspect.getdoc(each) or "").partition("\n\n")[0]
            rows.append((str(each.exit_code), f"`{each.__name__}`", meaning))
    rows += [
        ("129, 130, 143", "`Interrupted`", "A closed terminal, Ctrl-C, SIGTERM. A run is saved."),
        ("141", "", "The reader of standard output has closed it."),
    ]
    return "\n".join(table(("code", "error in Python", "meaning"), rows))


def corpora() -> str:
    """Return the sentence on the suffixes of the files of a corpus."""
    texts = ", ".join(f"`{each}`" for each in TEXT_SUFFIXES)
    rows = ", ".join(f"`{each}`" for each in ROW_SUFFIXES)
    compressed = ", ".join(f"`{each}`" for each in COMPRESSED_SUFFIXES)
    return f"Text: {texts}. Rows with a column of text: {rows}. Each also with {compressed}."


def labelled_files() -> str:
    """Return the table of the formats of labelled files and their suffixes."""
    rows = []
    for form in get_args(Form):
        suffixes = [f"`{suffix}`" for suffix, name in FORMS.items() if name == form]
        rows.append((f"`{form}`", ", ".join(suffixes)))
    return "\n".join(table(("`--format`", "suffixes"), rows))


def models() -> str:
    """Return the table of the formats in which models are stored."""
    rows = []
    formats: list[FolderFormat | FileFormat] = [*FOLDERS, *FILES]
    for each in formats:
        meaning = (inspect.getdoc(type(each)) or "").replace("\n", " ")
        use = "loaded as it is" if each in FOLDERS else "read and written by `convert`"
        rows.append((f"`{each.name}`", meaning, use))
    return "\n".join(table(("format", "what it is", "use"), rows))
