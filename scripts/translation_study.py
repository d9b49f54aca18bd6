"""Compare RNNsearch and RNNencdec as the paper does: train what has no record, and make tables.

    python scripts/translation_study.py run scripts/recipes/translation/study --seeds 42 43 44
    python scripts/translation_study.py status scripts/recipes/translation/study --seeds 42 43 44
    python scripts/translation_study.py render

`run` trains each recipe with each seed by scripts/train_translation.py, measures the translations
of the validation pairs and of neighbouring pairs that are joined, and writes a record. It is
stopped, continued and detached as scripts/study.py is. `render` makes model_cards/TRANSLATION.md
from the records alone: Table 1 (BLEU of all pairs and of those without unknown words), Figure 2
(BLEU by the length of the source) and the entropy and order of the alignment. The alignment of a
sentence, as Figure 3, is drawn by scripts/visualize.py.
"""

from collections.abc import Sequence
from pathlib import Path

import study
from studying.translation import RECIPES, TRANSLATION_STUDY, render

STUDY = study.Study(
    __file__,
    __doc__,
    TRANSLATION_STUDY,
    RECIPES,
    lambda flags: render(flags.records, flags.output),
    Path("runs/translation"),
    Path("model_cards/records/translation"),
    Path("model_cards/TRANSLATION.md"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the command line, by default that of this process, asks for."""
    study.main(argv, STUDY)


if __name__ == "__main__":
    main()
