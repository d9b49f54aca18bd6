"""scripts/visualize.py: output in the terminal, pages and SVG files."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import script_main
from runs import write_rows
from shown import Page, assert_harmless
from tiny import tiny_config

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer

WORDS = ["quick", "warm", "slow", "cold", "meal", "service"]
STARS = {0: "poor", 1: "fine", 2: "great"}
ROWS: list[dict[str, Any]] = [
    {
        "text": f"{WORDS[n % 6]} {WORDS[n // 6 % 6]} {n}",
        "second": f"{WORDS[n // 2 % 6]} meal",
        "label": STARS[n % 3],
    }
    for n in range(60)
]
main = script_main("visualize")


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    tokenizer = build_tokenizer([" ".join(WORDS)])
    fields: dict[str, dict[str, Any]] = {
        "one": {},
        "other": {},
        "number": {"id2label": {0: "stars"}, "problem_type": "regression"},
        "several": {"problem_type": "multi_label_classification"},
        "max": {"pooling": "max"},
        "pairs": {},
    }
    for seed, (name, own) in enumerate(fields.items()):
        torch.manual_seed(seed)
        head = SelfAttentiveForNLI if name == "pairs" else SelfAttentiveForSequenceClassification
        model = head(tiny_config(**{"vocab_size": len(tokenizer), "id2label": STARS, **own}))
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def test_visualize_shows_texts_in_the_terminal(
    checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["--text=slow warm quick cold meal", "--text=slow\x1b service"]
    main([str(checkpoints / "one"), *texts, "--target", "fine"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == '"slow warm quick cold meal"'
    assert re.fullmatch(r"(poor|fine|great) \d+\.\d%", lines[1])
    number = r"[+−]\d+\.\d\d"
    assert re.fullmatch(rf"why fine {number}: ({number} \w+(, )?){{2,5}}", lines[2])
    assert lines[5] == '"slow[U+001B] service"'


def test_visualize_writes_a_page_with_rows_of_a_file(checkpoints: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "page.html"
    words = [str(checkpoints / "one"), "--file", write_rows(tmp_path / "rows.jsonl", ROWS)]
    main([*words, "--output", str(output)])
    page = assert_harmless(output.read_text("utf-8"))
    assert page.texts["h1"] == ["one"]
    section, *heads = page.texts["h2"]
    assert section == "What the model learned"
    predicted = [re.search("Predicted (\\w+)", head)[1] for head in heads]
    true_labels = {row["text"]: row["label"] for row in ROWS}
    shown = zip(page.texts["p.words"], predicted, page.texts["p.verdict"], strict=True)
    for text, label, verdict in shown:
        judged = "Right" if label == true_labels[text] else "Wrong"
        assert verdict == f"{judged}: the true label is {true_labels[text]}"


def test_visualize_compares_two_checkpoints_and_reads_pairs(
    checkpoints: Path, tmp_path: Path
) -> None:
    output, file = tmp_path / "page.html", write_rows(tmp_path / "rows.jsonl", ROWS)
    options = ["--file", file, "--output", str(output)]
    main([str(checkpoints / "one"), "--compare", str(checkpoints / "other"), *options])
    page = Page(output.read_text("utf-8"))
    assert page.texts["h3"] == ["one", "other"] * len(page.texts["h2"])
    assert page.texts["p.words"][::2] == page.texts["p.words"][1::2]
    options += ["--text_column_names=text, second"]
    main([str(checkpoints / "pairs"), *options])
    page = Page(output.read_text("utf-8"))
    texts = page.texts["p.words"]
    shown = {*zip(texts[::2], texts[1::2], strict=True)}
    assert shown < {(row["text"], row["second"]) for row in ROWS}


@pytest.mark.parametrize(
    ("name", "label", "shown"),
    [
        ("number", 3.5, "True: 3.5"),
        ("several", ["poor", "fine"], r"\w+: the true label is poor, fine"),
    ],
)
def test_visualize_shows_true_numbers_and_sets_of_labels(
    checkpoints: Path, tmp_path: Path, name: str, label: object, shown: str
) -> None:
    """A number is neither right nor wrong; a set of labels is right if no other is predicted."""
    file = write_rows(tmp_path / "rows.jsonl", [{"text": "warm meal", "label": label}] * 3)
    output = tmp_path / "page.html"
    main([str(checkpoints / name), "--file", file, "--output", str(output)])
    page = Page(output.read_text("utf-8"))
    (verdict,) = set(page.texts["p.verdict"])
    assert re.fullmatch(shown, verdict)


def test_visualize_writes_an_svg_of_one_text(checkpoints: Path, tmp_path: Path) -> None:
    output = tmp_path / "new" / "attention.svg"
    words = [str(checkpoints / "one"), "--text", "warm meal", "--output", str(output)]
    main(words)
    drawn = output.read_text(encoding="utf-8")
    assert ">warm</text>" in drawn
    with pytest.raises(SystemExit, match=r"shows one text"):
        main([*words, "--text", "cold meal"])


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("pairs", ["--text=a"], "the input of the self-attention"),
        ("one", ["--text=a", "--target=x"], "target is 'x'; the labels are poor, fine, great"),
        ("max", ["--text=a"], "cannot load .*max: .*it has no labels, or attends to nothing"),
    ],
)
def test_visualize_answers_mistakes_in_one_line(
    checkpoints: Path, name: str, words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        main([str(checkpoints / name), *words])
