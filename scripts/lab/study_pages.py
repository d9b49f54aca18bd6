"""The pages of model_cards with their figures, and the cards, made from the records alone.

The tables stand in experiments.md and translation.md, their titles and the numbers of the papers in
tables.yaml.
"""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml
from charts import Panels, lines_figure
from figures import Points, accuracy_figure, points_figure
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from leaderboard import SETS, SYSTEMS
from records import Record, read_record
from torch.nn.utils import parameters_to_vector

import sase_hf
from sase_hf.hub import model_card
from sase_hf.models import FAMILIES
from sase_hf.visualization import alignment_figure

LAB = Path(__file__).parent
SHOWN = yaml.safe_load((LAB / "tables.yaml").read_text(encoding="utf-8"))
TITLES, TASKS = SHOWN["titles"], SHOWN["tasks"]
MISSING = "-"

# Name of a recipe -> the records of its seeds.
Recipes = Mapping[str, Sequence[Record]]
Trial = tuple[list[str], Mapping[str, Any], str]  # names, settings and accuracy


def by_recipe(records: Mapping[str, Record], split: str = "validation") -> Recipes:
    """Return records by the names of their recipes: those of their runs, without the seed.

    Raises ValueError if a record was measured on another split, or the seeds of a recipe have
    different settings.
    """
    found: dict[str, list[Record]] = {}
    for run, record in records.items():
        if record["split"] != split:
            fault = f"was measured on {record['split']} rows, but the tables show {split} rows"
            raise ValueError(f"{run} {fault}")
        found.setdefault(re.sub(r"-seed\d+$", "", run), []).append(record)
    for name, seeds in found.items():
        if len({record["settings_sha"] for record in seeds}) > 1:
            fault = "have different settings; run the recipe again with each seed"
            raise ValueError(f"the seeds of {name} {fault}")
    return found


def numbers(seeds: Iterable[Record], *keys: str) -> list[Any]:
    """Return the value under nested keys of each seed that has them."""
    none: Any = {}
    found = [reduce(lambda value, key: value.get(key, none), keys, seed) for seed in seeds]
    return [value for value in found if value is not none]


