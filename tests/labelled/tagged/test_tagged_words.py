"""Words with tags from columns, lines and lists; texts cut into words."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.errors import DataError
from bertwright.labelled.columns import Columns
from bertwright.labelled.examples import labels_of
from bertwright.labelled.tagged.texts import split_words
from tests.labelled.conftest import parse, parse_stream, tagged

CONLL = """\
-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

German JJ I-NP I-MISC
UK NNP I-NP B-MISC

-DOCSTART- -X- O O

Peter NNP I-NP I-PER
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [" ", "\t", "   "])
def test_columns_with_documents_and_iob1(write, mark, end):
    path = write("a.txt", CONLL.replace(" ", mark).replace("\n", end))
    read = parse(path, "tagging")
    assert tagged(read) == [
        ("EU rejects", "I-ORG O"),
        ("German UK", "I-MISC B-MISC"),
        ("Peter", "I-PER"),
    ]
    assert [each.document for each in read.examples] == [0, 0, 1]
    assert [each.line for each in read.examples] == [3, 6, 11]
    assert read.scheme == "iob1"
    assert "tags in column 4" in read.format
    assert read.warnings == []
    assert labels_of(read.examples) == ("O", "B-MISC", "I-MISC", "I-ORG", "I-PER")


def test_tags_of_another_column_and_of_iob2(write):
    path = write("a.txt", CONLL)
    assert tagged(parse(path, "tagging", Columns(label="2")))[0] == (
        "EU rejects",
        "NNP VBZ",
    )
    assert parse(path, "tagging", Columns(label="2")).scheme == "none"
    assert tagged(parse(path, "tagging", Columns(label="3")))[2] == ("Peter", "I-NP")
    read = parse(path, "tagging", iob1_as_iob2=True, labels=["O", "B-ORG", "B-MISC", "B-PER"])
    assert tagged(read)[1] == ("German UK", "B-MISC B-MISC")
    assert read.scheme == "iob2"
    for wrong in (1, 5, -1, "ner"):
        with pytest.raises(DataError, match=r"column"):
            parse(path, "tagging", Columns(label=str(wrong)))
    named = write("b.tsv", "token\tpos\tner\na\tDT\tO\nb\tNN\tB-X\n")
    assert tagged(parse(named, "tagging", Columns(label="pos"))) == [("a b", "DT NN")]
    assert tagged(parse(named, "tagging")) == [("a b", "O B-X")]


def test_files_without_document_marks_are_one_document(write):
    read = parse(write("a.bio", "a O\n\n \t\nb\tB-X\n\nc O\n"), "tagging")
    assert tagged(read) == [("a", "O"), ("b", "B-X"), ("c", "O")]
    assert {each.document for each in read.examples} == {0}


def test_odd_characters_are_words_in_files_with_tabs(write):
    read = parse(write("a.txt", "␣\tO\n\u3000x y\tB-X\n#\tO\n"), "tagging")
    assert read.examples[0].words == ("␣", "\u3000x y", "#")


