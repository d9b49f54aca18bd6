"""The page of a study, made from its records: tables, figures, and the paper's numbers."""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import yaml
from comparing.tables import Leaderboard, leaderboard_points, leaderboard_rows, read_leaderboard

from sase_hf import SelfAttentiveConfig
from sase_hf.models import FAMILIES
from sase_hf.utils.files import write_text
from sase_hf.visualization import accuracy_figure, points_figure, save_figure

from .runs import WITHOUT_EFFECT, recorded_settings

# Where the study and the leaderboard keep their records, and the page of both.
CARDS = Path("model_cards")
STUDY, LEADERBOARD, PAGE = (
    CARDS / name for name in ("records/study", "records/leaderboard", "EXPERIMENTS.md")
)

MISSING = "-"
TEMPLATE = Path(__file__).with_name("experiments.md")

# Arguments that may differ between the seeds of a recipe.
OF_A_RUN = WITHOUT_EFFECT | {"seed", "output_dir", "run_name"}

TASKS = ("yelp5", "blog_age", "snli")
HOPS = (1, 5, 10, 20, 30)
HOPS_TASKS = ("blog_age", "snli")
FOCUS_TASKS = ("yelp5", "imdb", "blog_age", "sst2", "snli")
LENGTH_TASKS = ("imdb", "snli")

# Name of a recipe -> the records of its seeds.
Records = Mapping[str, Sequence[Mapping[str, Any]]]

_SHOWN = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text(encoding="utf-8"))
TITLES, PAPER, SETTINGS = _SHOWN["titles"], _SHOWN["paper"], _SHOWN["settings"]


def render(records_folder: Path, leaderboard_folder: Path, output: Path) -> list[Path]:
    """Write the page, and the figures into the same folder; return the files."""
    records, leaderboard = read_records(records_folder), read_leaderboard(leaderboard_folder)
    seconds = "seconds of training on one core"
    figures = {
        "hops.svg": accuracy_figure(hops_curves(records)),
        "focus.svg": points_figure(
            focus_points(records), "entropy", "points of accuracy above the paper's"
        ),
        "length.svg": accuracy_figure(length_curves(records), "tokens of a text, or of both"),
        "leaderboard.svg": points_figure(
            leaderboard_points(leaderboard), seconds, "accuracy in %", columns=4, log_x=True
        ),
    }
    for name, figure in figures.items():
        save_figure(figure, output.with_name(name))
    write_text(output, page(records, leaderboard))
    return [output, *(output.with_name(name) for name in figures)]


def page(records: Records, leaderboard: Leaderboard) -> str:
    """Return the template with a table in place of each line such as `{{ table1 }}`."""
    template = TEMPLATE.read_text(encoding="utf-8")
    line = re.compile(r"^\{\{ (\w+) \}\}$", flags=re.MULTILINE)
    tables = {**TABLES, "leaderboard": lambda _: markdown(*leaderboard_rows(leaderboard))}
    return line.sub(lambda found: tables[found[1]](records), template)


def read_records(folder: Path) -> Records:
    """Return the records of a study by the names of their recipes, such as yelp5/cnn_max.

    The file name of a linear model, which draws nothing, has no seed.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If a record was not measured on validation rows, or the seeds of a recipe have
            different settings.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; name one with --records")
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["split"] != "validation":
            raise ValueError(
                f"{path} was measured on {record['split']} rows, but the tables show validation "
                "rows; leave --do_predict out of its recipe"
            )
        name = path.relative_to(folder).with_suffix("").as_posix()
        found.setdefault(re.sub(r"-seed\d+$", "", name), []).append(record)
    for name, (first, *others) in found.items():
        if any(_differ(first, other) for other in others):
            raise ValueError(
                f"the seeds of {name} have different settings; run the recipe again with each seed"
            )
    return found


def accuracy(records: Records, name: str) -> str:
    """Return the cell of a recipe's accuracy in percent."""
    return percent([record["metrics"]["accuracy"] for record in records.get(name, ())])


def percent(shares: Sequence[float]) -> str:
    """Return a cell in percent: mean, standard deviation and number of seeds, a share for each."""
    return mean_cell([100 * share for share in shares])


