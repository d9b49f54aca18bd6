"""The records of a study, and the cells of its tables: means over seeds, settings, weights."""

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from sase_hf import SelfAttentiveConfig
from sase_hf.models import FAMILIES

from .runs import WITHOUT_EFFECT

MISSING = "-"

# Arguments that may differ between the seeds of a recipe.
OF_A_RUN = WITHOUT_EFFECT | {"seed", "output_dir", "run_name"}

# Name of a recipe -> the records of its seeds.
Records = Mapping[str, Sequence[Mapping[str, Any]]]


def read_records(folder: Path) -> Records:
    """Return the records of a study by the names of their recipes, such as yelp5/cnn_max.

    The name of a record may lack a seed, as that of a linear model, which draws nothing.

    Args:
        folder: The folder of the records.

    Raises:
        FileNotFoundError: If there is no such folder.
        ValueError: If a record was not measured on validation rows, or the seeds of a recipe have
            different settings, so that their mean means nothing.
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
    for name, records in found.items():
        first, *others = ({**r.get("arguments", {}), **dict.fromkeys(OF_A_RUN)} for r in records)
        for other in others:
            changed = sorted(k for k in first.keys() | other.keys() if first.get(k) != other.get(k))
            if changed:
                raise ValueError(
                    f"the records of {name} differ in {', '.join(changed)} between seeds; run the "
                    "recipe again with each of its seeds"
                )
    return found


def accuracy(records: Records, name: str) -> str:
    """Return the cell of a recipe's accuracy in percent."""
    return percent([record["metrics"]["accuracy"] for record in records.get(name, ())])


def percent(shares: Sequence[float]) -> str:
    """Return a cell in percent: mean, standard deviation and number of seeds, a share for each."""
    if not shares:
        return MISSING
    if len(shares) == 1:
        return f"{100 * shares[0]:.2f} (1 seed)"
    mean, deviation = statistics.mean(shares), statistics.stdev(shares)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} ({len(shares)} seeds)"


def attention(records: Records, name: str, kind: str) -> str:
    """Return the cell of a kind, `entropy` or `overlap`, of the hops: a mean over seeds."""
    measured = [r["attention"][kind] for r in records.get(name, ()) if "attention" in r]
    return f"{statistics.mean(measured):.3f}" if measured else MISSING


def best_epochs(records: Records, name: str) -> list[float]:
    """Return the accuracy of the best epoch of each seed."""
    histories = [record.get("history", []) for record in records.get(name, ())]
    return [max(entry["accuracy"] for entry in history) for history in histories if history]


def curve(records: Records, name: str) -> list[tuple[float, float]]:
    """Return epochs and accuracies: means over the seeds, for the epochs that all seeds have."""
    histories = [record.get("history", []) for record in records.get(name, ())]
    return [
        (entries[0]["epoch"], statistics.mean(entry["accuracy"] for entry in entries))
        for entries in zip(*histories, strict=False)
    ]


def by_setting(records: Records, task: str, prefix: str, field: str) -> dict[float, str]:
    """Return the recipes of a task by their value of a field of the config, in order.

    Args:
        records: The records of the study.
        task: The folder of its recipes.
        prefix: Names of the recipes that vary the field begin with it. The recipe self_attentive
            is included, unless one of them has the same value.
        field: The field.
    """
    names = sorted(name for name in records if name.startswith(f"{task}/{prefix}"))
    own = f"{task}/self_attentive"
    found: dict[float, str] = {}
    for name in [*names, *([own] if own in records else [])]:
        found.setdefault(getattr(config_of(records[name][0]), field), name)
    return dict(sorted(found.items()))


def config_of(record: Mapping[str, Any]) -> SelfAttentiveConfig:
    """Return the config of a record, which omits defaults."""
    return SelfAttentiveConfig.from_dict(dict(record["config"]))


def weights_of(record: Mapping[str, Any]) -> tuple[int, int, int]:
    """Count the weights of a record's model as Table 4 of the paper does.

    Returns:
        The weights of the hidden layer, of the softmax without its biases, and of the rest without
        the word vectors.
    """
    config = config_of(record)
    heads = {head.__name__: head for head in FAMILIES["self_attentive"].heads.values()}
    with torch.device("meta"):
        model = heads[(config.architectures or [""])[0]](config)
    return (
        sum(_sizes(model, "classifier.")) - sum(_sizes(model, "classifier.output.")),
        sum(_sizes(model, "classifier.output.weight")),
        sum(_sizes(model, ""))
        - sum(_sizes(model, "classifier."))
        - sum(_sizes(model, "encoder.embeddings.")),
    )


def _sizes(model: torch.nn.Module, prefix: str) -> Iterator[int]:
    return (part.numel() for name, part in model.named_parameters() if name.startswith(prefix))
