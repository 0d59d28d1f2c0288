"""Split text into sentences: Latin, Cyrillic and Greek, Chinese, Japanese, Arabic and Indic
scripts.

One compiled pattern finds the candidates (a stop, closing marks, white space); cheap checks then
examine the words before and after. Nothing is trained. The lists of abbreviations are short, and a
word that often begins a sentence ("The", "He") starts one after an abbreviation that may also end
one ("the U.S. The ..."). This is the orthographic heuristic of Kiss and Strunk, "Unsupervised
Multilingual Sentence Boundary Detection" (2006), with fixed lists.

A line break always ends a sentence. Only white space at the ends of sentences is removed. Every
pattern is possessive or bounded, so the time is linear in the text.
"""

from __future__ import annotations

import re

_CLOSERS = "\"'”’»)\\]›´"
# The stops of scripts with spaces: Latin, Arabic, Urdu, Hindi, Armenian, Ethiopic, Burmese, Khmer.
_STOPS = ".!?…؟۔।॥։።፧။។"
# “‘«‹ are closing marks in German and Danish; French has a space before ». (No group is repeated
# possessively, because Python 3.11.0 to 3.11.4 match that wrongly.)
_APART = r"[ \u00a0\u202f]»(?=\s|$)"
_TAIL = rf"[{_STOPS}{_CLOSERS}“‘«‹]{{0,20}}+(?:{_APART}|(?!{_APART}))(?:\[\d{{1,3}}\]){{0,5}}\s++"
_CJK_STOPS = "。！？｡"
_CJK_CLOSERS = "」』”’）】〕〗\"'"
_NEVER_BEFORE = ",;:)&/%=+<>|"  # no sentence begins with one of these

