"""The way to the Hub: `push`, and the model card: what it is, how to load it, what was measured.

Names of labels, files and metrics come from users. In the front matter YAML quotes them; in the
text they are escaped, so that they show as they are and never act as Markdown, HTML or a template.
"""

import html
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import safe_open
from transformers.utils import SAFE_WEIGHTS_NAME

from .configuration_self_attentive import SelfAttentiveConfig
from .pushing import Push, push

TEMPLATE = Path(__file__).with_name("model_card_template.md")
LONGEST_NAME = 300
PACKAGES = ("sase_hf", "torch", "transformers")

# What only the owner of a model knows: for the front matter, and prose in Markdown.
ABOUT_DATA = ("license", "license_name", "license_link", "language", "datasets")
ABOUT_PROSE = ("summary", "task", "data", "limits")

# Arguments of a run that say where its files are or how much it prints, not how it trains.
NO_SETTINGS = ("disable_tqdm", "logging_", "output_dir", "overwrite_", "push_to_", "hub_", "record")

TAGS = ("sentence-embeddings", "self-attention", "sentence-transformers")

SUMMARIES = {
    "SelfAttentiveModel": "A sentence encoder.",
    "SelfAttentiveForSequenceClassification": "A classifier of texts.",
    "SelfAttentiveForNLI": "A classifier of pairs of sentences, such as premise and hypothesis.",
}


def model_card(
    config: SelfAttentiveConfig,
    record: Mapping[str, Any] | None = None,
    *,
    name: str,
    num_parameters: int,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Write the card of one checkpoint.

    Args:
        config: The checkpoint's config; its head, sizes and label names appear in the card.
        record: What was measured, as `evaluation.measured_record` gives it.
        name: The title.
        num_parameters: Parameters of the whole checkpoint.
        repo_id: The repository on the Hub that the examples load; by default the folder they
            are run in.
        about: What only the owner knows: `license`, `license_name`, `license_link`, `language` and
            `datasets` as the Hub takes them; `summary` (a sentence), `task`, `data` and `limits` in
            Markdown, which is not escaped.

    Returns:
        Markdown with YAML front matter, ready to be a README.md.

    Raises:
        ValueError: If `about` has a field that no card has.
    """
    record, about = record or {}, about or {}
    if unknown := sorted(set(about) - {*ABOUT_DATA, *ABOUT_PROSE}):
        raise ValueError(
            f"a card has no place for {', '.join(unknown)}; what it can be told about a model is "
            f"{', '.join((*ABOUT_DATA, *ABOUT_PROSE))}"
        )
    head = (config.architectures or ["SelfAttentiveModel"])[0]
    is_head = head != "SelfAttentiveModel"
    card = ModelCard.from_template(
        _front_matter(is_head, name, record, about),
        template_path=str(TEMPLATE),
        config=config,
        about={key: str(text).strip() for key, text in about.items() if key in ABOUT_PROSE},
        is_licensed="license" in about,
        title=_escaped(name),
        summary=SUMMARIES[head],
        auto_class="AutoModelForSequenceClassification" if is_head else "AutoModel",
        is_head=is_head,
        is_pair=head == "SelfAttentiveForNLI",
        has_attention=config.has_attention,
        location=json.dumps(repo_id or "."),
        labels=[_escaped(label) for label in _labels(config)] if is_head else [],
        num_parameters=f"{num_parameters:,}",
        megabytes=f"{num_parameters * (config.dtype or torch.float32).itemsize / 1e6:,.1f}",
        speed=_speed(record),
        results={_escaped(key): f"{value:.4g}" for key, value in _finite(record).items()},
        split=_escaped(record.get("split", "")),
        circumstances=_circumstances(record),
        sources={_escaped(key): _source(value) for key, value in _sources(record).items()},
        settings=_settings(record),
        minutes=f"{record.get('wall_seconds', 0) / 60:.0f}",
    )
    return str(card)


def write_model_card(
    checkpoint_dir: str | Path,
    record: Mapping[str, Any] | None = None,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write `README.md` into the folder of a checkpoint, in place of any that is there.

    Args:
        checkpoint_dir: A folder that `save_pretrained` wrote.
        record: As for `model_card`.
        repo_id: As for `model_card`.
        about: As for `model_card`.

    Returns:
        The path of the card.

    Raises:
        FileNotFoundError: If the folder holds no checkpoint.
        ValueError: As for `model_card`.
    """
    folder = Path(checkpoint_dir)
    for needed in ("config.json", SAFE_WEIGHTS_NAME):
        if not (folder / needed).is_file():
            raise FileNotFoundError(
                f"there is no {needed} in {str(folder)!r}; name a folder that save_pretrained wrote"
            )
    card = model_card(
        SelfAttentiveConfig.from_pretrained(folder),
        record,
        name=folder.resolve().name,
        num_parameters=_num_parameters(folder / SAFE_WEIGHTS_NAME),
        repo_id=repo_id,
        about=about,
    )
    path = folder / "README.md"
    path.write_text(card, encoding="utf-8")
    return path


def _front_matter(
    is_head: bool, name: str, record: Mapping[str, Any], about: Mapping[str, Any]
) -> ModelCardData:
    """Return what the Hub reads: library, task, and the results as a model index."""
    task = "text-classification" if is_head else "feature-extraction"
    split = _one_line(record.get("split", ""))
    source = _sources(record).get(record.get("split", ""), {})
    revision = _one_line(source.get("revision") or "")
    data_name = _one_line(source.get("dataset") or source.get("file") or "local data")
    # Only a data set that was loaded at a known commit is one of the Hub's.
    hub_name = data_name if revision else None
    results = [
        EvalResult(
            task_type=task,
            dataset_type=hub_name or "local",
            dataset_name=data_name,
            dataset_split=split or None,
            dataset_revision=revision or None,
            metric_type=_one_line(metric),
            metric_value=value,
        )
        for metric, value in _finite(record).items()
    ]
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=list(TAGS),
        model_name=_one_line(name) if results else None,
        eval_results=results or None,
        **{
            "datasets": [hub_name] if hub_name else None,
            **{key: about[key] for key in ABOUT_DATA if key in about},
        },
    )


