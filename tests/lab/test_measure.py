"""The script that measures attention: its records, plots and refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from checkpoints import save_checkpoint, script_main, write_texts
from explanations.dataset import EvaluationDataset
from tiny_translation import save_translator


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attention", "{folder}/absent"], "absent; name the folder of a checkpoint"),
        (["attention", "--record={folder}"], "is a folder; name a file in it"),
        (["attention", "{folder}", "--names", "one", "one"], "2 checkpoints are called one, one"),
        (["faithfulness", "--text_column_names=body"], "has no column 'body'; it has 'text'"),
        (["faithfulness", "--plot=curves.html"], "the name must end in .png or .svg"),
        (["faithfulness", "--random_orders=0"], "--random_orders is 0; it must be 1 or more"),
    ],
)
def test_measure_refuses_mistakes_in_one_line_before_it_measures(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvaluationDataset, "batches", lambda *_: pytest.fail("it measured"))
    given = [word.format(folder=tmp_path) for word in words]
    given[1:1] = [save_checkpoint(tmp_path / "tiny")]
    with pytest.raises(SystemExit, match=rf"^measure\.py: .*{re.escape(message)}"):
        script_main("lab/measure")([*given, f"--file={write_texts(tmp_path)}"])


def test_measure_says_what_shows_the_attention_of_a_translator(tmp_path: Path) -> None:
    save_translator(tmp_path / "tiny", ["good food"])
    words = ["attention", str(tmp_path / "tiny"), f"--file={write_texts(tmp_path)}"]
    with pytest.raises(SystemExit, match=r"tiny translates; scripts/visualize\.py draws its al"):
        script_main("lab/measure")(words)


@pytest.mark.slow
def test_measure_compares_the_attention_of_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a table, a file and a plot."""
    folders = [save_checkpoint(tmp_path / f"{hops}", num_hops=hops) for hops in (3, 2)]
    output, plot, listed = (tmp_path / name for name in ("numbers.json", "plot.svg", "words.txt"))
    listed.write_text("good\n", encoding="utf-8")
    words = [f"--file={write_texts(tmp_path)}", f"--record={output}", f"--plot={plot}"]
    words += ["--names", "on", "off", f"--word_list={listed}"]
    script_main("lab/measure")(["attention", *folders, *words])
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    records: dict[str, Any] = json.loads(text)
    assert [len(records[name]["entropy"]["hops"]) for name in ("on", "off")] == [3, 2]
    assert records["on"]["metrics"]["lift"] == records["on"]["lift"]["mean"]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    table = capsys.readouterr().out.splitlines()
    assert [line for line in table if "texts" in line] == ["on, 5 texts", "off, 5 texts"]
    first = records["on"]["entropy"]["hops"][0]
    assert f"{first['mean']:.3f} [{first['p25']:.3f}, {first['p75']:.3f}]" in table[2]


@pytest.mark.slow
def test_measure_writes_a_record_of_faithfulness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record names texts, weights and the given flags, and no folder."""
    folder = save_checkpoint(tmp_path / "tiny", is_pair=True)
    record, plot = tmp_path / "record.json", tmp_path / "curves.png"
    words = [f"--file={write_texts(tmp_path, is_pair=True)}", "--max_samples=2", "--seed=7"]
    words += ["--text_column_names=premise,hypothesis", "--integrated_gradients_steps=4"]
    script_main("lab/measure")(
        ["faithfulness", folder, *words, f"--record={record}", f"--plot={plot}"]
    )
    text = record.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    written = json.loads(text)
    assert (written["sources"]["validation"]["rows"], written["seed"]) == (2, 7)
    given = {"checkpoint", "file", "integrated_gradients_steps", "max_samples", "plot", "record"}
    assert written["arguments"].keys() == given | {"seed", "text_column_names"}
    assert written["checkpoint"]["name"] == "tiny"
    assert len(written["checkpoint"]["sha256"]) == 64
    assert written["versions"]["captum"]
    assert plot.read_bytes().startswith(b"\x89PNG")
    table = capsys.readouterr().out.splitlines()
    shown = f"{written['metrics']['attention_deletion_area']:.3f}"
    assert table[0].split()[:6] == ["means", "over", "2", "texts", "deletion", "AUC"]
    assert table[1].split()[:2] == ["attention", shown]
