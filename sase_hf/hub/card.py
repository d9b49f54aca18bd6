"""The model card of a checkpoint: the model, how to load it, and the measurements.

Names of labels, files and metrics come from users. YAML quotes them in the front matter. In the
text they are escaped, so that none acts as Markdown, HTML or a template.
"""

import html
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.constants import REPOCARD_NAME
from jinja2 import Environment, FileSystemLoader
from transformers import PreTrainedConfig, TokenizersBackend
from yaml import YAMLError

from ..models import FAMILIES, Family
from ..models.answers import answers_of
from ..models.checkpoint import (
    HEATMAP_NAME,
    PLACEHOLDER,
    CheckedPreTrainedModel,
    list_files,
    saved_digests,
)
from ..utils.files import write_text
from ..utils.loading import attention_pipeline, load_checkpoint, load_config, may_be_on_the_hub
from ..utils.text import one_line, refusal
from ..visualization.page import attention_svg
from .push import LICENCE_FIELDS

JsonObject = Mapping[str, Any]

MAX_NAME_LENGTH = 300

# Only the owner of a model knows these: entries of the front matter, prose in Markdown, and the
# meanings of the labels.
ABOUT_DATA = (*LICENCE_FIELDS, "language", "datasets")
ABOUT = (*ABOUT_DATA, "summary", "task", "data", "limits", "labels")

# These arguments of a run do not change the trained model: its folders, its output, its pushes.
HIDDEN = (
    "disable_tqdm",
    "logging_",
    "output_dir",
    "push_to_",
    "hub_",
    "record",
    "do_",
    "eval_strategy",
    "greater_is_better",
    "load_best_model_at_end",
)

SHARES = {  # results from 0 to 1, in the words of a table; they come first
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "recall_at_1": "recall at 1",
    "recall_at_10": "recall at 10",
}
FACTS = {"trained_on": "Trained on", "language": "Language", "license": "Licence"}
# Numbers that tell a reader nothing about the answers, or that are of the rows they were fitted to.
NO_RESULTS = (
    "loss",
    "penalty",
    "rationale_cost",
    "calibration_error",
)

_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent))  # Markdown, not HTML


def model_card(
    config: PreTrainedConfig,
    record: JsonObject | None = None,
    *,
    name: str,
    num_parameters: int,
    repo_id: str = PLACEHOLDER,
    about: JsonObject | None = None,
    checksums: str = "",
    has_heatmap: bool = False,
) -> str:
    """Return the card of one checkpoint: Markdown with YAML front matter, for a README.md.

    Args:
        config: The checkpoint's config; the card shows its head, sizes and label names.
        record: What was measured, as `evaluation.measured_record` gives it.
        name: The title.
        num_parameters: The parameters of the whole checkpoint.
        repo_id: The repository on the Hub that the examples load.
        about: What only the owner knows: `license`, `license_name`, `license_link`, `language` and
            `datasets` as the Hub takes them; `summary` (a sentence), `task`, `data` and `limits` in
            Markdown, which is not escaped; `labels`, a mapping from a label to its meaning.
        checksums: The lines of the checkpoint's `SHA256SUMS` that are of weights.
        has_heatmap: Whether a picture lies beside the card.
    """
    record, about = record or {}, about or {}
    unknown = sorted(set(about) - set(ABOUT))
    if unknown:
        raise refusal(f"{', '.join(unknown)}: not a field of a card", f"use {', '.join(ABOUT)}")
    family = FAMILIES[config.model_type]
    [architecture, *_] = config.architectures or [family.base_model.__name__]
    model_class = family.classes[architecture]
    meanings = {str(label): meaning for label, meaning in about.get("labels", {}).items()}
    arguments = record.get("arguments", {})
    settings = {key: arguments[key] for key in arguments if not key.startswith(HIDDEN)}
    results = _results(record)
    shown = {
        SHARES.get(metric, metric): shown_metric(metric, value) for metric, value in results.items()
    }
    return _TEMPLATES.get_template(f"card_{config.model_type}.md").render(
        card_data=_front_matter(family, model_class, name, record, about, results).to_yaml(),
        config=config,
        family=family,
        model_class=model_class,
        title=_escape(name),
        about={entry: str(text).strip() for entry, text in about.items()},
        text=json.dumps(_example_of(model_class)),
        heatmap=HEATMAP_NAME if has_heatmap else None,
        checkpoint=json.dumps(repo_id),
        is_placeholder=repo_id == PLACEHOLDER,
        labels=[
            (_escape(label), _escape(meanings.get(label))) for label in answers_of(config).names
        ],
        num_parameters=num_parameters,
        checksums=checksums.strip(),
        record=_escape(record),
        accuracy=results.get("accuracy"),
        results=_escape(shown),
        settings=_escape(settings),
    )


