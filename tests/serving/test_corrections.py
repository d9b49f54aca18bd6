"""What people correct in the page that holds a model, and the files that they open in it."""

from pathlib import Path
from typing import Any

import pytest
from browsers import downloaded
from pages import PAIR, TEXT, open_live_page, save_tiny
from rows import write_jsonl
from shown import PAYLOADS
from transformers import pipeline

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.data.table import table
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"  # one character for readers, five code points
RATIONALE = "rationale"
RATIONALE_AGAINST = "rationale_against"
TEXTS = ("the soup was good", "the bread was good", "not the soup, but the bread", "soup")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("checkpoints") / "model")


def save(folder: Path, head: Any = SelfAttentiveForSequenceClassification, **fields: Any) -> str:
    """Save a tiny model with the labels bad, fair and `<b>good</b>`, or those of pairs."""
    return save_tiny(folder, head, **{"problem_type": SINGLE_LABEL, **fields})


def open_model(tab: Any, folder: Path, *head: Any, **fields: Any) -> None:
    """Open a tiny model in a tab."""
    open_live_page(tab, save(folder / "model", *head, **fields))


@pytest.fixture
def page(tab: Any, checkpoint: str) -> Any:
    """Return a tab in which a classifier with one label a text is open."""
    open_live_page(tab, checkpoint)
    return tab


def type_in(tab: Any, *texts: str) -> None:
    """Type a text or a pair, and wait until it is read."""
    for box, text in enumerate(texts):
        tab.fill(f"textarea >> nth={box}", text)
    typed = list(texts)
    tab.wait_for_function(
        "typed => items.get(first('.result'))?.texts.join('\\n') === typed.join('\\n')", arg=typed
    )


def begin(tab: Any, *texts: str) -> None:
    """Type a text or a pair, and open its panel where it is not open."""
    type_in(tab, *texts)
    if tab.is_visible(".correct"):
        tab.click(".correct")


def wait_for_words(tab: Any, text: str) -> None:
    """Wait until the words of a text are shown."""
    tab.wait_for_function("text => first('.words').textContent === text", arg=text)


def mark(tab: Any, word: str, times: int = 1) -> None:
    place = tab.locator(".words span").all_text_contents().index(word)
    for _ in range(times):
        tab.locator(".words span").nth(place).click()


def open_file(tab: Any, path: Path) -> None:
    """Open a file in the page, and wait until its first text or its fault is shown."""
    tab.evaluate("opened = null; first('.opened input').value = '';")
    tab.set_input_files(".opened input", path)
    tab.wait_for_function("() => opened || first('#unopened').textContent")
    tab.wait_for_selector("#scanning", state="hidden")


def open_rows(tab: Any, folder: Path, rows: list[dict[str, Any]]) -> None:
    open_file(tab, write_jsonl(folder / "rows.jsonl", rows))


def opened_texts(tab: Any) -> list[list[str]]:
    """Return the texts of an opened file in the order in which the page shows them."""
    texts: list[list[str]] = tab.evaluate("opened.rows.map(row => row.texts)")
    return texts


def remarks(tab: Any) -> str:
    text: str = tab.text_content(".opened .remarks")
    return text


def test_correction_is_a_row_that_training_reads(tmp_path: Path, page: Any) -> None:
    """Its marks are counted in code points, and its label is the name, whatever the page shows.

    What is no reason is left out of the text to learn from.
    """
    text = f"{FAMILY} the soup e\u0301té\u202e \U0001f355 was not שלום good"
    begin(page, text)
    page.check(".choices label:nth-child(3) input")
    for word, times in ((FAMILY, 1), ("soup", 1), ("שלום", 2), ("was", 3)):
        mark(page, word, times)
    [row] = downloaded(page)
    assert (row["text"], row["label"]) == (text, "<b>good</b>")
    assert [text[start:end] for start, end in row[RATIONALE]] == [FAMILY, "soup"]
    assert [text[start:end] for start, end in row[RATIONALE_AGAINST]] == ["שלום"]
    others = [{"text": one, "label": "bad"} for one in TEXTS]
    path = write_jsonl(tmp_path / "corrections.jsonl", [row, *others])
    rows = load_rows(DataArguments(train_file=str(path), validation_fraction=0))
    [read] = [one for one in rows.splits["train"].to_list() if FAMILY in one["text"]]
    assert read["text"].split() == text.replace("שלום", "").split()
    assert [read["text"][start:end] for start, end in read["rationale"]] == [FAMILY, "soup"]
    assert rows.label_names[read["label"]] == "<b>good</b>"


