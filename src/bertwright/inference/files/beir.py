"""Read a data set of retrieval: queries, a corpus, and the documents relevant to each query.

The files have the format of BEIR (Thakur et al. 2021):

```
corpus.jsonl     {"_id": "d1", "title": "...", "text": "..."}
queries.jsonl    {"_id": "q1", "text": "..."}
qrels/test.tsv   query-id, corpus-id and score, with a header
```

Each of them may be compressed (`corpus.jsonl.gz`). A document is its title, a blank and its text.
Queries without a relevant document are left out. As in trec_eval, a relevant document that the
corpus lacks counts as not found, and a query that is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bertwright.errors import DataError, shorten
from bertwright.rows.bad_rows import BadRowLog
from bertwright.rows.compressed import COMPRESSED_SUFFIXES
from bertwright.rows.read import open_rows, read_table

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"
_TABLES = tuple(f".tsv{compressed}" for compressed in ("", *COMPRESSED_SUFFIXES))


@dataclass(frozen=True)
class Search:
    """Queries, documents, and the relevant documents of each query."""

    name: str
    """The path of the file of judgements, from the folder of the data set on."""
    query_ids: list[str]
    queries: list[str]
    document_ids: list[str]
    documents: list[str]
    relevant: list[dict[int, float]]
    """For each query, the grades of its relevant documents by the index of the document; a document
    that the corpus lacks has a negative index.
    """
    own: list[int]
    """For each query, the index of the document that is the query itself; -1: there is none."""
    warnings: list[str]
    """What is missing, and which ids are alike."""


def is_search(path: str | Path) -> bool:
    """Return whether a path is a data set of retrieval: its folder, or a file of judgements."""
    path = Path(path)
    is_table = path.is_file() and path.name.endswith(_TABLES)
    return _stored((_root(path) if is_table else path) / CORPUS).is_file()


def find_judgements(path: str | Path) -> Path:
    """Return the file of judgements of a data set.

    Args:
        path: a file of judgements, or the folder of a data set. In a folder, the file is
            `qrels/test.tsv`, or the only file of judgements.

    Raises:
        DataError: `path` is no data set, or its folder has no file of judgements, or several and no
            test.tsv.
    """
    path = Path(path)
    if not is_search(path):
        raise DataError(
            f"{path} is no data set of retrieval; expected a folder with {CORPUS}, {QUERIES} and "
            f"{QRELS}/test.tsv, or one of its files of judgements"
        )
    if path.is_file():
        return path
    found = sorted(each for each in (path / QRELS).glob("*") if each.name.endswith(_TABLES))
    test = _stored(path / QRELS / "test.tsv")
    if test in found or len(found) == 1:
        return test if test in found else found[0]
    names = ", ".join(each.name for each in found) or "none"
    raise DataError(
        f"{path / QRELS} has {names}; expected test.tsv, or name one: --data "
        f"{path / QRELS / 'FILE.tsv'}"
    )


def _root(judgements: Path) -> Path:
    """Return the folder of a data set, given its file of judgements."""
    parent = judgements.parent
    return parent.parent if parent.name == QRELS else parent


def _stored(path: Path) -> Path:
    """Return the path, or that of its compressed form if only this is there."""
    compressed = (path.with_name(path.name + suffix) for suffix in COMPRESSED_SUFFIXES)
    return next((each for each in (path, *compressed) if each.is_file()), path)


def read_search(judgements: Path) -> Search:
    """Read a data set.

    Raises:
        DataError: a file is missing, a line has another format, or no judgement names a query and a
            document that are there; the message names the file and line.
    """
    root = _root(judgements)
    warnings: list[str] = []
    documents = dict(_texts(_stored(root / CORPUS), warnings))
    texts = {name: text for name, (_, text) in _texts(_stored(root / QUERIES), warnings)}
    index = {name: number for number, name in enumerate(documents)}
    grades: dict[str, dict[int, float]] = {}
    missing: dict[str, dict[str, str]] = {QUERIES: {}, CORPUS: {}}
    for place, query, document, grade in _judgements(judgements, warnings):
        if query not in texts:
            missing[QUERIES].setdefault(query, place)
        if document not in documents:
            index.setdefault(document, -1 - len(missing[CORPUS]))
            missing[CORPUS].setdefault(document, place)
        if grade > 0 and query in texts:
            grades.setdefault(query, {})[index[document]] = grade
    if not any(document >= 0 for each in grades.values() for document in each):
        gone = next(((f, *m) for f, each in missing.items() for m in each.items()), None)
        reason = f": {gone[2]}: {shorten(gone[1])} is not in {gone[0]}" if gone else ""
        raise DataError(f"{judgements} names no relevant document for a query of the data{reason}")
    for file, effect in (
        (CORPUS, "count as not found where they are relevant"),
        (QUERIES, "are left out"),
    ):
        if each := missing[file]:
            name, place = next(iter(each.items()))
            warnings.append(
                f"{len(each):,} of the ids that are judged are not in {file} (the first: "
                f"{shorten(name)}, {place}); they {effect}, as in trec_eval"
            )
    own, others = [], 0
    for name in grades:
        title, text = documents.get(name, ("", ""))
        is_query = " ".join(texts[name].split()) in (
            " ".join(each.split()) for each in (text, f"{title} {text}")
        )
        own.append(index[name] if name in documents and is_query else -1)
        others += name in documents and not is_query
    if others:
        warnings.append(
            f"{others:,} queries have the id of a document with another text, which stays in their "
            "ranking; BEIR's own program leaves it out"
        )
    return Search(
        f"{root.name}/{judgements.relative_to(root)}",
        list(grades),
        [texts[name] for name in grades],
        list(documents),
        [f"{title} {text}".strip() for title, text in documents.values()],
        list(grades.values()),
        own,
        warnings,
    )


def _texts(path: Path, warnings: list[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the id of each query or document, its title and its text."""
    if not path.is_file():
        raise DataError(f"no file {path}; a data set of retrieval has {CORPUS}, {QUERIES}, {QRELS}")
    file, log = open_rows(path), BadRowLog(str(path), option=False)
    for number, (id_, text, title) in read_table(file, (), log).rows(["_id", "text", "title"]):
        if not isinstance(id_, str | int) or not isinstance(text, str):
            came = f"{shorten(id_)}, {shorten(text)}"
            log.bad(number, "no _id or text", came, "an object with _id and text")
        yield str(id_), (str(title or ""), text)
    warnings += [f"{path}: {remark}" for remark in file.counts.byte_remarks()]


def _judgements(path: Path, warnings: list[str]) -> Iterator[tuple[str, str, str, float]]:
    """Yield the place, query, document and grade of each judgement; a header is left out."""
    file, log = open_rows(path, form="tsv"), BadRowLog(str(path), option=False)
    table = read_table(file, (), log, header=False)
    for number, cells in table.rows(table.columns):
        if len(cells) == 4:  # TREC's: query, iteration, document, grade
            cells = [cells[0], cells[2], cells[3]]
        try:
            query, document, grade = cells[0], cells[1], float(cells[2])
        except (ValueError, IndexError):
            if number == 1:
                continue
            expected = "a query, a document and a number with tabs between"
            log.bad(number, "no judgement", shorten(" ".join(cells)), expected)
            continue
        yield log.at(number), query, document, grade
    warnings += [f"{path}: {remark}" for remark in file.counts.byte_remarks()]
