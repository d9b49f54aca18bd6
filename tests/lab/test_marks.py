"""scripts/lab/marks.py: the spans of marked words."""

import json
from pathlib import Path
from typing import Any

from checkpoints import TEXTS, save_checkpoint
from marks import REVIEWS, SENTENCES, marked_rows, write_doubtful_rows
from transformers import pipeline

from sase_hf.data.rationales import parse_spans


def test_marked_rows_have_spans_of_words_that_people_marked() -> None:
    """Of a negative sentence, the positive word speaks against the label."""
    words = ["So", "good", ",", "yet", "dull"]
    rated = {"words": words, "word_labels": [2, 4, 2, 2, 1], "label": 1}
    neutral = {**rated, "label": 2}
    counted = {"words": words, "word_labels": [0, 1, 0, 2, 3], "label": 1}
    [sentence] = marked_rows([rated, neutral], SENTENCES["sst2"])
    [review] = marked_rows([counted], REVIEWS["yelp5"])
    assert (sentence["label"], review["label"]) == (0, "5")

    def parts(row: dict[str, object], name: str) -> list[str]:
        text = str(row["text"])
        return [text[start:end] for start, end in parse_spans(row[name], text)]

    assert parts(sentence, "rationale") == ["good", "dull"]
    assert parts(sentence, "against") == ["good"]
    assert parts(review, "rationale") == ["yet", "dull"]
    assert parts(review, "against") == []


def test_doubtful_rows_are_those_of_which_a_model_is_least_sure(tmp_path: Path) -> None:
    checkpoint = save_checkpoint(tmp_path / "model")
    classify: Any = pipeline("text-classification", model=checkpoint)
    rows = [{"text": text, "label": 0, "rationale": [[0, 1]]} for text in TEXTS]
    rows.append({"text": "good", "label": 0})  # has no marks that it could keep
    write_doubtful_rows(tmp_path, "sst2", rows, (2,), checkpoint)
    written = map(json.loads, (tmp_path / "sst2.doubtful_2.train.jsonl").read_text().splitlines())
    marked = {row["text"] for row in written if row["rationale"]}
    least_sure_first = sorted(TEXTS, key=lambda text: classify(text)[0]["score"])
    assert marked == set(least_sure_first[:2])
