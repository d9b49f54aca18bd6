"""Write the corpus of the quickstart: reviews with stars, and pairs of sentences.

    python scripts/lab/synthetic_corpus.py sase_hf/commands/synthetic

No person wrote these texts: a seeded grammar did. They are made so that counting words does not
solve them (negation, contrast, degree, word order; roles, quantifiers, what was added or dropped)
and a small sentence encoder learns them in a minute. They show that the tools work from end to end;
a score on them says nothing about real text.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from grammars.grammar import Draw
from grammars.pairs import LABELS, draw_pair
from grammars.reviews import STARS, draw_review

from sase_hf.data.arguments import SPLITS
from sase_hf.utils.cli import errors_in_one_line, make_parser

REVIEW_SIZES = (6000, 500, 1000)  # of the splits
PAIR_SIZES = (9000, 600, 1200)


def main(argv: Sequence[str] | None = None) -> None:
    """Write all files, compressed."""
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder of the new files")
    folder = parser.parse_args(argv).folder
    with errors_in_one_line(__file__):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in corpus_files():
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def corpus_files() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file, the same on every platform."""
    corpora: Any = {
        "reviews": (REVIEW_SIZES, draw_review, STARS),
        "pairs": (PAIR_SIZES, draw_pair, LABELS),
    }
    for name, (sizes, make, labels) in corpora.items():
        rows = _different_rows(make, labels, Draw(f"{name} 0"))
        for split, size in zip(SPLITS, sizes, strict=True):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in islice(rows, size))
            yield f"{name}.{split}.jsonl", "".join(lines)


def _different_rows(
    make: Callable[[Draw, Any], dict[str, str]], labels: Sequence[Any], draw: Draw
) -> Iterator[dict[str, str]]:
    """Yield rows with labels in turn; a row is made again until its first text is new."""
    seen: set[str] = set()
    for label in cycle(labels):
        row = make(draw, label)
        while (text := next(iter(row.values()))) in seen:
            row = make(draw, label)
        seen.add(text)
        yield {**row, "source": "synthetic"}


if __name__ == "__main__":
    main()
