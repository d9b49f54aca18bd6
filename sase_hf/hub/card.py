"""The model card of a checkpoint: the model, how to load it, and the measurements.

Names of labels, files and metrics come from users. YAML quotes them in the front matter. In the
text they are escaped, so that none acts as Markdown, HTML or a template.
"""

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData, get_local_safetensors_metadata
from huggingface_hub.constants import REPOCARD_NAME
from jinja2 import Environment, FileSystemLoader
from transformers import pipeline
from yaml import YAMLError

from ..models import FAMILIES, Family
from ..models.checked_files import checksum_lines
from ..utils.files import write_text
from ..utils.loading import load_checkpoint, load_config, may_be_on_the_hub
from ..utils.text import one_line
from ..visualization.picture import heatmap_svg
from .checks import weight_files
from .push import HEATMAP_NAME, PLACEHOLDER

MAX_NAME_LENGTH = 300
MAX_OUTPUT_LENGTH = 500

# Only the owner of a model knows these: entries of the front matter, prose in Markdown, and the
# meanings of the labels.
ABOUT_DATA = ("license", "license_name", "license_link", "language", "datasets")
ABOUT_PROSE = ("summary", "task", "data", "limits")
ABOUT = (*ABOUT_DATA, *ABOUT_PROSE, "labels")

# These arguments of a run do not change the trained model: its folders, its output, its pushes.
HIDDEN = ("disable_tqdm", "logging_", "output_dir", "overwrite_", "push_to_", "hub_", "record")

# Numbers that tell nothing about the answers of the model: the Hub lists the others as its results.
NO_RESULTS = ("penalty", "rationale_cost", "calibration_error_before")

_TEMPLATES = Environment(loader=FileSystemLoader(Path(__file__).parent))  # Markdown, not HTML


