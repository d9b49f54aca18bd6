"""A model in one HTML file, in a real browser: it answers as the pipeline, and asks nobody."""

import json
import os
import random
import unicodedata
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from browsers import open_source
from pages import open_live_page, reader_of_page
from script_files import load_command
from shown import PAYLOADS
from tiny import give_neighbours, name_of, save_both, tiny_model
from tiny_translation import tiny_translator
from transformers import AutoModelForSequenceClassification

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
    build_translation_tokenizer,
)
from sase_hf.commands.quickstart import CORPUS
from sase_hf.data.table import table
from sase_hf.data.tokenizer import built_settings
from sase_hf.models.checkpoint import readable
from sase_hf.models.pipeline_self_attentive import with_whole_characters
from sase_hf.serving.html_export import LIVE_FOLDER, live_page
from sase_hf.utils.text import UNSPACED, shortened
from sase_hf.visualization import visible
from sase_hf.visualization.attended_text import (
    NONE_STANDS_OUT,
    label_text,
    parse_result,
    totals_of,
)
from sase_hf.visualization.page import TOP_WORDS
from sase_hf.visualization.rendering import percent, signed

pytestmark = [pytest.mark.slow]

CLASSIFIER = SelfAttentiveForSequenceClassification
NUM_STRINGS = int(os.environ.get("SASE_HF_FUZZED_STRINGS", "300"))
SCRIPT = LIVE_FOLDER / "live_model.js"
# Contractions, markup, and what case, NFC, spaces or graphemes treat in a way of their own.
ODD = (
    "don't n't 's 'LL rock'n'roll [PAD] </script> <!-- <b> &amp; ${x} {{x}} &#60; \u0344 \u0958 "
    "DON\u2019T We\u2019ve '\u017f \u039f\u0394\u039f\u03a3 \u03c2 \u0130s e\u0301 a\u0323\u0301 "
    "1\ufe0f\u20e3 \u2764\ufe0f \ufb01 \u1e9e \u0149 "
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 "
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f \U0001f44d\U0001f3fd "
    "我喜欢 日本語コーヒー ผมรัก 한국어 \u1112\u1161\u11ab ខ្ញុំ မြန်မာ क्षि שָׁלוֹם مرحبا"
)
ALONE = "\0\x1b\t\n\x0b\x1c\x85\xa0\u1680\u180e\u200b\u200d\u2028\u202e\u3000\ufeff\ufe0f\ud83d"
PIECES = [*ODD.split(" "), *ALONE]
REGRESSION = {"problem_type": "regression", "num_labels": 2, "target_mean": [2.0, -1.0]}
SEVERAL = {"problem_type": "multi_label_classification", "num_labels": 12}  # more than rows
HEADS = (
    {"attention_function": "softmax", "normalize_states": False},
    {
        **SEVERAL,
        "num_lstm_layers": 3,
        "lstm_shortcuts": True,
        "linear_part": "words_and_pairs",
    },
    {
        **REGRESSION,
        "target_deviation": [3, 0.5],
        "num_lstm_layers": 2,
        "classifier": "pruned_mlp",
        "linear_part": "words",
    },
    {"attention_function": "sparsemax"},
    {"attention_function": "softmax", "level": "subword", "linear_part": "words_and_pairs"},
    {"matching": "concat", "attention_function": "sparsemax", "linear_part": "words_and_pairs"},
    {"matching": "gated", "classifier": "pruned_mlp"},
)
ANSWERS = """texts => JSON.stringify(JSON.parse(texts).map(own => {
  const steps = read(own), spans = marked => marked.map(one => [one.start, one.end]);
  let step;
  while (!(step = steps.next()).done);
  const { scores, best, logit, near, sides } = step.value;
  return { scores, best, logit, near, sides: sides.map(side => ({
    ...side, encoded: 0, hops: 0, tokens: spans(side.tokens), marked: spans(attended(side).words),
    shown: visible(side.points).join(""),
  })) };
}))"""
TOKENS = """texts => JSON.stringify(JSON.parse(texts).map(text => {
  const points = Array.from(text), tokens = withWholeCharacters(points, tokenize(points));
  return tokens.map(token => [token.id, token.start, token.end]);
}))"""


