"""The model card of a checkpoint: the model, how to load it, and the measurements.

Names of labels, files and metrics come from users. YAML quotes them in the front matter. In the
text they are escaped, so that none acts as Markdown, HTML or a template.
"""

import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData, get_local_safetensors_metadata
from huggingface_hub.constants import REPOCARD_NAME
from jinja2 import Environment, FileSystemLoader
from transformers import PreTrainedConfig, TokenizersBackend, pipeline
from yaml import YAMLError

from ..models import FAMILIES, Family
from ..models.checked_files import SavedFiles, list_files
from ..models.checked_model import CheckedPreTrainedModel
from ..utils.errors import refusal
from ..utils.files import write_text
from ..utils.loading import attention_pipeline, load_checkpoint, load_config, may_be_on_the_hub
from ..utils.text import one_line
from ..visualization.svg import attention_svg
from .push import LICENCE_FIELDS, PLACEHOLDER

JsonObject = Mapping[str, Any]

HEATMAP_NAME = "heatmap.svg"  # the picture of the card
MAX_NAME_LENGTH = 300
MAX_OUTPUT_LENGTH = 500

# Only the owner of a model knows these: entries of the front matter, prose in Markdown, and the
# meanings of the labels.
ABOUT_DATA = (*LICENCE_FIELDS, "language", "datasets")
ABOUT_PROSE = ("summary", "task", "data", "limits")
ABOUT = (*ABOUT_DATA, *ABOUT_PROSE, "labels")

# These arguments of a run do not change the trained model: its folders, its output, its pushes.
HIDDEN = ("disable_tqdm", "logging_", "output_dir", "overwrite_", "push_to_", "hub_", "record")

# Numbers that tell nothing about the answers of the model: the Hub lists the others as its results.
NO_RESULTS = ("penalty", "rationale_cost", "calibration_error_before")
SHARES = {  # results from 0 to 1, in the words of a table
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "calibration_error": "calibration error",
    "recall_at_1": "recall at 1",
    "recall_at_10": "recall at 10",
}
NOT_NAMED = ("loss", "penalty")  # among the results of a card, to a reader

_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent))  # Markdown, not HTML


def model_card(
    config: PreTrainedConfig,
    record: JsonObject | None = None,
    *,
    name: str,
    num_parameters: int,
    repo_id: str | None = None,
    about: JsonObject | None = None,
    checksums: str = "",
    example: Mapping[str, str] | None = None,
) -> str:
    """Return the card of one checkpoint: Markdown with YAML front matter, for a README.md.

    Args:
        config: The checkpoint's config; the card shows its head, sizes and label names.
        record: What was measured, as `evaluation.measured_record` gives it.
        name: The title.
        num_parameters: The parameters of the whole checkpoint.
        repo_id: The repository on the Hub that the examples load; `PLACEHOLDER` by default.
        about: What only the owner knows: `license`, `license_name`, `license_link`, `language` and
            `datasets` as the Hub takes them; `summary` (a sentence), `task`, `data` and `limits` in
            Markdown, which is not escaped; `labels`, a mapping from a label to its meaning.
        checksums: The lines of the checkpoint's `SHA256SUMS`.
        example: `output`, the model's answer to the card's example, and `heatmap`, an SVG.
    """
    record = record or {}
    about = about or {}
    unknown = sorted(set(about) - set(ABOUT))
    if unknown:
        raise refusal(f"{', '.join(unknown)}: not a field of a card", f"use {', '.join(ABOUT)}")
    family = FAMILIES[config.model_type]
    architectures = config.architectures or [family.base_model.__name__]
    model_class = family.classes[architectures[0]]
    settings = {
        name: value
        for name, value in record.get("arguments", {}).items()
        if not name.startswith(HIDDEN)
    }
    return _TEMPLATES.get_template(f"card_{config.model_type}.md").render(
        card_data=_front_matter(family, model_class, name, record, about).to_yaml(),
        config=config,
        family=family,
        model_class=model_class,
        title=_escape(name),
        about={field: str(text).strip() for field, text in about.items()},
        text=json.dumps(_snippet_input(model_class)),
        example=example,
        heatmap=HEATMAP_NAME,
        checkpoint=json.dumps(repo_id or PLACEHOLDER),
        is_placeholder=repo_id is None,
        labels=_labels(config, about.get("labels", {})),
        num_parameters=num_parameters,
        checksums=checksums.strip(),
        record=_escape(record),
        results=_escape(dict(_shown_results(record))),
        settings=_escape(settings),
    )


