"""scripts/app.py and the page behind it, without a browser."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from pages import PAIR, find_browser, save_tiny
from script_files import load_script

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification
from sase_hf.serving.demo import (
    MAX_CHARACTERS,
    choose_examples,
    load_pipeline,
    read_examples,
    view,
)
from sase_hf.serving.space import write_space

ROOT = Path(__file__).parents[2]
MAX_SHOWN_OF_AN_EXAMPLE = 60


@pytest.fixture(scope="module")
def app() -> ModuleType:
    return load_script("app")


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


def link_in(answer: str) -> dict[str, list[str]]:
    """Return the query of the link in an answer."""
    found = re.search(r'<a class="view" href="\?([^"]*)">', answer)
    assert found
    return parse_qs(html.unescape(found[1]), keep_blank_values=True)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_gets_a_word_and_no_picture(explain: Any, text: str) -> None:
    """There is no attention to show."""
    answer = view(explain, [text])
    assert "nothing to read yet" in answer
    assert "<section" not in answer


def test_one_empty_sentence_of_two_is_read(explain_pairs: Any) -> None:
    """The model has an answer for it, and a link brings it back."""
    answer = view(explain_pairs, [PAIR[0], ""])
    assert "The text is empty." in answer
    assert link_in(answer) == {"text": [PAIR[0]], "text_pair": [""]}


def test_a_text_is_cut_and_the_answer_says_where(explain: Any) -> None:
    """A text that fits is not spoken of."""
    assert "Only the first" not in view(explain, ["a" * MAX_CHARACTERS])
    answer = view(explain, ["a" * (MAX_CHARACTERS + 1)])
    assert "Only the first 20,000 of 20,001 characters are read." in answer
    assert "a" * (MAX_CHARACTERS + 1) not in answer


def test_words_beyond_the_limit_of_the_model_are_spoken_of(explain: Any) -> None:
    """The model reads 64 tokens; the picture must not look as if it had read all."""
    note = re.compile(r'<p class="note">[^<]*\b36\b[^<]*</p>')
    assert not note.search(view(explain, ["soup " * 64]))
    assert note.search(view(explain, ["soup " * 100]))


@pytest.mark.parametrize(
    "text", ["\"&'<>", "a=b&text=c#d?e", "\ud800 half", "\0", "cr\u00e8me \N{DOG FACE}"]
)
def test_a_link_holds_any_text(explain: Any, text: str) -> None:
    """What an address cannot hold, half a character, becomes a question mark."""
    assert link_in(view(explain, [text])) == {"text": [text.replace("\ud800", "?")]}


def test_an_endless_link_is_not_offered(explain: Any) -> None:
    """It would be cut on its way, and then show something else."""
    answer = view(explain, ["\u00e8" * 2000])
    assert "<a " not in answer
    assert "too long for a link" in answer


def test_the_default_examples_are_shown_whole(explain: Any, explain_pairs: Any) -> None:
    """Gradio cuts longer ones on their buttons."""
    for pipeline, number in ((explain, 1), (explain_pairs, 2)):
        for example in choose_examples(pipeline, None):
            assert len(example) == number
            assert len(" / ".join(example)) <= MAX_SHOWN_OF_AN_EXAMPLE


def test_examples_come_from_a_file(tmp_path: Path) -> None:
    """Of the same kinds, and with the same column names, as training data."""
    path = tmp_path / "pairs.csv"
    path.write_text("premise,label,hypothesis\nA,0,B\nC,1,D\n", encoding="utf-8")
    assert read_examples(path, ["premise", "hypothesis"]) == [("A", "B"), ("C", "D")]
    expected = r"pairs.csv has no column 'text'; .* with --text_column_names"
    with pytest.raises(ValueError, match=expected):
        read_examples(path, ["text"])
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "A"}\n{"text": null}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"row 1 .* column 'text': None is of type NoneType"):
        read_examples(path, ["text"])


def test_examples_of_another_shape_are_refused(explain: Any, explain_pairs: Any) -> None:
    """At the start, and not when somebody clicks on one."""
    with pytest.raises(ValueError, match=r"reads 1 text\(s\) .* \('a', 'b'\) has 2; name 1 column"):
        choose_examples(explain, [("a", "b")])
    with pytest.raises(ValueError, match=r"reads 2 text\(s\) .* \('a',\) has 1; name 2 column"):
        choose_examples(explain_pairs, [("a",)])


def test_a_model_without_attention_is_refused_at_the_start(app: ModuleType, tmp_path: Path) -> None:
    """There would be nothing to show."""
    folder = save_tiny(tmp_path, SelfAttentiveForSequenceClassification, pooling="max")
    with pytest.raises(SystemExit, match=r"^app\.py: .*pooling='max', which attends to nothing"):
        app.main([folder])


def test_a_checkpoint_that_is_not_there_is_refused(app: ModuleType, tmp_path: Path) -> None:
    """In words that name it."""
    with pytest.raises(SystemExit, match=r"^app\.py: .*nowhere"):
        app.main([str(tmp_path / "nowhere")])


def test_a_port_that_is_taken_is_named(
    app: ModuleType, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way out is another port."""

    def serve(page: object, host: str | None, port: int) -> None:
        raise OSError(f"Cannot find empty port in range: {port}-{port}.")  # as Gradio says it

    monkeypatch.setattr(app, "build_page", lambda *_: None)
    monkeypatch.setattr(app, "serve", serve)
    with pytest.raises(SystemExit, match=r"^app\.py: Cannot find empty port in range: 7861"):
        app.main([checkpoint, "--port", "7861"])


