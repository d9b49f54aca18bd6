"""What people correct in the page that holds a model, and the files that they open in it."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import downloaded, watched_tab
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
def browser(chromium: Any) -> Any:
    return chromium.new_context(viewport={"width": 1000, "height": 800}, accept_downloads=True)


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    with watched_tab(browser) as tab:
        yield tab


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
    tab.set_input_files(".opened input", str(path))
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
    mark(page, FAMILY)
    mark(page, "soup")
    mark(page, "שלום", times=2)
    mark(page, "was", times=3)
    [row] = downloaded(page)
    assert row["text"] == text
    assert row["label"] == "<b>good</b>"
    assert [text[start:end] for start, end in row[RATIONALE]] == [FAMILY, "soup"]
    assert [text[start:end] for start, end in row[RATIONALE_AGAINST]] == ["שלום"]
    others = [{"text": one, "label": "bad"} for one in TEXTS]
    path = write_jsonl(tmp_path / "corrections.jsonl", [row, *others])
    rows = load_rows(DataArguments(train_file=str(path), validation_fraction=0))
    train = rows.splits["train"]
    [read] = [one for one in train.to_list() if FAMILY in one["text"]]
    assert read["text"].split() == text.replace("שלום", "").split()
    assert [read["text"][start:end] for start, end in read["rationale"]] == [FAMILY, "soup"]
    assert rows.label_names[read["label"]] == "<b>good</b>"


def test_words_that_follow_each_other_are_one_mark(page: Any) -> None:
    begin(page, "the soup was not good")
    for word in ("not", "good", "the"):
        mark(page, word)
    [row] = downloaded(page)
    assert row[RATIONALE] == [[0, 3], [13, 21]]
    assert row[RATIONALE_AGAINST] == []


def test_second_correction_of_a_text_replaces_the_first(page: Any) -> None:
    assert page.is_hidden(".corrections")
    for label, word in ((1, "soup"), (2, "good")):
        begin(page, TEXTS[0])
        page.check(f".choices label:nth-child({label}) input")
        mark(page, word)
        page.click("[type=submit]")
        assert page.text_content(".count") == "1 correction"
        type_in(page, TEXTS[1])
    type_in(page, TEXTS[0])
    assert page.text_content(".kept") == "Corrected: fair"
    assert page.text_content(".correct") == "Correct it again"
    assert page.locator(".words [data-mark=why]").all_text_contents() == ["soup", "good"]
    [row] = downloaded(page)
    assert row["label"] == "fair"
    page.click(".correct")
    page.click(".discard")
    assert page.is_hidden(".corrections")
    assert not page.locator(".words [data-mark=why]").count()


def test_correction_is_kept_while_it_is_made(page: Any) -> None:
    """Whoever types on without the button loses nothing; who only looks corrects nothing."""
    begin(page, TEXTS[0])
    mark(page, "good")
    type_in(page, TEXTS[1])
    type_in(page, TEXTS[2])
    assert [row["text"] for row in downloaded(page)] == [TEXTS[0]]


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
    said = "() => document.activeElement.ariaLabel"
    heard = []
    for key in ("End", "Enter", "Space", "Home", "ArrowLeft", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
        heard.append(page.evaluate(said))
    assert heard[:3] == ["good, not marked", "good, this is why", "good, this is not why"]
    assert heard[3:6] == ["the, not marked", "good, this is not why", "the, not marked"]
    assert heard[6:] == ["soup, not marked", "soup, this is why"]
    assert page.text_content(".said") == heard[-1]
    assert page.evaluate("document.activeElement.role") == "button"
    assert page.locator(".words [tabindex='0']").all_text_contents() == ["soup"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "label"
    [row] = downloaded(page)
    assert (row[RATIONALE], row[RATIONALE_AGAINST]) == ([[4, 8]], [[13, 17]])


def test_page_warns_before_it_is_closed_with_work_in_it(browser: Any, checkpoint: str) -> None:
    """And not where all is downloaded."""
    tab = browser.new_page()
    kinds: list[str] = []

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
    assert "nothing is kept when the page is closed" in tab.inner_text(".corrections")
    downloaded(tab)
    with tab.expect_event("close"):
        tab.close(run_before_unload=True)
    assert kinds == ["beforeunload"]


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"problem_type": MULTI_LABEL}, ["bad", "<b>good</b>"]),
        ({"problem_type": REGRESSION}, [0.5, -2.0, 3.25]),
    ],
    ids=["several labels", "numbers"],
)
def test_correction_has_several_labels_or_numbers(
    tmp_path: Path, tab: Any, fields: dict[str, Any], label: list[Any]
) -> None:
    open_model(tab, tmp_path, **fields)
    begin(tab, TEXTS[0])
    names = tab.locator(".choices bdi").all_text_contents()
    for number, name in enumerate(names):
        choice = tab.locator(".choices input").nth(number)
        if fields["problem_type"] == REGRESSION:
            choice.fill(str(label[number]))
        else:
            choice.set_checked(name in label)
    tab.click("[type=submit]")
    [row] = downloaded(tab)
    assert row["label"] == label
    if fields["problem_type"] == MULTI_LABEL:
        tab.click(".correct")
        for choice in tab.locator(".choices input").all():
            choice.set_checked(False)
        assert downloaded(tab)[0]["label"] == []


def test_correction_of_a_pair_has_marks_on_both_texts(tmp_path: Path, tab: Any) -> None:
    open_model(tab, tmp_path, SelfAttentiveForNLI)
    begin(tab, *PAIR)
    toolbars = tab.locator("[role=toolbar]").all()
    names = [toolbar.get_attribute("aria-label") for toolbar in toolbars]
    assert names == ["Words to mark in the first text", "Words to mark in the second text"]
    mark(tab, "dogs")
    mark(tab, "awake")
    tab.check(".choices label:nth-child(2) input")
    [row] = downloaded(tab)
    assert (row["text"], row["text_pair"], row["label"]) == (*PAIR, "neutral")
    assert (row[RATIONALE], row[f"{RATIONALE}_pair"]) == ([[4, 8]], [[10, 15]])


def test_pair_with_an_empty_text_is_read_and_not_corrected(tmp_path: Path, tab: Any) -> None:
    """Training would refuse the file; an open panel waits for the next pair."""
    open_model(tab, tmp_path, SelfAttentiveForNLI)
    begin(tab, *PAIR)
    for texts in (("Two dogs sleep.", " \u3000"), ("", "No dog is awake.")):
        type_in(tab, *texts)
        assert tab.text_content("#answer bdi")
        assert tab.is_hidden(".correct")
        assert tab.is_hidden(".correction")
        assert "cannot be corrected" in tab.inner_text(".texts")
        assert not tab.locator(".words [role=button]").count()
    type_in(tab, *PAIR)
    mark(tab, "dogs")
    tab.click("[type=submit]")
    assert tab.is_hidden(".correction")
    type_in(tab, "", PAIR[1])
    type_in(tab, *reversed(PAIR))
    assert tab.is_visible(".correct")
    assert tab.is_hidden(".correction"), "it was not open"
    assert [row["text_pair"] for row in downloaded(tab)] == [PAIR[1]]


def test_pair_with_an_empty_text_is_no_correction_of_a_file(tmp_path: Path, tab: Any) -> None:
    open_model(tab, tmp_path, SelfAttentiveForNLI)
    texts = [("Dogs sleep.", " "), PAIR, ("", "")]
    rows = [
        {"text": text, "text_pair": other, "label": "neutral", RATIONALE: []}
        for text, other in texts
    ]
    open_rows(tab, tmp_path, rows)
    said = "without a text: 1. Pairs with an empty text, which cannot be corrected: 1."
    assert said in remarks(tab)
    for place, (text, _) in enumerate(sorted(opened_texts(tab))):
        tab.evaluate("text => showOpened(opened.rows.findIndex(r => r.texts[0] === text))", text)
        tab.wait_for_selector(".result:not([inert])")
        assert tab.is_visible(".correction") == (place == 1)
    assert [row["text"] for row in downloaded(tab)] == [PAIR[0]]


@pytest.mark.parametrize("has_answer_sets", [False, True])
def test_opened_texts_come_in_the_order_of_doubt(
    tmp_path: Path, tab: Any, has_answer_sets: bool
) -> None:
    """Those with more labels in the answer set, then those whose two best labels are closest."""
    checkpoint = save(tmp_path / "model")
    texts = [" ".join(TEXT.split()[start : start + 4]) for start in range(6)]
    explain = pipeline("self-attention", model=checkpoint)
    if has_answer_sets:
        worst = sorted(min(one["scores"].values()) for one in explain(texts))
        explain.model.config.answer_threshold = (worst[2] + worst[3]) / 2
        explain.model.save_pretrained(checkpoint)

    def doubt(text: str) -> tuple[int, float]:
        result = explain(text)
        best, second, _ = sorted(result["scores"].values(), reverse=True)
        return -len(result.get("answer_set", "1")), best - second

    open_live_page(tab, checkpoint)
    open_rows(tab, tmp_path, [{"text": text} for text in texts])
    expected = sorted(texts, key=doubt)
    assert opened_texts(tab) == [[text] for text in expected]
    by_margin = sorted(texts, key=lambda text: doubt(text)[1])
    assert (expected != by_margin) == has_answer_sets, "the premise"
    assert tab.input_value("textarea") == expected[0]


def test_person_goes_through_the_texts_of_a_file(tmp_path: Path, page: Any) -> None:
    """The panel is open at each, with the label of the file; the last text has no next one."""
    rows = [{"text": text, "label": "fair"} for text in TEXTS]
    open_rows(page, tmp_path, rows)
    texts = [text for [text] in opened_texts(page)]
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
    assert page.is_hidden(".correction"), "nothing is next"
    page.click(".walk .previous")
    wait_for_words(page, texts[-2])
    assert [row["text"] for row in downloaded(page)] == [texts[0], *texts[2:]]


def test_focus_stays_at_the_texts_of_a_file(tmp_path: Path, page: Any) -> None:
    """Where the button that has it is disabled at the ends, or goes when a file is opened."""
    path = write_jsonl(tmp_path / "texts.jsonl", [{"text": text} for text in TEXTS[:2]])
    focused = "() => document.activeElement.className || document.activeElement.tagName"
    page.evaluate("""() => {
      const own = addDoubts;
      addDoubts = function* (rows) { first(focusedAtOpening).focus(); yield* own(rows); };
    }""")
    for selector in ("#scanning button", ".examples button", ".result .correct"):
        page.evaluate("selector => { window.focusedAtOpening = selector; }", selector)
        open_file(page, path)
        page.wait_for_selector(".result:not([inert])")
        assert page.evaluate(focused) == "walk", selector
        page.evaluate("() => { first('.examples').hidden = false; closePanel(first('.result')); }")
    for button in (".next", ".previous"):
        page.focus(f".walk {button}")
        page.keyboard.press("Enter")
        assert page.evaluate(focused) == "walk", button
    fail = "addDoubts = function* () { first('#scanning button').focus(); throw Error('x'); }"
    page.evaluate(fail)
    open_file(page, path)
    assert page.text_content("#unopened")
    assert page.evaluate(focused) == "INPUT"


@pytest.mark.parametrize("pause", [0, 200], ids=["while it is read", "when it is read"])
def test_double_click_goes_on_by_one_text(tmp_path: Path, page: Any, pause: int) -> None:
    """It corrects that text alone, and the last but one is followed by the last."""
    rows = [{"text": text, "label": "fair"} for text in TEXTS]
    open_rows(page, tmp_path, rows)
    texts = [text for [text] in opened_texts(page)]
    for place, text in enumerate(texts[:-1], start=1):
        wait_for_words(page, text)
        page.wait_for_selector(".result:not([inert])")
        page.hover("[type=submit]")
        for number in (1, 2):
            page.mouse.down(click_count=number)
            page.mouse.up(click_count=number)
            page.wait_for_timeout(pause)
        assert page.text_content(".walk .place") == f"{place + 1} of {len(texts)}"
    assert [row["text"] for row in downloaded(page)] == texts[:-1]


def test_way_on_is_the_same_however_often_it_is_taken(tmp_path: Path, page: Any) -> None:
    open_rows(page, tmp_path, [{"text": text} for text in TEXTS])
    for place in range(2, len(TEXTS) + 1):
        page.wait_for_selector(".result:not([inert])")
        page.evaluate("() => [1, 2].forEach(() => first('[type=submit]').click())")
        assert page.text_content(".walk .place") == f"{place} of {len(TEXTS)}"


def test_corrections_are_opened_again(tmp_path: Path, page: Any) -> None:
    """As they were downloaded; those that were made in the page since then stay."""
    rows: list[dict[str, Any]] = [
        {
            "text": TEXTS[0],
            "label": "fair",
            RATIONALE: [[4, 8], [13, 17]],
            RATIONALE_AGAINST: [[0, 3]],
        },
        {"text": f"{FAMILY} soup", "label": "bad", RATIONALE: [], RATIONALE_AGAINST: [[0, 5]]},
    ]
    path = write_jsonl(tmp_path / "corrections.jsonl", rows)
    open_file(page, path)
    assert page.text_content(".count") == "2 corrections"
    assert downloaded(page) == rows
    page.wait_for_function("() => first('.words').textContent === opened.rows[0].texts[0]")
    mark(page, "soup", times=3)
    mark(page, "soup")
    open_file(page, path)
    changed = downloaded(page)
    assert len(changed) == 2
    assert changed != rows


def test_corrections_that_are_not_shown_stay(tmp_path: Path, page: Any) -> None:
    """Those beyond the last text that is shown, and of texts that are too long to show."""
    texts = [*(f"soup {number}" for number in range(2100)), "x" * 200_001]
    rows = [
        {"text": text, "label": "bad", RATIONALE: [[0, 1]], RATIONALE_AGAINST: []} for text in texts
    ]
    again = {**rows[2050], "label": "fair"}
    plain = {"text": "bread", "label": "bad"}
    path = write_jsonl(tmp_path / "rows.jsonl", [*rows, plain, again])
    doubts = "addDoubts = function* (rows) { rows.forEach(row => row.doubt = doubtOf([1, 0])); }"
    page.evaluate(doubts)  # reading them all takes seconds
    open_file(page, path)
    assert len(opened_texts(page)) == 2000
    assert "first 2,000 texts" in remarks(page)
    assert "kept without being shown: 101." in remarks(page)
    assert downloaded(page) == [*rows[:2050], *rows[2051:], again]


def test_marks_on_words_that_the_page_does_not_read_stay(tmp_path: Path, page: Any) -> None:
    """When the text is corrected again, and where one mark goes over the cut."""
    text = "soup " * 100 + "good"
    row: dict[str, Any] = {"text": text, "label": "fair", RATIONALE: [[0, 4], [315, 504]]}
    row[RATIONALE_AGAINST] = [[300, 304]]
    open_rows(page, tmp_path, [row])
    wait_for_words(page, text)
    assert page.locator(".words span").count() == 64, "the premise"
    page.locator(".words span").first.click()
    [again] = downloaded(page)
    assert again[RATIONALE] == [[315, 319], [319, 504]]
    assert again[RATIONALE_AGAINST] == [[0, 4], [300, 304]]
    page.locator(".words span").nth(63).click()
    page.locator(".words span").nth(63).click()
    assert downloaded(page)[0][RATIONALE] == [[319, 504]]


def test_blanks_behind_the_words_are_no_mark(tmp_path: Path, page: Any) -> None:
    row = {"text": "soup ", "label": "fair", RATIONALE: [[0, 5]]}
    open_rows(page, tmp_path, [row])
    wait_for_words(page, "soup ")
    mark(page, "soup", times=2)
    assert downloaded(page)[0][RATIONALE] == []


def test_of_several_corrections_of_a_text_in_a_file_the_last_counts(
    tmp_path: Path, page: Any
) -> None:
    rows = [{"text": "soup", "label": label, RATIONALE: []} for label in ("bad", "fair")]
    open_rows(page, tmp_path, [*rows, {"text": "soup"}])
    assert [row["label"] for row in downloaded(page)] == ["fair"]
    assert "repeat a text: 2" in remarks(page)


def test_newest_correction_stands_last(page: Any) -> None:
    """Training takes texts that differ in capitals for one, and the last correction of it."""
    for text in ("Soup", "soup", "Soup"):
        begin(page, text)
        mark(page, text)
    assert [row["text"] for row in downloaded(page)] == ["soup", "Soup"]


def test_correction_of_the_page_stands_behind_those_of_a_file(tmp_path: Path, page: Any) -> None:
    """It is newer, and training takes the later one of "Soup" and "soup"."""
    for text in ("Soup", "bread"):
        begin(page, text)
        mark(page, text)
    rows = [{"text": text, "label": "bad", RATIONALE: []} for text in ("bread", "soup", "was")]
    open_rows(page, tmp_path, rows)
    kept = downloaded(page)
    assert [row["text"] for row in kept] == ["soup", "was", "Soup", "bread"]
    assert kept[-1][RATIONALE] == [[0, 5]], "that of the page"


def test_number_is_kept_while_it_is_typed(tmp_path: Path, tab: Any) -> None:
    """The page may be closed before it is left; while it is no number, nothing is asked."""
    open_model(tab, tmp_path, problem_type=REGRESSION)
    begin(tab, TEXTS[0])
    box = tab.locator(".choices label:nth-child(2) input")
    label = "() => Array.from(corrections.values(), ({ label }) => label[1])"
    kept = []
    box.press("Control+A")
    for key in ("-", "4", ".", "5"):
        box.press(key)
        kept.append(tab.evaluate(label))
        assert tab.evaluate("corrections.size && areDownloaded") in (0, False)
    assert kept[0] == []
    assert kept[1] == [-4]
    assert kept[3] == [-4.5]
    assert box.evaluate("input => input === document.activeElement && input.value") == "-4.5"


def test_number_keeps_its_digits_when_its_text_is_corrected_again(tmp_path: Path, tab: Any) -> None:
    """Those of a model are shown with as few as tell them from others."""
    numbers = [12345678, 0.1, 1234.56789012]
    open_model(tab, tmp_path, problem_type=REGRESSION)
    open_rows(tab, tmp_path, [{"text": "soup", "label": numbers}])
    wait_for_words(tab, "soup")
    mark(tab, "soup")
    assert downloaded(tab)[0]["label"] == numbers
    shown = tab.evaluate("[0.1, 2, 16777215, 1e-10].map(Math.fround).map(shortNumber)")
    assert shown == [0.1, 2, 16777215, 1e-10]


def test_numbers_with_a_gap_are_no_label(tmp_path: Path, tab: Any) -> None:
    open_model(tab, tmp_path, problem_type=REGRESSION)
    row = {"text": "soup", "label": [1, None, 2], RATIONALE: []}
    open_rows(tab, tmp_path, [row])
    assert "the label is [1,null,2]" in tab.text_content("#unopened")


UNKNOWN_LABELS: dict[str, list[Any]] = {
    SINGLE_LABEL: ["bad;fair", "['bad', 'fair']", "Bad", 0, ["bad", "fair"], "[bad", "n/a"],
    MULTI_LABEL: ["bad;Fair", "[bad; fair]", "['bad', 'x']", ["x"], "bad and fair"],
    REGRESSION: ["3,5", "[1, 2]", 5, "[1, 2, 'x']", "many"],
}


@pytest.mark.parametrize("kind", UNKNOWN_LABELS)
def test_label_of_a_file_that_the_model_does_not_know_is_asked_for(
    tmp_path: Path, tab: Any, kind: str
) -> None:
    """A guess of the model never takes its place, and rows without a label are none of them."""
    open_model(tab, tmp_path, problem_type=kind)
    missing = [None, "", " ", "-", *(["-1", -1] if kind != REGRESSION else [])]
    labels = [*UNKNOWN_LABELS[kind], *missing]
    rows = [{"text": f"soup {number}", "label": label} for number, label in enumerate(labels)]
    open_rows(tab, tmp_path, rows)
    num_unknown = len(UNKNOWN_LABELS[kind])
    assert f"Labels that the model does not know: {num_unknown};" in remarks(tab)
    found = tab.evaluate("Array.from(opened.labels.values(), (label) => label === null)")
    assert sum(found) == num_unknown
    for place, is_unknown in enumerate(found):
        tab.evaluate("place => showOpened(place)", place)
        tab.wait_for_selector(".result:not([inert])")
        assert tab.evaluate("first('.correction').checkValidity()") == (not is_unknown)
    tab.evaluate("place => showOpened(place)", found.index(True))
    tab.wait_for_selector(".result:not([inert])")
    mark(tab, "soup")
    assert tab.evaluate("document.activeElement.name") == "label"
    tab.click("[type=submit]")
    assert tab.is_hidden(".corrections")
    for choice in tab.locator(".choices input").all():
        if kind == REGRESSION:
            choice.fill("2")
        else:
            choice.check()
    tab.click("[type=submit]")
    names = ["bad", "fair", "<b>good</b>"]
    expected = {SINGLE_LABEL: names[-1], MULTI_LABEL: names, REGRESSION: [2, 2, 2]}
    [row] = downloaded(tab)
    assert (row["label"], row[RATIONALE]) == (expected[kind], [[0, 4]])


def test_labels_that_are_asked_for_may_be_none(tmp_path: Path, tab: Any) -> None:
    open_model(tab, tmp_path, problem_type=MULTI_LABEL)
    open_rows(tab, tmp_path, [{"text": "soup", "label": "x"}])
    tab.wait_for_selector(".result:not([inert])")
    tab.check(".choices label:nth-child(2) input")
    tab.uncheck(".choices label:nth-child(2) input")
    assert [row["label"] for row in downloaded(tab)] == [[]]


# By the labels of the model.
CELLS: dict[tuple[str, ...], list[tuple[Any, list[str]]]] = {
    ("bad", "fair", "not, good"): [
        *((f"bad{between}fair", ["bad", "fair"]) for between in ("; ", "|", "\n", ",", " / ")),
        ("fair;not, good", ["fair", "not, good"]),
        ("bad;", ["bad"]),
        ("['bad', 'fair']", ["bad", "fair"]),
        ("[\"bad\", 'fair',]", ["bad", "fair"]),
        ("['bad']", ["bad"]),
        ("[]", []),
        ("not, good", ["not, good"]),
    ],
    ("0", "1", "2"): [
        ([0, 1, 1], ["1", "2"]),
        ([0, 0, 0], []),
        ([0], ["0"]),
        (["1", "0"], ["1", "0"]),
        ("[1, 0, 0]", ["0"]),
    ],
}


@pytest.mark.parametrize("labels", CELLS, ids=["names", "zeros and ones"])
def test_several_labels_in_a_cell_are_read(
    tmp_path: Path, tab: Any, labels: tuple[str, ...]
) -> None:
    """As training reads them: with a mark between, in brackets, or a zero or one for each label.

    A list of one number is a name.
    """
    open_model(tab, tmp_path, problem_type=MULTI_LABEL)
    tab.evaluate("labels => model.labels.splice(0, 3, ...labels)", list(labels))
    cells, expected = zip(*CELLS[labels], strict=True)
    rows = [{"text": f"soup {k}", "label": cell, RATIONALE: []} for k, cell in enumerate(cells)]
    open_rows(tab, tmp_path, rows)
    assert [row["label"] for row in downloaded(tab)] == [*expected]


def test_text_that_is_repeated_has_the_first_label(tmp_path: Path, page: Any) -> None:
    """A row without a label says nothing about it."""
    rows = [{"text": "soup", "label": label} for label in ("", "fair", "bad")]
    open_rows(page, tmp_path, rows)
    assert page.evaluate("opened.rows.map(row => row.label)") == ["fair"]


def test_counter_is_said_from_the_first_correction_on(page: Any) -> None:
    """What says it is there before, since screen readers hear changes of what they know."""
    counter = page.locator(".counted")
    assert counter.get_attribute("role") == "status"
    assert counter.evaluate("element => element.checkVisibility()")
    begin(page, TEXTS[0])
    mark(page, "good")
    assert counter.text_content() == "1 correction"
    page.click(".discard")
    assert counter.text_content() == ""


def test_label_in_brackets_is_opened_again(tmp_path: Path, page: Any) -> None:
    page.evaluate("model.labels.splice(0, 2, '[NEG]', '[1]')")
    rows = [
        {"text": TEXTS[0], "label": "[NEG]", "rationale": [[4, 8]]},
        {"text": TEXTS[1], "label": "[1]", "rationale": [[4, 9]]},
    ]
    open_rows(page, tmp_path, rows)
    assert page.text_content("#unopened") == ""
    found = page.evaluate("Array.from(corrections.values(), ({ label }) => label)")
    assert found == ["[NEG]", "[1]"]


def test_corrections_of_a_sheet_are_opened(tmp_path: Path, page: Any) -> None:
    """Marks are JSON in a cell; a row with an empty cell is a text and no correction."""
    path = tmp_path / "marked.csv"
    header = f"text,label,{RATIONALE},{RATIONALE_AGAINST}"
    lines = ['"one\r\n🍕 two",bad,"[[5, 6], [7, 10]]",', "three,fair,,", "four,bad,[],"]
    path.write_bytes("\r\n".join([header, *lines]).encode())
    open_file(page, path)
    assert len(opened_texts(page)) == 3
    assert downloaded(page) == [
        {
            "text": "one\n🍕 two",
            "label": "bad",
            RATIONALE: [[4, 5], [6, 9]],
            RATIONALE_AGAINST: [],
        },
        {"text": "four", "label": "bad", RATIONALE: [], RATIONALE_AGAINST: []},
    ]


CSV = 'id,Label,Review\r\n1,bad,"one, ""two""\nthree"\r\n\r\n2,,four\r\n3,fair,\r\n4,bad,four\r\n'
FORMS = {
    "sheet.csv": (CSV, ["one, \"two\"\nthree", "four"], "without a text: 1. Rows that repeat"),
    "semicolons.csv": ("text;label\none, two;bad\n", ["one, two"], ""),
    "bars.csv": ("text|label\none, two|bad\n", ["one, two"], ""),
    "more commas.csv": ("text;label, or none\none, 2, 3;bad\n", ["one, 2, 3"], ""),
    "commas.tsv": ('text,label\n"one, two",bad\n', ["one, two"], ""),
    "excel.csv": ("sep=;\r\ntext;label\r\none;bad\r\n", ["one"], ""),
    "headless.csv": ('"one, two"\nthree', ["one, two", "three"], "the first one is read"),
    "sheet.TSV": ('label\ttext\nbad\tone, "two"\n', ['one, "two"'], ""),
    "lines.txt": ("one, two\n\n  \nthree\r\n", ["one, two", "three"], ""),
    "rows.jsonl": ('{"sentence": "one"}\n\n{"sentence": "two", "x": 1}', ["one", "two"], ""),
    "texts.jsonl": ('"one"\n"two"\n', ["one", "two"], ""),
    "array.json": ('[{"text": "one"},\n {"text": "two"}]', ["one", "two"], ""),
}  # fmt: skip


# By whether their quotes are text.
SHEETS_WITH_QUOTES = {
    False: [
        'text\tlabel\n"one\ntwo"\tbad\nthree\tfair\n',
        'text\tlabel\n"one ""1"""\tbad\n"two\tbad\nthree"\tfair\n',
        'text\tlabel\n"""one"" 1"\tbad\n"two\tbad\nthree"\tfair\n',
        '"text"\tlabel\n"two\tbad\nthree"\tfair\n',
        'text\tlabel\none "1"\tbad\ntwo\t"bad"\n',
        'text\n"one\ntwo"\n',
    ],
    True: [
        'text\tlabel\n"the soup\tbad\nwas good"\tfair\nthe bread\tbad\n',
        'text\tlabel\n"good" soup\tbad\none\tbad\n',
        'text\tlabel\r\none\tbad\r\n"two\tbad\r\nthree\tbad\r\n',
        'text\tlabel\r"one\tbad\rtwo"\tbad\r"three ""3"""\tbad\r',
    ],
}


