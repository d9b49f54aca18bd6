"""Join neighbouring training pairs of Multi30k to long ones, for recipes/translation.yaml.

    python scripts/lab/joined.py data/multi30k_en_fr.train.jsonl.gz data/joined.train.jsonl

Each of three passes over the pairs joins 1, 2, 3 and 4 neighbours in turn, and begins elsewhere.
"""

from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path

from records import write_rows

from sase_hf.data.table import table
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import check_output


def main(argv: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = make_parser(__doc__)
    parser.add_argument("pairs", help="JSON Lines with the fields en and fr")
    parser.add_argument("output", type=Path, help="the new file")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output, [flags.pairs])
        pairs = list(table(flags.pairs))
        joined = []
        for start in range(3):
            rows, counts = iter(pairs[start:]), cycle((1, 2, 3, 4))
            while part := list(islice(rows, next(counts))):
                joined.append({name: " ".join(row[name] for row in part) for name in ("en", "fr")})
        write_rows(flags.output, joined)


if __name__ == "__main__":
    main()
