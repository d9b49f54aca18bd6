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

from sase_hf.data.rows import read_rows, wrap_read_errors
from sase_hf.data.tokenizer import text_fault
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import atomic_write, check_output

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES, WORDS = 5, range(8, 41)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pairs of a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("texts", help="CSV, TSV, JSON or JSON Lines (all also .gz)")
    add("output", type=Path, help="a file of JSON Lines, with .gz compressed")
    add("--text_column_names", default="text", help="(default: %(default)s)")
    add("--max_rows", type=positive_int, help="the first pairs only")
    add("--seed", type=int, default=0, help="seed of the draws (default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output)
        with wrap_read_errors(flags.texts):
            drawn = list(draw_pairs(flags.texts, flags.text_column_names, flags.seed))
        pairs = [pair for pair in drawn if pair is not None][: flags.max_rows]
        data = "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs).encode()
        if flags.output.suffix == ".gz":
            data = gzip.compress(data, mtime=0)
        with atomic_write(flags.output) as draft:
            draft.write_bytes(data)
        print(f"{len(pairs):,} pairs of {len(drawn):,} texts: {flags.output}")


def draw_pairs(file: str, text_column_names: str, seed: int) -> Iterator[dict[str, str] | None]:
    """Yield a `query` and its `document` for each text of a file: a sentence, and the other ones.

    The sentence is drawn at random among those of 8 to 40 words. A text without such a sentence, or
    with fewer than five sentences, gives None. Raises ValueError if a row has no text.
    """
    rng = random.Random(seed)
    for number, row in enumerate(read_rows(file)):
        text = row.get(text_column_names)
        if fault := text_fault(text):
            raise ValueError(
                f"row {number} (counted from 0), column {text_column_names!r}: {fault}; "
                "choose another with --text_column_names"
            )
        sentences = [part for part in END_OF_SENTENCE.split(str(text)) if part.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if not fitting or len(sentences) < MIN_SENTENCES:
            yield None
        else:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}


if __name__ == "__main__":
    main()
