"""The pages EXPERIMENTS.md and TRANSLATION.md and their figures, made from the records alone.

The tables stand in experiments.md and translation.md, their titles and the numbers of the papers in
tables.yaml.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from cells import MISSING, Page, Recipes, markdown, mean_cell, numbers, percent, spread
from figures import accuracy_figure, points_figure
from leaderboard import SETS, SYSTEMS
from records import Record

from sase_hf import SelfAttentiveConfig
from sase_hf.models import FAMILIES
from sase_hf.visualization import alignment_figure, lines_figure

LAB = Path(__file__).parent
SHOWN = yaml.safe_load((LAB / "tables.yaml").read_text(encoding="utf-8"))
TITLES, PAPER, TASKS = SHOWN["titles"], SHOWN["paper"], SHOWN["tasks"]

Points = dict[str, dict[str, Any]]  # task -> title -> a point or a curve


class Experiments(Page):
    """The cells and figures of the page, from the records of study and leaderboard."""

    template = LAB / "experiments.md"
    shown = {"titles": TITLES, "tasks": TASKS}  # noqa: RUF012

    def __init__(self, records: Recipes, leaderboard: Recipes) -> None:
        super().__init__(records)
        self.leaderboard = leaderboard

    def figures(self) -> dict[str, Any]:
        """Return the figures by the names of their files."""
        hops, focus, length, systems = (Points() for _ in range(4))
        for task in TASKS["figure5"]:
            for recipe, count in TITLES["figure5"].items():
                epochs = zip(*self.measured(f"{task}/{recipe}", "history"), strict=False)
                curve = [_mean_point(seeds, "epoch") for seeds in epochs]  # those of all seeds
                hops.setdefault(task, {})[f"r = {count}"] = curve
        for task in TASKS["focus"]:
            for recipe, title in TITLES["focus"].items():
                entropies = self.measured(f"{task}/{recipe}", "attention", "entropy")
                if entropies and (gains := self._gains(task, recipe)):
                    point = (statistics.mean(entropies), statistics.mean(gains))
                    focus.setdefault(task, {})[title] = point
        for task in TASKS["length"]:
            for recipe, title in TITLES["length"].items():
                groups = zip(*self.measured(f"{task}/{recipe}", "by_length"), strict=True)
                curve = [_mean_point(seeds, "tokens") for seeds in groups]
                length.setdefault(task, {})[title] = curve
        for task, title, seeds in self.systems():
            seconds = statistics.mean(numbers(seeds, "training_seconds"))
            accuracy = statistics.mean(100 * own for own in numbers(seeds, "metrics", "accuracy"))
            systems.setdefault(task, {})[title] = (seconds, accuracy)
        gain, cost = "points of accuracy above the paper's", "seconds of training on one core"
        return {
            "hops.svg": accuracy_figure(hops, "epoch"),
            "focus.svg": points_figure(focus, "entropy", gain, columns=9),
            "length.svg": accuracy_figure(length, "tokens of a text, or of both"),
            "leaderboard.svg": points_figure(systems, cost, "accuracy in %", columns=4, log_x=True),
        }

    def accuracy(self, task: str, recipe: str) -> str:
        """Return the cell of a recipe's accuracy in percent."""
        return percent(self.measured(f"{task}/{recipe}", "metrics", "accuracy"))

    def best_epoch(self, task: str, recipe: str) -> str:
        """Return the cell of the accuracy of the best epoch."""
        histories = self.measured(f"{task}/{recipe}", "history")
        return percent([max(entry["accuracy"] for entry in history) for history in histories])

    def gain(self, task: str, recipe: str) -> str:
        """Return the cell of the points of accuracy above the paper's with the same seeds."""
        return mean_cell(self._gains(task, recipe))

    def _gains(self, task: str, recipe: str) -> list[float]:
        own, paper = (
            {r["seed"]: r["metrics"]["accuracy"] for r in self.measured(f"{task}/{name}")}
            for name in (recipe, "self_attentive")
        )
        return [100 * (own[seed] - paper[seed]) for seed in own if seed in paper]

    def paper(self, table: str, task: str, recipe: str) -> Any:
        """Return the cell of a number of the paper, or its cells of Table 4; empty if none."""
        number = PAPER[table][task].get(recipe, "")
        return f"{number:.2f}" if isinstance(number, float) else number

    def lengths(self, task: str) -> list[list[str]]:
        """Return a row for each group of lengths: tokens, rows, and the accuracy of each pooling.

        An accuracy is the mean over the seeds with its 95 % interval (Wilson's) for these rows.
        """
        rows: list[list[str]] = []
        for recipe in TITLES["length"]:
            groups = list(zip(*self.measured(f"{task}/{recipe}", "by_length"), strict=True))
            rows = rows or [
                [f"{one['from']} to {one['to']}", f"{one['rows']:,}"] for one, *_ in groups
            ]
            for row, seeds in zip(rows, groups, strict=True):
                n, share = _mean_point(seeds, "rows")
                z = 1.96
                middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
                half = z * (share * (1 - share) / n + (z / (2 * n)) ** 2) ** 0.5 / (1 + z**2 / n)
                low, high = 100 * (middle - half), 100 * (middle + half)
                row.append(f"{100 * share:.1f} ({low:.1f} to {high:.1f})")
        return rows

    def agreement_by_length(self, recipe: str, marks: str, score: str) -> list[str]:
        """Return the cells of the average precision in thirds of the texts, the shortest first."""
        seeds = self.measured(recipe, "agreement", marks, "by_length")
        groups = [numbers(group, "average_precision", score) for group in zip(*seeds, strict=True)]
        return [spread(group) for group in groups or ([],) * 3]

    def weights(self, task: str, recipe: str) -> list[str]:
        """Count the weights as Table 4: hidden layer, softmax (no biases), rest (no vectors)."""
        config = self.measured(f"{task}/{recipe}", "config")[0]
        sizes: dict[str, Any] = {name: config[name] for name in SHOWN["sizes"] if name in config}
        sizes["num_labels"] = len(config.get("id2label", "01"))
        heads = {head.__name__: head for head in FAMILIES["self_attentive"].heads.values()}
        with torch.device("meta"):
            model = heads[config["architectures"][0]](SelfAttentiveConfig(**sizes))
        weights = {name: weight.numel() for name, weight in model.named_parameters()}

        def count(prefix: str) -> int:
            return sum(number for name, number in weights.items() if name.startswith(prefix))

        classifier = count("classifier.")
        hidden = classifier - count("classifier.output.")
        other = count("") - classifier - count("encoder.embeddings.")
        return [f"{number:,}" for number in (hidden, count("classifier.output.weight"), other)]

    def tuning(self) -> str:
        """Return the trials by which settings were chosen, from records named tuning/TASK/TRIAL."""
        trials = []
        for name, task, trial in self._named("tuning"):
            settings = self.records[name][0]["arguments"]
            trials.append(([task, trial], settings, self.accuracy(f"tuning/{task}", trial)))
        return _trials(("task", "trial"), trials)

    def searches(self) -> str:
        """Return the trials of scripts/search.py, from records named search/TASK/MODEL."""
        trials = []
        for name, task, model in self._named("search"):
            for trial in self.records[name][0]["trials"]:
                value = MISSING if trial["value"] is None else f"{100 * trial['value']:.2f}"
                ended = "" if trial["state"] == "complete" else f" ({trial['state']})"
                row = [task, model.replace("_", " "), str(trial["number"])]
                trials.append((row, trial["settings"], value + ended))
        return _trials(("task", "model", "trial"), trials)

    def _named(self, kind: str) -> list[list[str]]:
        found = sorted(name for name in self.records if name.startswith(f"{kind}/"))
        return [[name, *name.split("/")[1:]] for name in found]

    def systems(self) -> list[tuple[str, str, Sequence[Record]]]:
        """Return the set, the title and the records of each system of the leaderboard."""
        return [
            (task, SYSTEMS[system]["title"], self.leaderboard[f"{task}/{system}"])
            for task in SETS
            for system in SYSTEMS
            if f"{task}/{system}" in self.leaderboard
        ]