def write_model_card(
    checkpoint_dir: str | Path,
    record: JsonObject | None = None,
    about: JsonObject | None = None,
    loaded: tuple[CheckedPreTrainedModel, TokenizersBackend] | None = None,
) -> Path:
    """Write `README.md` and its heatmap into the folder of a checkpoint; return the former's path.

    Licence, language and datasets of an old card stay; everything else is replaced. The arguments
    are those of `model_card`; `loaded` holds the model and the tokenizer, if they are in memory.
    The model reads the card's example, a fixed text, so no text of its training gets into the card.
    Raises as `load_checkpoint` does.
    """
    folder = Path(checkpoint_dir)
    model, tokenizer = loaded or load_checkpoint(folder)
    has_heatmap = model.is_head and getattr(model.config, "has_attention", True)
    (folder / HEATMAP_NAME).unlink(missing_ok=True)
    if has_heatmap:
        example = attention_pipeline(model, tokenizer)(_example_of(type(model)))
        write_text(folder / HEATMAP_NAME, attention_svg(example))
    path = folder / REPOCARD_NAME
    old = _front_matter_of(path)
    digests = saved_digests(folder).items()
    weights = [f"{digest}  {name}" for name, digest in digests if name.endswith(".safetensors")]
    card = model_card(
        load_config(folder),
        record,
        name=folder.resolve().name,
        num_parameters=model.num_parameters(),
        about={**{key: old[key] for key in ABOUT_DATA if old.get(key)}, **(about or {})},
        checksums="\n".join(weights),
        has_heatmap=has_heatmap,
    )
    write_text(path, card)
    list_files(folder, (REPOCARD_NAME, HEATMAP_NAME))
    return path


def shown_metric(metric: str, value: float) -> str:
    """Return a metric as a person reads it: a share in percent, others in four digits."""
    return f"{value:.1%}" if metric in SHARES else f"{value:.4g}"


def _example_of(model_class: type[CheckedPreTrainedModel]) -> str | dict[str, str]:
    """Return the text or pair that the examples of a card read, whatever the training texts."""
    if model_class.can_generate():
        return "A dog runs across a field."
    if model_class.reads_pairs:
        return {"text": "Two dogs run across a field.", "text_pair": "Animals are outdoors."}
    return "The room was small, but the breakfast was not bad at all."


def card_facts(checkpoint: str, about: JsonObject) -> dict[str, str]:
    """Return what the card of a checkpoint says of its data, language and licence, by their names.

    What neither the card nor `about` says is missing; the latter comes first.
    """
    folder = Path(checkpoint)
    data = _front_matter_of(folder / REPOCARD_NAME if folder.is_dir() else checkpoint)
    said = {field: about.get(field) or data.get(field) for field in FACTS}
    return {FACTS[field]: one_line(said[field]) for field in FACTS if said[field]}


def _front_matter_of(card: str | Path) -> dict[str, Any]:
    """Return the front matter of a card; empty if the card is missing or broken."""
    try:
        return vars(ModelCard.load(card).data)
    except (OSError, ValueError, YAMLError):
        return {}


def _front_matter(
    family: Family,
    model_class: type[CheckedPreTrainedModel],
    name: str,
    record: JsonObject,
    about: JsonObject,
    results: Mapping[str, float],
) -> ModelCardData:
    """Return the data for the Hub: library, task, origins, and the results as a model index."""
    task = "feature-extraction" if model_class is family.base_model else family.hub_task
    sources = record.get("sources", {})
    fields = {key: about[key] for key in ABOUT_DATA if key in about}
    listed = fields.pop("datasets", None) or []
    # Only a dataset loaded at a known commit is certainly the Hub's of that name.
    datasets = [_name(one["dataset"]) for one in sources.values() if one.get("revision")]
    datasets += [listed] if isinstance(listed, str) else listed
    if "train" in sources:
        read = sources["train"]
        origin = _name(read.get("file") or read.get("dataset") or "unnamed")
        fields["trained_on"] = f"{origin}: {read['rows']:,} rows"
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=[*family.hub_tags],
        model_name=_name(name) if results else None,
        eval_results=_eval_results(task, record, results) or None,
        datasets=list(dict.fromkeys(datasets)) or None,
        base_model=_base_model(record.get("arguments", {})),
        **fields,
    )


def _eval_results(task: str, record: JsonObject, results: Mapping[str, float]) -> list[EvalResult]:
    """Return the results of a record as entries of a model index."""
    split = record.get("split", "")
    source = record.get("sources", {}).get(split, {})
    revision = source.get("revision")
    measured_on = _name(source.get("dataset") or source.get("file") or "local data")
    return [
        EvalResult(
            task_type=task,
            dataset_type=measured_on if revision else "local",
            dataset_name=measured_on,
            dataset_split=_name(split) or None,
            dataset_revision=_name(revision) if revision else None,
            metric_type=_name(metric),
            metric_value=float(f"{value:.4g}"),
        )
        for metric, value in results.items()
    ]


def _base_model(arguments: JsonObject) -> str | None:
    """Return the model on the Hub that a run was built on; None if it is not certainly there.

    Records cut the path of a folder elsewhere to its last part.
    """
    start = arguments.get("encoder_name_or_path") or arguments.get("model_name_or_path") or ""
    return start if "/" in start and may_be_on_the_hub(start) else None


def _results(record: JsonObject) -> dict[str, float]:
    """Return the metrics of a record that are numbers, shares first."""
    metrics = record.get("metrics", {})
    numbers = {
        name: float(metrics[name])
        for name in dict.fromkeys([*SHARES, *metrics])
        if metrics.get(name) is not None and name not in NO_RESULTS
    }
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _name(text: str) -> str:
    """Return a name on one line, with nothing hidden in it, cut to `MAX_NAME_LENGTH`."""
    return one_line(text)[:MAX_NAME_LENGTH]


def _escape(value: object) -> Any:
    """Return a value with texts and keys that Markdown shows as they are, in a line or table."""
    if isinstance(value, Mapping):
        return {_escape(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    if not isinstance(value, str):
        return value
    # Colon, at sign and dot would turn an address into a link; `_` inside a word is harmless.
    marks = r"[\\`*\[\]|~$:@]|(?<![^\W_])_|_(?![^\W_])|(?<=www)\."
    marked = re.sub(marks, r"\\\g<0>", _name(value), flags=re.IGNORECASE)
    return html.escape(marked, quote=False)
