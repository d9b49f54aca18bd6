"""Make pairs of a query and its document from texts: a sentence, and the text without it.

    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz
    python scripts/lab/retrieval_pairs.py dev.jsonl.gz dev_pairs.jsonl.gz --max_rows 2000
    python scripts/lab/retrieval_pairs.py reviews.jsonl.gz pairs.jsonl.gz --draws 4
        --similar_together

The sentence has 8 to 40 words and is drawn at random among those of its text. A text without one,
or with fewer than five sentences, is left out. The columns are `query` and `document`. The pairs of
a draw keep the order of their texts; the draws follow each other, and may draw a sentence again.

--similar_together moves texts of one subject next to each other instead, about a hundred at a time.
Batches in the order of the file (train_retrieval.py --train_sampling_strategy sequential) then hold
documents that are hard to tell apart. The subjects are those of a truncated SVD of TF-IDF.
"""

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch

from sase_hf.embedding.corpus import read_texts
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import atomic_write, check_output

END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
MIN_SENTENCES, WORDS = 5, range(8, 41)
MAX_SHARE, SUBJECTS, MAX_GROUP = 0.2, 100, 128


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
        texts = read_texts(flags.texts, flags.text_column_names)
        seeds = range(flags.seed, flags.seed + flags.draws)
        drawn = [[*islice(draw_pairs(texts, seed), flags.max_rows)] for seed in seeds]
        if not drawn[0]:
            raise ValueError(
                f"no text in {flags.texts} gives a pair; a text needs {MIN_SENTENCES} sentences "
                "that end in . ! or ? and a blank, one of them of 8 to 40 words between blanks"
            )
        if flags.similar_together:
            groups = groups_of_subject([pair["document"] for pair in drawn[0]], flags.seed)
            drawn = [
                shuffled(pairs, groups, seed) for pairs, seed in zip(drawn, seeds, strict=True)
            ]
        pairs = [*chain.from_iterable(drawn)]
        lines = ((json.dumps(pair, ensure_ascii=False) + "\n").encode() for pair in pairs)
        with atomic_write(flags.output) as draft, draft.open("wb") as file:
            if flags.output.suffix == ".gz":
                with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                    packed.writelines(lines)
            else:
                file.writelines(lines)
        print(f"{len(pairs):,} pairs of {len(texts):,} texts: {flags.output}")


def draw_pairs(texts: Sequence[str], seed: int) -> Iterator[dict[str, str]]:
    """Yield a `query` and its `document` for each text that is not left out."""
    rng = random.Random(seed)
    for text in texts:
        sentences = [part for part in END_OF_SENTENCE.split(text) if part.strip()]
        fitting = [i for i, sentence in enumerate(sentences) if len(sentence.split()) in WORDS]
        if fitting and len(sentences) >= MIN_SENTENCES:
            query = sentences.pop(rng.choice(fitting))
            yield {"query": query, "document": " ".join(sentences)}


def groups_of_subject(texts: Sequence[str], seed: int) -> list[list[int]]:
    """Return groups of at most 128 texts about one subject, as numbers of texts.

    Raises ValueError if no word is shared by some of the texts, but not by many.
    """
    numbers: dict[str, int] = {}
    bags = [
        [numbers.setdefault(word, len(numbers)) for word in re.findall(r"\w+", text.lower())]
        for text in texts
    ]
    shape = len(texts), max(len(numbers), 1)
    rows = np.repeat(np.arange(len(texts)), [len(bag) for bag in bags])
    words = np.fromiter(chain.from_iterable(bags), np.int64, len(rows))
    cells, counts = np.unique(rows * shape[1] + words, return_counts=True)
    rows, words = np.divmod(cells, shape[1])
    frequency = np.bincount(words, minlength=shape[1])
    # A word of many texts, or of a single one, says nothing about their subjects.
    is_kept = ((frequency > 1) & (frequency <= max(MAX_SHARE * len(texts), 2)))[words]
    if not is_kept.any():
        way_out = "leave out --similar_together"
        raise ValueError(f"the {len(texts):,} texts share no words that tell subjects; {way_out}")
    weights = (1 + np.log(counts)) * (1 + np.log(len(texts) / frequency[words]))
    places = torch.from_numpy(np.stack([rows, words])[:, is_kept])
    values = torch.from_numpy(weights[is_kept]).float()
    tfidf = torch.sparse_coo_tensor(places, values, shape, check_invariants=True)
    torch.manual_seed(seed)
    left, strengths, _ = torch.svd_lowrank(tfidf, q=min(SUBJECTS, *shape))
    return list(_halves(torch.nn.functional.normalize(left * strengths), torch.arange(len(texts))))


def _halves(vectors: torch.Tensor, numbers: torch.Tensor) -> Iterator[list[int]]:
    """Yield groups of neighbours: halves of halves along their first principal component."""
    if len(numbers) <= MAX_GROUP:
        yield numbers.tolist()
        return
    centered = vectors[numbers] - vectors[numbers].mean(0)
    first = torch.linalg.eigh(centered.T @ centered).eigenvectors[:, -1]
    for half in numbers[(centered @ first).argsort()].chunk(2):
        yield from _halves(vectors, half)


def shuffled(
    pairs: Sequence[dict[str, str]], groups: Sequence[Sequence[int]], seed: int
) -> list[dict[str, str]]:
    """Return the pairs group by group, the groups and the pairs of each in random order."""
    rng = random.Random(seed)
    drawn = [rng.sample(group, len(group)) for group in rng.sample(groups, len(groups))]
    return [pairs[i] for group in drawn for i in group]


if __name__ == "__main__":
    main()
