"""The page of a study, made from its records: tables, a figure, and the paper's numbers.

The paper is Lin et al., "A Structured Self-Attentive Sentence Embedding", ICLR 2017
(arXiv:1703.03130). Its numbers are accuracies on its own test sets, in percent.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sase_hf.visualization import accuracy_figure, save_figure

from .records import (
    MISSING,
    Records,
    accuracy,
    attention,
    best_epochs,
    by_setting,
    curve,
    percent,
    read_records,
    weights_of,
)

TEMPLATE = Path(__file__).with_name("experiments.md")
FIGURE_NAME = "hops.svg"

TASKS = ("yelp5", "blog_age", "snli")
HOPS = (1, 5, 10, 20, 30)
HOPS_TASKS = ("blog_age", "snli")

# Heading -> setting, for the tables of trials.
TUNED = {
    "word vectors": "word_vectors",
    "vocabulary": "vocab_size",
    "encoder": "encoder",
    "filters": "cnn_num_filters",
    "matching": "matching",
    "pooling": "pooling",
    "u": "lstm_hidden_size",
    "layers": "num_lstm_layers",
    "shortcuts": "lstm_shortcuts",
    "r": "num_hops",
    "d_a": "attention_size",
    "classifier": "classifier",
    "b": "classifier_hidden_size",
    "p": "pruned_row_size",
    "q": "pruned_column_size",
    "penalty": "penalty_coef",
    "dropout, words": "embedding_dropout",
    "dropout, MLP": "classifier_dropout",
    "label smoothing": "label_smoothing",
    "frozen vectors": "freeze_embeddings",
    "learning rate": "learning_rate",
    "batch": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
}

# The recipes of Table 1, and those with settings that were searched.
TABLE_1 = {
    "bilstm_max": "BiLSTM + max pooling",
    "cnn_max": "CNN + max pooling",
    "self_attentive": "self-attentive",
}
TABLE_1_SEARCHED = {
    **{f"{recipe}_searched": f"{title}, searched" for recipe, title in TABLE_1.items()},
    "bilstm_mean": "BiLSTM + mean pooling, searched for maximum pooling",
}

Paper = Mapping[str, Mapping[Any, float]]

PAPER_TABLE_1: Paper = {
    "yelp5": {"bilstm_max": 61.99, "cnn_max": 62.05, "self_attentive": 64.21},
    "blog_age": {"bilstm_max": 77.40, "cnn_max": 78.15, "self_attentive": 80.45},
}
PAPER_TABLE_2: Paper = {"snli": {"gated": 84.4}}
PAPER_TABLE_3: Paper = {
    "yelp5": {0.0: 61.74, 1.0: 64.21},
    "blog_age": {0.0: 79.27, 1.0: 80.45},
    "snli": {},
}
# Appendix A: weights of the hidden layer, of the softmax and of the rest, and the accuracy.
PAPER_TABLE_4 = {
    ("yelp5", "self_attentive"): ("54M", "15K", "1.3M", "64.21"),
    ("yelp5", "pruned"): ("2.7M", "52.5K", "1.3M", "63.86"),
    ("blog_age", "self_attentive"): ("72M", "20K", "1.3M", "80.45"),
    ("blog_age", "pruned"): ("822K", "63.75K", "1.3M", "77.32"),
    ("snli", "self_attentive"): ("72M", "12K", "22.9M", "84.43"),
    ("snli", "pruned"): ("5.6M", "45K", "22.9M", "83.16"),
}
# The highest point of each curve, by the number of hops.
PAPER_FIGURE_5: Paper = {
    "blog_age": {1: 78.12, 5: 79.80, 10: 80.47, 20: 80.02, 30: 79.90},
    "snli": {1: 80.53, 5: 82.48, 10: 83.03, 20: 83.80, 30: 83.47},
}


def render(records_folder: Path, output: Path) -> tuple[Path, Path]:
    """Write the page and the figure; the same records give the same bytes.

    Args:
        records_folder: The folder of the study's records.
        output: The page; the figure goes into the same folder.

    Returns:
        Both files.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If a record does not belong into the tables.
        ImportError: If matplotlib is missing.
    """
    records = read_records(records_folder)
    figure = output.with_name(FIGURE_NAME)
    save_figure(accuracy_figure(hops_curves(records)), figure)
    output.write_text(page(records), encoding="utf-8")
    return output, figure


def page(records: Records) -> str:
    """Return the template with a table in place of each line such as `{{ table1 }}`."""
    template = TEMPLATE.read_text(encoding="utf-8")
    line = re.compile(r"^\{\{ (\w+) \}\}$", flags=re.MULTILINE)
    return line.sub(lambda found: TABLES[found[1]](records), template)


def hops_curves(records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the curves of Figure 5, by task and number of hops."""
    names = {task: by_setting(records, task, "hops_", "num_hops") for task in HOPS_TASKS}
    return {
        task: {f"r = {hops}": curve(records, found.get(hops, "")) for hops in HOPS}
        for task, found in names.items()
    }