def made_strings(count: int) -> list[str]:
    """Return strings of odd pieces and of characters of Unicode 14."""
    rng = random.Random(0)

    def piece() -> str:
        one = chr(rng.randrange(0x110000 if rng.random() < 0.3 else 0x3200))
        one = "?" if unicodedata.category(one) == "Cn" else one
        return rng.choice((rng.choice(PIECES), one, rng.choice("ab c,.'- the good")))

    return ["".join(piece() for _ in range(rng.randint(0, 12))) for _ in range(count)]


def whole(texts: list[str]) -> list[str]:
    """Replace lone surrogates, which no tokenizer learns."""
    return [text.encode("utf-8", "replace").decode() for text in texts]


def save(folder: Path, texts: list[str], level: Any = "word", **fields: Any) -> str:
    """Save a tiny classifier whose tokenizer knows some words of the texts."""
    kind = SelfAttentiveForNLI if "matching" in fields else CLASSIFIER
    known = [*whole(texts), *["the good bread"] * 99]
    tokenizer = build_tokenizer(known, vocab_size=400, level=level)
    fields = {"problem_type": "single_label_classification", "num_labels": 3, **fields}
    model = tiny_model(kind, vocab_size=len(tokenizer) + 5, **fields)
    give_neighbours(model)
    return save_both(folder, model, tokenizer)


def reader_of_opened(tab: Any, checkpoint: str) -> Any:
    """Open a page; return the pipeline of its model."""
    open_live_page(tab, checkpoint)
    return reader_of_page(checkpoint)


def answers(tab: Any, texts: list[Any]) -> list[Any]:
    """Return what the script of the page computes for texts or pairs."""
    rows = [[text] if isinstance(text, str) else [*text.values()] for text in texts]
    found: list[Any] = json.loads(tab.evaluate(ANSWERS, json.dumps(rows)))
    return found


def assert_equal(found: list[Any], expected: list[Any], names: list[str]) -> None:
    """Compare results of a page with those of the pipeline: equal marks, close numbers."""
    for own, result in zip(found, expected, strict=True):
        sides = [result]
        if isinstance(result["text"], list):
            sides = [{k: v[n] for k, v in result.items() if isinstance(v, list)} for n in (0, 1)]
        assert names[own["best"]] == result["label"]
        assert_close(own["scores"], [*result["scores"].values()], 1e-6)
        for name in ("familiarity", "unknown"):
            assert own["near"][name] == pytest.approx(result[name], abs=1e-6)
        for near in result["nearest"]:
            del near["distance"]
        assert own["near"]["nearest"] == result["nearest"]
        assert own["logit"] == pytest.approx(result["logit"], abs=1e-5)
        for mine, side, text in zip(own["sides"], sides, parse_result(result), strict=True):
            assert mine["tokens"] == [list(span) for span in side["offsets"]]
            assert mine["marked"] == [list(span) for span in text.words]
            assert mine["shown"] == visible(side["text"])
            for name in ("attention", "overall", "contributions"):
                assert_close(mine[name], side[name], 1e-5)
            assert_close(mine["words"], side["word_contributions"], 1e-5)
            without_part = [0.0] * len(mine["words"])
            assert_close(mine["linear"], side.get("linear_contributions", without_part), 1e-6)


def assert_close(found: list[Any], expected: list[Any], error: float) -> None:
    """Allow the error of float32 sums in proportion to the largest number."""
    one, other = (torch.tensor(numbers).double() for numbers in (found, expected))
    largest = max(1.0, *other.abs().flatten().tolist(), 0.0)
    torch.testing.assert_close(one, other, rtol=0, atol=error * largest)