class Translations(Page):
    """The cells and figures of the page, from the records of translation."""

    template = LAB / "translation.md"
    shown = {"models": SHOWN["translation"]}  # noqa: RUF012

    def figures(self) -> dict[str, Any]:
        """Return BLEU by the length of the source, and an alignment of the last model with one."""
        lines: dict[str, tuple[list[float], list[float]]] = {}
        examples = []
        for recipe, (title, *_) in SHOWN["translation"].items():
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


def _mean_point(seeds: Sequence[Record], key: str) -> tuple[float, float]:
    """Return the value of all seeds under a key, and their mean accuracy."""
    return seeds[0][key], statistics.mean(one["accuracy"] for one in seeds)


def _trials(
    headings: Sequence[str], trials: Sequence[tuple[list[str], Mapping[str, Any], str]]
) -> str:
    """Return a table of trials: names, settings and accuracy of each."""

    def shown(value: Any) -> str:
        values = value if isinstance(value, list) else [value]
        texts = (Path(v).name.removesuffix(".txt.gz") if isinstance(v, str) else v for v in values)
        return "" if value is None else ", ".join(map(str, texts))

    chosen = set().union(*(settings for _, settings, _ in trials))
    columns = {heading: key for heading, key in SHOWN["settings"].items() if key in chosen}
    rows = [
        (*names, *(shown(settings.get(key)) for key in columns.values()), value)
        for names, settings, value in trials
    ]
    return markdown((*headings, *columns, "accuracy in %"), rows)