def test_second_correction_of_a_text_replaces_the_first(page: Any) -> None:
    for label, word in ((1, "soup"), (2, "good")):
        begin(page, TEXTS[0])
        page.check(f".choices label:nth-child({label}) input")
        mark(page, word)
        page.click("[type=submit]")
        type_in(page, TEXTS[1])
    type_in(page, TEXTS[0])
    assert page.text_content(".kept") == "Corrected: fair"
    assert page.locator(".words [data-mark=why]").all_text_contents() == ["soup", "good"]
    [row] = downloaded(page)
    assert row["label"] == "fair"
    page.click(".correct")
    page.click(".discard")
    assert page.is_hidden(".corrections")
    assert not page.locator(".words [data-mark=why]").count()


def test_article_cannot_be_corrected_until_it_shows_the_text_of_the_box(
    tmp_path: Path, page: Any
) -> None:
    """Whether the text is of a file, an example or typed."""
    open_rows(page, tmp_path, [{"text": text} for text in TEXTS])
    page.wait_for_selector(".correction")
    changes = [
        "first('.walk .next').click()",
        "first('.examples button').click()",
        "first('textarea').value = 'bread', first('form').dispatchEvent(new Event('input'))",
    ]
    for change in changes:
        reached = page.evaluate(f"""() => {{
          first(".choices label").scrollIntoView({{ block: "center" }});
          const {{ x, y }} = first(".choices label").getBoundingClientRect();
          const elementThere = () => document.elementFromPoint(x + 5, y + 5).closest("article");
          const before = elementThere();
          {change};
          first(".choices input").focus();
          const hasFocus = first(".result").contains(document.activeElement);
          return [before !== null, elementThere() !== null, hasFocus];
        }}""")
        assert reached == [True, False, False], change
        page.wait_for_function("() => !first('.result').inert")
        assert page.get_attribute(".result", "aria-busy") == "false"
    mark(page, "bread")
    assert [row["text"] for row in downloaded(page)] == ["bread"]


def test_words_are_marked_by_keys_and_said(page: Any) -> None:
    """The Tab key finds one word of a text, arrows the others; a screen reader hears the mark."""
    type_in(page, TEXTS[0])
    page.focus(".correct")
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    for key in ("End", "Enter", "Space", "Home", "ArrowRight", "Space"):
        page.keyboard.press(key)
    assert page.text_content(".said") == "soup, this is why"
    [row] = downloaded(page)
    assert (row[RATIONALE], row[RATIONALE_AGAINST]) == ([[4, 8]], [[13, 17]])


def test_page_warns_before_it_is_closed_with_work_in_it(browser: Any, checkpoint: str) -> None:
    """And not where all is downloaded."""
    tab = browser.new_page()
    kinds = []

    def stay(dialog: Any) -> None:
        kinds.append(dialog.type)
        dialog.dismiss()

    tab.on("dialog", stay)
    open_live_page(tab, checkpoint)
    begin(tab, TEXTS[0])
    mark(tab, "good")
    tab.close(run_before_unload=True)
    tab.wait_for_timeout(500)
    assert kinds == ["beforeunload"]
    downloaded(tab)
    with tab.expect_event("close"):
        tab.close(run_before_unload=True)
    assert kinds == ["beforeunload"]


@pytest.mark.parametrize(
    ("kind", "label"),
    [(MULTI_LABEL, ["bad", "<b>good</b>"]), (MULTI_LABEL, []), (REGRESSION, [0.5, -2.0, 3.25])],
)
def test_correction_has_several_labels_or_numbers(
    tmp_path: Path, tab: Any, kind: str, label: list[Any]
) -> None:
    open_model(tab, tmp_path, problem_type=kind)
    begin(tab, TEXTS[0])
    for number, name in enumerate(tab.locator(".choices bdi").all_text_contents()):
        choice = tab.locator(".choices input").nth(number)
        if kind == REGRESSION:
            choice.fill(str(label[number]))
        else:
            choice.set_checked(name in label)
    tab.click("[type=submit]")
    assert [row["label"] for row in downloaded(tab)] == [label]


