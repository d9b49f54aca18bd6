"""A small corpus of the project's own making: reviews with stars, and pairs of sentences.

No person wrote these texts: a seeded grammar did. They are made so that counting words does not
solve them (negation, contrast, degree, word order; roles, quantifiers, what was added or dropped)
and a small sentence encoder learns them in a minute. They show that the tools work from end to end;
a score on them says nothing about real text.

Write them with `sase_hf synthetic_corpus FOLDER`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from .grammar import Draw
from .pairs import LABELS, draw_pair
from .reviews import STARS, draw_review

REVIEW_SIZES = {"train": 6000, "validation": 500, "test": 1000}
PAIR_SIZES = {"train": 9000, "validation": 600, "test": 1200}

_TITLE = "# Synthetic corpus\n"
_README = """\
# Synthetic corpus

**No person wrote these texts.** They come from a grammar in `synthetic`, seed {seed}, and
every row says so in its field `source`. A score on them shows that the tools work; it says nothing
about real text.

| files | rows: train / validation / test | fields |
|---|---|---|
| `reviews.*.jsonl` | {reviews} | `text`, `label` |
| `pairs.*.jsonl` | {pairs} | `premise`, `hypothesis`, `label` |

Reviews are labelled "1 star" to "5 stars"; pairs entailment, neutral or contradiction.
`phenomenon` names what the label turns on. The labels take turns, so each is as frequent as the
others in every file. No review and no premise occurs twice, in one file or in two.
"""


def write_corpus(
    folder: str | Path,
    seed: int = 0,
    review_sizes: Mapping[str, int] = REVIEW_SIZES,
    pair_sizes: Mapping[str, int] = PAIR_SIZES,
) -> Path:
    """Write `reviews.SPLIT.jsonl`, `pairs.SPLIT.jsonl` and a README.md, replacing older ones.

    The same seed and sizes give the same bytes on every platform. Raises FileExistsError if the
    folder holds a file of such a name that is not of a synthetic corpus.
    """
    folder = Path(folder)
    texts, shown = {}, {}
    corpora: Any = {
        "reviews": (review_sizes, draw_review, STARS),
        "pairs": (pair_sizes, draw_pair, LABELS),
    }
    for name, (sizes, make, labels) in corpora.items():
        rows = _different_rows(make, labels, Draw(f"{name} {seed}"))
        for split, size in sizes.items():
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in islice(rows, size))
            texts[f"{name}.{split}.jsonl"] = "".join(lines)
        shown[name] = " / ".join(map(str, sizes.values()))
    texts["README.md"] = _README.format(seed=seed, **shown)
    check_ours(folder, texts)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return folder


def check_ours(folder: Path, names: Iterable[str]) -> None:
    """Raise FileExistsError if files of these names are there without the README.md of a corpus."""
    readme = folder / "README.md"
    is_ours = readme.is_file() and readme.read_text(encoding="utf-8").startswith(_TITLE)
    for name in names:
        if (folder / name).exists() and not is_ours:
            raise FileExistsError(
                f"{folder / name} is not of a synthetic corpus; name a new folder"
            )


def _different_rows(
    make: Callable[[Draw, Any], dict[str, str]], labels: Sequence[Any], draw: Draw
) -> Iterator[dict[str, str]]:
    """Yield rows with labels in turn; a row is made again until its first text is new."""
    seen: set[str] = set()
    for label in cycle(labels):
        row = make(draw, label)
        while (text := next(iter(row.values()))) in seen:
            row = make(draw, label)
        seen.add(text)
        yield {**row, "source": "synthetic"}