def _labels(
    config: PreTrainedConfig, meanings: Mapping[object, str]
) -> list[tuple[str, str | None]]:
    """Return the labels in the order of the logits, each with its meaning, ready for Markdown."""
    named = {str(label): meaning for label, meaning in meanings.items()}
    labels = sorted((int(index), label) for index, label in (config.id2label or {}).items())
    return [(_escape(label), _escape(named.get(label))) for _, label in labels]


def write_model_card(
    checkpoint_dir: str | Path,
    record: JsonObject | None = None,
    repo_id: str | None = None,
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
    path = folder / REPOCARD_NAME
    old_card = _read_card(path)
    kept = {}
    if old_card is not None:
        kept = {field: old_card.data[field] for field in ABOUT_DATA if old_card.data.get(field)}
    digests = SavedFiles.read(folder).digests.items()
    weights = [(name, digest) for name, digest in digests if name.endswith(".safetensors")]
    example = _run_example(*(loaded or load_checkpoint(str(folder))))
    card = model_card(
        load_config(str(folder)),
        record,
        name=folder.resolve().name,
        num_parameters=sum(get_local_safetensors_metadata(folder).parameter_count.values()),
        repo_id=repo_id,
        about={**kept, **(about or {})},
        checksums="".join(f"{digest}  {name}\n" for name, digest in weights),
        example=example,
    )
    heatmap = example.get("heatmap")
    if heatmap:
        write_text(folder / HEATMAP_NAME, heatmap)
    else:
        (folder / HEATMAP_NAME).unlink(missing_ok=True)
    write_text(path, card)
    list_files(folder, (REPOCARD_NAME, HEATMAP_NAME))
    return path


def _snippet_input(model_class: type[CheckedPreTrainedModel]) -> str | dict[str, str]:
    """Return the text or pair that the examples of a card read, whatever the training texts."""
    if model_class.can_generate():
        return "A dog runs across a field."
    if model_class.reads_pairs:
        return {"text": "Two dogs run across a field.", "text_pair": "Animals are outdoors."}
    return "The room was small, but the breakfast was not bad at all."


def _run_example(model: CheckedPreTrainedModel, tokenizer: TokenizersBackend) -> dict[str, str]:
    """Return the answer of a model to its snippet, as Python prints it, and the heatmap if any."""
    if not model.is_head:
        return {}

    text = _snippet_input(type(model))
    has_attention = model.config.has_attention
    heatmap = ""
    if model.can_generate():
        translate = attention_pipeline(model, tokenizer)
        translation = translate(text, num_beams=12, max_new_tokens=50, max_length=None)
        answer = [translation["translation_text"]]
        if has_attention:
            heatmap = attention_svg(translation)
    else:
        classify = pipeline("text-classification", model=model, tokenizer=tokenizer)
        answer = classify(text)
        for label in answer if isinstance(answer, list) else [answer]:
            label["score"] = float(f"{label['score']:.4g}")
        if has_attention:
            explain = attention_pipeline(model, tokenizer)
            heatmap = attention_svg(explain(text))
    return {"output": repr(answer)[:MAX_OUTPUT_LENGTH], "heatmap": heatmap}


def card_facts(checkpoint: str, about: JsonObject | None = None) -> dict[str, str]:
    """Return what the card of a checkpoint says on data, language, licence, results and limits.

    What the card does not say is empty. Without a card that can be read, there are no facts.
    `about` holds entries of the front matter that replace those of the card.
    """
    folder = Path(checkpoint)
    card = _read_card(folder / REPOCARD_NAME if folder.is_dir() else checkpoint)
    if card is None:
        return {}
    replaced = {field: entry for field, entry in (about or {}).items() if entry}
    data = {**vars(card.data), **replaced}
    return {
        "Trained on": _listed(data.get("trained_on") or data.get("datasets")),
        "Language": _listed(data.get("language")),
        "Licence": _listed([data[field] for field in LICENCE_FIELDS if data.get(field)]),
        "Measured": _listed(_measurements(data.get("eval_results") or [])),
        "Limits": _limits(card.text),
    }


def _listed(entry: object) -> str:
    """Return an entry of a front matter as text: the parts of a list, or what stands there."""
    return ", ".join(map(str, entry)) if isinstance(entry, list) else str(entry or "")


def _measurements(results: Sequence[EvalResult]) -> list[str]:
    """Return for each dataset and split what was measured on it, but for the loss."""
    numbers: dict[str, list[str]] = {}
    for result in results:
        if result.metric_type in NOT_NAMED:
            continue
        rows = result.dataset_name
        if result.dataset_split:
            rows = f"{result.dataset_split} rows of {rows}"
        numbers.setdefault(rows, []).append(f"{result.metric_type} {result.metric_value}")
    return [f"{', '.join(measured)} on {rows}" for rows, measured in numbers.items()]


def _limits(text: str) -> str:
    """Return the limits that a card lists, a line for each, without the marks of Markdown."""
    section = text.partition("\n## Limits and biases\n")[2].partition("\n## ")[0]
    limits = []
    for item in re.split(r"\n\s*\n|^[*-] ", section, flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", item)
        limits.append(" ".join(plain.split()))
    return "\n".join(filter(None, limits))


def _read_card(card: str | Path) -> ModelCard | None:
    """Return a card; None if it is missing or broken."""
    try:
        return ModelCard.load(card)
    except (OSError, ValueError, YAMLError):
        return None


def _front_matter(
    family: Family,
    model_class: type[CheckedPreTrainedModel],
    name: str,
    record: JsonObject,
    about: JsonObject,
) -> ModelCardData:
    """Return the data for the Hub: library, task, origins, and the results as a model index."""
    task = "feature-extraction" if model_class is family.base_model else family.hub_task
    results = _results(task, record)
    sources = record.get("sources", {})
    fields = {field: about[field] for field in ABOUT_DATA if field in about}
    datasets = _datasets(sources, fields.pop("datasets", None) or [])
    trained_on = _trained_on(sources.get("train"), "" if datasets else about.get("data", ""))
    if trained_on:
        fields["trained_on"] = trained_on
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=[*family.hub_tags],
        model_name=_name(name) if results else None,
        eval_results=results or None,
        datasets=datasets or None,
        base_model=_base_model(record.get("arguments", {})),
        **fields,
    )


def _base_model(arguments: JsonObject) -> str | None:
    """Return the model on the Hub that a run was built on; None if it is not certainly there.

    Records cut the path of a folder elsewhere to its last part.
    """
    start = arguments.get("encoder_name_or_path") or arguments.get("model_name_or_path") or ""
    return start if "/" in start and may_be_on_the_hub(start) else None


def _results(task: str, record: JsonObject) -> list[EvalResult]:
    """Return the measurements of a record as entries of a model index."""
    split = record.get("split", "")
    source = record.get("sources", {}).get(split, {})
    revision = source.get("revision") or ""
    measured_on = _name(source.get("dataset") or source.get("file") or "local data")
    return [
        EvalResult(
            task_type=task,
            dataset_type=measured_on if revision else "local",
            dataset_name=measured_on,
            dataset_split=_name(split) or None,
            dataset_revision=_name(revision) or None,
            metric_type=_name(metric),
            metric_value=float(f"{value:.4g}"),
        )
        for metric, value in _finite_metrics(record).items()
        if metric not in NO_RESULTS
    ]


def _shown_results(record: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the measurements of a record as a person reads them: shares in percent."""
    are_fitted = record.get("scale_of_words") is not None
    is_scaled = (record.get("temperature") or 1) != 1
    for metric, value in _finite_metrics(record).items():
        if metric in NO_RESULTS:
            continue
        name = SHARES.get(metric, metric)
        if metric == "calibration_error" and are_fitted:
            name += " (on the rows that set the scales)"
        elif metric == "calibration_error" and is_scaled:
            name += " (on the rows that set the temperature)"
        yield name, f"{value:.1%}" if metric in SHARES else f"{value:.4g}"


def _datasets(sources: JsonObject, listed: str | Sequence[str]) -> list[str]:
    """Return the datasets of the rows on the Hub, and those that the owner lists, each once."""
    # Only a dataset loaded at a known commit is certainly the Hub's of that name.
    datasets = [_name(source["dataset"]) for source in sources.values() if source.get("revision")]
    datasets += [listed] if isinstance(listed, str) else listed
    return list(dict.fromkeys(datasets))


def _trained_on(source: JsonObject | None, data: str) -> str:
    """Return a source of rows in words, or else the first paragraph about the data."""
    if source is None:
        return _name(data.strip().partition("\n\n")[0])
    origin = _name(source.get("file") or source.get("dataset") or "unnamed")
    if source.get("revision"):
        origin += f", revision {_name(source['revision'])}"
    return f"{origin}: {source['rows']:,} rows"


def _finite_metrics(record: JsonObject) -> dict[str, float]:
    """Return the metrics of a record that are numbers; a file holds null for those that are not."""
    metrics = record.get("metrics", {}).items()
    return {
        name: float(value) for name, value in metrics if value is not None and math.isfinite(value)
    }


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
