"""Rank embedded documents for short queries, and show which words of both match.

    sase_hf embed runs/retrieval/yelp5 reviews.jsonl.gz --output reviews.parquet
    sase_hf rank runs/retrieval/yelp5 --queries queries.csv --documents reviews.parquet

Any checkpoint with a sentence matrix can rank; sase_hf train --task retrieval trains one. The
terminal shows the best documents of each query with the words that match most. --output page.html
writes both texts with their attention; choosing a hop there colours the words of a row of the query
and of the most similar row of the document. --output ranking.jsonl writes one line for each query:
`query`, `documents` (rows of the input of embed.py, from 0) and `scores`. --top_k 10 is the number
of documents, --text_column_names the column of queries, --score_mode rows or flat.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent

from ..retrieval.documents import DocumentRanker, Ranking
from ..retrieval.embed import open_rows
from ..training.predictions import json_line
from ..utils.cli import errors_in_one_line, make_parser, positive_int
from ..utils.files import check_output, write_text
from ..visualization import attention_html, attention_text, visible
from ..visualization.attended_text import shortened


def main(argv: Sequence[str] | None = None) -> None:
    """Rank, and print or write the documents of each query."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    note = "CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet"
    add("--queries", required=True, help=note)
    add("--text_column_names", default="text", metavar="NAME", help="of queries (default: text)")
    add("--documents", type=Path, required=True, metavar="FILE", help="what embed.py wrote")
    add("--top_k", type=positive_int, default=10, help="documents of a query (default: 10)")
    add("--score_mode", choices=("rows", "flat"), help="(default: that of the checkpoint)")
    add("--output", type=Path, help="a page (.html) or the ranking alone (.jsonl)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.output is not None and flags.output.suffix not in (".html", ".jsonl"):
            raise ValueError(f"--output is {flags.output}; it must end in .html or .jsonl")
        check_output(flags.output, [flags.queries, flags.checkpoint])
        ranker = DocumentRanker(flags.checkpoint, flags.documents, flags.score_mode)
        queries = open_rows(flags.queries, flags.text_column_names)[flags.text_column_names][:]
        rankings = ranker.rank(queries, flags.top_k)
        if flags.output is None:
            for ranking in rankings:
                print(*terminal_lines(ranker, ranking), sep="\n")
            return
        if flags.output.suffix == ".html":
            results = [result for ranking in rankings for result in ranker.explain(ranking)]
            text = attention_html(results, "Documents for queries")
        else:
            fields = ("query", "documents", "scores")
            lines = [{name: getattr(one, name) for name in fields} for one in rankings]
            text = "".join(f"{json_line(line)}\n" for line in lines)
        write_text(flags.output, text)
        print(flags.output)


def terminal_lines(ranker: DocumentRanker, ranking: Ranking) -> Iterator[str]:
    """Yield a query, and its documents with the words that match."""
    yield f'"{visible(ranking.query)}"'
    for rank, (document, score, text) in enumerate(zip(*ranking[1:], strict=True), start=1):
        yield f"{rank:>3}  {score:.3f}  document {document}  {visible(shortened(text))}"
        if ranker.model.config.has_attention:
            [result] = ranker.explain(Ranking(ranking.query, [document], [score], [text]))
            _, *words = attention_text(result).splitlines()
            yield indent("\n".join(words), " " * 5)
    yield ""
