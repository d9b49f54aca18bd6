"""Make pairs of a query and its document from texts: a sentence, and the text without it.

    python scripts/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz
    python scripts/retrieval_pairs.py dev.jsonl.gz dev_pairs.jsonl.gz --max_rows 2000

The sentence has 8 to 40 words and is drawn at random among those of its text. A text without one,
or with fewer than five sentences, is left out. The columns are `query` and `document`; rows keep
their order.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from sase_hf.retrieval.queries import draw_pairs
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import atomic_write, check_output


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pairs of a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("texts", help="CSV, TSV, JSON or JSON Lines (all also .gz)")
    add("output", type=Path, help="a file of JSON Lines, with .gz compressed")
    add("--text_column_name", default="text", help="(default: %(default)s)")
    add("--max_rows", type=positive_int, help="the first pairs only")
    add("--seed", type=int, default=0, help="seed of the draws (default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output)
        drawn = list(draw_pairs(flags.texts, flags.text_column_name, flags.seed))
        pairs = [pair for pair in drawn if pair is not None][: flags.max_rows]
        data = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs).encode()
        if flags.output.suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        with atomic_write(flags.output) as draft:
            draft.write_bytes(data)
        print(f"{len(pairs):,} pairs of {len(drawn):,} texts: {flags.output}")


if __name__ == "__main__":
    main()