def test_pair_is_corrected_on_both_texts_and_not_where_one_is_empty(
    tmp_path: Path, tab: Any
) -> None:
    """Training would refuse the file, whether the pair was typed or opened."""
    open_model(tab, tmp_path, SelfAttentiveForNLI)
    begin(tab, *PAIR)
    mark(tab, "dogs")
    mark(tab, "awake")
    type_in(tab, "Two dogs sleep.", " \u3000")
    assert tab.text_content("#answer bdi")
    assert tab.is_hidden(".correct")
    assert tab.is_hidden(".correction")
    assert not tab.locator(".words [role=button]").count()
    texts = [("Dogs sleep.", " "), ("A dog.", "It sleeps."), ("", "")]
    labelled = {"label": "neutral", RATIONALE: []}
    rows = [{"text": text, "text_pair": other, **labelled} for text, other in texts]
    open_rows(tab, tmp_path, rows)
    assert "an empty text, which cannot be corrected: 1." in remarks(tab)
    opened, typed = downloaded(tab)
    assert (opened["text"], opened["label"]) == ("A dog.", "neutral")
    assert (typed["text"], typed["text_pair"]) == PAIR
    assert (typed[RATIONALE], typed[f"{RATIONALE}_pair"]) == ([[4, 8]], [[10, 15]])


def test_opened_texts_come_in_the_order_of_doubt(tmp_path: Path, tab: Any) -> None:
    """Those with more labels in the answer set, then those whose two best labels are closest."""
    checkpoint = save(tmp_path / "model")
    texts = [" ".join(TEXT.split()[start : start + 4]) for start in range(6)]
    explain = pipeline("self-attention", model=checkpoint)
    worst = sorted(min(one["scores"].values()) for one in explain(texts))
    explain.model.config.answer_threshold = (worst[2] + worst[3]) / 2
    explain.model.save_pretrained(checkpoint)

    def doubt(text: str) -> tuple[int, float]:
        result = explain(text)
        best, second, _ = sorted(result["scores"].values(), reverse=True)
        return -len(result["answer_set"]), best - second

    open_live_page(tab, checkpoint)
    open_rows(tab, tmp_path, [{"text": text} for text in texts])
    expected = sorted(texts, key=doubt)
    assert opened_texts(tab) == [[text] for text in expected]
    assert expected != sorted(texts, key=lambda text: doubt(text)[1]), "the premise"


def begin_walk(page: Any, folder: Path) -> list[str]:
    """Open a file of all texts; return them in the order of the page."""
    open_rows(page, folder, [{"text": text, "label": "fair"} for text in TEXTS])
    return [text for [text] in opened_texts(page)]


def test_person_goes_through_the_texts_of_a_file(tmp_path: Path, page: Any) -> None:
    """The panel is open at each, with the label of the file; the last text has no next one."""
    texts = begin_walk(page, tmp_path)
    for place, text in enumerate(texts, start=1):
        wait_for_words(page, text)
        assert page.text_content(".walk .place") == f"{place} of {len(texts)}"
        assert page.locator(".choices label:has(:checked)").text_content() == "fair"
        if place == 2:
            page.click(".walk .next")
        else:
            page.locator(".words span").first.click()
            page.click("[type=submit]")
    assert page.is_disabled(".walk .next")
    page.click(".walk .previous")
    wait_for_words(page, texts[-2])
    assert [row["text"] for row in downloaded(page)] == [texts[0], *texts[2:]]


@pytest.mark.parametrize("pause", [0, 200], ids=["while it is read", "when it is read"])
def test_double_click_goes_on_by_one_text(tmp_path: Path, page: Any, pause: int) -> None:
    """It corrects that text alone."""
    texts = begin_walk(page, tmp_path)
    for text in texts[:-1]:
        wait_for_words(page, text)
        page.wait_for_selector(".result:not([inert])")
        page.hover("[type=submit]")
        for number in (1, 2):
            page.mouse.down(click_count=number)
            page.mouse.up(click_count=number)
            page.wait_for_timeout(pause)
    assert [row["text"] for row in downloaded(page)] == texts[:-1]


def test_corrections_are_opened_again(tmp_path: Path, page: Any) -> None:
    """As they were downloaded; those that were made in the page since then stay."""
    rows = [
        {"text": TEXTS[0], "label": "fair", RATIONALE: [[4, 8]], RATIONALE_AGAINST: [[0, 3]]},
        {"text": f"{FAMILY} soup", "label": "bad", RATIONALE: [], RATIONALE_AGAINST: [[0, 5]]},
    ]
    path = write_jsonl(tmp_path / "corrections.jsonl", rows)
    open_file(page, path)
    assert page.text_content(".count") == "2 corrections"
    assert downloaded(page) == rows
    page.wait_for_function("() => first('.words').textContent === opened.rows[0].texts[0]")
    mark(page, "soup")
    open_file(page, path)
    changed = downloaded(page)
    assert len(changed) == 2
    assert changed != rows


