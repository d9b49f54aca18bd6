"""A small corpus of the project's own making: reviews with stars, and pairs of sentences.

No person wrote these texts: a seeded grammar did. They are made so that counting words does not
solve them (negation, contrast, degree, word order; roles, quantifiers, what was added or dropped)
and a small sentence encoder learns them in a minute. They show that the tools work from end to end;
what a model scores on them says nothing about how it reads real text.

Write them with `python scripts/synthetic_corpus.py FOLDER`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from .grammar import Draw
from .pairs import LABELS, draw_pair
from .reviews import STARS, draw_review

REVIEW_SIZES = {"train": 6000, "validation": 500, "test": 1000}
PAIR_SIZES = {"train": 9000, "validation": 600, "test": 1200}

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
    """Write `reviews.SPLIT.jsonl`, `pairs.SPLIT.jsonl` and a README.md, replacing older ones.

    The same seed and sizes give the same bytes on every platform.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes, make, key in (
        ("reviews", review_sizes, _review, "text"),
        ("pairs", pair_sizes, _pair, "premise"),
    ):
        rows = _different_rows(make, Draw(f"{name} {seed}"), sum(sizes.values()), key)
        for split, size in sizes.items():
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in islice(rows, size))
            _write(folder / f"{name}.{split}.jsonl", "".join(lines))
    reviews, pairs = (" / ".join(map(str, sizes.values())) for sizes in (review_sizes, pair_sizes))
    _write(folder / "README.md", _README.format(seed=seed, reviews=reviews, pairs=pairs))
    return folder


def _review(draw: Draw, number: int) -> Row:
    stars = STARS[number % len(STARS)]
    review = draw_review(draw, stars)
    label = f"{stars} star{'s' * (stars > 1)}"
    return {"text": review["text"], "label": label, "phenomenon": review["phenomenon"]}


def _pair(draw: Draw, number: int) -> Row:
    label = LABELS[number % len(LABELS)]
    pair = draw_pair(draw, label)
    sentences = {name: pair[name] for name in ("premise", "hypothesis")}
    return {**sentences, "label": label, "phenomenon": pair["phenomenon"]}


def _different_rows(
    make: Callable[[Draw, int], Row], draw: Draw, count: int, key: str
) -> Iterator[Row]:
    """Yield rows, each made again until its key text is new."""
    seen: set[str] = set()
    for number in range(count):
        row = make(draw, number)
        while row[key] in seen:
            row = make(draw, number)
        seen.add(row[key])
        yield {**row, "source": "synthetic"}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