def test_a_sentence_a_line_is_an_error_with_the_command_that_writes_words(write, tmp_path):
    path = write("a.txt", LINES)
    with pytest.raises(DataError, match=r"a-words\.conll") as caught:
        parse(path, "tagging")
    command = str(caught.value).partition("Write them so: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    read = parse(tmp_path / "a-words.conll", "tagging")
    assert tagged(read)[1] == ("张 三 丰", "B-NAME M-NAME E-NAME")
    assert read.scheme == "iobes"


LINES = "高 勇 ， 男\tB-NAME E-NAME O O\n张 三 丰\tB-NAME M-NAME E-NAME\n"
RAGGED = "a X O\nb X O\n\nc X O\nd O\ne\n\nf X B-Y\n"
BROKEN = "a B-X\nb I-X\n\nc O\nd I-X\ne I-Y\n\nf B-Y\ng O\nh B-X\n"
KNOWN = {"labels": ["O", "B-PER"]}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (RAGGED, {}, r"line 5: .*: 2 columns; expected 3.*--bad-rows"),
        ("a\tO\nb\t\n", {}, "line 2: sentence with an empty word or tag"),
        ("a\nb\n", {}, "no column of tags beside the word, column 1 of '1'; name one: --label"),
        (
            "a O\n\nb O\nc B-PRE\n",
            KNOWN,
            "line 3: label unseen in training: 'B-PRE'.*'B-PER'",
        ),
        (
            "a B-X\n",
            {"labels": ["NN"], "as_scheme": "none"},
            "line 1: label unseen in training",
        ),
    ],
)
def test_what_cannot_be_read_has_its_line(write, content, options, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.txt", content), "tagging", **options)


def test_a_sentence_with_a_ragged_line_is_left_out(write):
    read = parse(write("a.txt", RAGGED), "tagging", bad_rows="skip")
    assert tagged(read) == [("a b", "O O"), ("f", "B-Y")]
    assert read.log.skipped["sentence with a ragged line"].lines == [5]


def test_tags_that_break_the_scheme_are_mended_and_counted(write):
    read = parse(write("a.txt", BROKEN), "tagging")
    assert read.scheme == "iob2"
    assert tagged(read)[1] == ("c d e", "O B-X B-Y")
    assert "1 sentences with tags that break the scheme iob2" in read.warnings[0]
    assert "(line 4)" in read.warnings[0]


@pytest.mark.parametrize("tags", ["b-per i-per", "B_PER I_PER", "PER-B PER-I", "3 4"])
def test_tags_of_entities_in_another_spelling_are_told(write, tags):
    first, second = tags.split()
    read = parse(write("a.conll", f"a {first}\nb {second}\nc O\n"), "tagging")
    assert read.scheme == "none"
    assert "write them as B-PER, I-PER and O" in read.warnings[0]
    assert parse(write("b.conll", "a NOUN\nb PER\nc O\n"), "tagging").warnings == []


def test_one_tag_only_is_told(write):
    read = parse(write("a.txt", "a O\nb O\n\nc O\n"), "tagging")
    assert "all have the label 'O'; there is nothing to tell apart" in read.warnings[0]


@pytest.mark.parametrize("slip", ["0", "X-LOC", "B"])
def test_a_slip_among_the_tags_of_entities_is_refused_with_its_own_line(write, slip):
    words = ["a B-LOC", "b I-LOC", "c O", "", *(f"{letter} O" for letter in "defghijkl")]
    path = write("a.txt", "\n".join([*words[:8], f"m {slip}", *words[8:], ""]))
    names = {"LOC": "GPE"}
    with pytest.raises(DataError, match=rf"line 5, word 5: .*'{slip}'.*--label-map") as raised:
        parse(path, "tagging", label_map=names)
    assert raised.value.options == ("--label-map", "LOC=GPE", f"{slip}=O")
    read = parse(path, "tagging", label_map={**names, slip: "O"})
    assert [tags for _, tags in tagged(read)] == ["B-GPE I-GPE O", " ".join("O" * 10)]
    tokens, tags = zip(*(word.split() for word in words if word), strict=True)
    row = {"tokens": [*tokens, "m"], "tags": [*tags, slip]}
    with pytest.raises(DataError, match=rf"line 1, word 13: the tag '{slip}'"):
        parse(write("a.jsonl", json.dumps(row)), "tagging")


@pytest.mark.parametrize(
    ("labels", "scheme", "tags"),
    [
        (["O", "B-X", "I-X"], "iob2", "B-X I-X O B-X"),
        (["O", "I-X"], "iob1", "I-X I-X O I-X"),
        (["O", "B-X", "M-X", "E-X", "S-X"], "iobes", "B-X E-X O S-X"),
        (["O", "B-X", "I-X", "L-X", "U-X"], "iobes", "B-X L-X O U-X"),
    ],
)
def test_tags_are_given_in_the_scheme_of_training(write, labels, scheme, tags):
    for own in ("B-X I-X O B-X", "I-X I-X O I-X", "B-X E-X O S-X", "B-X L-X O U-X"):
        lines = "".join(f"w {tag}\n" for tag in own.split())
        read = parse(write("a.txt", lines), "tagging", labels=labels, as_scheme=scheme)
        assert tagged(read) == [("w w w w", tags)]
        assert read.scheme == scheme
    with pytest.raises(DataError, match=f"line 1, word 1: .*'NN'.*{scheme}"):
        parse(write("a.txt", "a NN\nb VB\n"), "tagging", labels=labels, as_scheme=scheme)


def test_a_type_among_tags_is_no_name_to_rename(write):
    """`--label-map LOC=O` would rename the type of `B-LOC` too."""
    lines = "".join(f"w {tag}\n" for tag in ["B-LOC", *["O"] * 12, "LOC"])
    with pytest.raises(DataError, match=r"line 1, word 14: .*'LOC'.*--label") as raised:
        parse(write("a.txt", lines), "tagging")
    assert raised.value.options == ()


def test_the_column_of_training_is_a_hint(write):
    path = write("a.txt", CONLL)
    read = parse(path, "tagging", hint=Columns(label="2"))
    assert tagged(read)[0] == ("EU rejects", "NNP VBZ")
    for away in ("9", "ner"):
        assert tagged(parse(path, "tagging", hint=Columns(label=away)))[2] == (
            "Peter",
            "I-PER",
        )
    assert parse(path, "tagging", Columns(label="2")).columns == Columns(label="2")


@pytest.mark.parametrize(
    ("words", "tags"), [("tokens", "ner_tags"), ("words", "tags"), ("tokens", "labels")]
)
def test_lists_in_json_lines(write, words, tags):
    lines = [
        {words: ["a", "b"], tags: ["B-X", "O"], "doc_id": "p"},
        {words: ["c"], tags: ["O"], "doc_id": "q"},
    ]
    path = write("a.jsonl", "\n".join(map(json.dumps, lines)))
    read = parse(path, "tagging")
    assert tagged(read) == [("a b", "B-X O"), ("c", "O")]
    assert [(each.document, each.line) for each in read.examples] == [(0, 1), (1, 2)]
    assert read.columns == Columns(words, None, tags)
    assert tagged(parse(path, "tagging", require_labels=False)) == [
        ("a b", ""),
        ("c", ""),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"tokens": ["a", "b"], "tags": ["O"]}',
            r"line 1: sentence with a ragged line: 2 words, 1 tags",
        ),
        ('{"tokens": "a b", "tags": ["O"]}', r"'a b' in the column 'tokens'; expected a list"),
        ('{"tokens": ["a", " "], "tags": ["O", "O"]}', r"' ' in the column 'tokens'"),
        ('{"tokens": [], "tags": []}', r"empty word or tag: '' in the column 'tokens'"),
        ('{"tokens": ["a"]}', r"no column of tags.*it has 'tokens'.*--label"),
        ('{"tags": ["a"]}', r"no column of words.*--text"),
    ],
)
def test_bad_lists_are_refused(write, line, message):
    with pytest.raises(DataError, match=message):
        parse(write("a.jsonl", line), "tagging")


