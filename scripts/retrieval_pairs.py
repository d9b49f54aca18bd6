"""Make pairs of a query and its document of texts: a sentence, and the text without it.

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
from collections.abc import Sequence
from pathlib import Path

from sase_hf.data.files import read_rows
from sase_hf.data.tokenizer import text_fault
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import atomic_write, check_output

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES = 5
WORDS = range(8, 41)


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
        lines: list[str] = []
        rng = random.Random(flags.seed)
        for number, row in enumerate(read_rows(flags.texts)):
            text = row.get(flags.text_column_name)
            if fault := text_fault(text):
                raise ValueError(
                    f"row {number} (counted from 0) of {flags.texts}, column "
                    f"{flags.text_column_name!r}: {fault}; choose another with --text_column_name"
                )
            pair = draw_pair(str(text), rng)
            if pair is not None and len(lines) != flags.max_rows:
                names = zip(("query", "document"), pair, strict=True)
                lines.append(json.dumps(dict(names), ensure_ascii=False) + "\n")
        data = "".join(lines).encode()
        with atomic_write(flags.output) as draft:
            draft.write_bytes(
                gzip.compress(data, mtime=0) if flags.output.suffix == ".gz" else data
            )
        print(f"{len(lines):,} pairs of {number + 1:,} texts: {flags.output}")


def draw_pair(text: str, rng: random.Random) -> tuple[str, str] | None:
    """Return a sentence of a text and the text without it, None where there is none to take."""
    sentences = [part for part in END_OF_SENTENCE.split(text) if part.strip()]
    able = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
    if not able or len(sentences) < MIN_SENTENCES:
        return None
    return sentences.pop(rng.choice(able)), " ".join(sentences)


if __name__ == "__main__":
    main()
