"""Join neighbouring training pairs of Multi30k to long ones, for recipes/translation.yaml.

    python scripts/lab/joined.py data/multi30k_en_fr.train.jsonl.gz data/joined.train.jsonl

Each of three passes over the pairs joins 1, 2, 3 and 4 neighbours in turn, and begins elsewhere.
"""

import json
from collections.abc import Sequence
from itertools import cycle, islice

from sase_hf.data.rows import read_rows, wrap_read_errors
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import write_text


def main(argv: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = make_parser(__doc__)
    parser.add_argument("pairs", help="JSON Lines with the fields en and fr")
    parser.add_argument("output", help="the new file")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        with wrap_read_errors(flags.pairs):
            pairs = list(read_rows(flags.pairs))
        lines = []
        for start in range(3):
            rows = iter(pairs[start:])
            for count in cycle((1, 2, 3, 4)):
                if not (joined := list(islice(rows, count))):
                    break
                row = {
                    language: " ".join(pair[language] for pair in joined)
                    for language in ("en", "fr")
                }
                lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        write_text(flags.output, "".join(lines))


if __name__ == "__main__":
    main()
