"""The pages of model_cards with their figures, and the cards, made from the records alone.

The tables stand in experiments.md and translation.md, their titles and the numbers of the papers in
tables.yaml.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml
from charts import Panels, lines_figure
from figures import Points, accuracy_figure, bars_figure, points_figure
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from leaderboard import SETS, SYSTEMS
from records import Record, read_record
from torch.nn.utils import parameters_to_vector

import sase_hf
from sase_hf.hub import model_card
from sase_hf.models import FAMILIES
from sase_hf.utils.errors import refusal
from sase_hf.visualization import attention_svg

LAB = Path(__file__).parent
SHOWN = yaml.safe_load((LAB / "tables.yaml").read_text(encoding="utf-8"))
TITLES = SHOWN["titles"]
TASKS = SHOWN["tasks"]
MISSING = "-"
MEASURED_WITH = {
    "clean": "measured without the decoy",
    "flipped": "measured with it the other way round",
}

# Name of a recipe -> the records of its seeds.
Recipes = Mapping[str, Sequence[Record]]
Trial = tuple[list[str], Mapping[str, Any], str]  # names, settings and accuracy


def by_recipe(records: Mapping[str, Record], split: str = "validation") -> Recipes:
    """Return records by the names of their recipes: those of their runs, without the seed.

    Raises ValueError if a record was measured on another split, or the seeds of a recipe have
    different settings.
    """
    recipes: dict[str, list[Record]] = defaultdict(list)
    for run, record in records.items():
        if record["split"] != split:
            raise ValueError(
                f"{run} was measured on {record['split']} rows, but the tables show {split} rows"
            )
        recipe = re.sub(r"-seed\d+$", "", run)
        recipes[recipe].append(record)
    for recipe, seeds in recipes.items():
        if len({record["settings_sha"] for record in seeds}) > 1:
            raise refusal(
                f"the seeds of {recipe} have different settings",
                "run the recipe again with each seed",
            )
    return dict(recipes)


def numbers(seeds: Iterable[Record], *keys: str) -> list[Any]:
    """Return the value under nested keys of each seed that has them."""
    values = []
    for value in seeds:
        with suppress(KeyError):
            for key in keys:
                value = value[key]
            values.append(value)
    return values


def mean(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed."""
    if not values:
        return MISSING
    average = statistics.mean(factor * value for value in values)
    return f"{average:{form}}"


