"""Write the rows with marks of people that recipes/explanation.yaml and its measurements read.

    python scripts/lab/marks.py data data/marks

`sst_words` are sentences with a label of each word, from 0 to 4: a word is marked if its label is
not 2, and speaks against the sentence if its polarity is the opposite. Neutral sentences are left
out. `yelp_hat` are reviews with the number of people, of three, who marked each word: two mark it.
In files of training rows, a number of the rows that could have marks have them: up to all of sst2,
and none to all of the 500 reviews, alone or added to yelp5. These rows are drawn at random.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from records import Record, write_rows

from sase_hf.data.table import table
from sase_hf.utils.cli import errors_in_one_line, make_parser

# The labels of each set for reviews of `yelp_hat`, 0 and 1, and for sentences of `sst_words`.
REVIEWS = {"sst2": (0, 1), "yelp5": ("1", "5"), "reviews": ("1", "5")}
SENTENCES = {"sst2": (0, 0, None, 1, 1)}
NUM_MARKED = (25, 50, 100, 200)


def main(argv: Sequence[str] | None = None) -> None:
    """Write all files."""
    parser = make_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of sst_words, yelp_hat, sst2 and yelp5")
    parser.add_argument("output", type=Path, help="folder of the new files")
    flags = parser.parse_args(argv)

    def read(name: str) -> list[Record]:
        return list(table(flags.data / f"{name}.jsonl.gz"))

    with errors_in_one_line(__file__):
        for marks, sets in (("sst_words", SENTENCES), ("yelp_hat", REVIEWS)):
            for name, labels in sets.items():
                marked = marked_rows(read(f"{marks}.dev"), labels)
                write_rows(flags.output / f"{name}.{marks}.dev.jsonl", marked)
        sentences = marked_rows(read("sst_words.train"), SENTENCES["sst2"])
        known = {row["text"].lower(): row for row in sentences}
        sst2 = [{**known.get(row["text"], {}), **row} for row in read("sst2.train")]
        write_training_rows(flags.output, "sst2", sst2, (*NUM_MARKED, 500))
        yelp5 = read("yelp5.train")
        reviews = list(marked_rows(read("yelp_hat.train"), REVIEWS["yelp5"]))
        write_training_rows(flags.output, "yelp5", yelp5 + reviews, (0,))
        write_training_rows(flags.output, "reviews", reviews, (0, *NUM_MARKED))


def write_training_rows(
    folder: Path, name: str, rows: Sequence[Record], counts: Sequence[int]
) -> None:
    """Write the rows once for each number of those that keep their marks, and once with all."""
    marked = [number for number, row in enumerate(rows) if row.get("rationale")]
    random.Random(0).shuffle(marked)
    write_rows(folder / f"{name}.all.train.jsonl", _marked_only_at(marked, rows))
    for count in counts:
        few = _marked_only_at(marked[:count], rows)
        write_rows(folder / f"{name}.{count}.train.jsonl", few)


def _marked_only_at(numbers: Sequence[int], rows: Sequence[Record]) -> Iterator[Record]:
    kept = set(numbers)
    for number, row in enumerate(rows):
        if number in kept:
            yield row
        else:
            yield {**row, "rationale": None}


def marked_rows(rows: Iterable[Record], labels: Sequence[Any]) -> Iterator[Record]:
    """Yield rows with text, label, and spans of marked words; a label of None leaves a row out."""
    is_graded = len(labels) > 2
    for row in rows:
        label = labels[row["label"]]
        if label is None:
            continue
        marked = []
        against = []
        start = 0
        for word, value in zip(row["words"], row["word_labels"], strict=True):
            end = start + len(word)
            is_marked = value >= 2
            if is_graded:
                is_marked = value != 2
                if (value - 2) * (row["label"] - 2) < 0:
                    against.append([start, end])
            if is_marked:
                marked.append([start, end])
            start = end + 1  # a blank stands between words
        text = " ".join(row["words"])
        yield {"text": text, "label": label, "rationale": marked, "against": against}


if __name__ == "__main__":
    main()
