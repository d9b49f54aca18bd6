"""A small corpus of the project's own making: reviews with stars, and pairs of sentences.

No person wrote these texts: a seeded grammar did. They are made so that counting words does not
solve them (negation, contrast, degree, word order; roles, quantifiers, what was added or dropped)
and a small sentence encoder learns them in a minute. They show that the tools work from end to end;
what a model scores on them says nothing about how it reads real text.

Write them with `python scripts/synthetic_corpus.py FOLDER`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .draw import Draw
from .pairs import LABELS, draw_pair
from .reviews import STARS, draw_review

REVIEW_SIZES = {"train": 6000, "validation": 500, "test": 1000}
PAIR_SIZES = {"train": 9000, "validation": 600, "test": 1200}

# If this number of tries gives no new row, the grammar is used up.
_TRIES = 1000

_README = """\
# Synthetic corpus

**No person wrote these texts.** They come from a grammar in `synthetic`, seed {seed}, and
every row says so in its field `source`. A score on them shows that the tools work; it says nothing
about real text.

| files | rows: train / validation / test | fields |
|---|---|---|
| `reviews.*.jsonl` | {reviews} | `text`, `label` |
| `pairs.*.jsonl` | {pairs} | `premise`, `hypothesis`, `label` |

Reviews are labelled "1 star" to "5 stars"; pairs entailment, neutral or contradiction.
`phenomenon` names what the label turns on. The labels take turns, so each is as frequent as the
others in every file. No review and no premise occurs twice, in one file or in two.
"""

Row = dict[str, str]


def write_corpus(
    folder: str | Path,
    seed: int = 0,
    review_sizes: Mapping[str, int] = REVIEW_SIZES,
    pair_sizes: Mapping[str, int] = PAIR_SIZES,
) -> Path:
    """Write the corpus: `reviews.SPLIT.jsonl`, `pairs.SPLIT.jsonl` and a README.md.

    The same seed and sizes give the same bytes on every platform.

    Args:
        folder: Where to write; files of the same names are replaced.
        seed: Which corpus.
        review_sizes: Rows for each split of the reviews.
        pair_sizes: Rows for each split of the pairs.

    Raises:
        ValueError: If the grammar cannot make this number of different texts.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes, make in (("reviews", review_sizes, _reviews), ("pairs", pair_sizes, _pairs)):
        rows = make(seed, sum(sizes.values()))
        start = 0
        for split, size in sizes.items():
            _write_rows(folder / f"{name}.{split}.jsonl", rows[start : start + size])
            start += size
    readme = _README.format(
        seed=seed,
        reviews=" / ".join(map(str, review_sizes.values())),
        pairs=" / ".join(map(str, pair_sizes.values())),
    )
    (folder / "README.md").write_text(readme, encoding="utf-8", newline="\n")
    return folder


def _reviews(seed: int, count: int) -> list[Row]:
    draw = Draw(f"reviews {seed}")

    def make(number: int) -> Row:
        stars = STARS[number % len(STARS)]
        review = draw_review(draw, stars)
        return {"text": review["text"], "label": f"{stars} star{'s' * (stars > 1)}", **review}

    return _different(make, count, key="text")


def _pairs(seed: int, count: int) -> list[Row]:
    draw = Draw(f"pairs {seed}")

    def make(number: int) -> Row:
        label = LABELS[number % len(LABELS)]
        pair = draw_pair(draw, label)
        sentences = {"premise": pair["premise"], "hypothesis": pair["hypothesis"]}
        return {**sentences, "label": label, **pair}

    return _different(make, count, key="premise")


def _different(make: Callable[[int], Row], count: int, key: str) -> list[Row]:
    """Make rows, each again until its key text is new."""
    rows: dict[str, Row] = {}
    for number in range(count):
        tries = (make(number) for _ in range(_TRIES))
        row = next((row for row in tries if row[key] not in rows), None)
        if row is None:
            raise ValueError(
                f"no new {key} after {number} of {count} rows and {_TRIES} tries: the grammar is "
                "used up; ask for fewer rows"
            )
        rows[row[key]] = {**row, "source": "synthetic"}
    return list(rows.values())


def _write_rows(path: Path, rows: Sequence[Row]) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(lines, encoding="utf-8", newline="\n")
