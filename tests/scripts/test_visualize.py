"""scripts/visualize.py: output in the terminal, pages and SVG files."""

import re
from pathlib import Path

import pytest
import torch
from checkpoints import script_main
from runs import write_rows
from shown import Page, assert_harmless
from tiny import save_both, tiny_model

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer

WORDS = ["quick", "warm", "slow", "cold", "meal", "service"]
STARS = {0: "poor", 1: "fine", 2: "great"}
ROWS = [{"text": f"{WORDS[n % 6]} meal {n}", "label": STARS[n % 3]} for n in range(60)]
main = script_main("visualize")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    tokenizer = build_tokenizer([" ".join(WORDS)])
    for seed, name in enumerate(("one", "other")):
        torch.manual_seed(seed)
        fields = {"vocab_size": len(tokenizer), "id2label": STARS}
        model = tiny_model(SelfAttentiveForSequenceClassification, **fields)
        save_both(folder / name, model, tokenizer)
    return folder


def test_visualize_shows_texts_in_the_terminal(
    checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["--text=slow warm quick cold meal", "--text=slow\x1b service"]
    texts += ["--text=fine"] * 9
    main([str(checkpoints / "one"), *texts, "--target", "fine"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '"slow warm quick cold meal"'
    assert re.fullmatch(r"(poor|fine|great) \d+\.\d%", lines[1])
    number = r"[+−]\d+\.\d\d"
    assert re.fullmatch(rf"why fine {number}: ({number} \w+(, )?){{2,5}}", lines[2])
    assert lines[6] == '"slow[U+001B] service"'
    assert lines.count('"fine"') == 9


def test_visualize_writes_a_page_with_rows_of_a_file(checkpoints: Path, tmp_path: Path) -> None:
    output = tmp_path / "new/page.html"
    words = [str(checkpoints / "one"), "--file", write_rows(tmp_path / "rows.jsonl", ROWS)]
    main([*words, "--output", str(output)])
    page = assert_harmless(output.read_text("utf-8"))
    section, *heads = page.texts["h2"]
    assert section == "What the model learned"
    true_labels = {row["text"]: row["label"] for row in ROWS}
    shown = zip(heads, page.texts["p.words"], page.texts["p.verdict"], strict=True)
    for head, text, verdict in shown:
        judged = "Right" if f"Predicted {true_labels[text]}" in head else "Wrong"
        assert verdict == f"{judged}: the true label is {true_labels[text]}"


def test_visualize_compares_two_checkpoints(checkpoints: Path, tmp_path: Path) -> None:
    output, file = tmp_path / "page.html", write_rows(tmp_path / "rows.jsonl", ROWS)
    options = ["--file", file, "--output", str(output)]
    main([str(checkpoints / "one"), "--compare", str(checkpoints / "other"), *options])
    page = Page(output.read_text("utf-8"))
    assert page.texts["h3"] == ["one", "other"] * len(page.texts["h2"])
    assert page.texts["p.words"][::2] == page.texts["p.words"][1::2]


def test_visualize_writes_an_svg_of_one_text(checkpoints: Path, tmp_path: Path) -> None:
    output = tmp_path / "new/attention.svg"
    main([str(checkpoints / "one"), "--text", "warm meal", "--output", str(output)])
    assert ">warm</text>" in output.read_text(encoding="utf-8")
