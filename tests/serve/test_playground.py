"""The playground in a real browser against canned answers; skipped where there is no Chromium."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from tests.house.source import PACKAGE
from tests.report.pages import contrast
from tests.serve.browser import CHROMIUM, NEEDED, UNREADABLE, Page, browser
from tests.serve.fake_server import MODELS, Fake, fake_server

FOLDER = PACKAGE / "serve" / "playground"
TASK = {"name": "mood", "kind": "classification", "labels": ["bad", "good"]}
chromium = pytest.mark.skipif(CHROMIUM is None, reason=NEEDED)

PANELS = {
    "fill": ("text=Paris is [MASK]", "/fill-mask", "capital"),
    "ask": ("top=3", "/answer", "1836"),
    "tag": ("text=🙂 so Ada Lovelace came", "/tag", "Ada Lovelace\xa0PER"),
    "classify": ("text=good", "/classify", "positive\n92.0 %"),
    "follow": ("text=One.&text_pair=Two.", "/next-sentence", "follows\n88.0 %"),
    "rank": ("query=bread", "/rerank", "0.900"),
    "generate": ("text=She said", "/generate", "She said and then <b>the</b> end."),
    "write": ("text=A long story", "/text2text", "and then <b>the</b> end."),
    "translate": ("texts=one%0Atwo", "/translate", "one\n\neno\n\ntwo\n\nowt"),
    "nearest": ("word=bank", "/nearest", "<b>river</b>\n0.710"),
    "compare": ("texts=one%0Atwo%0Athree", "/similarity", "0.75"),
    "tokens": ("text=🙂 unbelievable", "/tokenize", "##ievable"),
    "attention": ("layer=3&text=It was late", "/attention", "Tokens look, on average, at"),
}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake_server() as running:
        yield running


def address(server: Fake, link: str = "") -> str:
    return f"http://127.0.0.1:{server.port}/{quote(link, safe='#?&=%')}"


@pytest.mark.slow
@chromium
@pytest.mark.parametrize("name", PANELS)
def test_a_link_fills_and_runs_a_panel(tab: Page, server: Fake, name: str) -> None:
    given, route, shown = PANELS[name]
    tab.problems.clear()
    tab.open(address(server, f"#{name}?{given}"), width=390)
    result = tab.text(".result")
    assert shown in result
    receipt = tab.text(".receipt")
    for fact in ("full", "5f0e7c5f0e7c", "mean", "5" if name == "attention" else "17", "nothing"):
        assert fact in receipt
    ((path, asked),) = server.seen
    assert (path, asked["model"], asked["truncate"]) == (route, "full", False)
    assert tab.run("document.documentElement.scrollWidth") <= 390
    assert tab.problems == []


@chromium
@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_attention_fits_a_phone(tab: Page, server: Fake, view: str) -> None:
    tab.open(address(server, f"#attention?layer=2&head=3&view={view}"), width=390)
    assert tab.run(f"Boolean(document.querySelector('.{view} .token'))")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    widest = "[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide') &&"
    widest += "e.getBoundingClientRect().right > 391).map(e => e.className || e.tagName)"
    assert tab.run(widest) == []


@chromium
def test_examples_are_the_models_and_a_run_can_be_copied(tab: Page, server: Fake) -> None:
    written = "document.querySelector('textarea').value"
    animal = "The animal did not cross the street because it was too tired."
    for panel, text in (("fill", "the [MASK] flows"), ("tag", animal)):
        tab.open(address(server, f"#{panel}"))
        assert tab.run(written) == text
    tab.open(address(server, "#classify?text=it's good"))
    line = tab.run("document.querySelector('.curl pre').textContent")
    assert shlex.split(line)[:4] == [
        "curl",
        address(server, "classify"),
        "-H",
        "Content-Type: application/json",
    ]
    assert json.loads(shlex.split(line)[5])["input"] == "it's good"
    assert tab.run("document.querySelector('header a').getAttribute('href')") == "docs"


@chromium
def test_offsets_are_of_code_points(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#tokens?text=🙂 unbelievable 🙂 end"))
    slices = tab.run("[...document.querySelectorAll('.piece')].map(e => e.textContent)")
    assert slices == ["🙂", "unbel", "ievable", "🙂", "end"]
    tab.run("document.querySelectorAll('.chip')[2].focus()")
    assert tab.text(".piece.on") == "unbel"


@chromium
def test_answers_never_become_markup(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#fill?text=<i>Paris</i> is [MASK]"))
    assert "<img src=x onerror=alert(1)>" in tab.text(".result")
    assert "<i>Paris</i> is capital" in tab.text(".said")
    assert tab.run("document.querySelectorAll('.result img, .said i').length") == 0


@chromium
def test_text_comes_as_it_is_made_and_can_be_stopped(tab: Page, server: Fake) -> None:
    tab.problems.clear()
    given = "text=without end&texts=2&temperature=0.5&top_k=7"
    tab.open(address(server, f"#generate?{given}"), state="running")
    tab.wait("document.querySelectorAll('.result .passage').length === 2")
    length = tab.run("document.querySelector('.passage').textContent.length")
    tab.wait(f"document.querySelector('.passage').textContent.length > {length} + 20")
    assert tab.run("document.querySelector('.result').ariaBusy") is None
    tab.run("[...document.querySelectorAll('button')].find(e => e.textContent == 'Stop').click()")
    tab.wait("document.querySelector('.receipt')")
    assert "You stopped it." in tab.text(".result")
    assert tab.run("[...document.querySelectorAll('.go button')].map(e => e.hidden)") == [
        False,
        True,
    ]
    for _ in range(500):
        if server.left:
            break
        time.sleep(0.01)
    else:
        pytest.fail("the server was not left")
    ((path, asked),) = server.seen
    options = {"sample": True, "temperature": 0.5, "top_p": 0.95, "top_k": 7}
    expected = {"model": "full", "input": "without end", "stream": True, "num": 2, **options}
    expected |= {"max_new_tokens": 60, "repetition_penalty": 1, "truncate": False}
    assert (path, asked) == ("/generate", expected)
    assert tab.problems == []


@chromium
def test_generation_is_shown_only_where_a_model_can(tab: Page) -> None:
    with fake_server(models=MODELS[1:]) as server:
        tab.open(address(server))
        panels = tab.run("[...document.querySelectorAll('#panels a')].map(a => a.dataset.panel)")
    assert panels == [n for n in PANELS if n not in ("generate", "translate", "nearest")]


@chromium
def test_nearest_words_come_first_where_a_model_has_them(tab: Page) -> None:
    own = {"id": "own", "heads": [], "tasks": []}
    with fake_server(models=[{**own, "words": True}]) as server:
        tab.open(address(server))
        assert tab.run("document.querySelector('main').dataset.panel") == "nearest"
        tab.run("document.querySelector('.run').click()")
        tab.wait("document.querySelector('.receipt')")
        assert "\u22120.200" in tab.text(".result")
    ((path, asked),) = server.seen
    assert (path, asked["input"], asked["top_k"]) == ("/nearest", "water", 10)
    with fake_server(models=[own]) as server:
        tab.open(address(server))
        assert tab.run("document.querySelector('main').dataset.panel") == "compare"
        assert not tab.run("Boolean(document.querySelector('a[data-panel=nearest]'))")


@chromium
@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ({"vectors": False, "attention_heads": None}, ["compare", "attention"]),
        ({"attention_heads": None}, ["attention"]),
        ({"tasks": [{**TASK, "pairs": False}]}, ["rank"]),
        ({"tasks": [{**TASK, "kind": "tagging", "pairs": None}]}, ["classify", "rank"]),
        ({"tasks": [{**TASK, "pairs": True}]}, []),
        ({"tasks": [], "similarity": "cosine"}, ["classify"]),
        ({"tasks": [{**TASK, "pairs": None}]}, []),
    ],
)
def test_no_panel_is_offered_that_the_server_would_refuse(
    tab: Page, model: dict[str, Any], lacks: list[str]
) -> None:
    """Vectors of an n-gram model, attention of word vectors, ranks by a head of single texts."""
    with fake_server(models=[{"id": "own", "heads": [], "tasks": [TASK], **model}]) as server:
        tab.open(address(server))
        lacking = tab.run("[...document.querySelectorAll('a.lacks')].map(a => a.dataset.panel)")
    looked_at = "compare", "attention", "classify", "rank"
    assert sorted(name for name in lacking if name in looked_at) == sorted(lacks)


@chromium
@pytest.mark.parametrize(("pairs", "second"), [(True, True), (False, False)])
def test_a_head_of_pairs_begins_with_two_texts(tab: Page, pairs: bool, second: bool) -> None:
    with fake_server(
        models=[{"id": "own", "heads": [], "tasks": [{**TASK, "pairs": pairs}]}]
    ) as it:
        tab.open(address(it, "#classify"))
        written = tab.run("document.querySelector('[name=text_pair]').value")
    assert bool(written) is second


@chromium
def test_errors_are_shown_as_text(tab: Page, server: Fake) -> None:
    tab.problems.clear()
    tab.open(address(server, "#classify?text=refuse this"))
    problem = tab.text("[role=alert]")
    assert problem == "Not done (422). the text has <b>700</b> tokens; at most 512"
    tab.open(address(server, "#fill?text=no blank"))
    assert tab.text("[role=alert]") == "Not done. Write [MASK] where a word is missing."


@chromium
@pytest.mark.parametrize(
    ("link", "field", "problem"),
    [
        ("compare?texts=alone", "texts", "Sentences, one a line (2 to 24): there are 1; expected"),
        ("fill?top=0&text=a [MASK]", "top", "Tokens a blank: 0 is given; expected 1 to 50."),
        ("fill?top=&text=a [MASK]", "top", "Tokens a blank: nothing is given; expected 1 to 50."),
        ("classify?text=  ", "text", "Text: nothing is written here yet."),
        ("rank?query=", "query", "Query: nothing is written here yet."),
    ],
)
def test_a_field_filled_wrongly_is_told_before_it_is_sent(
    tab: Page, server: Fake, link: str, field: str, problem: str
) -> None:
    tab.open(address(server, f"#{link}"))
    assert problem in tab.text("[role=alert]")
    assert tab.run("document.activeElement.name") == field
    assert tab.run("[...document.querySelectorAll('[aria-invalid]')].map(e => e.name)") == [field]
    assert server.seen == []


@pytest.mark.slow
@chromium
def test_texts_of_any_length(tab: Page, server: Fake) -> None:
    tab.open(address(server, f"#tokens?text={'unbelievable ' * 3000}"))
    assert tab.run("document.querySelectorAll('.chip').length") == 1000
    assert "6002 tokens of 39000 characters; the last 5002 are not drawn" in tab.text(".result")
    tab.open(address(server, "#classify"))  # more than an address can hold
    tab.run(
        "document.querySelector('textarea').value = '\u57ce'.repeat(400000),"
        "document.querySelector('.run').click()"
    )
    tab.wait("document.querySelector('.result').childElementCount")
    assert "positive" in tab.text(".result")


@chromium
def test_the_model_stays_when_the_page_is_loaded_anew(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#compare"))
    tab.run(
        "(m => { m.value = 'bare'; m.dispatchEvent(new Event('change')); })"
        "(document.getElementById('model'))"
    )
    assert tab.run("location.hash") == "#compare?model=bare"
    shown = tab.run("document.querySelector('a[data-panel=tokens]').getAttribute('href')")
    assert shown == "#tokens?model=bare"


@chromium
def test_a_panel_that_the_next_model_lacks_gives_way(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#tag"))
    tab.run(
        "(m => { m.value = 'bare'; m.dispatchEvent(new Event('change')); })"
        "(document.getElementById('model'))"
    )
    shown = tab.run("document.querySelector('main').dataset.panel")
    lacking = tab.run("[...document.querySelectorAll('a.lacks')].map(a => a.dataset.panel)")
    assert shown not in lacking
    assert tab.run("document.querySelector('form.panel fieldset').disabled") is False
    assert tab.run("location.hash") == f"#{shown}?model=bare"


@chromium
def test_what_was_typed_is_there_when_the_panel_is_shown_again(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#tokens"))
    tab.run("document.querySelector('textarea').value = 'mine'")
    shown = "compare", "tokens", "compare", "tokens?text=given"
    for panel, typed in zip(shown, (False, True, False, False), strict=True):
        tab.run(f"location.hash = '#{panel}'")
        tab.wait(f"document.querySelector('a[aria-current]').hash === '#{panel.split('?')[0]}'")
        tab.wait("document.querySelector('main').dataset.state === 'ready'")
        assert (tab.run("document.querySelector('textarea').value") == "mine") is typed
    assert len(server.seen) == 1


@chromium
def test_panels_without_their_head_say_why(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#tag?model=bare&text=Ada"), width=390)
    assert tab.run("document.documentElement.scrollWidth") <= 390
    assert tab.text(".lack") == "bare has no such head: this panel needs a tagging head."
    assert tab.run("document.querySelector('form.panel fieldset').disabled") is True
    assert server.seen == []
    lacking = tab.run("[...document.querySelectorAll('a.lacks')].map(a => a.dataset.panel)")
    of_heads = ["fill", "ask", "tag", "classify", "follow", "rank"]
    assert lacking == [*of_heads, "generate", "translate", "nearest"]
    tab.run(
        "(m => { m.value = 'full'; m.dispatchEvent(new Event('change')); })"
        "(document.getElementById('model'))"
    )
    assert tab.run("document.querySelector('form.panel fieldset').disabled") is False
    assert tab.run("document.querySelector('form.panel textarea').value") == "Ada"
    assert server.seen == []


@chromium
def test_a_key_is_asked_for_and_not_kept(tab: Page) -> None:
    with fake_server(key="sesame") as server:
        tab.open(address(server, "#classify?text=good"))
        assert "(401)" in tab.text("[role=alert]")
        assert tab.run("document.activeElement.id") == "key"
        tab.type("sesame")
        tab.press("Enter")
        tab.wait("document.querySelector('.receipt')")
        assert "positive" in tab.text(".result")
        assert tab.run("localStorage.length + sessionStorage.length + document.cookie.length") == 0
        assert "sesame" not in tab.run("location.href")


@chromium
def test_by_keyboard_alone(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#fill"))

    def go(condition: str) -> None:
        for _ in range(40):
            tab.press("Tab")
            if tab.run(f"(e => Boolean({condition}))(document.activeElement)"):
                return
        pytest.fail(f"Tab never came to {condition}")

    go("e.dataset.panel === 'attention'")
    tab.press("Enter")
    tab.wait("document.querySelector('main').dataset.panel === 'attention'")
    assert tab.run("document.activeElement.tagName") == "H2"
    go("e.classList.contains('run')")
    tab.press("Enter")
    tab.wait("document.querySelector('.thumb')")
    go("e.classList.contains('thumb')")
    tab.press("Tab")
    tab.press("Enter")
    assert tab.run("document.querySelector('.thumb[aria-pressed=true]').textContent") == "Head 2"
    assert "head=2" in tab.run("location.hash")
    table = "document.querySelector('.attention details .wide').getAttribute('aria-label')"
    assert tab.run(table) == "Layer 1, head 2"
    go("e.classList.contains('token')")
    assert tab.text(".seen h3") == "[CLS] looks at"
    tab.press("ArrowDown")
    assert tab.text(".seen h3") == "the (1 of 2) looks at"
    assert tab.run("document.querySelectorAll('.look.on').length") > 0
    tab.press("End")
    assert tab.text(".seen h3") == "[SEP] looks at"


@chromium
def test_tab_shows_where_it_is_on_a_phone(tab: Page, server: Fake) -> None:
    tab.open(address(server, "#fill"), width=390)
    tab.run("document.querySelector('#panels a').focus()")
    edges = "(r => [r.left, r.right])(document.activeElement.getBoundingClientRect())"
    for _ in range(len(PANELS) - 1):
        tab.press("Tab")
        assert tab.run("document.activeElement.closest('#panels') !== null")
        left, right = tab.run(edges)
        assert left >= 0
        assert right <= 390
    tab.open(address(server, "#tokens?text=the river of the bank"))
    assert tab.run("document.querySelectorAll('.chip[tabindex=\"0\"]').length") == 1
    tab.run("document.querySelector('.chip').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert tab.text(".piece.on") == "river"


@pytest.mark.slow
@chromium
def test_attention_of_a_long_text(tab: Page, server: Fake) -> None:
    text = "text=" + "the river of " * 25
    for width in (1200, 390):
        tab.open(address(server, f"#attention?layer=2&view=matrix&{text}"), width=width)
        names = "[...document.querySelectorAll('.over span')].map(e => {"
        names += "const r = e.getBoundingClientRect(); return [r.left, r.right]; })"
        edges = tab.run(names)
        assert len(edges) == 64
        assert all(a[1] <= b[0] + 0.5 for a, b in pairwise(edges))
        shades = "[...document.querySelectorAll('.legend .shade')].map(e => e.parentNode.innerText)"
        assert tab.run(shades) == ["1 %", "5 %", "20 %", "50 %", "100 %"]
        tab.run("document.querySelectorAll('.from .token')[50].focus()")
        assert tab.text(".seen h3") == "river (17 of 21) looks at"
        top, bottom = tab.run(
            "(r => [r.top, r.bottom])(document.querySelector('.seen').getBoundingClientRect())"
        )
        assert top >= 0
        assert bottom <= 900


@chromium
def test_sentences_leave_room_for_their_cosines(tab: Page, server: Fake) -> None:
    rows = "%0A".join(f"Sentence {n} of many about the river" for n in range(12))
    tab.open(address(server, f"#compare?texts={rows}"), width=390)
    assert tab.run("document.querySelector('.heat tbody th').offsetWidth") < 150
    assert tab.run("document.querySelector('.legend .ramp').offsetWidth") > 50


@pytest.mark.slow
@chromium
@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read(tab: Page, server: Fake, dark: bool) -> None:
    rows = "%0A".join("abcdefghijklmnop")
    links = [f"{name}?{given}" for name, (given, _, _) in PANELS.items()]
    for link in (*links, f"compare?texts={rows}", "tag?model=bare", "classify?text=refuse"):
        tab.open(address(server, f"#{link}"), dark=dark)
        if link.startswith("attention"):
            tab.run("document.querySelectorAll('.from .token')[2].focus()")
        if link.startswith("tag?text"):  # all colours of labels
            tab.run(
                "for (let n = 1; n < 8; n++) { const e = document.querySelector('.span');"
                "e.after(e.cloneNode(true)); e.nextSibling.className = `span hue${n}`; }"
            )
        assert tab.run(UNREADABLE) == [], link


@pytest.mark.slow
@chromium
@pytest.mark.parametrize("name", PANELS)
def test_every_control_has_a_name(tab: Page, server: Fake, name: str) -> None:
    tab.open(address(server, f"#{name}?{PANELS[name][0]}"))
    tree = tab.send("Accessibility.getFullAXTree")["nodes"]
    nameless = []
    for node in tree:
        focusable = any(
            p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", [])
        )
        role = node.get("role", {}).get("value")
        if focusable and role not in ("RootWebArea", "listitem"):
            nameless += [role] * (not node.get("name", {}).get("value"))
    assert nameless == []


@chromium
def test_nothing_jumps(tab: Page, server: Fake) -> None:
    watch = (
        "window.shift = 0; new PerformanceObserver(l => { for (const e of l.getEntries()) "
        "shift += e.value; }).observe({type: 'layout-shift', buffered: true})"
    )
    made = tab.send("Page.addScriptToEvaluateOnNewDocument", source=watch)
    try:
        for link in ("", "#compare?layers=3", "#attention?layer=2", "#tag?model=bare"):
            tab.open(address(server, link))
            tab.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 60)))")
            assert tab.run("shift") < 0.01, link
    finally:
        tab.send("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


@chromium
def test_dark_where_the_system_is(tab: Page, server: Fake) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    tab.open(address(server), dark=True)
    assert tab.run(ground) == "rgb(20, 23, 26)"
    tab.open(address(server))
    assert tab.run(ground) == "rgb(251, 251, 249)"


def test_the_page_loads_nothing_from_elsewhere_and_makes_no_markup_of_text() -> None:
    for path in FOLDER.iterdir():
        if path.suffix not in (".html", ".js", ".css"):
            continue
        text = path.read_text(encoding="utf-8")
        links = [link for link in re.findall(r"\w+://[^\s\"']+", text) if "www.w3.org" not in link]
        assert links == [], path.name
        made = re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text)
        assert made == [], path.name
        assert text.count("\n") <= 400, path.name
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)


def test_colours_can_be_read() -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 for text, on the page's ground and on cards."""
    light, dark = re.findall(r":root\{(.*?)\}", (FOLDER / "style.css").read_text("utf-8"), re.S)[:2]
    for block in (light, dark):
        colours = dict(re.findall(r"--(\w+):#([0-9a-f]{3,6})\b", block))
        assert len(colours) >= 16
        for name in ("ink", "soft", "dev", "good", *(f"h{n}" for n in range(8))):
            for ground in ("ground", "card"):
                assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
