"""The page TRANSLATION.md and its figures, made from the records alone."""

import statistics
from pathlib import Path
from typing import Any

from cells import Page

from sase_hf.visualization import alignment_figure, lines_figure

# Recipe -> its title, and the paper's BLEU (Table 1) of all sentences and of those without unknown
# words. The paper trained on sentences of up to 30 and 50 words.
MODELS = {
    "encdec_10": ("RNNencdec-10", "13.93", "24.19"),
    "search_10": ("RNNsearch-10", "21.50", "31.44"),
    "encdec_20": ("RNNencdec-20", "17.82", "26.71"),
    "search_20": ("RNNsearch-20", "26.75", "34.16"),
    "search_20_fr_en": ("RNNsearch-20, French into English", "", ""),
    "search_bpe": ("RNNsearch, subwords, all lengths", "", ""),
}


class Translations(Page):
    """The cells and figures of the page, from the records of translation."""

    template = Path(__file__).with_name("translation.md")
    shown = {"models": MODELS}  # noqa: RUF012

    def figures(self) -> dict[str, Any]:
        """Return BLEU by the length of the source, and an alignment of the last model with one."""
        lines: dict[str, tuple[list[float], list[float]]] = {}
        examples = []
        for recipe, (title, *_) in MODELS.items():
            lengths: dict[float, list[float]] = {}
            for groups in self.measured(recipe, "translation", "by_length"):
                for group in groups:
                    lengths.setdefault(statistics.mean(group["words"]), []).append(group["bleu"])
            if lengths:
                lines[title] = (list(lengths), [statistics.mean(own) for own in lengths.values()])
            examples += self.measured(recipe, "translation", "example")[:1]
        figures = {"translation_length.svg": lines_figure(lines, "words of the source", "BLEU")}
        if examples:
            figures["translation_alignment.svg"] = alignment_figure(examples[-1])
        return figures