@pytest.mark.parametrize("are_text", SHEETS_WITH_QUOTES)
def test_quotes_of_a_sheet_with_tabs_are_text_where_they_would_join_rows(
    tmp_path: Path, page: Any, are_text: bool
) -> None:
    """As in the files of GLUE, and the page says so; else texts are those of training."""
    for content in SHEETS_WITH_QUOTES[are_text]:
        path = tmp_path / "tabs.csv"
        path.write_bytes(content.encode())
        expected = [line.split("\t")[0] for line in content.splitlines()[1:]]
        if not are_text:
            expected = list(table(path)["text"])
        (tmp_path / "rows.tsv").write_bytes(content.encode())
        for name in ("tabs.csv", "rows.tsv"):
            open_file(page, tmp_path / name)
            assert sorted(text for [text] in opened_texts(page)) == sorted(expected), content
            assert ("quotes of the file are read as text" in remarks(page)) == are_text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_page_opens_texts_in_all_forms(tmp_path: Path, page: Any, encoding: str) -> None:
    """It says what it leaves out."""
    for name, (content, expected, said) in FORMS.items():
        path = tmp_path / name
        path.write_bytes(content.encode(encoding))
        open_file(page, path)
        assert sorted(text for [text] in opened_texts(page)) == sorted(expected), name
        assert said in remarks(page), name
        assert bool(remarks(page)) == bool(said), name


BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "json.jsonl": ('{"text": "one"}\n\n{"text": "two"\n', "line 3: "),
    "nested.json": ('{"text": ' * 1_000_000, "brackets are nested too deeply"),
    "groups.json": (("[" * 999 + "]") * 1000, "brackets are nested too deeply"),
    "number.jsonl": ('{"text": "one"}\n5\n', "line 2: this is no row"),
    "cell.jsonl": ('{"text": ["one"]}\n', 'line 1: the text is ["one"]'),
    "names.jsonl": ('{"a": "one", "b": 2}\n', "line 1: no column of the row (a, b)"),
    "label.jsonl": (f'{{"text": "one", "label": "x", "{RATIONALE}": []}}', "the model knows bad"),
    "marks.jsonl": (f'{{"text": "\U0001f355", "label": "bad", "{RATIONALE}": [[0, 2]]}}', "<= 1"),
    "open.csv": ('text\none\n"two\nthree\n', "line 3: a quotation mark opens"),
    "after.csv": ('text\n"one" two\n', "line 2: something follows a quoted cell"),
    "cells.csv": ("text,label\none,bad\ntwo, three,bad\n", "line 3: it has 3 cells"),
    "above.csv": ("sep=;\ntext;label\none;bad\ntwo;x;bad\n", "line 4: it has 3 cells"),
    "commas.csv": ("," * 1_000_000, "line 1: it has more than 10,000 cells"),
    "empty.txt": ("\n \n", "it holds no text"),
    "packed.jsonl.gz": (gzip.compress(b'{"text": "one"}'), "not text in UTF-8"),
    "latin.txt": ("caf\xe9".encode("latin-1"), "not text in UTF-8"),
    "zeros.txt": (b"one\0two", "NUL"),
}


