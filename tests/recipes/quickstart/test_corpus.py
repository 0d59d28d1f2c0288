"""Documentation of Python code as a corpus of English."""

from __future__ import annotations

import ast
import gzip
import json
import string
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.errors import DataError
from bertwright.recipes.quickstart.corpus import (
    corpus_files,
    find_docstrings,
    find_modules,
    prose,
    read_index,
    read_module,
    write_python_docs,
)
from tests.recipes.quickstart.sample import write_package

NUMPY_STYLE = """
    Compute the arithmetic mean along the given axis.

    Returns the average of the array elements.  The average is taken over
    the flattened array by default, see :func:`numpy.average` and `the guide
    <https://example.org/guide>`_ for *more* of ``that``.

    Parameters
    ----------
    a : array_like
        Array containing numbers whose mean is desired.
    axis : None or int or tuple of ints, optional
        Axis or axes along which the means are computed.

    Returns
    -------
    m : ndarray, see dtype parameter above
        A new array containing the mean values.

    Notes
    -----
    The mean is the sum of the elements along the axis:

    .. math:: m = \\\\frac{1}{n}

    .. note::
        The note inside of a directive is kept as text.

    =====  =====
    a      b
    =====  =====

    References
    ----------
    Somebody wrote this long paper about means of things in 1990.

    Examples
    --------
    These examples show what the function does in practice.

    >>> mean([1, 2])
    1.5 is the answer that stands below the code

    Afterwards the text goes on with another sentence::

        code = that(is_left, out)
"""

GOOGLE_STYLE = """Load the weights of the model from a folder.

    Args:
        path (str, optional): The folder that holds the weights.
        strict: Whether every key has to be there already.
            It is checked before anything is loaded.

    Returns:
        The model with the weights that were found there.

    :param other: The other thing that was asked for here.
    :type other: int or another type that nobody needs to read
"""


def sentences(docstring: str) -> list[str]:
    return [sentence for paragraph in prose(docstring) for sentence in paragraph]


def test_numpy_style() -> None:
    assert sentences(NUMPY_STYLE) == [
        "Compute the arithmetic mean along the given axis.",
        "Returns the average of the array elements.",
        "The average is taken over the flattened array by default, see numpy.average and the guide "
        "for more of that.",
        "Array containing numbers whose mean is desired.",
        "Axis or axes along which the means are computed.",
        "A new array containing the mean values.",
        "The mean is the sum of the elements along the axis:",
        "The note inside of a directive is kept as text.",
        "Somebody wrote this long paper about means of things in 1990.",
        "These examples show what the function does in practice.",
        "Afterwards the text goes on with another sentence:",
    ]


def test_google_style() -> None:
    assert sentences(GOOGLE_STYLE) == [
        "Load the weights of the model from a folder.",
        "The folder that holds the weights.",
        "Whether every key has to be there already.",
        "It is checked before anything is loaded.",
        "The model with the weights that were found there.",
        "The other thing that was asked for here.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Copyright (c) 2001 by the authors of this file and others.",
        "x = foo(bar)[0]; y = x.baz(qux) + 1; z = x | y",
        "mean(a, axis=None, dtype=None, out=None) -> ndarray",
        "Too short.",
        "https://example.org/a/very/long/address/of/a/page",
        "%(name)s is what the template is going to put here now.",
    ],
)
def test_what_is_no_prose(text: str) -> None:
    assert sentences(text) == []


def test_every_docstring_that_ast_finds() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    seen = 0
    for path in [*sorted(library.glob("*.py"))[::7], library / "email" / "message.py"]:
        source = path.read_text(encoding="utf-8", errors="replace")
        found = {text.strip() for text in find_docstrings(source)}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                docstring = ast.get_docstring(node, clean=False)
                quoted = docstring and source.splitlines()[node.body[0].lineno - 1].lstrip("rR \t")
                if docstring and str(quoted).startswith(('"""', "'''")):
                    seen += 1
                    assert docstring.strip() in found, f"{path.name}: {docstring[:60]}"
    assert seen > 200


def test_strings_that_are_taken_and_not() -> None:
    source = (
        'add_docstr(abs,\n    r"""Raw \\d text.""")\n'
        'code = """not taken"""\n'
        "__doc__ = '''taken \\u00e9'''\n"
        'f"""not {this}"""\n'
        '# """ a comment\n'
        'x = \'quoted """ inside\'\n'
        '"""last \\\\""" + """'
    )
    assert list(find_docstrings(source)) == ["Raw \\d text.", "taken é", "last \\"]


@given(st.text(alphabet=string.ascii_letters + " .:\n\t`*|=+-_>#\\'\"()[]{}éあ", max_size=400))
def test_anything_is_survived(text: str) -> None:
    for found in find_docstrings(text):
        prose(found)
    for paragraph in prose(text):
        assert all(sentence.strip() == sentence for sentence in paragraph)


def test_modules_become_documents(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_package(tmp_path / "in")
    report = write_python_docs(tmp_path / "out", search=[str(tmp_path / "in")], workers=1)
    index = read_index(tmp_path / "out")
    assert [entry["module"] for entry in index] == [
        f"{package}.{word}"
        for package in ("ant", "zoo")
        for word in ["alpha", "beta", "delta", "gamma"]
    ]
    text = gzip.decompress(corpus_files(tmp_path / "out")[0].read_bytes()).decode()
    documents = text.strip().split("\n\n")
    assert documents[0].splitlines()[0] == "The alpha of ant is a thing that alpha people like."
    assert [len(d.splitlines()) for d in documents] == [e["sentences"] for e in index] == [3] * 8
    assert [len(d) for d in documents] == [e["characters"] for e in index]
    assert report.documents == 8
    assert report.repeated_paragraphs == 3
    assert report.modules_read == 11
    assert report.characters_by_package == {
        package: sum(e["characters"] for e in index if e["package"] == package)
        for package in ("zoo", "ant")
    }
    assert json.dumps(report.as_dict())


def test_the_same_bytes_every_time_and_a_limit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_package(tmp_path / "in")
    search = [str(tmp_path / "in")]
    for name in ("a", "b"):
        write_python_docs(tmp_path / name, search=search)
    for first, second in zip(
        corpus_files(tmp_path / "a"), corpus_files(tmp_path / "b"), strict=True
    ):
        assert first.read_bytes() == second.read_bytes()
    report = write_python_docs(tmp_path / "c", search=search, most_characters=300)
    assert report.documents == 2


def test_paragraphs_that_differ_in_names_only_count_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""Build a FooConfig from the values of the given mapping.\n\n'
        "Build a BarConfig from the values of the given mapping.\n\n"
        "It reads the mapping of values from left to right.\n\n"
        'Nothing is changed in place while the work goes on.\n"""'
    )
    report = write_python_docs(tmp_path / "out", search=[str(tmp_path)])
    assert (report.sentences, report.repeated_paragraphs) == (3, 1)


def test_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no documentation found"):
        write_python_docs(tmp_path / "out", search=[str(tmp_path)])


@pytest.mark.slow
def test_this_machine_has_modules() -> None:
    modules = find_modules()
    names = {module.name for module in modules}
    assert {"json.decoder", "textwrap"} <= names
    assert not any(name.startswith("bertwright") for name in names)
    assert sys.modules.get("antigravity") is None  # read, never imported


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    write_package(tmp_path)
    before = find_modules([str(tmp_path)])
    (tmp_path / ".#editor.py").symlink_to("nobody@nowhere.4711")
    assert find_modules([str(tmp_path)]) == before
    before[0].path.unlink()
    assert read_module(before[0].path) == []
    assert read_module(before[1].path)