def test_corrections_that_are_not_shown_stay(tmp_path: Path, page: Any) -> None:
    """Those beyond the last text that is shown, and of texts that are too long to show."""
    texts = [*(f"soup {number}" for number in range(2100)), "x" * 200_001]
    marks = {"label": "bad", RATIONALE: [[0, 1]], RATIONALE_AGAINST: []}
    rows = [{"text": text, **marks} for text in texts]
    doubts = "addDoubts = function* (rows) { rows.forEach(row => row.doubt = doubtOf([1, 0])); }"
    page.evaluate(doubts)  # reading them all takes seconds
    open_rows(page, tmp_path, rows)
    assert len(opened_texts(page)) == 2000
    assert "first 2,000 texts" in remarks(page)
    assert downloaded(page) == rows


def test_marks_on_words_that_the_page_does_not_read_stay(tmp_path: Path, page: Any) -> None:
    """When the text is corrected again, and where one mark goes over the cut."""
    text = "soup " * 100 + "good"
    marks = {RATIONALE: [[0, 4], [315, 504]], RATIONALE_AGAINST: [[300, 304]]}
    open_rows(page, tmp_path, [{"text": text, "label": "fair", **marks}])
    wait_for_words(page, text)
    assert page.locator(".words span").count() == 64, "the premise"
    page.locator(".words span").first.click()
    [again] = downloaded(page)
    assert again[RATIONALE] == [[315, 319], [319, 504]]
    assert again[RATIONALE_AGAINST] == [[0, 4], [300, 304]]


def test_number_keeps_its_digits_when_its_text_is_corrected_again(tmp_path: Path, tab: Any) -> None:
    numbers = [12345678, 0.1, 1234.56789012]
    open_model(tab, tmp_path, problem_type=REGRESSION)
    open_rows(tab, tmp_path, [{"text": "soup", "label": numbers}])
    wait_for_words(tab, "soup")
    mark(tab, "soup")
    assert downloaded(tab)[0]["label"] == numbers


UNKNOWN_LABELS: dict[str, list[Any]] = {
    SINGLE_LABEL: ["bad;fair", "Bad", 0, ["bad", "fair"], "[bad", "n/a"],
    MULTI_LABEL: ["bad;Fair", "['bad', 'fair']", "bad and fair"],
    REGRESSION: ["3,5", "[1, 2]", 5, "many"],
}


@pytest.mark.parametrize("kind", UNKNOWN_LABELS)
def test_label_of_a_file_that_the_model_does_not_know_is_asked_for(
    tmp_path: Path, tab: Any, kind: str
) -> None:
    """A guess of the model never takes its place, and rows without a label are none of them."""
    open_model(tab, tmp_path, problem_type=kind)
    unknown = UNKNOWN_LABELS[kind]
    labels = [*unknown, None, " "]
    open_rows(tab, tmp_path, [{"text": f"soup {k}", "label": one} for k, one in enumerate(labels)])
    assert f"Labels that the model does not know: {len(unknown)};" in remarks(tab)
    for place, (text,) in enumerate(opened_texts(tab)):
        tab.evaluate("place => showOpened(place)", place)
        tab.wait_for_selector(".result:not([inert])")
        is_unknown = int(text.split()[1]) < len(unknown)
        assert tab.evaluate("first('.correction').checkValidity()") == (not is_unknown)
        if is_unknown:
            mark(tab, "soup")
            tab.click("[type=submit]")
            assert tab.is_hidden(".corrections")


CELLS = [
    ("bad; fair", ["bad", "fair"]),
    ("bad,fair", ["bad", "fair"]),
    ("fair;not, good", ["fair", "not, good"]),
    ('["bad", "fair"]', ["bad", "fair"]),
    ("not, good", ["not, good"]),
    ([0, 1, 1], ["fair", "not, good"]),
    ([], []),
]


def test_several_labels_in_a_cell_are_read(tmp_path: Path, tab: Any) -> None:
    """As training reads them: with a mark between, in brackets, or a zero or one for each label."""
    open_model(tab, tmp_path, problem_type=MULTI_LABEL)
    tab.evaluate("model.labels.splice(0, 3, 'bad', 'fair', 'not, good')")
    rows = [
        {"text": f"soup {k}", "label": cell, RATIONALE: []} for k, (cell, _) in enumerate(CELLS)
    ]
    open_rows(tab, tmp_path, rows)
    assert [row["label"] for row in downloaded(tab)] == [labels for _, labels in CELLS]


