"""Make pairs of a query and its document from texts: a sentence, and the text without it.

    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz
    python scripts/lab/retrieval_pairs.py dev.jsonl.gz dev_pairs.jsonl.gz --max_rows 2000
    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz --draws 4

The sentence has 8 to 40 words and is drawn at random among those of its text. A text without one,
or with fewer than five sentences, is left out. The columns are `query` and `document`. The pairs of
a draw keep the order of their texts; the draws follow each other, and may draw a sentence again.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from sase_hf.retrieval.embed import open_rows
from sase_hf.utils.cli import add_text_column_names, errors_in_one_line, make_parser
from sase_hf.utils.files import atomic_write, check_output
from sase_hf.utils.text import refusal

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES = 5  # of a text
WORDS = range(8, 41)  # of a query


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pairs of a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("texts", help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add("output", type=Path, help="a file of JSON Lines, with .gz compressed")
    add_text_column_names(parser)
    add("--max_rows", type=int, help="of each draw, the first pairs only")
    add("--draws", type=int, default=1, help="how often to draw (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of the draws (default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output, [flags.texts])
        rows, column = open_rows(flags.texts, flags.text_column_names)
        seeds = range(flags.seed, flags.seed + flags.draws)
        draws = (islice(draw_pairs(rows[column], seed), flags.max_rows) for seed in seeds)
        pairs = list(chain.from_iterable(draws))
        if not pairs:
            raise refusal(
                f"no text in {flags.texts} gives a pair",
                f"a text needs {MIN_SENTENCES} sentences that end in . ! or ? and a blank, one of "
                "them of 8 to 40 words between blanks",
            )
        write_pairs(flags.output, pairs)
        print(f"{len(pairs):,} pairs of {len(rows):,} texts: {flags.output}")


def write_pairs(output: Path, pairs: Sequence[dict[str, str]]) -> None:
    """Write JSON Lines; equal pairs give equal bytes, compressed ones too."""
    lines = [(json.dumps(pair, ensure_ascii=False) + "\n").encode() for pair in pairs]
    with atomic_write(output) as draft, draft.open("wb") as file:
        if output.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def draw_pairs(texts: Sequence[str], seed: int) -> Iterator[dict[str, str]]:
    """Yield a `query` and its `document` for each text that is not left out."""
    rng = random.Random(seed)
    for text in texts:
        sentences = [sentence for sentence in END_OF_SENTENCE.split(text) if sentence.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if fitting and len(sentences) >= MIN_SENTENCES:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}


if __name__ == "__main__":
    main()