def test_texts_to_predict_are_cut_into_words_with_their_characters(write):
    text = "John lives\tin Berlin."
    for name, content in (
        ("a.txt", f"{text}\n\nnext one here\n"),
        ("b.jsonl", json.dumps({"text": text, "document": 1}) + '\n{"text": "next one here"}'),
    ):
        read = parse(write(name, content), "tagging", require_labels=False, labels=["O"])
        first, second = read.examples
        assert first.words == ("John", "lives", "in", "Berlin", ".")
        assert first.text == text
        assert tuple(text[start:end] for start, end in first.offsets) == first.words
        assert first.tags is None
        assert second.document == (name == "b.jsonl")


def test_columns_to_predict_are_known_by_their_tags_or_name(write):
    known = ["O", "B-X"]
    for name, content in (
        ("a.txt", "a O\nb B-X\n\nc O\n"),
        ("c.conll", "a 1 2\nb 1 2\n\nc 1 2\n"),
        ("d.txt", "-DOCSTART-\n\na x\nb x\n\nc x\n"),
    ):
        read = parse(write(name, content), "tagging", require_labels=False, labels=known)
        assert tagged(read) == [("a b", ""), ("c", "")], name
        assert read.examples[0].text is None


@given(st.text(alphabet=st.sampled_from("ab.'-$ \t\n中國🙂"), max_size=12))
def test_the_words_of_a_text_are_its_characters_without_white_space(text):
    words = split_words(text)
    assert "".join(text[start:end] for start, end in words) == "".join(text.split())
    assert all(text[start:end] for start, end in words)
    assert words == sorted(words)


def test_punctuation_within_a_word_stays_and_chinese_stands_alone():
    text = "(U.S.) don't ... 北京2008年!"
    words = ["(", "U.S", ".", ")", "don't", ".", ".", ".", "北", "京", "2008", "年", "!"]
    assert [text[start:end] for start, end in split_words(text)] == words


def test_marks_of_chinese_and_japanese_stand_alone():
    text = "ここである。「ジョン・スミス」さん、हिन्दी।"
    words = ["ここである", "。", "「", "ジョン・スミス", "」", "さん", "、", "हिन्दी", "।"]
    assert [text[start:end] for start, end in split_words(text)] == words


COMMENTS = """# id 7 domain=en
Rome _ _ B-LOC
is _ _ O

# id 8 domain=en
# another
# _ _ O
hash _ _ O
"""


