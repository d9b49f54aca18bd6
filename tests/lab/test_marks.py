"""scripts/lab/marks.py: the spans of marked words."""

from marks import REVIEWS, SENTENCES, marked_rows

from sase_hf.data.marks import parse_spans


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
