"""Rank embedded documents for short queries, and show on a page which words of both match.

    sase_hf embed runs/retrieval/yelp5 reviews.jsonl.gz --output reviews.parquet
    sase_hf rank runs/retrieval/yelp5 --queries queries.csv --documents reviews.parquet

Any checkpoint with a sentence matrix can rank; sase_hf train --task retrieval trains one. The
output is a line of JSON for each query: `query`, `documents` (rows of the embedded file, from 0,
the best first), `scores` and `texts`. --output page.html writes both texts with their attention;
choosing a hop there colours the words of a row of the query and of the most similar row of the
document. --top_k 10 is the number of documents, --text_column_names the column of queries.
"""

from collections.abc import Sequence
from pathlib import Path

from ..evaluation.predictions import json_line
from ..retrieval.embed import DocumentRanker, open_rows
from ..utils.cli import add_text_column_names, errors_in_one_line, make_parser
from ..utils.files import check_output, write_text
from ..visualization import attention_html


def main(argv: Sequence[str] | None = None) -> None:
    """Rank, and print or write the documents of each query."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--queries", required=True, help="a file: CSV, JSON Lines, Excel, Parquet and the like")
    add_text_column_names(parser)
    add("--documents", type=Path, required=True, metavar="FILE", help="what sase_hf embed wrote")
    add("--top_k", type=int, default=10, help="documents of a query (default: 10)")
    add("--output", type=Path, help="a page (.html), else the ranking as JSON Lines")
    flags = parser.parse_args(argv)
    if flags.top_k < 1:
        parser.error(f"--top_k is {flags.top_k}; give 1 or more")
    with errors_in_one_line(__file__):
        check_output(flags.output, [flags.queries, flags.documents, flags.checkpoint])
        ranker = DocumentRanker(flags.checkpoint, flags.documents)
        queries, column = open_rows(flags.queries, flags.text_column_names)
        rankings = ranker.rank(queries[column][:], flags.top_k)
        text = "".join(f"{json_line(ranking._asdict())}\n" for ranking in rankings)
        if flags.output is None:
            print(text, end="")
            return
        if flags.output.suffix == ".html":
            results = [result for ranking in rankings for result in ranker.explain(ranking)]
            text = attention_html(results, "Documents for queries")
        write_text(flags.output, text)
        print(flags.output)
