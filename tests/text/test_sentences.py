"""Where sentences end: cases by name, and what holds for every string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.text.sentences import split_sentences

# A bar marks where sentences are to be split.
CASES = [
    "One ends here.| Two begins here.",
    "It is approx. 5 km long, approx. Two.| Messrs. Dombey came, cf. illus. 7.| Ten chaps.| Good.",
    "The Assoc. Press of Hwy. 5 and misc. Items, see eqn. 4.| Done.",
    "Mr. and Mrs. Smith met Dr. Jones.| They talked.",
    "The U.S. Army left the U.S. in May.| It was late.",
    "He lives in the U.S.| The city is small.",
    "She paid $3.14 for No. 5 in vol. II on Jan. 3.| Then she left.",
    "J. R. R. Tolkien wrote it.| A. A. Milne did not.",
    "It was vitamin C.| It helps.",
    "At 5 p.m. Monday it rained.| At 6 p.m.| The sun came.",
    "Apples, pears, etc. are fruit.| Apples, pears, etc.| They are sweet.",
    "It holds fruit (pears, etc.).| Radiation hits DNA.| It is 700 ft. wide.",
    "`Ah!´ said Mr. Toots, `Mrs. Chick.´| `Well!´ Mr. Toots cried.",
    "Use tools, e.g. Python, i.e. a language.| Good.",
    "“Who is there?” asked the boy.| “Nobody,” said I.",
    '"Stop!" Mr. Pickwick cried.| "Never!" he said.| "Why?"| Nobody knew.',
    'He said "Yes."| She said "No."',
    "Wait...| What?!| No!| Well … he went on.",
    "(It was true.)| Then he left.",
    "It was shown.[12][3]| Others differ.",
    "1. First item.| 2. Second item.",
    "In 1999.| In 2000 it ended.",
    "Visit example.com or read v2.0.1 now.| Done.",
    "he left .| She stayed .| They met .",
    "no capitals here.| really?| yes.| fine.",
    "Er kam am 3. Oktober, z.B. mit Dr. Weiß.| Ähnlich war es bzw. Es ging.",
    "Where?| I am 12.| He is 13.| It was the 5.| Then it rained.",
    "Es war im 19. Jahrhundert.| Der 2. Weltkrieg begann.| Er sagte: „Ich komme.“| Dann ging er.",
    "»Was?«| »Nichts.«| Dr. med. Weiß schwieg, vgl. Abb. 3.| Gut.",
    "Où vas-tu ?| À Paris, chez M. Dupont.",
    "« Où vas-tu ? » demanda-t-il.| « Ici. »| Elle rit.",
    "¿Dónde? — preguntó él.| — Aquí.",
    "«Куда ты?» — спросил он.| Она молчала.| Он жил на ул. Ленина, см. рис. 5.| Да.",
    "А. С. Пушкин родился в 1799 г.| Он поэт, проф. Петров и др. не поэты.",
    "Πού πας;| Πάω σπίτι.| Έλα!| Ο λόγος;| Ναι.",
    "Ես տուն եմ գնում։| Նա մնում է։",
    "डॉ. शर्मा आए।| ठीक।",
    "¿Qué hora es?| ¡Es tarde!| Vamos.",
    "他走了。|她哭了！|真的？！|是的。",
    "“你好！”他说。|“再见。”|他走了。",
    "《你是谁》是一部电影。|很好看。",
    "هل قرأت كتبه؟| نعم، قرأتها كلها!| كان روائيًا.",
    "کیا آپ گئے ہیں؟| میں گیا تھا۔| وہ آیا۔",
    "भारत एक देश है।| राजधानी दिल्ली है।| क्या आप गए हैं?| सुंदर है॥| यह।",
    "彼は「はい。」と言った。|そして帰った。",
    "「はい。」|「いいえ。」",
    "他说（真的！）他会来。|好。",
    "他走了……她哭了。",
    "圆周率是3.14，不是3。|对。",
    "他用 Python 3.11 写的。| It works.| 很好。",
    "他是 J. Smith 和S. V. Jadhav教授。|他（？－前165年）来了。",
    "A line\n|Another line\n\n|A third.",
]


@pytest.mark.parametrize("marked", CASES)
def test_cases(marked: str) -> None:
    expected = [part.strip() for part in marked.split("|")]
    assert split_sentences(marked.replace("|", "")) == expected


def test_nothing_in_nothing_out() -> None:
    assert split_sentences("") == []
    assert split_sentences(" \n\t\n ") == []
    assert split_sentences("...") == ["..."]


PIECES = st.sampled_from(
    list(".!?…。！？\"'”’」』）()[]1 \n\t\u3000\u00a0aZé中あ")
    + ["Mr.", "U.S.", "e.g.", "The", " said "]
)


@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
def test_no_character_is_lost_but_white_space(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence and sentence == sentence.strip() for sentence in sentences)


@pytest.mark.parametrize(
    "unit",
    [
        ".",
        ". ",
        "x.\t",
        '."',
        ".((",
        "a",
        "A. ",
        "。",
        "。」",
        "! A",
        ".[1]",
        "……",
        "？”",
        ".  a",
        '!" The ',
    ],
)
def test_long_runs_end_soon(unit: str) -> None:
    """A quadratic splitter would take minutes for these."""
    text = unit * (400_000 // len(unit))
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