def test_page_names_what_is_wrong_with_a_file(tmp_path: Path, page: Any) -> None:
    """By its line; nothing of the file is shown."""
    for name, (content, fault) in BAD_FILES.items():
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        open_file(page, path)
        said = page.text_content("#unopened")
        assert said.startswith(f"{name} cannot be opened: ")
        assert fault in said, name
        assert page.is_hidden(".walk")
        assert page.is_hidden(".corrections")


def test_page_of_pairs_refuses_lines_of_texts(tmp_path: Path, tab: Any) -> None:
    open_model(tab, tmp_path, SelfAttentiveForNLI)
    (tmp_path / "lines.txt").write_text("one\n")
    open_file(tab, tmp_path / "lines.txt")
    assert "text and text_pair" in tab.text_content("#unopened")
    (tmp_path / "pairs.csv").write_text("Premise,Hypothesis,gold_label\none,two,neutral\n")
    open_file(tab, tmp_path / "pairs.csv")
    assert opened_texts(tab) == [["one", "two"]]
    tab.wait_for_selector(".choices :checked")
    assert tab.locator(".choices label:has(:checked)").text_content() == "neutral"


def test_page_reads_a_part_of_a_file_that_is_too_big(tmp_path: Path, page: Any) -> None:
    """And says so; the person can type in the meantime, and begin before all is read."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(f"{TEXT * 400} {number}" for number in range(500)))
    page.evaluate("model.max_tokens = null")  # so that reading takes longer than a click
    page.set_input_files(".opened input", str(path))
    page.wait_for_function("() => first('#scanning progress').value > 0")
    page.click("#scanning button")
    page.wait_for_function("() => opened")
    assert 0 < len(opened_texts(page)) < 500
    assert "Of 500 texts" in remarks(page)
    path.write_text(f"soup\n{'bread ' * 50_000}\n")
    open_file(page, path)
    assert opened_texts(page) == [["soup"]]
    assert "more than 200,000 characters: 1" in remarks(page)
    with path.open("wb") as file:
        file.truncate(50 * 2**20 + 1)
    open_file(page, path)
    assert "at most 50 MiB" in page.text_content("#unopened")


def test_page_shows_hostile_files_as_text(tmp_path: Path, page: Any) -> None:
    """Their names, texts, labels and faults."""
    path = tmp_path / "<img src=x onerror=alert(1)>\u202e.jsonl"
    write_jsonl(path, [{"text": text, "label": text} for text in PAYLOADS])
    open_file(page, path)
    assert sorted(text for [text] in opened_texts(page)) == sorted(PAYLOADS)
    assert "[U+202E]" in page.text_content(".walk .name")
    page.check(".choices input >> nth=0")
    page.locator(".words span").first.click()
    assert downloaded(page)[0]["text"] in PAYLOADS
    write_jsonl(path, [{"text": PAYLOADS[0], "label": PAYLOADS[1], RATIONALE: [[0, 1]]}])
    open_file(page, path)
    assert "onerror=alert(1)>" in page.text_content("#unopened")
    assert not page.locator("main img, .result script").count()


def test_long_text_is_corrected(page: Any) -> None:
    """Of ten thousand words."""
    text = "x " * 9_999
    page.evaluate("model.max_tokens = 10000")
    begin(page, text)
    for place in (0, 5000, 9998):
        page.locator(".words span").nth(place).click()
    [row] = downloaded(page)
    assert row[RATIONALE] == [[0, 1], [10_000, 10_001], [19_996, 19_997]]
    assert row["text"] == text


def test_words_to_mark_have_borders_where_the_system_chooses_colours(page: Any) -> None:
    """It draws no shadows."""
    page.emulate_media(forced_colors="active")
    type_in(page, TEXTS[0])
    border = "word => getComputedStyle(word).borderTopWidth"
    word = page.locator(".words span").first
    assert word.evaluate(border) == "0px"
    page.click(".correct")
    assert word.evaluate(border) == "1px"
    page.emulate_media(forced_colors="none")
    assert word.evaluate(border) == "0px"


def test_panel_fits_a_phone(page: Any) -> None:
    """With many long labels, too."""
    page.set_viewport_size({"width": 320, "height": 700})
    labels = [f"label{'x' * 40} {number}" for number in range(30)]
    page.evaluate("labels => { settings.labels = labels; }", labels)
    begin(page, TEXTS[0] + " " + "W" * 200)
    assert page.locator(".choices label").count() == 30, "the premise"
    mark(page, "good")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
