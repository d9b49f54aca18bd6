"""Make pairs of a query and its document from texts: a sentence, and the text without it.

    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz
    python scripts/lab/retrieval_pairs.py dev.jsonl.gz dev_pairs.jsonl.gz --max_rows 2000
    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz --draws 4
        --similar_together

The sentence has 8 to 40 words and is drawn at random among those of its text. A text without one,
or with fewer than five sentences, is left out. The columns are `query` and `document`. The pairs of
a draw keep the order of their texts; the draws follow each other, and may draw a sentence again.

--similar_together moves texts of one subject next to each other instead, in groups of at most 128.
Batches in the order of the file (train.py --train_sampling_strategy sequential) then hold
documents that are hard to tell apart. The subjects are those of a truncated SVD of TF-IDF.
"""

import gzip
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
from sklearn.cluster import BisectingKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from sase_hf.retrieval.embed import open_rows
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.errors import refusal
from sase_hf.utils.files import atomic_write, check_output

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES = 5  # of a text
WORDS = range(8, 41)  # of a query
MAX_SHARE = 0.2  # of the texts that may have a word by which subjects are told
SUBJECTS = 100  # dimensions of the SVD
MAX_GROUP = 128  # texts


def main(argv: Sequence[str] | None = None) -> None:
    """Write the pairs of a file."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("texts", help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add("output", type=Path, help="a file of JSON Lines, with .gz compressed")
    add("--text_column_names", default="text", help="(default: %(default)s)")
    add("--max_rows", type=positive_int, help="of each draw, the first pairs only")
    add("--draws", type=positive_int, default=1, help="how often to draw (default: %(default)s)")
    add("--similar_together", action="store_true", help="order the pairs by subject")
    add("--seed", type=int, default=0, help="seed of the draws (default: %(default)s)")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output, [flags.texts])
        texts = open_rows(flags.texts, flags.text_column_names)[flags.text_column_names][:]
        seeds = range(flags.seed, flags.seed + flags.draws)
        draws = {seed: list(islice(draw_pairs(texts, seed), flags.max_rows)) for seed in seeds}
        first = draws[flags.seed]
        if not first:
            raise refusal(
                f"no text in {flags.texts} gives a pair",
                f"a text needs {MIN_SENTENCES} sentences that end in . ! or ? and a blank, one of "
                "them of 8 to 40 words between blanks",
            )
        if flags.similar_together:
            groups = groups_of_subject([pair["document"] for pair in first], flags.seed)
            draws = {seed: shuffled(pairs, groups, seed) for seed, pairs in draws.items()}
        pairs = list(chain.from_iterable(draws.values()))
        write_pairs(flags.output, pairs)
        print(f"{len(pairs):,} pairs of {len(texts):,} texts: {flags.output}")


def write_pairs(output: Path, pairs: Sequence[dict[str, str]]) -> None:
    """Write JSON Lines; equal pairs give equal bytes, compressed ones too."""
    lines = [(json.dumps(pair, ensure_ascii=False) + "\n").encode() for pair in pairs]
    with atomic_write(output) as draft, draft.open("wb") as file:
        if output.suffix == ".gz":
            with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def draw_pairs(texts: Sequence[str], seed: int) -> Iterator[dict[str, str]]:
    """Yield a `query` and its `document` for each text that is not left out."""
    rng = random.Random(seed)
    for text in texts:
        sentences = [sentence for sentence in END_OF_SENTENCE.split(text) if sentence.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if fitting and len(sentences) >= MIN_SENTENCES:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}


def groups_of_subject(texts: Sequence[str], seed: int) -> list[list[int]]:
    """Return groups of at most 128 texts about one subject, as numbers of texts.

    Raises ValueError if no word is shared by some of the texts, but not by many.
    """
    most_texts = max(int(MAX_SHARE * len(texts)), 2)
    # A word of many texts, or of a single one, says nothing about their subjects.
    vectorizer = TfidfVectorizer(
        token_pattern=r"\w+", min_df=2, max_df=most_texts, sublinear_tf=True, dtype=np.float32
    )
    try:
        tfidf = vectorizer.fit_transform(texts)
    except ValueError as reason:
        raise _no_shared_words(len(texts)) from reason
    num_words = tfidf.shape[1]
    if num_words < 2:
        raise _no_shared_words(len(texts))
    num_groups = math.ceil(len(texts) / MAX_GROUP)
    if num_groups == 1:
        return [list(range(len(texts)))]
    num_subjects = min(SUBJECTS, *tfidf.shape)
    vectors = TruncatedSVD(num_subjects, random_state=seed).fit_transform(tfidf)
    clustering = BisectingKMeans(
        num_groups, bisecting_strategy="largest_cluster", random_state=seed
    )
    labels = clustering.fit_predict(normalize(vectors))
    return list(_groups_of(labels))


def _no_shared_words(num_texts: int) -> Exception:
    return refusal(
        f"the {num_texts:,} texts share no words that tell subjects", "leave out --similar_together"
    )


def _groups_of(labels: np.ndarray) -> Iterator[list[int]]:
    """Yield the numbers of the texts of each cluster, a large cluster in several groups."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    for cluster in np.split(order, starts):
        for start in range(0, len(cluster), MAX_GROUP):
            yield cluster[start : start + MAX_GROUP].tolist()


def shuffled(
    pairs: Sequence[dict[str, str]], groups: Sequence[Sequence[int]], seed: int
) -> list[dict[str, str]]:
    """Return the pairs group by group, the groups and the pairs of each in random order."""
    rng = random.Random(seed)
    shuffled_pairs = []
    for group in rng.sample(groups, len(groups)):
        for number in rng.sample(group, len(group)):
            shuffled_pairs.append(pairs[number])
    return shuffled_pairs


if __name__ == "__main__":
    main()