def test_corrections_of_a_sheet_are_opened(tmp_path: Path, page: Any) -> None:
    """Marks are JSON in a cell; a row with an empty cell is a text and no correction."""
    path = tmp_path / "marked.csv"
    header = f"text,label,{RATIONALE},{RATIONALE_AGAINST}"
    lines = ['"one\r\n🍕 two",bad,"[[5, 6], [7, 10]]",', "three,fair,,", "four,bad,[],"]
    path.write_bytes("\r\n".join([header, *lines]).encode())
    open_file(page, path)
    assert len(opened_texts(page)) == 3
    marked, empty = downloaded(page)
    assert (marked["text"], marked["label"]) == ("one\n🍕 two", "bad")
    assert marked[RATIONALE] == [[4, 5], [6, 9]]
    assert (empty["text"], empty[RATIONALE], empty[RATIONALE_AGAINST]) == ("four", [], [])


CSV = 'id,Label,Review\r\n1,bad,"one, ""two""\nthree"\r\n\r\n2,,four\r\n3,fair,\r\n4,bad,four\r\n'
FORMS = {
    "sheet.csv": (CSV, ["one, \"two\"\nthree", "four"], "without a text: 1. Rows that repeat"),
    "semicolons.csv": ("text;label\none, two;bad\n", ["one, two"], ""),
    "lines.txt": ("one, two\n\n  \nthree\r\n", ["one, two", "three"], ""),
    "rows.jsonl": ('{"sentence": "one"}\n\n{"sentence": "two", "x": 1}', ["one", "two"], ""),
    "array.json": ('[{"text": "one"},\n {"text": "two"}]', ["one", "two"], ""),
}  # fmt: skip


SHEETS_WITH_QUOTES = (
    'text\tlabel\n"one ""1"""\tbad\n"two\tbad\nthree"\tfair\n',
    'text\n"one\ntwo"\n',
    'text\tlabel\n"the soup\tbad\nwas good"\tfair\nthe bread\tbad\n',
)


@pytest.mark.parametrize("content", SHEETS_WITH_QUOTES)
def test_quotes_of_a_sheet_enclose_cells(tmp_path: Path, page: Any, content: str) -> None:
    """As in training."""
    path = tmp_path / "tabs.csv"
    path.write_bytes(content.encode())
    expected = table(path)["text"]
    open_file(page, path)
    assert sorted(text for [text] in opened_texts(page)) == sorted(expected)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_page_opens_texts_in_all_forms(tmp_path: Path, page: Any, encoding: str) -> None:
    """It says what it leaves out."""
    for name, (content, expected, said) in FORMS.items():
        path = tmp_path / name
        path.write_bytes(content.encode(encoding))
        open_file(page, path)
        assert sorted(text for [text] in opened_texts(page)) == sorted(expected), name
        assert said in remarks(page), name


BAD_FILES = {
    "json.jsonl": (b'{"text": "one"}\n\n{"text": "two"\n', "line 3: "),
    "label.jsonl": (b'{"text": "one", "label": "x", "rationale": []}', "the model knows bad"),
    "marks.jsonl": (b'{"text": "\xc3\xa9", "label": "bad", "rationale": [[0, 2]]}', "<= 1"),
    "headless.csv": (b'"one, two"\nthree', "line 1: no column (one, two) has the name of texts"),
    "cells.csv": (b"text,label\none,bad\ntwo, three,bad\n", "line 3: it has 3 cells"),
    "joined.tsv": (b'text\tlabel\n"one\tbad\ntwo"\tfair\n', "line 2: quotation marks join"),
    "latin.txt": (b"caf\xe9", "not text in UTF-8"),
}


def test_page_names_what_is_wrong_with_a_file(tmp_path: Path, page: Any) -> None:
    """By its line; nothing of the file is shown."""
    for name, (content, fault) in BAD_FILES.items():
        (tmp_path / name).write_bytes(content)
        open_file(page, tmp_path / name)
        said = page.text_content("#unopened")
        assert said.startswith(f"{name} cannot be opened: ")
        assert fault in said, name


def test_page_shows_hostile_files_as_text(tmp_path: Path, page: Any) -> None:
    """Their names, texts, labels and faults."""
    path = tmp_path / "<img src=x onerror=alert(1)>\u202e.jsonl"
    open_file(page, write_jsonl(path, [{"text": text, "label": text} for text in PAYLOADS]))
    assert sorted(text for [text] in opened_texts(page)) == sorted(PAYLOADS)
    assert "[U+202E]" in page.text_content(".walk .name")
    page.check(".choices input >> nth=0")
    page.locator(".words span").first.click()
    assert downloaded(page)[0]["text"] in PAYLOADS
    write_jsonl(path, [{"text": PAYLOADS[0], "label": PAYLOADS[1], RATIONALE: [[0, 1]]}])
    open_file(page, path)
    assert "onerror=alert(1)>" in page.text_content("#unopened")
    assert not page.locator("main img, .result script").count()
