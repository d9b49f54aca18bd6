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

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from safetensors import safe_open
from transformers.utils import CONFIG_NAME, SAFE_WEIGHTS_NAME
from yaml import YAMLError

from ..data.labels import REGRESSION
from ..models.self_attentive.configuration_self_attentive import SelfAttentiveConfig
from .public_files import CARD_NAME
from .push import WEIGHTS

TEMPLATE = Path(__file__).with_name("card_template.md")
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
        ValueError: If `about` has a field that no card has, or the record is no mapping.
    """
    record, about = {} if record is None else record, about or {}
    if not isinstance(record, Mapping):
        raise ValueError(f"the record is a {type(record).__name__}; give what is in its JSON file")
    known = (*ABOUT_DATA, *ABOUT_PROSE)
    if unknown := sorted(set(about) - set(known)):
        raise ValueError(
            f"a card has no place for {', '.join(unknown)}; what it can be told about a model is "
            f"{', '.join(known)}"
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
        has_labels=is_head and config.problem_type != REGRESSION,
        labels=[_escaped(label) for label in _labels(config)],
        num_parameters=f"{num_parameters:,}",
        megabytes=f"{num_parameters * getattr(config.dtype, 'itemsize', 4) / 1e6:,.1f}",
        speed=_speed(record),
        exported=_exported(record),
        exported_on=_where(record.get("export", {}).get("measured", {}).get("hardware", {})),
        results={_escaped(key): f"{value:.4g}" for key, value in _finite(record).items()},
        split=_escaped(record.get("split", "")),
        circumstances=_circumstances(record),
        sources={_escaped(key): _source(value) for key, value in _sources(record).items()},
        settings=_settings(record),
        resumed=record.get("arguments", {}).get("resume_from_checkpoint", "false"),
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

    Of an earlier one the licence, the language and the data sets stay.

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
    folder, path = Path(checkpoint_dir), Path(checkpoint_dir, CARD_NAME)
    weights = [file for file in folder.glob("*.safetensors") if WEIGHTS.fullmatch(file.name)]
    if not weights or not (folder / CONFIG_NAME).is_file():
        missing = SAFE_WEIGHTS_NAME if (folder / CONFIG_NAME).is_file() else CONFIG_NAME
        raise FileNotFoundError(
            f"there is no {missing} in {str(folder)!r}; name a folder that save_pretrained wrote"
        )
    card = model_card(
        SelfAttentiveConfig.from_pretrained(folder),
        record,
        name=folder.resolve().name,
        num_parameters=sum(map(_num_parameters, weights)),
        repo_id=repo_id,
        about={**_owned_fields(path), **(about or {})},
    )
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
    named = about.get("datasets") or []
    named = [named] if isinstance(named, str) else named
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=list(TAGS),
        model_name=_one_line(name) if results else None,
        eval_results=results or None,
        **{
            **{key: about[key] for key in ABOUT_DATA if key in about},
            "datasets": list(dict.fromkeys([*([hub_name] if hub_name else []), *named])) or None,
        },
    )


def _owned_fields(card: Path) -> dict[str, Any]:
    """Return what only the owner can have written into the front matter of a card."""
    try:
        data = ModelCard.load(card).data.to_dict()
    except (OSError, ValueError, YAMLError):
        return {}
    return {key: data[key] for key in ABOUT_DATA if data.get(key)}


def _labels(config: SelfAttentiveConfig) -> list[str]:
    """Return the names of the labels in the order of the logits."""
    names = {int(index): name for index, name in (config.id2label or {}).items()}
    return [str(names[index]) for index in sorted(names)]


def _finite(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the record's metrics that are numbers, as plain floats."""
    measured = record.get("metrics", {}).items()  # in a file, what is no number is null
    metrics = {name: float(value) for name, value in measured if value is not None}
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
    speed = record.get("rows_per_second")
    if not speed or record.get("split") == "train":
        return ""
    return f"{speed:,.0f} rows a second in evaluation, {_where(record.get('hardware', {}))}"


def _where(hardware: Mapping[str, Any]) -> str:
    threads = hardware.get("threads", 1)
    cpu = f"{threads} thread{'s' * (threads > 1)} of a CPU, {hardware.get('cpu', 'unnamed')}"
    return _escaped(", ".join(hardware.get("gpus") or [cpu]))


def _exported(record: Mapping[str, Any]) -> list[list[str]]:
    """Return what an export measured, as the rows of a table with its headings first."""
    measured = record.get("export", {}).get("measured")
    if not measured:
        return []
    columns = list(next(iter(measured["results"].values())))
    rows = [
        [name, *(f"{v:.4g}" for v in found.values())] for name, found in measured["results"].items()
    ]
    return [[_escaped(cell) for cell in row] for row in (["", *columns], *rows)]


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


__all__ = ["model_card", "write_model_card"]
