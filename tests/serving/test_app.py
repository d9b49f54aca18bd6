"""scripts/app.py and the page behind it, without a browser."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pages import PAIR, save_tiny
from script_files import load_script

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification
from sase_hf.serving import demo
from sase_hf.serving.demo import MAX_CHARACTERS, build_page, view
from sase_hf.utils.loading import load_pipeline


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("model"), SelfAttentiveForSequenceClassification)


@pytest.fixture(scope="module")
def pair_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny(tmp_path_factory.mktemp("pairs"), SelfAttentiveForNLI)


@pytest.fixture(scope="module")
def explain(checkpoint: str) -> Any:
    return load_pipeline(checkpoint)


@pytest.fixture(scope="module")
def explain_pairs(pair_checkpoint: str) -> Any:
    return load_pipeline(pair_checkpoint)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with a page that is not laid out and a server that does not start."""
    script = load_script("app")

    class Page:
        def __init__(self, explain: object, title: str, examples: object) -> None:
            script.page = (title, examples)

        def block_thread(self) -> None:
            """Return at once."""

    monkeypatch.setattr(demo, "build_page", Page)
    monkeypatch.setattr(demo, "serve", lambda page, host, port: "http://here")
    return script


def test_view_of_empty_texts(explain: Any, explain_pairs: Any) -> None:
    answer = view(explain, [" \n"])
    assert "nothing to read yet" in answer
    assert "<section" not in answer
    assert "The text is empty." in view(explain_pairs, [PAIR[0], ""])


def test_view_says_what_of_a_long_text_is_not_read(explain: Any) -> None:
    """The page cuts characters, the model reads 64 tokens."""
    assert "Only the first" not in view(explain, ["a" * MAX_CHARACTERS])
    answer = view(explain, ["a" * (MAX_CHARACTERS + 1)])
    assert "Only the first 20,000 of 20,001 characters are read." in answer
    assert "a" * (MAX_CHARACTERS + 1) not in answer
    note = re.compile(r'<p class="note">[^<]*\b36\b[^<]*</p>')
    assert not note.search(view(explain, ["soup " * 64]))
    assert note.search(view(explain, ["soup " * 100]))


def test_build_page_rejects_examples_with_another_number_of_texts(
    explain: Any, explain_pairs: Any
) -> None:
    with pytest.raises(ValueError, match=r"reads 1 text\(s\) .* has 2; name 1 column"):
        build_page(explain, examples=[("a", "b")])
    with pytest.raises(ValueError, match=r"reads 2 text\(s\) .* has 1; name 2 column"):
        build_page(explain_pairs, examples=[("a",)])


def test_app_reads_examples_from_a_file(
    app: ModuleType, pair_checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("premise,label,hypothesis\nA,0,B\nC,1,D\n", encoding="utf-8")
    flags = ["--examples", str(path), "--text_column_names", "premise,hypothesis"]
    app.main([pair_checkpoint, *flags, "--title", "Entailment"])
    assert app.page == ("Entailment", [["A", "B"], ["C", "D"]])
    assert "http://here" in capsys.readouterr().out


def test_app_names_what_it_cannot_use(app: ModuleType, checkpoint: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("sentence\nA\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^app\.py: .*no column 'text'"):
        app.main([checkpoint, "--examples", str(path)])
    folder = save_tiny(tmp_path / "max", SelfAttentiveForSequenceClassification, pooling="max")
    with pytest.raises(SystemExit, match=r"^app\.py: .*pooling='max', which attends to nothing"):
        app.main([folder])


def test_app_without_gradio_names_the_extra(
    checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install does not bring it."""
    monkeypatch.delitem(sys.modules, "sase_hf.serving.demo")
    monkeypatch.setitem(sys.modules, "gradio", None)  # an import of it now fails
    expected = r"^app\.py: .* gradio, which is not installed: pip install 'sase_hf\[demo\]'$"
    with pytest.raises(SystemExit, match=expected):
        load_script("app").main([checkpoint])
