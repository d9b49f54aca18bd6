"""Write the reviews with stars of the quickstart.

    python scripts/lab/synthetic_corpus.py sase_hf/commands/synthetic

No person wrote these texts: a seeded grammar did. Counting words does not solve them (negation,
contrast, degree), and a small sentence encoder learns them in a minute. They show that the tools
work from end to end; a score on them says nothing about real text.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

from grammars.grammar import Draw
from grammars.reviews import STARS, draw_review

from sase_hf.data.columns import SPLITS
from sase_hf.utils.cli import errors_in_one_line, make_parser

SIZES = (6000, 500, 1000)  # of the splits


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
    rows = _different_rows(Draw("reviews 0"))
    for split, size in zip(SPLITS, SIZES, strict=True):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in islice(rows, size))
        yield f"reviews.{split}.jsonl", "".join(lines)


def _different_rows(draw: Draw) -> Iterator[dict[str, str]]:
    """Yield rows with stars in turn; a row is made again until its text is new."""
    seen: set[str] = set()
    for stars in cycle(STARS):
        row = draw_review(draw, stars)
        while row["text"] in seen:
            row = draw_review(draw, stars)
        seen.add(row["text"])
        yield {**row, "source": "synthetic"}


if __name__ == "__main__":
    main()