def model_card(
    config: Any,
    record: Mapping[str, Any] | None = None,
    *,
    name: str,
    num_parameters: int,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
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
    record, about = record or {}, about or {}
    if unknown := sorted(set(about) - set(ABOUT)):
        raise ValueError(f"{', '.join(unknown)}: not a field of a card; use {', '.join(ABOUT)}")
    family = FAMILIES[config.model_type]
    classes = {cls.__name__: cls for cls in (family.base_model, *family.heads.values())}
    model_class = classes[(config.architectures or [family.base_model.__name__])[0]]
    labels = sorted((int(index), label) for index, label in (config.id2label or {}).items())
    meanings = {str(label): meaning for label, meaning in about.get("labels", {}).items()}
    settings = record.get("arguments", {}).items()
    return _TEMPLATES.get_template(f"card_{config.model_type}.md").render(
        card_data=_front_matter(family, model_class, name, record, about).to_yaml(),
        config=config,
        family=family,
        model_class=model_class,
        title=_escape(name),
        about={key: str(text).strip() for key, text in about.items()},
        text=json.dumps(_snippet_input(model_class)),
        example=example,
        heatmap=HEATMAP_NAME,
        checkpoint=json.dumps(repo_id or PLACEHOLDER),
        is_placeholder=repo_id is None,
        labels=[(_escape(label), _escape(meanings.get(label))) for _, label in labels],
        num_parameters=num_parameters,
        checksums=checksums.strip(),
        record=_escape({**record, "metrics": _finite_metrics(record)}),
        settings=_escape({key: value for key, value in settings if not key.startswith(HIDDEN)}),
    )


def write_model_card(
    checkpoint_dir: str | Path,
    record: Mapping[str, Any] | None = None,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
    loaded: tuple[Any, Any] | None = None,
) -> Path:
    """Write `README.md` and its heatmap into the folder of a checkpoint; return the former's path.

    Licence, language and datasets of an old card stay; everything else is replaced. The arguments
    are those of `model_card`; `loaded` holds the model and the tokenizer, if they are in memory.
    The model reads the card's example, a fixed text, so no text of its training gets into the card.
    Raises as `load_checkpoint` does.
    """
    folder, path = Path(checkpoint_dir), Path(checkpoint_dir, REPOCARD_NAME)
    weight_files(folder)
    old: Any = getattr(_read_card(path), "data", {})
    example = _run_example(*(loaded or load_checkpoint(str(folder))))
    card = model_card(
        load_config(str(folder)),
        record,
        name=folder.resolve().name,
        num_parameters=sum(get_local_safetensors_metadata(folder).parameter_count.values()),
        repo_id=repo_id,
        about={**{key: old[key] for key in ABOUT_DATA if old.get(key)}, **(about or {})},
        checksums=checksum_lines(folder),
        example=example,
    )
    if heatmap := example.get("heatmap"):
        write_text(folder / HEATMAP_NAME, heatmap)
    else:
        (folder / HEATMAP_NAME).unlink(missing_ok=True)
    write_text(path, card)
    return path


def _snippet_input(model_class: Any) -> str | dict[str, str]:
    """Return the text or pair that the examples of a card read, whatever the training texts."""
    if model_class.can_generate():
        return "A dog runs across a field."
    if model_class.reads_pairs:
        return {"text": "Two dogs run across a field.", "text_pair": "Animals are outdoors."}
    return "The room was small, but the breakfast was not bad at all."


def _run_example(model: Any, tokenizer: Any) -> dict[str, str]:
    """Return the answer of a model to its snippet, as Python prints it, and the heatmap if any."""
    if not model.is_head:
        return {}
    read: Any = partial(pipeline, model=model, tokenizer=tokenizer)
    explain = FAMILIES[model.config.model_type].pipeline_task
    text, attends = _snippet_input(type(model)), model.config.has_attention
    if model.can_generate():
        result = read(explain)(text, num_beams=12, max_new_tokens=50, max_length=None)
        answer: Any = [result["translation_text"]]
    else:
        result = read(explain)(text, truncation=True) if attends else None
        answer = read("text-classification")(text, truncation=True)
        for one in answer if isinstance(answer, list) else [answer]:
            one["score"] = float(f"{one['score']:.4g}")
    heatmap = heatmap_svg(result) if attends else ""
    return {"output": repr(answer)[:MAX_OUTPUT_LENGTH], "heatmap": heatmap}


def card_facts(checkpoint: str, about: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what the card of a checkpoint says on data, language, licence, results and limits.

    What the card does not say is empty. Without a card that can be read, there are no facts.
    `about` holds entries of the front matter that replace those of the card.
    """
    folder = Path(checkpoint)
    card = _read_card(folder / REPOCARD_NAME if folder.is_dir() else checkpoint)
    if card is None:
        return {}
    data = vars(card.data) | {name: entry for name, entry in (about or {}).items() if entry}
    measured: dict[str, list[str]] = {}
    for x in data.get("eval_results") or ():
        if x.metric_type not in ("loss", "penalty"):
            rows = f"{x.dataset_split} rows of" if x.dataset_split else ""
            name = f"{rows} {x.dataset_name}".strip()
            measured.setdefault(name, []).append(f"{x.metric_type} {x.metric_value}")
    facts = {
        "Trained on": data.get("trained_on") or data.get("datasets"),
        "Language": data.get("language"),
        "Licence": [data[name] for name in ABOUT_DATA[:3] if data.get(name)],
        "Measured": [f"{', '.join(x)} on {name}" for name, x in measured.items()],
        "Limits": _limits(card.text),
    }
    texts = (", ".join(map(str, x)) if isinstance(x, list) else x or "" for x in facts.values())
    return dict(zip(facts, map(str, texts), strict=True))


def _limits(text: str) -> str:
    """Return the limits that a card lists, a line for each, without the marks of Markdown."""
    section = text.partition("\n## Limits and biases\n")[2].partition("\n## ")[0]
    items = re.split(r"\n\s*\n|^[*-] ", section, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", item) for item in items)
    return "\n".join(filter(None, (" ".join(item.split()) for item in plain)))


def _read_card(card: str | Path) -> ModelCard | None:
    """Return a card; None if it is missing or broken."""
    try:
        return ModelCard.load(card)
    except (OSError, ValueError, YAMLError):
        return None


def _front_matter(
    family: Family, model_class: Any, name: str, record: Mapping[str, Any], about: Mapping[str, Any]
) -> ModelCardData:
    """Return the data for the Hub: library, task, origins, and the results as a model index."""
    task = "feature-extraction" if model_class is family.base_model else family.hub_task
    sources = record.get("sources", {})
    results = _results(task, record)
    owned = {key: about[key] for key in ABOUT_DATA if key in about}
    datasets = _datasets(sources, owned.pop("datasets", None) or [])
    arguments = record.get("arguments", {})
    start = arguments.get("encoder_name_or_path") or arguments.get("model_name_or_path") or ""
    if trained_on := _trained_on(sources.get("train"), "" if datasets else about.get("data", "")):
        owned["trained_on"] = trained_on
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=[*family.hub_tags],
        model_name=_name(name) if results else None,
        eval_results=results or None,
        datasets=datasets or None,
        base_model=start if "/" in start and may_be_on_the_hub(start) else None,
        **owned,
    )


def _results(task: str, record: Mapping[str, Any]) -> list[EvalResult]:
    """Return the measurements of a record as entries of a model index."""
    split = record.get("split", "")
    source = record.get("sources", {}).get(split, {})
    measured_on = _name(source.get("dataset") or source.get("file") or "local data")
    return [
        EvalResult(
            task_type=task,
            dataset_type=measured_on if source.get("revision") else "local",
            dataset_name=measured_on,
            dataset_split=_name(split) or None,
            dataset_revision=_name(source.get("revision") or "") or None,
            metric_type=_name(metric),
            metric_value=float(f"{value:.4g}"),
        )
        for metric, value in _finite_metrics(record).items()
        if metric not in NO_RESULTS
    ]


def _datasets(sources: Mapping[str, Any], listed: str | Sequence[str]) -> list[str]:
    """Return the datasets of the rows on the Hub, and those that the owner lists."""
    # Only a dataset loaded at a known commit is certainly the Hub's of that name.
    known = [_name(one["dataset"]) for one in sources.values() if one.get("revision")]
    others = [listed] if isinstance(listed, str) else listed
    return list(dict.fromkeys([*known, *others]))


def _trained_on(source: Mapping[str, Any] | None, data: str) -> str:
    """Return a source of rows in words, or else the first paragraph about the data."""
    if source is None:
        return _name(data.strip().partition("\n\n")[0])
    named = _name(source.get("file") or source.get("dataset") or "unnamed")
    revision = f", revision {_name(source['revision'])}" if source.get("revision") else ""
    return f"{named}{revision}: {source['rows']:,} rows"


def _finite_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a record that are numbers; a file holds null for those that are not."""
    metrics = record.get("metrics", {}).items()
    return {name: float(x) for name, x in metrics if x is not None and math.isfinite(x)}


def _name(text: str) -> str:
    """Return a name on one line, with nothing hidden in it, cut to `MAX_NAME_LENGTH`."""
    return one_line(text)[:MAX_NAME_LENGTH]


def _escape(value: Any) -> Any:
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