def mean_cell(numbers: Sequence[float], form: str = ".2f") -> str:
    """Return a cell: mean, standard deviation and number of seeds, a number for each."""
    if not numbers:
        return MISSING
    seeds = f"({len(numbers)} seed{'s' * (len(numbers) > 1)})"
    spread = f" ± {statistics.stdev(numbers):{form}}" if len(numbers) > 1 else ""
    return f"{statistics.mean(numbers):{form}}{spread} {seeds}"


def histories(records: Records, name: str) -> list[list[dict[str, float]]]:
    """Return the evaluations after each epoch, for each seed that has them."""
    return [record["history"] for record in records.get(name, ()) if record.get("history")]


def by_setting(records: Records, task: str, prefix: str, field: str) -> dict[float, str]:
    """Return the recipes with a prefix, and self_attentive, by their value of a field."""
    names = sorted(name for name in records if name.startswith(f"{task}/{prefix}"))
    own = [name for name in records if name == f"{task}/self_attentive"]
    found = {getattr(_config_of(records[name][0]), field): name for name in own + names}
    return dict(sorted(found.items()))


def weights_of(record: Mapping[str, Any]) -> tuple[int, int, int]:
    """Count the weights as Table 4 does: hidden layer, softmax (no biases), rest (no vectors)."""
    config = _config_of(record)
    heads = {head.__name__: head for head in FAMILIES["self_attentive"].heads.values()}
    with torch.device("meta"):
        model = heads[(config.architectures or [""])[0]](config)

    def count(prefix: str) -> int:
        return sum(w.numel() for name, w in model.named_parameters() if name.startswith(prefix))

    classifier = count("classifier.")
    hidden = classifier - count("classifier.output.")
    other = count("") - classifier - count("encoder.embeddings.")
    return hidden, count("classifier.output.weight"), other