def spread(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed, with the standard deviation of several."""
    average = mean(values, form, factor)
    if len(values) < 2:
        return average
    deviation = statistics.stdev(factor * value for value in values)
    return f"{average} ± {deviation:{form}}"


def cell(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed, with standard deviation and number of seeds."""
    if not values:
        return MISSING
    noun = "seed" if len(values) == 1 else "seeds"
    return f"{spread(values, form, factor)} ({len(values)} {noun})"


percent = partial(cell, factor=100)


def wilson_interval(share: float, number: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of a number of rows, by Wilson.

    At both ends p, the share is 1.96 standard errors of p away from p. scipy has it for a count;
    the share is a mean over seeds, so it need not be one.
    """
    weight = 1.96**2 / number
    centre = share + weight / 2
    reach = math.sqrt(weight * (share * (1 - share) + weight / 4))
    return (centre - reach) / (1 + weight), (centre + reach) / (1 + weight)


def setting(value: Any) -> str:
    """Return a cell of a setting, or of several; files have their names."""
    if value is None:
        return ""
    values = value if isinstance(value, list) else [value]
    names = [str(item).rpartition("/")[2] for item in values]
    return ", ".join(name.removesuffix(".txt.gz") for name in names)


@dataclass(frozen=True)
class Pages:
    """The cells and figures of the pages; a template calls its methods as `page`."""

    records: Recipes
    leaderboard: Recipes

    def text(self, name: str) -> str:
        """Return the page of the template `name`.md beside this file."""
        environment = Environment(
            loader=FileSystemLoader(LAB),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        environment.filters |= {
            "cell": cell,
            "percent": percent,
            "mean": mean,
            "spread": spread,
            "numbers": numbers,
            "setting": setting,
        }
        return environment.get_template(f"{name}.md").render(page=self, **SHOWN)

    def measured(self, recipe: str, *keys: str) -> list[Any]:
        """Return the value under nested keys of each seed of a recipe that has them."""
        return numbers(self.records.get(recipe, ()), *keys)

    def figures(self) -> dict[str, Any]:
        """Return the figures by the names of their files."""
        length = self.curves("length", "by_length", "tokens")
        return {
            "rows.svg": accuracy_figure(self.by_rows(), "training rows", log_x=True),
            "hops.svg": accuracy_figure(self.by_epoch(), "epoch"),
            "focus.svg": points_figure(
                self.gains_by_entropy(),
                "entropy",
                "points of accuracy above the paper's",
                columns=9,
            ),
            "length.svg": accuracy_figure(length, "tokens of a text, or of both"),
            "leaderboard.svg": points_figure(
                self.accuracies_by_seconds(),
                "seconds of training on one core",
                "accuracy in %",
                columns=4,
                log_x=True,
            ),
            "reasons.svg": bars_figure(self.accuracies_with_decoy(), "accuracy in %"),
            "retrieval_length.svg": lines_figure(
                self.recall_by_length(), "words of the document", "recall at 10"
            ),
            "translation_length.svg": lines_figure(
                self.bleu_by_length(), "words of the source", "BLEU"
            ),
        }

    def by_epoch(self) -> Panels:
        """Return epochs and accuracies of each number of hops, set by set."""
        panels: dict[str, Any] = {}
        for task, curves in self.curves("figure5", "history", "epoch").items():
            panels[task] = {f"r = {hops}": curve for hops, curve in curves.items()}
        return panels

    def gains_by_entropy(self) -> Points:
        """Return the entropy of the attention, and the points above the paper's accuracy."""
        points: Points = defaultdict(dict)
        for task, (recipe, title) in product(TASKS["focus"], TITLES["focus"].items()):
            entropies = self.measured(f"{task}/{recipe}", "attention", "entropy")
            gains = self.gains(task, recipe)
            if entropies and gains:
                points[task][title] = statistics.mean(entropies), statistics.mean(gains)
        return points

    def accuracies_by_seconds(self) -> Points:
        """Return seconds of training, and the accuracy in percent, of the leaderboard's systems."""
        points: Points = defaultdict(dict)
        for task, title, seeds in self.systems():
            seconds = statistics.mean(numbers(seeds, "training_seconds"))
            shares = numbers(seeds, "metrics", "accuracy")
            points[task][title] = seconds, statistics.mean(100 * share for share in shares)
        return points

    def accuracies_with_decoy(self) -> dict[str, dict[str, float]]:
        """Return the accuracies in percent that a decoy spoils, by what training was given."""
        bars: dict[str, dict[str, float]] = {}
        for recipe, title in TITLES["reasons"].items():
            for rows, name in MEASURED_WITH.items():
                shares = self.measured(recipe, "reasons", rows, "accuracy")
                if shares:
                    bars.setdefault(title, {})[name] = 100 * statistics.mean(shares)
        return bars

    def recall_by_length(self) -> dict[str, Any]:
        """Return words of the document, and the recall at 10, of the first seed of each ranker."""
        lines: dict[str, Any] = {}
        for ranker, title in TITLES["rankers"].items():
            groups_of_seeds = self.measured(f"yelp5_{ranker}", "recall_by_length")
            if groups_of_seeds:
                groups = groups_of_seeds[0]
                lines[title] = numbers(groups, "words"), numbers(groups, "recall_at_10")
        return lines

    def by_rows(self) -> Panels:
        """Return numbers of rows and accuracies of each system measured on several, set by set."""
        points: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
        for address, seeds in self.leaderboard.items():
            task, system, *_ = address.split("/")
            sources = seeds[0]["sources"]
            rows = sources["train"]["rows"] + sources["validation"]["rows"]
            accuracy = 100 * statistics.mean(numbers(seeds, "metrics", "accuracy"))
            points[task, system].append((rows, accuracy))
        panels: dict[str, Any] = defaultdict(dict)
        for (task, system), line in points.items():
            if len(line) > 1:
                title = SYSTEMS[system]["title"]
                panels[task][title] = tuple(zip(*sorted(line), strict=True))
        return panels

    def bleu_by_length(self) -> dict[str, Any]:
        """Return words of the source, and the mean BLEU of the seeds, of each translator."""
        lines: dict[str, Any] = {}
        for recipe, (title, *_) in SHOWN["translation"].items():
            groups = list(zip(*self.measured(recipe, "translation", "by_length"), strict=True))
            if groups:
                words = [statistics.mean(seeds[0]["words"]) for seeds in groups]
                scores = [statistics.mean(numbers(seeds, "bleu")) for seeds in groups]
                lines[title] = words, scores
        return lines

    def alignment(self) -> str:
        """Return the alignment of an example as an SVG, by the last translator that has one."""
        examples: list[Any] = []
        for recipe in SHOWN["translation"]:
            examples += self.measured(recipe, "translation", "example")[:1]
        return attention_svg(examples[-1])

    def accuracy(self, task: str, recipe: str) -> str:
        """Return the cell of a recipe's accuracy in percent."""
        return percent(self.measured(f"{task}/{recipe}", "metrics", "accuracy"))

    def best_epoch(self, task: str, recipe: str) -> str:
        """Return the cell of the accuracy of the best epoch."""
        histories = self.measured(f"{task}/{recipe}", "history")
        return percent([max(entry["accuracy"] for entry in history) for history in histories])

    def gains(self, task: str, recipe: str) -> list[float]:
        """Return the points of accuracy above the paper's with the same seeds."""
        of_paper = self.accuracies_by_seed(task, "self_attentive")
        gains = []
        for seed, accuracy in self.accuracies_by_seed(task, recipe).items():
            if seed in of_paper:
                gains.append(100 * (accuracy - of_paper[seed]))
        return gains

    def accuracies_by_seed(self, task: str, recipe: str) -> dict[int, float]:
        """Return the accuracies of a recipe, as shares."""
        records = self.measured(f"{task}/{recipe}")
        return {record["seed"]: record["metrics"]["accuracy"] for record in records}

    def gains_of_opinion(self, task: str, metric: str) -> list[float]:
        """Return what a model adds to a regression in finding wrong labels, with the same seeds."""
        alone = {}
        for record in self.measured(f"wrong_labels/{task}/linear"):
            alone[record["seed"]] = record["metrics"][metric]
        both = self.measured(f"wrong_labels/{task}/both")
        return [record["metrics"][metric] - alone[record["seed"]] for record in both]

    def lengths(self, task: str) -> list[list[str]]:
        """Return a row for each group of lengths: tokens, rows, and the accuracy of each pooling.

        An accuracy is the mean over the seeds with its 95 % interval (Wilson's) for these rows.
        """
        first_recipe = next(iter(TITLES["length"]))
        rows = []
        for group in self.measured(f"{task}/{first_recipe}", "by_length")[0]:
            rows.append([f"{group['from']} to {group['to']}", f"{group['rows']:,}"])
        curves = self.curves("length", "by_length", "rows")[task]
        for counts, accuracies in curves.values():
            for row, number, accuracy in zip(rows, counts, accuracies, strict=True):
                low, high = wilson_interval(accuracy / 100, number)
                row.append(f"{accuracy:.1f} ({100 * low:.1f} to {100 * high:.1f})")
        return rows

    def curves(self, table: str, entries: str, x: str) -> Panels:
        """Return x, and the mean accuracy in percent over the seeds, by task and title.

        The entries are a list in each record; those that all seeds have count.
        """
        curves: dict[str, dict[str, Any]] = {}
        for task, recipe in product(TASKS[table], TITLES[table]):
            lists = self.measured(f"{task}/{recipe}", entries)
            places = []
            accuracies = []
            for seeds in zip(*lists, strict=False):
                places.append(seeds[0][x])
                accuracies.append(100 * statistics.mean(numbers(seeds, "accuracy")))
            title = str(TITLES[table][recipe])
            curves.setdefault(task, {})[title] = places, accuracies
        return curves

    def weights(self, task: str, recipe: str) -> list[str]:
        """Count the weights as Table 4: hidden layer, softmax (no biases), rest (no vectors)."""
        config = self.measured(f"{task}/{recipe}", "config")[0]
        with torch.device("meta"):
            head = getattr(sase_hf, config["architectures"][0])
            model = head(sase_hf.SelfAttentiveConfig.from_dict(config))
        output = model.classifier.output
        mlp = parameters_to_vector(model.classifier.parameters()).numel()
        softmax = parameters_to_vector(output.parameters()).numel()
        other = model.num_parameters(exclude_embeddings=True) - mlp
        return [f"{number:,}" for number in (mlp - softmax, output.weight.numel(), other)]

    def tuning_trials(self) -> list[Trial]:
        """Return the trials of the records tuning/TASK/TRIAL."""
        trials: list[Trial] = []
        for name, seeds in sorted(self.records.items()):
            study, *names = name.split("/")
            if study == "tuning":
                accuracy = percent(numbers(seeds, "metrics", "accuracy"))
                trials.append((names, seeds[0]["arguments"], accuracy))
        return trials

    def search_trials(self) -> list[Trial]:
        """Return the trials of the records search/TASK/MODEL."""
        trials: list[Trial] = []
        for name, seeds in sorted(self.records.items()):
            study, *names = name.split("/")
            if study == "search":
                task, model = names
                for trial in seeds[0]["trials"]:
                    cells = [task, model.replace("_", " "), str(trial["number"])]
                    trials.append((cells, trial["settings"], accuracy_of_trial(trial)))
        return trials

    def systems(self) -> list[tuple[str, str, Sequence[Record]]]:
        """Return the set, the title and the records of each system of the leaderboard."""
        measured = []
        for task, system in product(SETS, SYSTEMS):
            seeds = self.leaderboard.get(f"{task}/{system}")
            if seeds is not None:
                measured.append((task, SYSTEMS[system]["title"], seeds))
        return measured


def accuracy_of_trial(trial: Mapping[str, Any]) -> str:
    """Return the cell of the accuracy in percent of a trial, with its state unless complete."""
    accuracy = MISSING
    if trial["value"] is not None:
        accuracy = f"{100 * trial['value']:.2f}"
    if trial["state"] == "complete":
        return accuracy
    return f"{accuracy} ({trial['state']})"


def render_card(source: Path) -> str:
    """Return the card of a YAML file with the facts that no record has, such as the licence.

    The `record`, FILE.json or FILE.jsonl#RUN, is relative to the folder. So is `export`, which may
    be missing: the export.json of the same model, measured on rows.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
    record = dict(read_record(source.parent / about.pop("record")))
    if "export" in about:
        record["export"] = read_record(source.parent / about.pop("export"))
    family = FAMILIES[record["config"]["model_type"]]
    return model_card(
        family.config.from_dict(record["config"]),
        record,
        num_parameters=record["num_parameters"],
        name=about.pop("name"),
        repo_id=about.pop("checkpoint"),
        about=about,
    )