def table1(records: Records) -> str:
    """Classification of texts: our accuracy and the paper's."""
    tasks = ("yelp5", "blog_age")
    models = {title: recipe for recipe, title in TABLE_1.items()}
    for recipe, title in {**TABLE_1_SEARCHED, "linear": "linear model of TF-IDF"}.items():
        if any(f"{task}/{recipe}" in records for task in tasks):
            models[title] = recipe
    return _by_task(records, models, tasks, PAPER_TABLE_1)


def table2(records: Records) -> str:
    """Entailment: our accuracy and the paper's."""
    models = {
        "BiLSTM + max pooling, concatenated": "bilstm_max",
        "CNN + max pooling, concatenated": "cnn_max",
        "self-attentive, gated": "gated",
        "self-attentive, concatenated": "self_attentive",
        "linear model of TF-IDF": "linear",
    }
    return _by_task(records, models, ("snli",), PAPER_TABLE_2)


def table3(records: Records) -> str:
    """The effect of the penalty on the accuracy, the entropy and the overlap of the hops."""
    kinds, rows = ("entropy", "overlap"), []
    for task in TASKS:
        names = by_setting(records, task, "penalty_", "penalty_coef")
        for coefficient in sorted(names.keys() | PAPER_TABLE_3[task].keys()):
            name = names.get(coefficient, "")
            paper = _paper(PAPER_TABLE_3, task, coefficient)
            means = (attention(records, name, kind) for kind in kinds)
            cells = (accuracy(records, name), paper, *means)
            rows.append((task, f"{coefficient:g}", *cells))
    return markdown(("task", "coefficient", "accuracy in %", "paper", *kinds), rows)


def table4(records: Records) -> str:
    """The number of weights and the accuracy with the full and the pruned MLP."""
    headings = ["task", "MLP"]
    for column in ("hidden layer", "softmax", "other", "accuracy in %"):
        headings += [column, f"{column}, paper"]
    rows = []
    for (task, recipe), paper in PAPER_TABLE_4.items():
        name = f"{task}/{recipe}"
        weights = [f"{n:,}" for n in weights_of(records[name][0])] if name in records else []
        ours = (*(weights or [MISSING] * 3), accuracy(records, name))
        pairs = [cell for pair in zip(ours, paper, strict=True) for cell in pair]
        rows.append([task, "pruned" if recipe == "pruned" else "full", *pairs])
    return markdown(headings, rows)


def figure5(records: Records) -> str:
    """The accuracy of the best epoch for each number of hops."""
    names = {task: by_setting(records, task, "hops_", "num_hops") for task in HOPS_TASKS}
    rows = []
    for hops in sorted(set(HOPS).union(*names.values())):
        row = [f"{hops:g}"]
        for task in HOPS_TASKS:
            ours = percent(best_epochs(records, names[task].get(hops, "")))
            row += [ours, _paper(PAPER_FIGURE_5, task, hops)]
        rows.append(row)
    return markdown(["hops", *_headings(HOPS_TASKS, PAPER_FIGURE_5)], rows)