def test_comment_lines_are_left_out_and_counted(write):
    for content in (COMMENTS, COMMENTS.replace("7 domain", "7\tdomain")):
        read = parse(write("a.conll", content), "tagging")
        assert tagged(read) == [("Rome is", "B-LOC O"), ("# hash", "O O")]
        (skipped,) = read.log.skipped.values()
        assert skipped.lines == [1, 5, 6]
    words = write("b.conll", "# id = 5\na O\n# O\n\n#b B-X\n")
    assert tagged(parse(words, "tagging")) == [("a #", "O O"), ("#b", "B-X")]
    # of labels of words, where a line may be of any tag, a comment is `# key = value`
    tags = write("c.conll", "# sent_id = 1\na x y NOUN\n# z z SYM\n\n# u v SYM\n")
    assert tagged(parse(tags, "tagging")) == [("a #", "NOUN SYM"), ("#", "SYM")]
    predicted = parse_stream(write("d.txt", COMMENTS), "tagging", labels=["O", "B-LOC"])
    assert [each.words for each in predicted.examples] == [("Rome", "is"), ("#", "hash")]


FIRST = "B-PER\tAnn\nO\tsees\n\nO\tin\nB-LOC\tRome\n"


def test_tags_in_the_first_column_are_noticed(write):
    right = [("Ann sees", "B-PER O"), ("in Rome", "O B-LOC")]
    path = write("a.conll", FIRST)
    with pytest.raises(DataError, match="column 1") as caught:
        parse(path, "tagging")
    assert caught.value.options == ("--text", "2", "--label", "1")
    read = parse(path, "tagging", Columns("2", None, "1"))
    assert tagged(read) == right
    assert read.scheme == "iob2"
    # a file to predict, or dev, is read as the training file was, though it has no entity
    dev = write("b.conll", "O\twords\nO\talone\n")
    assert tagged(parse(dev, "tagging", hint=read.columns)) == [("words alone", "O O")]
    known = {"labels": ["O", "B-LOC", "B-PER"], "hint": read.columns}
    stream = parse_stream(write("a.txt", FIRST), "tagging", **known)
    assert [each.words for each in stream.examples] == [("Ann", "sees"), ("in", "Rome")]


def test_an_option_names_the_column_of_words(write):
    path = write("a.conll", "1a\tB-PER\tAnn\n1b\tO\tsees\n")
    read = parse(path, "tagging", Columns("3", None, "2"))
    assert tagged(read) == [("Ann sees", "B-PER O")]
    assert read.warnings == []
    assert tagged(parse(path, "tagging", Columns("3"))) == [("Ann sees", "B-PER O")]
    with pytest.raises(DataError, match=r"no column '4' of words; it has '1', '2', '3'"):
        parse(path, "tagging", Columns("4"))


def test_chunks_are_no_entities(write):
    """Europarl's words, lemmas, parts of speech, chunks, and names without B- and I-."""
    lines = [
        "Rita rita NE I-NC PER",
        "went go VVFIN I-VC O",
        "to to APPR I-PC O",
        "Ulm ulm NE I-PC LOC",
    ]
    path = write("a.conll", "\n".join([*lines, "", *lines, ""]))
    read = parse(path, "tagging")
    assert tagged(read)[0] == ("Rita went to Ulm", "PER O O LOC")
    assert tagged(parse(path, "tagging", Columns(label="4")))[0][1] == "I-NC I-VC I-PC I-PC"


def test_tags_before_the_last_column_with_the_way_to_the_last(write):
    path = write("a.conll", "Rita B-PER rita\nran O run\n\nUlm B-LOC ulm\n")
    read = parse(path, "tagging")
    assert tagged(read)[0] == ("Rita ran", "B-PER O")
    assert any(each.endswith("--label 3") for each in read.warnings)


def test_names_within_names_are_not_the_tags(write):
    """GermEval 2014: comments, numbered words, outer names, inner names."""
    first = "# a page\n1\tFC\tB-ORG\tO\n2\tUlm\tI-ORG\tB-LOC\n3\tran\tO\tO\n"
    path = write("a.tsv", f"{first}\n# another\n1\tAnna\tB-PER\tO\n")
    read = parse(path, "tagging")
    assert tagged(read) == [("FC Ulm ran", "B-ORG I-ORG O"), ("Anna", "B-PER")]
    assert any("--label 4" in each for each in read.warnings)
    inner = parse(path, "tagging", Columns(label="4"))
    assert tagged(inner)[0] == ("FC Ulm ran", "O B-LOC O")
    assert tagged(parse(path, "tagging", hint=inner.columns))[1] == ("Anna", "O")