def mean(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed."""
    return f"{statistics.mean(factor * value for value in values):{form}}" if values else MISSING


def spread(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed, with the standard deviation of several."""
    shown = mean(values, form, factor)
    if len(values) > 1:
        shown += f" ± {statistics.stdev(factor * value for value in values):{form}}"
    return shown


def cell(values: Sequence[float], form: str = ".2f", factor: float = 1) -> str:
    """Return the mean of a value for each seed, with standard deviation and number of seeds."""
    count = f" ({len(values)} seed{'s' * (len(values) > 1)})"
    return spread(values, form, factor) + count * bool(values)


percent = partial(cell, factor=100)


def wilson_interval(share: float, number: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of a number of rows, by Wilson.

    At both ends p, the share is 1.96 standard errors of p away from p.
    """
    weight = 1.96**2 / number
    centre = share + weight / 2
    reach = math.sqrt(weight * (share * (1 - share) + weight / 4))
    return (centre - reach) / (1 + weight), (centre + reach) / (1 + weight)


def setting(value: Any) -> str:
    """Return a cell of a setting, or of several; files have their names."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    return ", ".join(str(one).rpartition("/")[2].removesuffix(".txt.gz") for one in values)


@dataclass(frozen=True)
class Pages:
    """The cells and figures of the pages; a template calls its methods as `page`."""

    records: Recipes
    leaderboard: Recipes

    def text(self, name: str) -> str:
        """Return the page of the template `name`.md beside this file."""
        names = ("trim_blocks", "lstrip_blocks", "keep_trailing_newline")
        options: dict[str, Any] = dict.fromkeys(names, True) | {"undefined": StrictUndefined}
        environment = Environment(loader=FileSystemLoader(LAB), **options)
        environment.filters.update(cell=cell, percent=percent, mean=mean, spread=spread)
        environment.filters.update(numbers=numbers, setting=setting)
        return environment.get_template(f"{name}.md").render(page=self, **SHOWN)

    def measured(self, recipe: str, *keys: str) -> list[Any]:
        """Return the value under nested keys of each seed of a recipe that has them."""
        return numbers(self.records.get(recipe, ()), *keys)

    def figures(self) -> dict[str, Any]:
        """Return the figures by the names of their files."""
        hops = self.curves("figure5", "history", "epoch")
        hops = {task: {f"r = {r}": own[r] for r in own} for task, own in hops.items()}
        length = self.curves("length", "by_length", "tokens")
        focus: Points = defaultdict(dict)
        systems: Points = defaultdict(dict)
        for task, (recipe, title) in product(TASKS["focus"], TITLES["focus"].items()):
            entropies = self.measured(f"{task}/{recipe}", "attention", "entropy")
            if entropies and (gains := self.gains(task, recipe)):
                focus[task][title] = statistics.mean(entropies), statistics.mean(gains)
        for task, title, seeds in self.systems():
            seconds = statistics.mean(numbers(seeds, "training_seconds"))
            accuracy = statistics.mean(100 * own for own in numbers(seeds, "metrics", "accuracy"))
            systems[task][title] = seconds, accuracy
        recall: dict[str, Any] = {}
        for ranker, title in TITLES["rankers"].items():
            for record in self.measured(f"yelp5_{ranker}")[:1]:
                by_words = record["recall_by_length"]
                words, found = (numbers(by_words, key) for key in ("words", "recall_at_10"))
                recall[title] = words, found
        gain, cost = "points of accuracy above the paper's", "seconds of training on one core"
        return {
            "rows.svg": accuracy_figure(self.by_rows(), "training rows", log_x=True),
            "hops.svg": accuracy_figure(hops, "epoch"),
            "focus.svg": points_figure(focus, "entropy", gain, columns=9),
            "length.svg": accuracy_figure(length, "tokens of a text, or of both"),
            "leaderboard.svg": points_figure(systems, cost, "accuracy in %", columns=4, log_x=True),
            "retrieval_length.svg": lines_figure(recall, "words of the document", "recall at 10"),
            **self.translation_figures(),
        }

    def by_rows(self) -> Panels:
        """Return numbers of rows and accuracies of each system measured on several, set by set."""
        points: dict[str, Any] = defaultdict(lambda: defaultdict(list))
        for address, seeds in self.leaderboard.items():
            task, system, *_ = address.split("/")
            rows = sum(seeds[0]["sources"][split]["rows"] for split in ("train", "validation"))
            accuracy = 100 * statistics.mean(numbers(seeds, "metrics", "accuracy"))
            points[task][SYSTEMS[system]["title"]].append((rows, accuracy))
        panels: dict[str, Any] = defaultdict(dict)
        for task, lines in points.items():
            for title, own in lines.items():
                if len(own) > 1:
                    panels[task][title] = tuple(zip(*sorted(own), strict=True))
        return panels

    def translation_figures(self) -> dict[str, Any]:
        """Return BLEU by the length of the source, and an alignment of the last model with one."""
        lines: dict[str, Any] = {}
        examples = []
        for recipe, (title, *_) in SHOWN["translation"].items():
            groups = list(zip(*self.measured(recipe, "translation", "by_length"), strict=True))
            if groups:
                words = [statistics.mean(seeds[0]["words"]) for seeds in groups]
                lines[title] = words, [statistics.mean(numbers(own, "bleu")) for own in groups]
            examples += self.measured(recipe, "translation", "example")[:1]
        return {
            "translation_length.svg": lines_figure(lines, "words of the source", "BLEU"),
            "translation_alignment.svg": alignment_figure(examples[-1]),
        }

    def accuracy(self, task: str, recipe: str) -> str:
        """Return the cell of a recipe's accuracy in percent."""
        return percent(self.measured(f"{task}/{recipe}", "metrics", "accuracy"))

    def best_epoch(self, task: str, recipe: str) -> str:
        """Return the cell of the accuracy of the best epoch."""
        histories = self.measured(f"{task}/{recipe}", "history")
        return percent([max(entry["accuracy"] for entry in history) for history in histories])

    def gains(self, task: str, recipe: str) -> list[float]:
        """Return the points of accuracy above the paper's with the same seeds."""
        own, paper = (
            {r["seed"]: r["metrics"]["accuracy"] for r in self.measured(f"{task}/{name}")}
            for name in (recipe, "self_attentive")
        )
        return [100 * (own[seed] - paper[seed]) for seed in own if seed in paper]

    def lengths(self, task: str) -> list[list[str]]:
        """Return a row for each group of lengths: tokens, rows, and the accuracy of each pooling.

        An accuracy is the mean over the seeds with its 95 % interval (Wilson's) for these rows.
        """
        first = self.measured(f"{task}/{next(iter(TITLES['length']))}", "by_length")[0]
        rows = [[f"{one['from']} to {one['to']}", f"{one['rows']:,}"] for one in first]
        for groups in self.curves("length", "by_length", "rows")[task].values():
            for row, number, accuracy in zip(rows, *groups, strict=True):
                low, high = wilson_interval(accuracy / 100, number)
                row.append(f"{accuracy:.1f} ({100 * low:.1f} to {100 * high:.1f})")
        return rows

    def curves(self, table: str, entries: str, x: str) -> Panels:
        """Return x, and the mean accuracy in percent over the seeds, by task and title.

        The entries are a list in each record; those that all seeds have count.
        """
        curves: dict[str, dict[str, Any]] = {}
        for task, recipe in product(TASKS[table], TITLES[table]):
            seeds = self.measured(f"{task}/{recipe}", entries)
            points = [(one[0][x], numbers(one, "accuracy")) for one in zip(*seeds, strict=False)]
            curve = [at for at, _ in points], [100 * statistics.mean(y) for _, y in points]
            curves.setdefault(task, {})[str(TITLES[table][recipe])] = curve
        return curves

    def weights(self, task: str, recipe: str) -> list[str]:
        """Count the weights as Table 4: hidden layer, softmax (no biases), rest (no vectors)."""
        config = self.measured(f"{task}/{recipe}", "config")[0]
        with torch.device("meta"):
            head = getattr(sase_hf, config["architectures"][0])
            model = head(sase_hf.SelfAttentiveConfig.from_dict(config))
        output, parts = model.classifier.output, (model.classifier, model.classifier.output)
        mlp, softmax = (parameters_to_vector(part.parameters()).numel() for part in parts)
        other = model.num_parameters(exclude_embeddings=True) - mlp
        return [f"{number:,}" for number in (mlp - softmax, output.weight.numel(), other)]

    def trials(self, kind: str) -> list[Trial]:
        """Return the trials of the records tuning/TASK/TRIAL, or search/TASK/MODEL."""
        found: list[Trial] = []
        for name, seeds in sorted(self.records.items()):
            own, *names = name.split("/")
            if own == "tuning" == kind:
                found.append((names, seeds[0]["arguments"], self.accuracy(own, "/".join(names))))
            for trial in seeds[0]["trials"] if own == "search" == kind else ():
                task, model = names
                best = MISSING if trial["value"] is None else f"{100 * trial['value']:.2f}"
                best += "" if trial["state"] == "complete" else f" ({trial['state']})"
                shown = [task, model.replace("_", " "), str(trial["number"])]
                found.append((shown, trial["settings"], best))
        return found

    def systems(self) -> list[tuple[str, str, Sequence[Record]]]:
        """Return the set, the title and the records of each system of the leaderboard."""
        return [
            (task, SYSTEMS[system]["title"], self.leaderboard[f"{task}/{system}"])
            for task, system in product(SETS, SYSTEMS)
            if f"{task}/{system}" in self.leaderboard
        ]


def render_card(source: Path) -> str:
    """Return the card of a YAML file with the facts that no record has, such as the licence.

    The `record`, FILE.json or FILE.jsonl#RUN, is relative to the folder. So is `export`, which may
    be missing: the export.json of the same model, measured on rows.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
    record = dict(read_record(source.parent / about.pop("record")))
    if "export" in about:
        record["export"] = read_record(source.parent / about.pop("export"))
    config = FAMILIES[record["config"]["model_type"]].config.from_dict(record["config"])
    own: Any = {"name": about.pop("name"), "repo_id": about.pop("checkpoint"), "about": about}
    return model_card(config, record, num_parameters=record["num_parameters"], **own)