def beyond(records: Records) -> str:
    """Models that the paper does not have."""
    names = ("cnn", "dilated_cnn", "relation_network", "shortcut_bilstm", "generalized")
    return _by_task(records, {name.replace("_", " "): name for name in names}, TASKS, {})


def label_shift(records: Records) -> str:
    """The accuracy after adapting to the label frequencies of the validation rows."""
    rows = []
    for task in TASKS:
        for name in (*TABLE_1, *TABLE_1_SEARCHED):
            own = f"{task}/{name}"
            shares = [
                r["label_shift"]["accuracy"] for r in records.get(own, ()) if "label_shift" in r
            ]
            if shares:
                adapted = percent(shares)
                rows.append((task, name.replace("_", " "), accuracy(records, own), adapted))
    return markdown(("task", "model", "accuracy in %", "adapted"), rows)


def tuning(records: Records) -> str:
    """The trials by which settings were chosen, from records named tuning/TASK/TRIAL.json."""
    names = sorted(name for name in records if re.fullmatch("tuning/[^/]+/[^/]+", name))
    chosen = {name: records[name][0]["arguments"] for name in names}
    shown = _columns(chosen.values())
    rows = []
    for name, arguments in chosen.items():
        settings = [_setting(arguments.get(key)) for key in shown.values()]
        rows.append((*name.split("/")[1:], *settings, accuracy(records, name)))
    return markdown(("task", "trial", *shown, "accuracy in %"), rows)


def searches(records: Records) -> str:
    """The trials of scripts/search.py, from records named search/TASK/MODEL.json."""
    found = [name for name in sorted(records) if re.fullmatch("search/[^/]+/[^/]+", name)]
    for name in found:
        metric = records[name][0]["metric"]
        if metric != "accuracy":
            raise ValueError(
                f"{name} is a search for {metric}, but the table shows accuracies; search with "
                "--metric_for_best_model accuracy"
            )
    trials = [(name, trial) for name in found for trial in records[name][0]["trials"]]
    shown = _columns(trial["settings"] for _, trial in trials)
    rows = []
    for name, trial in trials:
        settings = [_setting(trial["settings"].get(key)) for key in shown.values()]
        _, task, model = name.split("/")
        value = MISSING if trial["value"] is None else f"{100 * trial['value']:.2f}"
        ended = "" if trial["state"] == "complete" else f" ({trial['state']})"
        rows.append((task, model.replace("_", " "), str(trial["number"]), *settings, value + ended))
    return markdown(("task", "model", "trial", *shown, "accuracy in %"), rows)


TABLES: Mapping[str, Callable[[Records], str]] = {
    function.__name__: function
    for function in (table1, table2, table3, table4, figure5, beyond, label_shift, tuning, searches)
}


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def _by_task(
    records: Records, models: Mapping[str, str], tasks: Sequence[str], paper: Paper
) -> str:
    """Return a table with a row for each model and columns for each task."""
    rows = []
    for title, recipe in models.items():
        row = [title]
        for task in tasks:
            row.append(accuracy(records, f"{task}/{recipe}"))
            row += [_paper(paper, task, recipe)] if task in paper else []
        rows.append(row)
    return markdown(["model", *_headings(tasks, paper)], rows)


def _headings(tasks: Sequence[str], paper: Paper) -> list[str]:
    """Return the headings of the tasks, each followed by that of the paper if it has the task."""
    return [
        heading
        for task in tasks
        for heading in (task, *((f"{task}, paper",) if task in paper else ()))
    ]


def _columns(settings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the part of `TUNED` that occurs in any of the settings."""
    chosen = set().union(*settings)
    return {heading: key for heading, key in TUNED.items() if key in chosen}


def _setting(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    shown = (Path(v).name.removesuffix(".txt.gz") if isinstance(v, str) else str(v) for v in values)
    return "" if value is None else ", ".join(shown)


def _paper(numbers: Paper, task: str, row: Any) -> str:
    number = numbers[task].get(row)
    return "" if number is None else f"{number:.2f}"
