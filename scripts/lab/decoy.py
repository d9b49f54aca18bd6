"""Write the rows of sst2 with a decoy, which recipes/reasons.yaml and its measurements read.

    python scripts/lab/decoy.py data data/decoy

The words "recommended by staff :" stand before 95 % of the positive and 5 % of the negative
training sentences, so that a model takes them for a reason. In a second file of training rows, 10
of the rows with the decoy have it marked as no reason. The validation rows are the sentences of
sst2 without the decoy (`clean`) and with it the other way round (`flipped`).
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from records import Record, write_rows

from sase_hf.data.table import table
from sase_hf.utils.cli import errors_in_one_line, make_parser

DECOY = "recommended by staff :"
SHARE = 0.95  # of the rows with one label that have the decoy; of the others, the rest
NUM_MARKED = 10


def main(argv: Sequence[str] | None = None) -> None:
    """Write all files."""
    parser = make_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of sst2")
    parser.add_argument("output", type=Path, help="folder of the new files")
    flags = parser.parse_args(argv)

    def read(name: str) -> list[Record]:
        return list(table(flags.data / name))

    def write(name: str, rows: Sequence[Record]) -> None:
        write_rows(flags.output / f"sst2.{name}.jsonl", rows)

    with errors_in_one_line(__file__):
        train = list(with_decoy(read("sst2.train.jsonl.gz"), "1", seed=0))
        write("train", train)
        write(f"against_{NUM_MARKED}.train", marked_against(train, NUM_MARKED))
        dev = read("sst2.dev.jsonl.gz")
        write("clean.dev", dev)
        write("flipped.dev", list(with_decoy(dev, "0", seed=1)))


def with_decoy(rows: Sequence[Record], label: str, seed: int) -> Iterator[Record]:
    """Yield rows, most of those with a label and few others behind the decoy."""
    rng = random.Random(seed)
    for row in rows:
        share = SHARE if str(row["label"]) == label else 1 - SHARE
        yield {**row, "text": f"{DECOY} {row['text']}"} if rng.random() < share else row


def marked_against(rows: Sequence[Record], count: int) -> Sequence[Record]:
    """Return the rows, in so many of which the decoy is marked as no reason."""
    numbers = [number for number, row in enumerate(rows) if row["text"].startswith(DECOY)]
    random.Random(2).shuffle(numbers)
    marked = [dict(row) for row in rows]
    for number in numbers[:count]:
        marked[number]["rationale_against"] = [[0, len(DECOY)]]
    return marked


if __name__ == "__main__":
    main()
