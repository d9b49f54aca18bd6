"""The script that makes pairs of a sentence and its text."""

from pathlib import Path

from checkpoints import script_main
from rows import write_jsonl
from runs import read_lines


def test_pairs_are_a_sentence_beside_the_text_without_it(tmp_path: Path) -> None:
    long = "one two three four five six seven eight nine."
    texts = [f"A b. {long} C d! E f? G h.", "Too few. Sentences.", "No. Long. One. At. All."]
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"text": text} for text in texts * 2])
    output = tmp_path / "pairs.jsonl"
    script_main("lab/retrieval_pairs")([str(rows), str(output), "--max_rows", "1"])
    assert read_lines(output) == [{"query": long, "document": "A b. C d! E f? G h."}]