@pytest.mark.browser
@pytest.mark.parametrize("fields", HEADS, ids=name_of)
def test_page_answers_as_the_pipeline(tmp_path: Path, tab: Any, fields: dict[str, Any]) -> None:
    """Labels, scores, weights, contributions and marks."""
    rows = table(CORPUS / "reviews.test.jsonl.gz")
    texts: list[Any] = [row["text"] for row in islice(rows, 100 if fields is HEADS[0] else 10)]
    texts += [*made_strings(NUM_STRINGS // 6), "the good " * 40]
    checkpoint = save(tmp_path / "model", texts, **fields)
    explain = reader_of_page(checkpoint)
    if "matching" in fields:
        texts = [{"text": one, "text_pair": other} for one, other in pairwise(texts)]
    names = [*explain.model.config.id2label.values()]
    open_live_page(tab, checkpoint)
    assert_equal(answers(tab, texts), explain(texts), names)
    if "labels" in (result := explain(texts[0])):  # not the best one, whatever its score
        tab.fill("textarea", texts[0])
        said = label_text(result["labels"])
        tab.wait_for_function("text => first('#answer bdi').textContent === text", arg=said)


@pytest.mark.browser
def test_page_explains_one_label_over_another_as_the_pipeline(tmp_path: Path, tab: Any) -> None:
    """By two lists, and over the next label by one click; the click again takes it back."""
    checkpoint = save(tmp_path / "model", ["the good bread"], **HEADS[5])
    explain = reader_of_opened(tab, checkpoint)
    row = {"text": "the good bread", "text_pair": "good bread, too"}
    for side, text in enumerate(row.values()):
        tab.locator("textarea").nth(side).fill(text)
    [best, second, third] = sorted((scores := explain(row)["scores"]), key=lambda x: -scores[x])
    why, labels = tab.locator(".views .why small").first, tab.locator(".asked select")
    said = tab.locator(".why:not(.own) bdi.target")

    def expect(target: str, shown: str) -> None:
        tab.wait_for_function("() => !first('.result').inert")
        assert said.text_content() == shown
        total = sum(map(sum, explain(row, target=target)["word_contributions"]))
        assert float(why.text_content().replace("−", "-")) == pytest.approx(total, abs=0.0051)

    tab.click("#rival")
    expect(f"{best}>{second}", f"{best} over {second}")
    tab.click("#rival")
    expect(best, best)
    labels.nth(0).select_option(label=third)
    labels.nth(1).select_option(label=best)
    expect(f"{third}>{best}", f"{third} over {best}")


@pytest.mark.browser
@pytest.mark.parametrize("fields", [{}, {"matching": "concat"}], ids=["texts", "pairs"])
def test_page_reads_the_part_of_a_text_that_the_pipeline_reads(
    tmp_path: Path, tab: Any, fields: dict[str, Any]
) -> None:
    """It says how many tokens it does not read."""
    texts: list[Any] = ["the good bread " * n for n in (0, 1, 2, 3, 5, 8)] + made_strings(30)
    checkpoint = save(tmp_path / "model", texts, **fields)
    if fields:
        texts = [{"text": a, "text_pair": b} for a, b in [*pairwise(texts), *pairwise(texts[::-1])]]
    cut = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    cut.config.max_tokens = 7
    cut.save_pretrained(checkpoint)
    explain = reader_of_opened(tab, checkpoint)
    found, expected = answers(tab, texts), explain(texts)
    assert_equal(found, expected, [*explain.model.config.id2label.values()])
    numbers = [[side["truncated"] for side in one["sides"]] for one in found]
    assert numbers == [[one["truncated"]] if not fields else one["truncated"] for one in expected]
    assert max(map(max, numbers)) > 10, "the premise"
    tab.locator("textarea").first.fill("the good bread " * 1000)
    tab.locator(".remark", has_text="not read: 2,99").first.wait_for()


@pytest.mark.browser
@pytest.mark.parametrize("level", ["word", "subword"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_page_tokenizes_as_the_tokenizer(tab: Any, level: Any, lowercase: bool) -> None:
    """Ids and marks, but for rare orders of several marks on a letter."""
    texts = made_strings(10 * NUM_STRINGS)
    tab.set_content(f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>")
    tokenizer = build_tokenizer(whole(texts), 10**6, lowercase, level=level)
    settings = {**(built_settings(tokenizer) or {}), "unknown": 1}
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    script = "own => { model = own; prepareTokenizer(); }"
    tab.evaluate(
        script,
        {"tokenizer": settings, "words": words, "unspaced": UNSPACED.replace("p{", "p{Script=")},
    )
    found = json.loads(tab.evaluate(TOKENS, json.dumps(texts)))
    encoded = tokenizer(list(map(readable, texts)), return_offsets_mapping=True)
    rows = zip(texts, found, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    others = []
    for text, tokens, ids, offsets in rows:
        marks = with_whole_characters(text, [list(span) for span in offsets])
        if tokens != [[token, *mark] for token, mark in zip(ids, marks, strict=True)]:
            others.append(text)
    assert len(others) <= len(texts) / 5000, others
    assert all(sum(map(bool, map(unicodedata.combining, one))) > 1 for one in others), others


@pytest.mark.browser
def test_page_shows_hostile_names_and_texts_as_text(tmp_path: Path, tab: Any) -> None:
    """Labels, the title, the card and what is typed."""
    labels = dict(enumerate([*PAYLOADS, "</script><script>alert(1)</script>\u202e"]))
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    checkpoint = save(folder, ["the room"], id2label=labels, num_labels=len(labels))
    card = "---\ntrained_on: <b onclick=alert(1)>rows</b>\n---\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    open_live_page(tab, checkpoint)
    assert tab.text_content("h1") == folder.name
    assert "<b onclick=alert(1)>rows</b>" in tab.text_content(".about")
    for text in PAYLOADS:
        tab.fill("textarea", text)
        tab.wait_for_function("text => first('.words').textContent === text", arg=text)
    shown = {visible(label) for label in labels.values()}
    assert {*tab.locator(".scores bdi").all_text_contents()} == shown
    assert not tab.locator(".result img, .result script, h1 *, .about b").count()


@pytest.mark.browser
def test_policy_of_a_page_stops_scripts_and_requests(tmp_path: Path, browser: Any) -> None:
    """Whatever got into the page, in the file or later, could neither run nor send anything."""
    tab = browser.new_page()
    tab.add_init_script(
        "window.stopped = new Set(); document.addEventListener('securitypolicyviolation', "
        "event => stopped.add(event.effectiveDirective));"
    )
    hit = "window.hit = 1"
    image = f"<img src=http://127.0.0.1:9/ style='color: red' onerror='{hit}'>"
    source = live_page(save(tmp_path / "model", ["the room"]))
    more = f"{image}<script>{hit}</script><style>b {{}}</style>"
    open_source(tab, tmp_path, source.replace("<footer>", more))
    tab.wait_for_selector("body[data-ready]")
    stopped = tab.evaluate("""async () => {
      const refused = [];
      for (const attempt of [
        () => document.body.innerHTML += "<b>",
        () => document.body.setAttribute("onclick", "window.hit = 1"),
        () => trustedTypes.createPolicy("own", {}),
      ]) try { attempt(); } catch (error) { refused.push(error.name); }
      await fetch("http://127.0.0.1:9/").catch(() => pause());
      return [window.hit ?? 0, ...refused, ...Array.from(stopped).sort()];
    }""")
    kinds = ["connect-src", "img-src", "require-trusted-types-for", "script-src-attr"]
    kinds += ["script-src-elem", "style-src-attr", "style-src-elem", "trusted-types"]
    assert stopped == [0, *["TypeError"] * 3, *kinds]
    tab.close()


@pytest.mark.browser
def test_page_of_a_damaged_file_shows_no_numbers(tmp_path: Path, browser: Any) -> None:
    """The page says so instead."""
    source = live_page(save(tmp_path / "model", ["the room"]))
    start = source.index('class="part-of-model">') + 22
    changed = f"{source[:start]}{'B' if source[start] == 'A' else 'A'}{source[start + 1 :]}"
    damaged = {
        changed: "Get the file again",
        source[:start] + source[start + 4 :]: "Get the file again",
        source[: start + 40]: "file is not complete",
    }
    tab = browser.new_page()
    for other, said in damaged.items():
        open_source(tab, tmp_path, other)
        tab.wait_for_function("text => document.body.innerText.includes(text)", arg=said)
        assert not tab.locator(".result:visible").count()
    tab.close()


@pytest.mark.browser
def test_page_names_words_as_attention_html(tmp_path: Path, tab: Any) -> None:
    """Words, shares, contributions, sums of hops and of words, notes and what is shortened."""
    rows = [("the good bread", "x"), ("x x the good", f"{'w' * 70} q \u200b"), ("x", "")]
    rows += [*pairwise(made_strings(8))]
    fields = {"matching": "gated", "num_labels": 2, "linear_part": "words_and_pairs"}
    labels = {0: "a" * 70, 1: "b" * 70}
    checkpoint = save(tmp_path / "model", [row[0] for row in rows], id2label=labels, **fields)
    explain = reader_of_opened(tab, checkpoint)
    for texts in rows:
        for box, text in enumerate(texts):
            tab.fill(f"textarea >> nth={box}", text)
        # What the box holds: it has line feeds in place of carriage returns.
        typed = tab.evaluate("every('textarea').map(box => box.value)")
        if not "".join(typed).strip():
            continue
        result = explain({"text": typed[0], "text_pair": typed[1]})
        sides = parse_result(result)
        shown = [side.part(0, len(side.text)) for side in sides]
        same = "shown => every('.words').every((one, k) => one.textContent === shown[k])"
        tab.wait_for_function(same, arg=shown)
        for side, text in enumerate(sides):
            for view in range(len(text.views)):
                top = text.top_words(view, TOP_WORDS)
                words = " ".join(f"{shortened(word)} {percent(share)}" for word, share in top)
                shown_words = tab.text_content(f"[data-view='{view}'][data-side='{side}']")
                assert shown_words.split() == (words or NONE_STANDS_OUT).split()
            for added, prefix in ((text.added, ""), (text.linear, "linear_")):
                reasons = text.for_and_against(added, TOP_WORDS)
                for kind, some in zip(("pro", "con"), reasons, strict=True):
                    named = " ".join(f"{signed(added)} {shortened(word)}" for word, added in some)
                    top = tab.text_content(f"[data-view='{prefix}{kind}'][data-side='{side}']")
                    assert top.split() == named.split()
        of_hops = tab.locator(".view:not(.why, .sum) small").all_text_contents()
        totals = totals_of(result, sides)
        assert totals is not None
        assert of_hops == [signed(added) for added in (totals.by_hops, *totals.by_hop)]
        assert tab.text_content(".why:not(.own) small") == signed(totals.by_words)
        assert tab.text_content(".own small") == signed(totals.by_words_themselves)
        sums = [signed(totals.besides), signed(totals.together)]
        assert tab.locator(".sum small").all_text_contents() == sums
        folded = tab.locator(".attention [value='0']").count()
        assert folded == totals.are_hops_behind
        said = f"the hops added {signed(totals.by_hops)} of {signed(totals.together)}"
        assert (said in tab.text_content(".attention summary")) == totals.are_hops_behind


@pytest.mark.browser
def test_page_reads_while_it_is_typed_in(tmp_path: Path, tab: Any) -> None:
    """By keys alone; the chosen line stays chosen, and the answer is announced."""
    checkpoint = save(tmp_path / "model", ["the room was good, the bread was not"])
    open_live_page(tab, checkpoint)
    tab.click("form button:nth-of-type(2)")
    tab.wait_for_function("() => first('.words').textContent.startsWith('We waited')")
    tab.focus("[name=view]:checked")
    tab.keyboard.press("ArrowDown")
    tab.evaluate("first('#spoken').textContent = ''")
    tab.fill("textarea", "the good room \U0001f355 e\u0301")
    tab.wait_for_function("() => first('.words').textContent.startsWith('the good')")
    assert tab.input_value("[name=view]:checked") in ("0", "1")
    (own,) = answers(tab, ["the good room \U0001f355 e\u0301"])
    shown = f"Predicted LABEL_{own['best']} {max(own['scores']):.1%}"
    assert tab.text_content("#answer") == shown
    assert not tab.locator("#spoken").text_content(), "not spoken at each key"
    tab.wait_for_function(
        "text => first('[role=status]').textContent === text", arg=shown.rpartition(" ")[0]
    )
    tab.select_option("select", "2")
    tab.wait_for_function("() => first('.target').textContent === 'LABEL_2'")
    tab.fill("textarea", " ")
    tab.wait_for_selector(".result", state="hidden")


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (partial(tiny_model, CLASSIFIER, encoder="cnn"), "has encoder='cnn'"),
        (partial(tiny_model, CLASSIFIER, pooling="max"), "has pooling='max'"),
        (partial(tiny_model, SelfAttentiveForRetrieval), "is a SelfAttentiveForRetrieval"),
        (tiny_translator, "is a RNNSearchForConditionalGeneration"),
        (partial(tiny_model, CLASSIFIER), "has a tokenizer that build_tokenizer did not make"),
    ],
    ids=["encoder", "pooling", "head", "family", "tokenizer"],
)
def test_export_refuses_what_a_page_cannot_compute(tmp_path: Path, make: Any, fault: str) -> None:
    """In one line that names the ways out; nothing is written."""
    make().save_pretrained(tmp_path / "model")
    build_translation_tokenizer(["the room was good"]).save_pretrained(tmp_path / "model")
    with pytest.raises(SystemExit, match=rf"^export\.py: .*model {fault}, which .*; export it to"):
        load_command("export").main([str(tmp_path / "model"), str(tmp_path / "page.html")])
    assert not (tmp_path / "page.html").exists()
