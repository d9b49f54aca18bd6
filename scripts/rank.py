"""Rank embedded documents for short queries, and show which words of both met.

    python scripts/embed.py runs/retrieval/yelp5 reviews.jsonl.gz --output runs/reviews
    python scripts/rank.py runs/retrieval/yelp5 --queries queries.csv --documents runs/reviews

Any checkpoint with a sentence matrix can rank; those of scripts/train_retrieval.py have learnt to.
For each query the best documents are listed, with the words of the query and of the document that
met most. A page shows both texts with their attention. Choosing a hop there colours the words of a
row of the query, and those of the row of the document that is most similar to it:

    python scripts/rank.py ... --top_k 3 --output page.html

The ranking alone, one line for each query with `query`, `documents` (rows of the input of embed.py,
from 0) and `scores`, is written as JSON Lines:

    python scripts/rank.py ... --output ranking.jsonl

Queries in another language than the documents are translated first, by a checkpoint of
scripts/train_translation.py: --translate_with runs/translation/bpe
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from sase_hf.embedding import Embedder
from sase_hf.embedding.corpus import open_files
from sase_hf.embedding.documents import read_documents
from sase_hf.embedding.shards import read_manifest
from sase_hf.evaluation.ranking import best_documents
from sase_hf.evaluation.translation import translate
from sase_hf.models import FAMILIES, unit_rows
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output, write_text
from sase_hf.utils.loading import load_checkpoint, load_ranker
from sase_hf.visualization import attention_html, attention_text, visible
from sase_hf.visualization.attended_text import shortened

QUERIES_AT_ONCE = 64
BEAM = 5


def main(argv: Sequence[str] | None = None) -> None:
    """Rank, and print or write what was found."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", help="a folder or a name on the Hub")
    add("--queries", required=True, help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add("--text_column_names", default="text", metavar="NAME", help="of queries (default: text)")
    add("--documents", type=Path, required=True, metavar="FOLDER", help="what embed.py wrote")
    add("--top_k", type=positive_int, default=10, help="documents of a query (default: 10)")
    add("--score_mode", choices=("rows", "flat"), help="(default: that of the checkpoint)")
    add("--translate_with", metavar="CHECKPOINT", help="of the model that translates the queries")
    add("--output", type=Path, help="a page (.html) or the ranking alone (.jsonl)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.output is not None and flags.output.suffix not in (".html", ".jsonl"):
            raise ValueError(f"--output is {flags.output}; it must end in .html or .jsonl")
        check_output(flags.output)
        lines = show(flags) if flags.output is None else write(flags)
        print(*lines, sep="\n")


def rank(flags: argparse.Namespace) -> tuple[Any, int | None, list[dict[str, Any]]]:
    """Return the model with its tokenizer, the limit of a document, and the best of each query."""
    ranker = load_ranker(flags.checkpoint)
    mode = flags.score_mode or ranker[0].config.score_mode
    ranker[0].config.score_mode = mode
    manifest = read_manifest(flags.documents, {}) or {"settings": {}}
    limit = manifest["settings"].get("max_seq_length")
    embedder = Embedder(flags.checkpoint, max_seq_length=limit, device="cpu")
    documents = read_documents(flags.documents, embedder, mode)
    corpus = open_files([flags.queries], flags.text_column_names, [])
    corpus.check_columns(flags.text_column_names, [])
    table = corpus.read(0, corpus.num_rows, [flags.text_column_names])
    texts = given = table[flags.text_column_names].to_pylist()
    if flags.translate_with is not None:
        texts = translated(flags.translate_with, given)
    queries = unit_rows(torch.from_numpy(embedder(texts)), embedder.model.config, mode)
    found = []
    for start in range(0, len(texts), QUERIES_AT_ONCE):
        part = slice(start, start + QUERIES_AT_ONCE)
        best = best_documents(queries[part], documents.rows, flags.top_k)
        for text, original, scores, places in zip(texts[part], given[part], *best, strict=True):
            own = {"query": text, "documents": places.tolist(), "scores": scores.tolist()}
            own |= {"original": original} if flags.translate_with else {}
            found.append(own)
    if documents.texts is not None:
        for own in found:
            own["texts"] = [documents.texts[place].as_py() for place in own["documents"]]
    return ranker, limit, found


def translated(checkpoint: str, queries: Sequence[str]) -> list[str]:
    """Return the queries as a translation model writes them."""
    model, tokenizer = load_checkpoint(checkpoint)
    if FAMILIES[model.config.model_type].objective != "translation" or not model.can_generate():
        raise ValueError(
            f"--translate_with {checkpoint} holds a {type(model).__name__}; name a checkpoint of "
            "scripts/train_translation.py"
        )
    return translate(model, tokenizer, queries, batch_size=QUERIES_AT_ONCE, num_beams=BEAM)


def meetings(ranker: Any, limit: int | None, found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield for each document of a query what the `self-attention` pipeline says of the pair."""
    model, tokenizer = ranker
    task: Any = FAMILIES[model.config.model_type].pipeline_task
    read = pipeline(task, model=model, tokenizer=tokenizer)
    limit = limit or tokenizer.model_max_length
    longest = limit + len(tokenizer(found["query"]).input_ids)  # cuts the document at its limit
    for place, score, text in zip(found["documents"], found["scores"], found["texts"], strict=True):
        pair = {"text": found["query"], "text_pair": text}
        label = f"document {place}"
        shown = {"label": label, "score": score, "scores": {label: score}}
        yield {**read(pair, max_length=longest), **shown}


def show(flags: argparse.Namespace) -> Iterator[str]:
    """Yield the lines for the terminal."""
    ranker, limit, rankings = rank(flags)
    for found in rankings:
        if "original" in found:
            yield f'"{visible(found["original"])}"'
        yield f'"{visible(found["query"])}"'
        can_explain = "texts" in found and ranker[0].config.has_attention
        shown: Any = meetings(ranker, limit, found) if can_explain else [None] * flags.top_k
        for n, (place, score, one) in enumerate(
            zip(found["documents"], found["scores"], shown, strict=False)
        ):
            text = f"  {shortened(found['texts'][n])}" if "texts" in found else ""
            yield visible(f"{n + 1:>3}  {score:.3f}  document {place}{text}")
            if one is not None:
                yield attention_text(one).replace("\n", "\n     ").join(("     ", ""))
        yield ""


def write(flags: argparse.Namespace) -> list[Path]:
    """Write a page or the ranking alone; return the file."""
    ranker, limit, rankings = rank(flags)
    if flags.output.suffix == ".html":
        if not all("texts" in found for found in rankings):
            raise ValueError(
                f"{flags.documents} was written without texts; make it again without --keep_columns"
            )
        results = [one for found in rankings for one in meetings(ranker, limit, found)]
        text = attention_html(results, "Documents for queries")
    else:
        kept = ({k: v for k, v in found.items() if k != "texts"} for found in rankings)
        text = "".join(json.dumps(found, ensure_ascii=False) + "\n" for found in kept)
    write_text(flags.output, text)
    return [flags.output]


if __name__ == "__main__":
    main()
