"""Rank embedded documents for short queries, and show which words of both match.

    sase_hf embed runs/retrieval/yelp5 reviews.jsonl.gz --output reviews.parquet
    sase_hf rank runs/retrieval/yelp5 --queries queries.csv --documents reviews.parquet

Any checkpoint with a sentence matrix can rank; sase_hf train --task retrieval trains one. The
terminal shows the best documents of each query with the words that match most. --output page.html
writes both texts with their attention; choosing a hop there colours the words of a row of the query
and of the most similar row of the document. --output ranking.jsonl writes one line for each query:
`query`, `documents` (rows of the input of embed.py, from 0) and `scores`. --top_k 10 is the number
of documents, --text_column_names the column of queries, --score_mode rows or flat.

--translate_with runs/translation/bpe, a checkpoint of --task translation, translates the queries
first.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent

from ..retrieval.documents import DocumentRanker, Ranking
from ..retrieval.embed import open_rows
from ..utils.cli import errors_in_one_line, make_parser, positive_int
from ..utils.errors import refusal
from ..utils.files import check_output, write_text
from ..utils.loading import load_checkpoint
from ..utils.translate import translate
from ..visualization import attention_html, attention_text, visible
from ..visualization.attended_text import Result, shortened


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
    add("--translate_with", metavar="CHECKPOINT", help="the translation checkpoint for the queries")
    add("--output", type=Path, help="a page (.html) or the ranking alone (.jsonl)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.output is not None and flags.output.suffix not in (".html", ".jsonl"):
            raise ValueError(f"--output is {flags.output}; it must end in .html or .jsonl")
        inputs = [flags.queries, flags.checkpoint, flags.translate_with]
        check_output(flags.output, inputs)
        ranker = DocumentRanker(flags.checkpoint, flags.documents, flags.score_mode)
        queries = open_rows(flags.queries, flags.text_column_names)[flags.text_column_names][:]
        originals: list[str | None] = [None for _ in queries]
        if flags.translate_with is not None:
            originals = list(queries)
            queries = translate_queries(flags.translate_with, queries)
        rankings = ranker.rank(queries, flags.top_k)
        if flags.output is None:
            for ranking, original in zip(rankings, originals, strict=True):
                print(*terminal_lines(ranker, ranking, original), sep="\n")
            return
        if flags.output.suffix == ".html":
            results = [result for ranking in rankings for result in ranker.explain(ranking)]
            text = attention_html(results, "Documents for queries")
        else:
            text = "".join(map(json_line, rankings, originals))
        write_text(flags.output, text)
        print(flags.output)


def translate_queries(checkpoint: str, queries: Sequence[str]) -> list[str]:
    """Translate queries by a checkpoint of `--task translation`, with 5 beams."""
    model, tokenizer = load_checkpoint(checkpoint)
    if not model.can_generate():
        raise refusal(
            f"--translate_with {checkpoint} holds a {type(model).__name__}",
            "name a checkpoint of sase_hf train --task translation",
        )
    return translate(model, tokenizer, queries, batch_size=64, num_beams=5)


def terminal_lines(ranker: DocumentRanker, ranking: Ranking, original: str | None) -> Iterator[str]:
    """Yield a query, and its documents with the words that match."""
    if original is not None:
        yield f'"{visible(original)}"'
    yield f'"{visible(ranking.query)}"'
    explanations: Iterator[Result] = iter(())
    if ranker.model.config.has_attention:
        explanations = ranker.explain(ranking)
    scored = zip(ranking.documents, ranking.scores, strict=True)
    for index, (document, score) in enumerate(scored):
        line = f"{index + 1:>3}  {score:.3f}  document {document}"
        yield visible(f"{line}  {shortened(ranking.texts[index])}")
        explanation = next(explanations, None)
        if explanation is not None:
            yield indent(attention_text(explanation), " " * 5)
    yield ""


def json_line(ranking: Ranking, original: str | None) -> str:
    """Return a ranking as a line of JSON, with the query before its translation if it had one."""
    line = {
        "query": ranking.query,
        "documents": ranking.documents,
        "scores": ranking.scores,
    }
    if original is not None:
        line["original"] = original
    return json.dumps(line, ensure_ascii=False) + "\n"
