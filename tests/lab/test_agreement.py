"""Agreement of scores of words with marks of people."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import save_checkpoint, script_main
from explanations.agreement import agreement, by_length, measure_agreement, words_of
from explanations.dataset import load_evaluation_dataset
from rows import write_csv, write_jsonl

MARKED = [
    {"text": "The soup was cold, and nobody came.", "rationale": [[13, 18], [23, 29]]},
    {"text": "The people were friendly.", "rationale": [[16, 24]], "against": [[16, 24]]},
    {"text": "Very good!", "rationale": [[4, 5]]},
    {"text": "Good!", "rationale": None},
]


def test_agreement_by_hand() -> None:
    """Five words, the second and the fourth are marked, the fourth against the label."""
    marked, against = (np.array(marks) > 0 for marks in ([0, 1, 0, 1, 0], [0, 0, 0, 1, 0]))
    perfect, ties, zeros = [0.1, 0.9, -0.1, 0.5, 0], [1, 1, 0, -1, 1], [0] * 5
    found = agreement(np.array([perfect, ties, zeros]), marked, against)
    by_hand = [[1, 1, 1, 0.5], [(1 / 2 + 2 / 5) / 2, 0.5, 0, 1], [(1 / 2 + 2 / 4) / 2, 0.5, 0, 0]]
    assert found == pytest.approx(np.array(by_hand))


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("so good!! 👍🏽 n't", ["so", "good", "!", "!", "👍🏽", "n't"], {"good!!": 3, "👍🏽": 1}),
        ("cut here", ["cut"], {"cut": 1}),
        ("a\u200b \u200b b", ["a", "b"], {"a\u200b": 1, "b": 1}),
        ("", [], {}),
    ],
)
def test_words_of_are_the_parts_between_white_space_that_have_tokens(
    text: str, pieces: list[str], expected: dict[str, int]
) -> None:
    offsets, end = [], 0
    for piece in pieces:
        start = text.index(piece, end)
        end = start + len(piece)
        offsets.append((start, end))
    words, of_word = words_of(text, [*offsets, (0, 0)])  # as a special token
    assert of_word.shape == (len(words), len(offsets) + 1)
    counts = dict(zip((text[start:end] for start, end in words), of_word.sum(1), strict=True))
    assert expected.items() <= counts.items()
    assert of_word.sum() == len(pieces)


def test_by_length_keeps_texts_of_one_length_together() -> None:
    lengths = np.array([3, 9, 5, 3, 3, 8, 4])
    groups = by_length(lengths, {"attention": lengths / 10})
    sizes = [[group[name] for name in ("from", "to", "texts")] for group in groups]
    assert sizes == [[3, 3, 3], [4, 5, 2], [8, 9, 2]]
    assert groups[1]["average_precision"]["attention"] == pytest.approx(0.45)


def measured(folder: Path, label: str, **options: Any) -> dict[str, Any]:
    file = write_jsonl(folder / f"{label}.jsonl", [{**row, "label": label} for row in MARKED])
    drawn: dict[str, Any] = {"with_marks": True, "max_samples": 3}
    dataset = load_evaluation_dataset(str(folder / "tiny"), str(file), **drawn)
    return measure_agreement(dataset, integrated_gradients_steps=0, **options)


def test_measure_agreement_leaves_texts_without_marks_out(tmp_path: Path) -> None:
    """None of `max_samples` is drawn without marks. The sign needs a right answer, and a sign."""
    save_checkpoint(tmp_path / "tiny")
    options: dict[str, Any] = {"ratings": {"cold": 1.0, "nobody": 0.5, "friendly": 0.7}}
    by_label = {label: measured(tmp_path, label, **options) for label in ("bad", "good")}
    for found in by_label.values():
        assert (found["num_texts"], found["num_left_out"]) == (2, 1)
        assert found["metrics"]["rated_words_average_precision"] == 1
        assert found["metrics"]["rated_words_token_f1"] == 1
        assert not {"attention_sign", "random_sign", "rated_words_sign"} & found["metrics"].keys()
    has_sign = ["word_contributions_sign" in found["metrics"] for found in by_label.values()]
    assert any(has_sign), "each text has one of the labels"
    alone = measured(tmp_path, "bad", batch_size=1, **options)
    assert alone["metrics"] == pytest.approx(by_label["bad"]["metrics"], abs=1e-5)


def test_measure_agreement_refuses_what_it_cannot_compare(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "tiny")
    agree = script_main("lab/measure")
    none = write_jsonl(tmp_path / "none.jsonl", [{"text": "Good!"}])
    with pytest.raises(SystemExit, match=r"none\.jsonl has no column 'rationale'; it has 'text'"):
        agree(["agreement", checkpoint, f"--file={none}"])
    rows = [{"text": "Good!", "rationale": "[[0, 9]]"}]
    with pytest.raises(SystemExit, match=r"row 2 .* column 'rationale': \[0, 9\] is no mark"):
        agree(["agreement", checkpoint, f"--file={write_csv(tmp_path / 'bad.csv', rows)}"])
    empty = write_jsonl(tmp_path / "empty.jsonl", MARKED[2:])
    with pytest.raises(SystemExit, match="no text has a mark on a word that the model reads"):
        agree(["agreement", checkpoint, f"--file={empty}"])


@pytest.mark.slow
def test_measure_writes_a_record_of_agreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, record = save_checkpoint(tmp_path / "tiny"), tmp_path / "record.json"
    file, listed = write_jsonl(tmp_path / "marked.jsonl", MARKED), tmp_path / "words.tsv"
    listed.write_text("word\tsentiment\nCold\t-0.8\nfriendly\t0.9\n", encoding="utf-8")
    words = [f"--file={file}", f"--word_list={listed}", "--integrated_gradients_steps=2"]
    script_main("lab/measure")(["agreement", checkpoint, *words, f"--record={record}"])
    written = json.loads(record.read_text(encoding="utf-8"))
    found = written["intervals"]["attention_average_precision"]
    assert found["mean"] == written["metrics"]["attention_average_precision"]
    assert written["metrics"]["rated_words_top_1"] == 1
    table = capsys.readouterr().out.splitlines()
    assert table[0].startswith("means over 2 texts (1 without a mark that is read)")
    assert f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]" in table[1]