# A stop, up to 20 more stops and closing marks (`?!`, `..."`, `.)`), white space, and then nothing
# that continues the sentence.
_LATIN = re.compile(rf"[{_STOPS}]{_TAIL}(?![a-z{_NEVER_BEFORE}])")
_LOWERCASE = re.compile(rf"[{_STOPS}]{_TAIL}(?![{_NEVER_BEFORE}])")
_GREEK_LETTER = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_GREEK = re.compile(rf"[{_STOPS};\u037e]{_TAIL}(?![a-z{_NEVER_BEFORE}])")
_MIXED = re.compile(
    rf"[{_STOPS}{_CJK_STOPS}][{_STOPS}{_CJK_STOPS}{_CLOSERS}{_CJK_CLOSERS}]{{0,20}}+"
    rf"(?:\[\d{{1,3}}\]){{0,5}}\s*+"
)
_HAS_CJK = re.compile("[。！？｡\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_CJK_STOP = re.compile(f"[{_CJK_STOPS}]")

# After a closing quote the sentence continues if a verb of saying follows.
_SAYS = (
    "said|says|asked|cried|replied|answered|exclaimed|shouted|whispered|murmured|muttered|returned|added|thought|called"
    "|repeated|continued|inquired|observed|remarked|demanded|wrote|laughed|sighed|gasped|screamed|yelled"
)
_REPORTED = re.compile(
    rf"(?:(?:[A-Z][\w.’'-]{{0,20}}+|the|old|young|his|her)\s{{1,3}}){{1,4}}(?:{_SAYS})\b"
)
_REPORTED_CJK = re.compile(
    r"[と]|って|という|的"
    r"|[^，,。！？：、\s“「（《]{0,5}?(?:说|說|问道|問道|答道|喊道|叫道|笑道|说道|說道|喊|叫|问|問)"
)
_NEXT_WORD = re.compile(r"[\"'“‘«(\[¿¡„‚`—–-]{0,4}+([^\W\d_][\w’']{0,30}+)(?!\.)")
_DASH = re.compile(r"[—–-]\s{0,2}(?=\w)")
_WORD = re.compile(r"[^\W\d_]{1,30}")
_NUMBER_NEXT = re.compile(r"[(\[#]?(?:\d|[IVXLC]{1,6}\b)")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.){1,6}[^\W\d_]{1,4}")  # U.S, e.g, z.B, Ph.D


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TITLES = _words(
    # Never end a sentence, because a name follows.
    """
    mr mrs ms messrs dr drs prof gen col capt cpt cmdr lt sgt maj rev fr hon gov sen rep pres supt
    insp adm brig cpl pvt mme mmes mlle mgr sra srta dra sig dott frl mt vs v cf viz i.e e.g z.b
    d.h u.a s.o vgl bzw sog p.ej nr núm
    med fa dhr mevr ing mgr ul tzn ee tp gs ts pgs ths ул проф акад доц डॉ प्रो
    """
)
_AMBIGUOUS = _words(
    # End a sentence only before a word that often begins one.
    """
    hr ft st ste inc ltd co corp bros jr sr etc al ed eds trans transl repr rev approx ca circa c b
    d r n m est dept div univ assn ave av blvd rd bldg apt cie gmbh bd hrsg jh jhd str usw ff evtl
    ggf geb gest mio mrd tel ext max min avg incl excl resp abbr orig illus lit esp sq cu oz lb lbs
    kg km mi hrs yrs mins secs ind calif mass conn penn wash ariz colo fla tenn mich minn miss wis
    ill okla neb nev tex pa va ky ga la md env éd ecc pag pág arch comp prov misc govt intl natl
    assoc asst acad mgmt mfg hosp esq atty hwy pkwy appx suppl anon publ refs tsp tbsp ie eg wyo
    kans nebr tues thurs гг вв им др пр руб коп тыс млн млрд
    """
)
_NUMBERED = _words(
    # Do not end a sentence before a number: No. 5, Vol. II, Jan. 3.
    """
    no nos num vol vols pp p pg fig figs art arts sec secs ch chap chaps op eq eqs pt pts bk ser
    par para sect sects eqn eqns tab cat col ex lev deut sam cor gen matt rom jan feb mar apr jun
    jul aug sep sept oct nov dec c ca b d fl r s n abb kap ziff kl рис табл стр гл ст
    """
)
_STARTERS = _words(
    """
    the a in it he she they this that these those we you i but and as at on for after before when
    while if there his her their its our my your however although though because since such some
    many most all both each one what who why how where which no not so then thus to with by from
    during under until upon also another other an despite today meanwhile moreover furthermore
    later now here is are was were do does did
    он она они оно это этот эта эти в на но и а я мы вы как когда после если так там то что для при
    по с во из у за его её их однако также затем потом все всё
    """
)
_BEFORE_ORDINAL = _words("der die das dem den des im vom zum zur beim")
_LONG_ENDS = frozenset(
    word[-5:] for word in _TITLES | _AMBIGUOUS | _NUMBERED if len(word) >= 5 and word.isalpha()
)
"""The last five letters of abbreviations with at least five letters: approx, illus."""
_MONTHS_AFTER_ORDINAL = _words(
    """
    januar jänner februar märz april mai juni juli august september oktober november dezember
    jahrhundert jahrhunderts jh auflage januara februara
    """
)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, not empty, without white space at their ends.

    A line break always ends a sentence. Apart from white space, no character of the text is lost.
    """
    sentences: list[str] = []
    for line in map(str.strip, text.split("\n")):
        if not line.isascii() and _HAS_CJK.search(line):
            _split_mixed(line, sentences)
        elif line:
            _split_latin(line, sentences)
    return sentences


def _split_latin(line: str, sentences: list[str]) -> None:
    """Append the sentences of one line without Chinese or Japanese letters."""
    begin = 0
    # In a text without capitals (chat, lower-cased corpora), case does not show where one begins.
    pattern = _LOWERCASE if line.islower() else _LATIN
    if pattern is _LATIN and not line.isascii() and _GREEK_LETTER.search(line):
        pattern = _GREEK
    for match in pattern.finditer(line):
        stop, after = match.span()
        before = line[max(begin, stop - 5) : stop]
        # Five lower-case letters are hardly ever an abbreviation; this is the most common case.
        plain = line[stop] == "." and len(before) == 5 and before.islower() and before.isalpha()
        plain = plain and before not in _LONG_ENDS
        if pattern is not _LOWERCASE and after < len(line):
            dash = _DASH.match(line, after)  # "— Où ? — demanda-t-il"
            if line[dash.end() if dash else after].islower():
                continue
            if line[stop] in ";\u037e" and not _GREEK_LETTER.match(line, stop - 1):
                continue
        if not plain and not _ends(line, begin, stop, after):
            continue
        sentences.append(line[begin:after].rstrip())
        begin = after
    if begin < len(line):
        sentences.append(line[begin:] if begin else line)


def _split_mixed(line: str, sentences: list[str]) -> None:
    """Append the sentences of one line that contains Chinese or Japanese."""
    begin = 0
    lowercase = line.islower()
    for match in _MIXED.finditer(line):
        stop, after = match.span()
        if after >= len(line):
            break
        marks = match.group()
        tail = marks.rstrip()
        following = line[after]
        if _CJK_STOP.search(tail):
            ends = _ends_cjk(line, tail, after, following)
        else:  # a stop of another script, after which a space must follow
            goes_on = following in _NEVER_BEFORE or (following.islower() and not lowercase)
            ends = len(tail) < len(marks) and not goes_on and _ends(line, begin, stop, after)
        if ends:
            sentences.append(line[begin:after].rstrip())
            begin = after
    if begin < len(line):
        sentences.append(line[begin:])


def _ends_cjk(line: str, tail: str, after: int, following: str) -> bool:
    """Return whether a sentence ends before `after`, after the marks `tail`, which contain one of
    。！？.
    """
    if following in "，、；：,;:》〉…—～~－":
        return False
    if tail[-1] in _CJK_CLOSERS:
        if tail[-1] in "）)" and "。" not in tail:
            return False  # （真的！） is inside its sentence
        return not _REPORTED_CJK.match(line, after)
    return True


def _ends(line: str, begin: int, stop: int, after: int) -> bool:
    """Return whether the sentence from `begin` ends with the marks at `stop`; the next is at
    `after`.
    """
    if line[stop] != ".":
        tail = line[stop:after].rstrip()
        return not (tail[-1] in "\"'”’»´" and _REPORTED.match(line, after))
    if line.startswith("..", stop):
        return True  # an ellipsis before a capital
    word = line[max(begin, stop - 24) : stop].split()
    if not word or stop == begin or line[stop - 1].isspace():
        return True  # tokenized text: "he left . She"
    last = word[-1].lstrip("\"'“‘«([¿¡„‚`—–-*_")
    if not last.isascii():
        last = _HAS_CJK.split(last)[-1]  # "他是J. Smith"
    lower = last.lower()
    if last.isdigit():
        return _ends_number(line, begin, stop, after, last)
    if "-" in last or "–" in last or "—" in last:  # "Lt.-Col.", "Jean-J.", "and—Mr."
        lower = re.split("[-–—]", lower)[-1]
    if lower in _TITLES:
        return False
    if lower in _NUMBERED and _NUMBER_NEXT.match(line, after):
        return False
    single = len(lower) == 1 and lower.isalpha()
    if single and lower.isascii() and line[after].isdigit() and last.islower():
        return False
    if single or lower in _AMBIGUOUS or ("." in last and _DOTTED.fullmatch(last)):
        closed = line.startswith(".)", stop) and line[after].isupper()  # "(pears, etc.) Then"
        return closed or _begins(line, after)
    return True


def _begins(line: str, after: int) -> bool:
    """Return whether the word at `after` is one that often begins a sentence."""
    following = _NEXT_WORD.match(line, after)
    return following is not None and following.group(1).lower() in _STARTERS


def _ends_number(line: str, begin: int, stop: int, after: int, number: str) -> bool:
    """Return whether "12." ends a sentence; a list item and a German ordinal do not."""
    if len(number) <= 3 and line[begin:stop].strip("([ ") == number:
        return False
    if len(number) <= 2 and (following := _WORD.match(line, after)):
        if following.group().lower() in _MONTHS_AFTER_ORDINAL:
            return False
        before = line[max(begin, stop - 12) : stop].lower().split()[:-1]
        return not before or before[-1] not in _BEFORE_ORDINAL or _begins(line, after)
    return True