def test_without_gradio_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install does not bring it."""
    for module in ("sase_hf.serving.demo", "sase_hf.serving.space"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "gradio", None)  # an import of it now fails
    expected = r"^app\.py: .* gradio, which is not installed: pip install 'sase_hf\[demo\]'$"
    with pytest.raises(SystemExit, match=expected):
        load_script("app")


def test_a_skipped_browser_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skip that nobody reads would pass for a page that works."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium is installed"):
        find_browser()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"no Chromium is installed .* CI=true"):
        find_browser()


# In the folder of a Space: run its app.py up to the moment when it would wait for readers.
VISIT = """
import runpy, sys
sys.path.insert(0, "")
import gradio, sase_hf
assert sase_hf.__file__.startswith(sys.argv[1]), sase_hf.__file__
def launch(page, **options):
    print([block.value for block in page.blocks.values() if block.get_block_name() == "html"][0])
    print([block.label for block in page.blocks.values() if block.get_block_name() == "textbox"])
    return None, "", None
gradio.Blocks.launch, gradio.Blocks.block_thread = launch, lambda page: print("waits")
runpy.run_path("app.py", run_name="__main__")
"""


def test_a_space_brings_all_that_its_page_needs(
    app: ModuleType, pair_checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is uploaded as it is; whoever has to edit it first has to know how."""
    folder = tmp_path / "space"
    title = "Two \"texts\" & 'one' {answer}: \u00e8\n<i>"
    app.main([pair_checkpoint, "--write_space", str(folder), "--title", title])
    assert capsys.readouterr().out.split() == ["Space", str(folder)]

    _, front_matter, _ = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    entries = yaml.safe_load(front_matter)
    assert entries["title"] == title
    assert (entries["sdk"], entries["app_file"]) == ("gradio", "app.py")
    requirements = (folder / "requirements.txt").read_text("utf-8").splitlines()
    assert {"torch", "transformers"} <= {re.split("[<>=]", line)[0] for line in requirements}
    assert not [line for line in requirements if "extra" in line]
    rows = (folder / "examples.jsonl").read_text("utf-8").splitlines()
    assert json.loads(rows[0]).keys() == {"text", "text_pair"}
    assert not list(folder.rglob("__pycache__"))

    # Elsewhere, because Gradio leaves event loops open, which is an error in a test.
    done = subprocess.run(
        [sys.executable, "-I", "-c", VISIT, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert html.escape(title) in done.stdout
    assert "['Premise', 'Hypothesis']\nwaits" in done.stdout


def test_a_space_is_not_written_over_other_files(explain: Any, tmp_path: Path) -> None:
    """A mistyped folder must cost nothing."""
    (tmp_path / "thesis.txt").write_text("four years", encoding="utf-8")
    with pytest.raises(ValueError, match="is there and not empty; name a new folder"):
        write_space(tmp_path, explain)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_space_names_a_model_of_the_hub(explain: Any, tmp_path: Path) -> None:
    """It is loaded from there, and the Hub links the two."""
    named = explain.model.name_or_path
    explain.model.name_or_path = "somebody/some-model"
    try:
        write_space(tmp_path / "space", explain)
    finally:
        explain.model.name_or_path = named
    assert "models:\n- somebody/some-model\n" in (tmp_path / "space/README.md").read_text("utf-8")
    assert "'somebody/some-model'" in (tmp_path / "space/app.py").read_text("utf-8")
    assert not (tmp_path / "space/model").exists()
