"""The study of translation: what it measures, and the page made of its records."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import pipeline

from sase_hf.data.splits import load_pairs
from sase_hf.evaluation.translation import measure_translation
from sase_hf.models import TRANSLATION_TASK
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.translation import TRANSLATION_ARGUMENTS
from sase_hf.utils.files import write_text
from sase_hf.utils.loading import load_checkpoint
from sase_hf.visualization import alignment_figure, lines_figure, save_figure

from .runs import SCRIPTS, Kind
from .tables import Records, markdown, mean_cell, read_records

RECIPES = SCRIPTS / "recipes" / "translation" / "study"
TEMPLATE = Path(__file__).with_name("translation.md")
FIGURE = "translation_length.svg"
ALIGNMENT_FIGURE = "translation_alignment.svg"  # of the last model that has one, its first seed
# What a model translates for the figure, by the column that it reads.
EXAMPLES = {
    "en": "Because of the rain, an old man with a red umbrella waits for the bus near the market.",
    "fr": "À cause de la pluie, un vieil homme avec un parapluie rouge attend le bus au marché.",
}
BEAMS = ("1", "12")

# Recipe -> its title, and BLEU of all sentences and of those without unknown words in the paper's
# Table 1, whose models were trained on sentences of up to 30 and 50 words.
MODELS = {
    "encdec_10": ("RNNencdec-10", "13.93", "24.19"),
    "search_10": ("RNNsearch-10", "21.50", "31.44"),
    "encdec_20": ("RNNencdec-20", "17.82", "26.71"),
    "search_20": ("RNNsearch-20", "26.75", "34.16"),
    "search_20_fr_en": ("RNNsearch-20, French into English", "", ""),
    "search_bpe": ("RNNsearch, subwords, all lengths", "", ""),
}


def measure(words: Sequence[str], model: Path, _: Path | None = None) -> dict[str, Any]:
    """Measure a trained model on the validation pairs of its recipe."""
    _, data_args, run_args = parse_arguments(words, groups=TRANSLATION_ARGUMENTS)
    rows = load_pairs(replace(data_args, train_file=None)).splits["validation"]
    translator, tokenizer = load_checkpoint(str(model))
    batch_size = run_args.per_device_eval_batch_size
    texts = rows["text"][:], rows["text_pair"][:]
    beams = tuple(map(int, BEAMS))
    options: dict[str, Any] = {"batch_size": batch_size, "num_beams": beams}
    measured = measure_translation(translator, tokenizer, *texts, **options)
    if translator.config.has_attention:
        task: Any = TRANSLATION_TASK
        show: Any = pipeline(task, model=translator, tokenizer=tokenizer)
        assert data_args.text_column_names is not None  # every recipe names them
        example = EXAMPLES[data_args.text_column_names[0]]
        measured["example"] = show(example, num_beams=beams[-1])
    return {"translation": measured}


TRANSLATION_STUDY = Kind(
    "train_translation.py",
    TRANSLATION_ARGUMENTS,
    lambda metrics: f"BLEU {metrics['bleu']:.2f}",
    measure,
)


def render(records_folder: Path, output: Path) -> list[Path]:
    """Write the page, and the figure into the same folder; return the files."""
    records = read_records(records_folder)
    figures = {FIGURE: length_figure(records)}
    for recipe in MODELS:
        if examples := [one["example"] for one in measured(records, recipe) if "example" in one]:
            figures[ALIGNMENT_FIGURE] = alignment_figure(examples[0])
    for name, figure in figures.items():
        save_figure(figure, output.with_name(name))
    tables = {"table1": table1(records), "alignment": alignment(records), "pairs": pairs(records)}
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"{{{{ {name} }}}}", table)
    write_text(output, text)
    return [output, *(output.with_name(name) for name in figures)]


def measured(records: Records, recipe: str) -> list[Mapping[str, Any]]:
    """Return what was measured of the translations of a recipe, for each seed."""
    return [record["translation"] for record in records.get(recipe, ())]


def table1(records: Records) -> str:
    """BLEU of each model by beam, beside the paper's."""
    headings = ["model"]
    for group in ("all", "no UNK"):
        headings += [f"{group}, beam {beam}" for beam in BEAMS] + [f"{group}, paper"]
    headings.append("pairs without UNK")
    rows = []
    for recipe, (title, *paper) in MODELS.items():
        row = [title]
        for key, number in zip(("bleu", "bleu_no_unk"), paper, strict=True):
            found = measured(records, recipe)
            row += [mean_cell([one[key][beam] for one in found]) for beam in BEAMS] + [number]
        row.append(", ".join(f"{n:,}" for n in sorted({one["pairs_no_unk"] for one in found})))
        rows.append(row)
    return markdown(headings, rows)


def alignment(records: Records) -> str:
    """Entropy and order of the alignment."""
    rows = []
    for recipe, (title, *_) in MODELS.items():
        found = [one["alignment"] for one in measured(records, recipe) if "alignment" in one]
        if found:
            numbers = ([one[key] for one in found] for key in ("entropy", "monotonic"))
            rows.append([title, *(mean_cell(own, ".3f") for own in numbers)])
    return markdown(("model", "entropy", "monotonic steps"), rows)


def pairs(records: Records) -> str:
    """How many pairs each length has; the same for all models."""
    found = next((m[0] for recipe in MODELS if (m := measured(records, recipe))), {})
    rows = [
        ["{}-{}".format(*own["words"]), str(own["pairs"]), str(own["joined"])]
        for own in found.get("by_length", ())
    ]
    return markdown(("source words", "pairs", "of them joined"), rows)


def length_figure(records: Records) -> Any:
    """Draw BLEU by the length of the source, as Figure 2, a line for each model."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for recipe, (title, *_) in MODELS.items():
        bins: dict[float, list[float]] = {}
        for one in measured(records, recipe):
            for own in one["by_length"]:
                bins.setdefault(statistics.mean(own["words"]), []).append(own["bleu"])
        if bins:
            lines[title] = (list(bins), [statistics.mean(own) for own in bins.values()])
    return lines_figure(lines, "words of the source", "BLEU")