def _labels(config: SelfAttentiveConfig) -> list[str]:
    """Return the names of the labels in the order of the logits."""
    names = {int(index): name for index, name in (config.id2label or {}).items()}
    return [names[index] for index in sorted(names)]


def _finite(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the record's metrics that are numbers, as plain floats."""
    metrics = {name: float(value) for name, value in record.get("metrics", {}).items()}
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _sources(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return where the rows of each split came from."""
    return dict(record.get("sources", {}))


def _source(source: Mapping[str, Any]) -> str:
    """Describe one split's source in Markdown."""
    parts = [source.get("file") or source.get("dataset") or "unnamed"]
    parts += [f"revision {source['revision']}"] if source.get("revision") else []
    parts += [f"SHA-256 {source['sha256']}"] if source.get("sha256") else []
    return _escaped(f"{', '.join(parts)}: {source['rows']:,} rows")


def _circumstances(record: Mapping[str, Any]) -> str:
    """Say in one line of Markdown what the numbers depend on, as far as the record knows."""
    versions, code = record.get("versions", {}), record.get("code") or {}
    parts = [
        f"seed {record['seed']}" if "seed" in record else "",
        *(f"{package} {versions[package]}" for package in PACKAGES if versions.get(package)),
        f"commit {code['commit']}" if "commit" in code else "",
        record.get("hardware", {}).get("cpu", ""),
        *record.get("hardware", {}).get("gpus", []),
        record.get("date", ""),
    ]
    return _escaped(", ".join(filter(None, parts)))


def _settings(record: Mapping[str, Any]) -> dict[str, str]:
    """Return how a model was trained, each setting as a cell of a table."""
    shown = {}
    for name, value in record.get("arguments", {}).items():
        if not name.startswith(NO_SETTINGS):
            items = value if isinstance(value, list) else [value]
            shown[_escaped(name)] = _escaped(", ".join(map(str, items)))
    return shown


def _speed(record: Mapping[str, Any]) -> str:
    """Say how fast the evaluation went, if the record knows."""
    speed, hardware = record.get("rows_per_second"), record.get("hardware", {})
    if not speed or record.get("split") == "train":
        return ""
    threads = hardware.get("threads", 1)
    cpu = f"{threads} thread{'s' * (threads > 1)} of a CPU, {hardware.get('cpu', 'unnamed')}"
    where = ", ".join(hardware.get("gpus") or [cpu])
    return _escaped(f"{speed:,.0f} rows a second in evaluation, {where}")


def _num_parameters(weights: Path) -> int:
    """Count the parameters of a safetensors file from its header."""
    with safe_open(weights, framework="pt") as file:
        names = file.keys()
        return sum(math.prod(file.get_slice(name).get_shape()) for name in names)


def _one_line(text: str) -> str:
    """Return a name on one line, without control characters, and not endless."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:LONGEST_NAME]


def _escaped(text: str) -> str:
    """Return a name that shows as it is anywhere in a line of Markdown, also in a table."""
    # The colon, the at sign and the dot: a bare address would become a link.
    marked = re.sub(r"([\\`*_\[\]|~$:@]|(?<=www)\.)", r"\\\1", _one_line(text), flags=re.IGNORECASE)
    return html.escape(marked, quote=False)


__all__ = ["Push", "model_card", "push", "write_model_card"]