def hops_curves(records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the curves of Figure 5: epochs that all seeds have, and their mean accuracies."""

    def curve(name: str) -> list[tuple[float, float]]:
        return [
            (entries[0]["epoch"], statistics.mean(entry["accuracy"] for entry in entries))
            for entries in zip(*histories(records, name), strict=False)
        ]

    names = {task: by_setting(records, task, "hops_", "num_hops") for task in HOPS_TASKS}
    return {
        task: {f"r = {hops}": curve(found.get(hops, "")) for hops in HOPS}
        for task, found in names.items()
    }


def by_task(records: Records, table: str, tasks: Sequence[str]) -> str:
    """Return a table with a row for each model that has a record, and columns for each task."""
    measured = {name.partition("/")[2] for name in records}
    titles = {recipe: title for recipe, title in TITLES[table].items() if recipe in measured}
    headings, rows = ["model"], [[title] for title in titles.values()]
    for task in tasks:
        has_paper = task in PAPER.get(table, {})
        headings += [task, f"{task}, paper"] if has_paper else [task]
        for recipe, row in zip(titles, rows, strict=True):
            row.append(accuracy(records, f"{task}/{recipe}"))
            row += [_paper(table, task, recipe)] if has_paper else []
    return markdown(headings, rows)


def table3(records: Records) -> str:
    """The effect of the penalty on the accuracy and on what the hops read."""
    kinds, rows = ("entropy", "cosine", "overlap"), []
    for task in TASKS:
        names = by_setting(records, task, "penalty_", "penalty_coef")
        for coefficient in sorted(names.keys() | PAPER["table3"][task].keys()):
            name = names.get(coefficient, "")
            paper = _paper("table3", task, coefficient)
            means = (_attention(records, name, kind) for kind in kinds)
            rows.append((task, f"{coefficient:g}", accuracy(records, name), paper, *means))
    return markdown(("task", "coefficient", "accuracy in %", "paper", *kinds), rows)


def focus(records: Records) -> str:
    """The accuracy and the focus of each kind of attention."""
    kinds = ("entropy", "effective_words", "cosine", "lift")
    rows = []
    for task in FOCUS_TASKS:
        for recipe, title in TITLES["focus"].items():
            if (name := f"{task}/{recipe}") in records:
                means = (_attention(records, name, kind) for kind in kinds)
                gain = mean_cell(gains(records, name))
                rows.append((task, title, accuracy(records, name), gain, *means))
    headings = ("task", "attention", "accuracy in %", "above the paper's, same seeds")
    return markdown((*headings, *(kind.replace("_", " ") for kind in kinds)), rows)


def gains(records: Records, name: str) -> list[float]:
    """Return by how many points each seed of a recipe is above the paper's with the same seed."""
    paper = {r["seed"]: r for r in records.get(f"{name.partition('/')[0]}/self_attentive", ())}
    return [
        100 * (record["metrics"]["accuracy"] - paper[record["seed"]]["metrics"]["accuracy"])
        for record in records.get(name, ())
        if record["seed"] in paper
    ]


def focus_points(records: Records) -> dict[str, dict[str, tuple[float, float]]]:
    """Return for each task and kind of attention its mean entropy and gain over the paper's."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for task in FOCUS_TASKS:
        for recipe, title in TITLES["focus"].items():
            measured = [r for r in records.get(f"{task}/{recipe}", ()) if "attention" in r]
            if measured and (gained := gains(records, f"{task}/{recipe}")):
                entropy = statistics.mean(r["attention"]["entropy"] for r in measured)
                found.setdefault(task, {})[title] = (entropy, statistics.mean(gained))
    return found


def length(records: Records) -> str:
    """The accuracy of each pooling on texts of similar length, with its interval."""
    rows = []
    for task in LENGTH_TASKS:
        measured = [_groups(records, task, recipe) for recipe in TITLES["length"]]
        any_of_them = next((groups for groups in measured if groups), [])
        for place, (group, *_) in enumerate(any_of_them):
            row = [task, f"{group['from']} to {group['to']}", f"{group['rows']:,}"]
            row += [_with_interval(one[place]) if one else MISSING for one in measured]
            rows.append(row)
    return markdown(("task", "tokens", "rows", *TITLES["length"].values()), rows)


def length_curves(records: Records) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return for each task and pooling the mean length of each group of rows, and its accuracy."""
    return {
        task: {
            title: [
                (seeds[0]["tokens"], statistics.mean(one["accuracy"] for one in seeds))
                for seeds in _groups(records, task, recipe)
            ]
            for recipe, title in TITLES["length"].items()
        }
        for task in LENGTH_TASKS
    }


def _groups(records: Records, task: str, recipe: str) -> list[tuple[Mapping[str, Any], ...]]:
    """Return the groups of `accuracy_by_length`, each as the seeds measured it."""
    seeds = [record["by_length"] for record in records.get(f"length/{task}/{recipe}", ())]
    return list(zip(*seeds, strict=True))


def _with_interval(seeds: Sequence[Mapping[str, Any]]) -> str:
    """Return the mean accuracy over the seeds and its 95 % interval (Wilson's) for these rows."""
    share, rows, z = statistics.mean(one["accuracy"] for one in seeds), seeds[0]["rows"], 1.96
    middle = (share + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z * (share * (1 - share) / rows + (z / (2 * rows)) ** 2) ** 0.5 / (1 + z**2 / rows)
    return f"{100 * share:.1f} ({100 * (middle - half):.1f} to {100 * (middle + half):.1f})"


def table4(records: Records) -> str:
    """The number of weights and the accuracy with the full and the pruned MLP."""
    headings = ["task", "MLP"]
    for column in ("hidden layer", "softmax", "other", "accuracy in %"):
        headings += [column, f"{column}, paper"]
    rows = []
    for name, paper in PAPER["table4"].items():
        weights = [f"{n:,}" for n in weights_of(records[name][0])] if name in records else []
        ours = (*(weights or [MISSING] * 3), accuracy(records, name))
        pairs = [cell for pair in zip(ours, paper, strict=True) for cell in pair]
        task, _, recipe = name.partition("/")
        rows.append([task, "pruned" if recipe == "pruned" else "full", *pairs])
    return markdown(headings, rows)


def figure5(records: Records) -> str:
    """The accuracy of the best epoch for each number of hops."""
    headings, rows = ["hops"], [[str(hops)] for hops in HOPS]
    for task in HOPS_TASKS:
        headings += [task, f"{task}, paper"]
        names = by_setting(records, task, "hops_", "num_hops")
        for hops, row in zip(HOPS, rows, strict=True):
            seeds = histories(records, names.get(hops, ""))
            best = [max(entry["accuracy"] for entry in seed) for seed in seeds]
            row += [percent(best), _paper("figure5", task, hops)]
    return markdown(headings, rows)


def times(records: Records) -> str:
    """The wall seconds of the fastest seed: other work slowed some of the runs."""
    rows = []
    for recipe, title in TITLES["times"].items():
        seconds = [[r["wall_seconds"] for r in records.get(f"{t}/{recipe}", ())] for t in TASKS]
        rows.append(
            [title, *(f"{min(of_seeds):.0f}" if of_seeds else MISSING for of_seeds in seconds)]
        )
    return markdown(["model", *TASKS], rows)


def label_shift(records: Records) -> str:
    """The accuracy after adapting to the label frequencies of the validation rows."""
    rows = []
    for task in TASKS:
        for recipe in TITLES["table1"]:
            name = f"{task}/{recipe}"
            shifts = [r["label_shift"] for r in records.get(name, ()) if "label_shift" in r]
            if shifts:
                adapted = percent([shift["accuracy"] for shift in shifts])
                rows.append((task, recipe.replace("_", " "), accuracy(records, name), adapted))
    return markdown(("task", "model", "accuracy in %", "adapted"), rows)


def tuning(records: Records) -> str:
    """The trials by which settings were chosen, from records named tuning/TASK/TRIAL.json."""
    trials = [
        (name.split("/")[1:], found[0]["arguments"], accuracy(records, name))
        for name, found in sorted(records.items())
        if name.startswith("tuning/")
    ]
    return _trials(("task", "trial"), trials)


def searches(records: Records) -> str:
    """The trials of scripts/search.py, from records named search/TASK/MODEL.json."""
    trials = []
    for name in sorted(name for name in records if name.startswith("search/")):
        _, task, model = name.split("/")
        for trial in records[name][0]["trials"]:
            value = MISSING if trial["value"] is None else f"{100 * trial['value']:.2f}"
            ended = "" if trial["state"] == "complete" else f" ({trial['state']})"
            row = [task, model.replace("_", " "), str(trial["number"])]
            trials.append((row, trial["settings"], value + ended))
    return _trials(("task", "model", "trial"), trials)


# The name of a line in the template -> what makes its table.
TABLES: Mapping[str, Callable[[Records], str]] = {
    "table1": partial(by_task, table="table1", tasks=("yelp5", "blog_age")),
    "table2": partial(by_task, table="table2", tasks=("snli",)),
    "beyond": partial(by_task, table="beyond", tasks=(*TASKS, "sst2")),
    **{
        function.__name__: function
        for function in (
            table3,
            focus,
            length,
            table4,
            figure5,
            times,
            label_shift,
            tuning,
            searches,
        )
    },
}


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def _trials(
    headings: Sequence[str], trials: Sequence[tuple[list[str], Mapping[str, Any], str]]
) -> str:
    """Return a table of trials: names, settings and accuracy of each."""
    chosen = set().union(*(settings for _, settings, _ in trials))
    columns = {heading: key for heading, key in SETTINGS.items() if key in chosen}
    rows = [
        (*names, *(_setting(settings.get(key)) for key in columns.values()), value)
        for names, settings, value in trials
    ]
    return markdown((*headings, *columns, "accuracy in %"), rows)


def _attention(records: Records, name: str, kind: str) -> str:
    """Return the cell of the mean of what was measured of the attention; it names fewer seeds."""
    runs = records.get(name, ())
    found = [r["attention"][kind] for r in runs if kind in r.get("attention", ())]
    if not found:
        return MISSING
    seeds = "" if len(found) == len(runs) else f" ({len(found)} of {len(runs)} seeds)"
    return f"{statistics.mean(found):.3f}{seeds}"


def _differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two records have different settings, where defaults may have changed."""
    mine, theirs = one["arguments"], other["arguments"]
    names = {n for n in mine.keys() | theirs.keys() if mine.get(n) != theirs.get(n)} - OF_A_RUN
    if not names:
        return False  # spares most records the config that knows their defaults
    mine, theirs = recorded_settings(one, names), recorded_settings(other, names)
    return any(mine.get(name) != theirs.get(name) for name in names)


def _config_of(record: Mapping[str, Any]) -> SelfAttentiveConfig:
    return SelfAttentiveConfig.from_dict(dict(record["config"]))


def _setting(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    shown = (Path(v).name.removesuffix(".txt.gz") if isinstance(v, str) else str(v) for v in values)
    return "" if value is None else ", ".join(shown)


def _paper(table: str, task: str, row: Any) -> str:
    number = PAPER[table][task].get(row)
    return "" if number is None else f"{number:.2f}"
