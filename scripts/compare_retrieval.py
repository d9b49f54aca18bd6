"""Compare rankers with TF-IDF on the same pairs: a table, and the recall by length of document.

    python scripts/compare_retrieval.py runs/pairs/yelp5.dev.jsonl.gz --records runs/yelp5.json
        --figure recall.svg --record runs/tfidf.json

--records are those of scripts/train_retrieval.py. TF-IDF (sublinear, cosine) takes its word counts
from the documents that it ranks. Needs scikit-learn: pip install 'sase_hf[baselines]'; the figure
needs matplotlib: pip install 'sase_hf[viz]'
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from sase_hf.data.splits import load_pairs
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.models import RETRIEVAL
from sase_hf.retrieval.ranking import ranking_metrics, ranks_in_scores, recall_by_length
from sase_hf.training.retrieval import RetrievalPairArguments
from sase_hf.utils.cli import column_names, errors_in_one_line, make_parser
from sase_hf.utils.files import check_output
from sase_hf.visualization import check_figure_path, lines_figure, save_figure

# Analyzer of scikit-learn -> the features for a record.
FEATURES = {
    "word": "TF-IDF of words, sublinear",
    "char_wb": "TF-IDF of runs of 3 to 5 characters in words, sublinear",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure TF-IDF, print the table, write record and figure."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("pairs", help="the pairs that the records were measured on")
    add("--text_column_names", type=column_names, default=["query", "document"], metavar="NAMES")
    add(
        "--analyzer",
        choices=FEATURES,
        default="word",
        help="what TF-IDF counts: words, or runs of 3 to 5 characters within them",
    )
    add("--records", nargs="*", type=Path, default=[], help="records of models")
    add("--record", type=Path, help="file for the record of TF-IDF")
    add("--figure", type=Path, help="file for the figure: .png or .svg")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.record)
        if flags.figure is not None:
            check_figure_path(flags.figure)
        records = [json.loads(path.read_text(encoding="utf-8")) for path in flags.records]
        records.insert(0, tfidf(flags.pairs, flags.text_column_names, flags.analyzer))
        if flags.record is not None:
            write_record(records[0], flags.record)
        for record in records:
            metrics = record["metrics"]
            shown = (f"{name} {metrics[name]:.3f}" for name in ranking_metrics(torch.ones(1)))
            print(f"{record['name']:<24}", *shown)
        if flags.figure is not None:
            lines = {}
            for record in records:
                groups = record["recall_by_length"]
                axes = ([group[name] for group in groups] for name in ("words", "recall_at_10"))
                lines[record["name"]] = next(axes), next(axes)
            save_figure(lines_figure(lines, "words of the document", "recall at 10"), flags.figure)


def tfidf(pairs: str, columns: list[str], analyzer: str) -> dict[str, Any]:
    """Return the record of TF-IDF on the pairs of a file."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as reason:
        raise ImportError("needs scikit-learn: pip install 'sase_hf[baselines]'") from reason

    start = time.perf_counter()
    task = load_pairs(
        RetrievalPairArguments(validation_file=pairs, text_column_names=columns), RETRIEVAL
    )
    queries, documents = (task.splits["validation"][name][:] for name in ("text", "text_pair"))
    lengths = (3, 5) if analyzer == "char_wb" else (1, 1)
    vectorizer = TfidfVectorizer(analyzer=analyzer, ngram_range=lengths, sublinear_tf=True)
    counts = vectorizer.fit_transform(documents)
    scores = torch.from_numpy((vectorizer.transform(queries) @ counts.T).toarray())
    ranks = ranks_in_scores(scores)
    record = measured_record(
        name="TF-IDF",
        metrics=ranking_metrics(ranks),
        split="validation",
        sources=task.sources,
        seed=0,
        arguments={"pairs": pairs, "text_column_names": columns},
        config={"features": FEATURES[analyzer], "score": "cosine"},
        num_parameters=0,
        wall_seconds=time.perf_counter() - start,
    )
    words = [len(text.split()) for text in documents]
    return record | {"recall_by_length": recall_by_length(ranks, words)}


if __name__ == "__main__":
    main()
