"""scripts/app.py and the page behind it, without a browser."""

import html
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pages import PAIR, save_tiny
from script_files import load_command
from tiny_translation import tiny_translator
from transformers import pipeline

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    build_translation_tokenizer,
)
from sase_hf.serving import demo
from sase_hf.serving.demo import MAX_CHARACTERS, about, build_page, view, view_of_values
from sase_hf.utils.loading import load_pipeline


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("app")
    save_tiny(root / "texts", SelfAttentiveForSequenceClassification)
    save_tiny(root / "pairs", SelfAttentiveForNLI)
    return root


def test_view_says_what_is_not_read(root: Path) -> None:
    """The page cuts characters, the model reads 64 tokens."""
    explain, explain_pairs = (load_pipeline(str(root / name)) for name in ("texts", "pairs"))
    assert "nothing to read yet" in view(explain, [" \n"])
    for label in explain.model.config.id2label.values():
        assert f"Why <bdi>{html.escape(label)}</bdi>" in view(explain, ["soup"], label)
    assert "The text is empty." in view(explain_pairs, [PAIR[0], ""])
    assert "Only the first" not in view(explain, ["a" * MAX_CHARACTERS])
    answer = view(explain, ["a" * (MAX_CHARACTERS + 1)])
    assert "Only the first 20,000 of 20,001 characters are read." in answer
    assert "a" * (MAX_CHARACTERS + 1) not in answer
    assert re.search(r'<p class="note">[^<]*\b36\b[^<]*</p>', view(explain, ["soup " * 100]))


def test_app_takes_null_as_an_empty_text(root: Path) -> None:
    """Another program may send it in the place of a text or of the label to explain."""
    explain = load_pipeline(str(root / "texts"))
    assert "nothing to read yet" in view_of_values(explain, [None, "bad"], [None, None])
    assert "Predicted" in view_of_values(explain, [None, "bad"], ["soup", None])


def test_view_translates_the_first_tokens_and_says_so() -> None:
    tokenizer = build_translation_tokenizer(["soup"])
    model = tiny_translator(vocab_size=len(tokenizer))
    explain: Any = pipeline("aligned-translation", model=model, tokenizer=tokenizer)
    assert "are translated" not in view(explain, ["soup " * 199])
    assert "Only the first 200 tokens of the text are translated." in view(explain, ["soup " * 200])


def test_about_says_what_the_model_was_trained_on(root: Path) -> None:
    explain = load_pipeline(str(root / "texts"))
    assert "The model's card names no training data." in html.unescape(about(explain))
    card = '---\ntrained_on: "<b>rooms\\u202e</b>.csv: 9 rows"\n---\n'
    (root / "texts" / "README.md").write_text(card, encoding="utf-8")
    assert "trained on &lt;b&gt;rooms[U+202E]&lt;/b&gt;.csv: 9 rows." in about(explain)


def test_app_reads_examples_from_a_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    build, serve = MagicMock(), MagicMock(return_value="http://here")
    monkeypatch.setattr(demo, "build_page", build)
    monkeypatch.setattr(demo, "serve", serve)
    path = tmp_path / "pairs.csv"
    path.write_text("premise,label,hypothesis\nA,0,B\nC,1,D\n", encoding="utf-8")
    flags = ["--examples", str(path), "--text_column_names", "premise,hypothesis"]
    load_command("app").main([str(root / "pairs"), *flags, "--title", "Entailment"])
    assert build.call_args.args[1:] == ("Entailment", [["A", "B"], ["C", "D"]])
    assert "http://here" in capsys.readouterr().out


def test_app_names_a_missing_column_of_examples(root: Path, tmp_path: Path) -> None:
    main, checkpoint = load_command("app").main, str(root / "texts")
    path = tmp_path / "texts.csv"
    path.write_text("sentence\nA\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no column 'text'"):
        main([checkpoint, "--examples", str(path), "--text_column_names", "text"])


def test_page_names_an_example_of_too_many_texts(root: Path) -> None:
    with pytest.raises(ValueError, match=r"1 text\(s\).*\('a', 'b'\) has 2"):
        build_page(load_pipeline(str(root / "texts")), examples=[("a", "b")])


def test_app_names_the_package_that_it_lacks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sase_hf.serving.demo")
    monkeypatch.setitem(sys.modules, "gradio", None)  # an import of it now fails
    with pytest.raises(SystemExit, match=r"gradio, .*sase_hf\[demo\]"):
        load_command("app").main([str(root / "texts")])
