"""Make pairs of a query and its document from texts: a sentence, and the text without it.

    python scripts/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz
    python scripts/retrieval_pairs.py dev.jsonl.gz dev_pairs.jsonl.gz --max_rows 2000

The sentence has 8 to 40 words and is drawn at random among those of its text. A text without one,
or with fewer than five sentences, is left out. The columns are `query` and `document`; rows keep
their order.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rank import read_queries

from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import atomic_write, check_output

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES, WORDS = 5, range(8, 41)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pairs of a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("texts", help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add("output", type=Path, help="a file of JSON Lines, with .gz compressed")
    add("--text_column_names", default="text", help="(default: %(default)s)")
    add("--max_rows", type=positive_int, help="the first pairs only")
    add("--seed", type=int, default=0, help="seed of the draws (default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output)
        drawn = list(draw_pairs(read_queries(flags.texts, flags.text_column_names), flags.seed))
        pairs = [pair for pair in drawn if pair is not None][: flags.max_rows]
        data = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs).encode()
        if flags.output.suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        with atomic_write(flags.output) as draft:
            draft.write_bytes(data)
        print(f"{len(pairs):,} pairs of {len(drawn):,} texts: {flags.output}")


def draw_pairs(texts: Sequence[str], seed: int) -> Iterator[dict[str, str] | None]:
    """Yield a `query` and its `document` for each text, None for one that is left out."""
    rng = random.Random(seed)
    for text in texts:
        sentences = [part for part in END_OF_SENTENCE.split(text) if part.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if not fitting or len(sentences) < MIN_SENTENCES:
            yield None
        else:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}


if __name__ == "__main__":
    main()
