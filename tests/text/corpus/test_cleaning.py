"""Cleaning: markup of web pages and of wikis, duplicates, and what is too short."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertwright.config.corpus import CorpusConfig
from bertwright.text.corpus import documents
from bertwright.text.corpus.read import CorpusReport, split_document
from tests.text.corpus.sample import read, write


def test_cleaning_is_counted(tmp_path: Path) -> None:
    parts = [f"Text number {n} is here, and it is long enough." for n in range(20)]
    text = "\n\n".join([*parts, parts[0], "Short.", *parts, "Another text."])
    config = CorpusConfig(deduplicate=True, min_characters=10)
    found, report = read(write(tmp_path, "a.txt", text), config)
    assert (report.short_documents, report.duplicates, report.documents) == (1, 21, 21)
    assert found == [[each] for each in [*parts, "Another text."]]


WIKI = """<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Law &amp; Order">
Law &amp; Order

Law is a system of rules. It is enforced.

Order follows &lt;if&gt; it must.

</doc>
<doc id="13" url="https://en.wikipedia.org/wiki?curid=13" title="A redirect">
A redirect

</doc>
<doc id="14" url="https://en.wikipedia.org/wiki?curid=14" title="Rain">
Rain

Rain falls.

</doc>
"""


def test_the_output_of_wikiextractor_is_read_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "AA"
    folder.mkdir()
    (folder / "wiki_00").write_text(WIKI, encoding="utf-8")
    row = json.dumps({"id": "15", "title": "Snow", "text": "Snow\n\nSnow falls."})
    (folder / "wiki_01").write_text(row + "\n", encoding="utf-8")
    found, report = read(tmp_path)
    assert found == [
        ["Law & Order", "Law is a system of rules.", "It is enforced."]
        + ["Order follows <if> it must."],
        ["Rain", "Rain falls."],
        ["Snow", "Snow falls."],
    ]
    assert (report.tags, report.urls) == (0, 0)  # <if> is a word in brackets
    (tmp_path / "wiki.txt").write_text("\n" + WIKI, encoding="utf-8")
    assert len(read(tmp_path / "wiki.txt")[0]) == 2


def test_a_document_of_wikiextractor_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_CHARACTERS", 100)
    lines = [f"Line {number} is here." for number in range(20)]
    (tmp_path / "wiki_00").write_text("\n".join(['<doc id="1">', *lines]), encoding="utf-8")
    found, _ = read(tmp_path)
    assert len(found) > 3
    assert [sentence for document in found for sentence in document] == lines


def test_a_separator_between_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wiki_00").write_text(WIKI, encoding="utf-8")
    for size in range(7, 40):
        monkeypatch.setattr("bertwright.rows.lines.BLOCK_BYTES", size)
        assert [len(document) for document in read(tmp_path)[0]] == [4, 2], size


def test_what_only_looks_like_a_tag_stays(tmp_path: Path) -> None:
    """Placeholders, and objects as Python prints them; an XML element ends somewhere."""
    line = "Give <name>, of <class 'int'> or <function f at 0x7f>, as <BR>or <doc id='7'>."
    (tmp_path / "a.txt").write_text(f"{line}\n<note>It rained</note> <hr/>.", encoding="utf-8")
    _, report = read(tmp_path)
    assert report.tags == 5  # <BR>, <doc id='7'>, <note>, </note>, <hr/>
    ((first, second),), _ = read(tmp_path, CorpusConfig(strip_markup=True, sentences="line"))
    assert first == "Give <name>, of <class 'int'> or <function f at 0x7f>, as or ."
    assert second == "It rained ."


def test_markup_is_counted_and_stripped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "Rain\n\n<p class='x'>Rain falls, see [[water|the water]] and {{cite|{{a}}}} "
        "https://x.org/a?b=1 .</p> It is 3 < 4 &amp; wet.\n\nFour kinds of it.",
        encoding="utf-8",
    )
    _, report = read(tmp_path)
    assert (report.tags, report.urls, report.templates, report.title_documents) == (2, 1, 4, 1)
    config = CorpusConfig(strip_markup=True, min_characters=10, sentences="line")
    found, _ = read(tmp_path, config)
    text = "Rain falls, see the water and   . It is 3 < 4 & wet."
    assert found == [[text], ["Four kinds of it."]]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("他用-{zh-tw:電腦;zh-cn:电脑}-工作，也看-{zh-hans:出租车; zh-hant:計程車}-。", 2),
        ("-{H|zh-cn:软件;zh-hk:軟件;}-的名字。", 1),
        ("x-{y}-z and {zh: a} and a-{b;c}-d", 0),
    ],
)
def test_chinese_variants_are_counted_and_stay(text: str, count: int) -> None:
    report = CorpusReport()
    config = CorpusConfig(strip_markup=True, sentences="line")
    assert split_document(text, config, report) == [text]
    assert report.variants == count
    assert any("zh-tw" in line for line in report.remarks()) == bool(count)
