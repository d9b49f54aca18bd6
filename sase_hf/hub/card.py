"""The model card of a checkpoint: what it is, how to load it, what was measured.

Names of labels, files and metrics come from users. YAML quotes them in the front matter. In the
text they are escaped, so that none acts as Markdown, HTML or a template.
"""

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData, get_local_safetensors_metadata
from huggingface_hub.constants import REPOCARD_NAME
from yaml import YAMLError

from ..data.labels import REGRESSION
from ..models import CHECKSUMS_NAME, FAMILIES, RETRIEVAL
from ..utils.files import write_text
from ..utils.loading import load_config
from .checks import weight_files

TEMPLATE = Path(__file__).with_name("card_template.md")
MAX_NAME_LENGTH = 300

# What only the owner of a model knows: for the front matter, and prose in Markdown.
ABOUT_DATA = ("license", "license_name", "license_link", "language", "datasets")
ABOUT_PROSE = ("summary", "task", "data", "limits")

# Arguments of a run that do not change what is trained: its folders, its output, its pushes.
HIDDEN = ("disable_tqdm", "logging_", "output_dir", "overwrite_", "push_to_", "hub_", "record")


def model_card(
    config: Any,
    record: Mapping[str, Any] | None = None,
    *,
    name: str,
    num_parameters: int,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
    checksums: str = "",
) -> str:
    """Write the card of one checkpoint.

    Args:
        config: The checkpoint's config; the card shows its head, sizes and label names.
        record: What was measured, as `evaluation.measured_record` gives it.
        name: The title.
        num_parameters: Parameters of the whole checkpoint.
        repo_id: The repository on the Hub that the examples load; by default they load the folder
            they are run in.
        about: What only the owner knows: `license`, `license_name`, `license_link`, `language` and
            `datasets` as the Hub takes them; `summary` (a sentence), `task`, `data` and `limits` in
            Markdown, which is not escaped.
        checksums: The lines of the checkpoint's `SHA256SUMS`.

    Returns:
        Markdown with YAML front matter, for a README.md.

    Raises:
        ValueError: If `about` has an unknown field.
    """
    record, about = record or {}, about or {}
    known = (*ABOUT_DATA, *ABOUT_PROSE)
    if unknown := sorted(set(about) - set(known)):
        raise ValueError(f"{', '.join(unknown)}: not a field of a card; use {', '.join(known)}")
    family = FAMILIES[config.model_type]
    classes = {cls.__name__: cls for cls in (family.base_model, *family.heads.values())}
    architecture = (config.architectures or [family.base_model.__name__])[0]
    model_class: Any = classes[architecture]
    is_head = model_class is not family.base_model
    labels = {int(index): label for index, label in (config.id2label or {}).items()}
    arguments = record.get("arguments", {})
    family_text = TEMPLATE.with_name(f"card_{config.model_type}.md").read_text(encoding="utf-8")
    task = family.hub_task if is_head else "feature-extraction"
    ranks = is_head and model_class is family.heads.get(RETRIEVAL)
    learnt = "retrieval" if ranks else family.objective
    script = "train" if learnt == "labels" else f"train_{learnt}"
    card = ModelCard.from_template(
        _front_matter(task, family.hub_tags, name, record, about),
        template_str=family_text + TEMPLATE.read_text(encoding="utf-8"),
        config=config,
        about={key: str(text).strip() for key, text in about.items() if key in ABOUT_PROSE},
        is_licensed="license" in about,
        title=_escape(name),
        summary=family.summaries[architecture],
        auto_class=model_class._auto_class,
        is_head=is_head,
        is_pair=model_class.reads_pairs,
        ranks=ranks,
        script=f"scripts/{script}.py",
        checkpoint=json.dumps(repo_id or "."),
        is_local=repo_id is None,
        has_labels=is_head and family.objective == "labels" and config.problem_type != REGRESSION,
        labels=_escape([labels[index] for index in sorted(labels)]),
        num_parameters=num_parameters,
        megabytes=num_parameters * getattr(config.dtype, "itemsize", 4) / 1e6,
        checksums=checksums.strip(),
        record=_escape({**record, "metrics": _finite_metrics(record)}),
        settings=_escape({key: arguments[key] for key in arguments if not key.startswith(HIDDEN)}),
    )
    return str(card)


def write_model_card(
    checkpoint_dir: str | Path,
    record: Mapping[str, Any] | None = None,
    repo_id: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write `README.md` into the folder of a checkpoint, and return its path.

    Licence, language and datasets of a card that is there already stay; all else is replaced. The
    arguments are those of `model_card`. Raises OSError if the folder holds no checkpoint.
    """
    folder, path = Path(checkpoint_dir), Path(checkpoint_dir, REPOCARD_NAME)
    weight_files(folder)
    config = load_config(str(folder))
    counts = get_local_safetensors_metadata(folder).parameter_count
    checksums = folder / CHECKSUMS_NAME
    try:
        old = ModelCard.load(path).data.to_dict()
    except (OSError, ValueError, YAMLError):
        old = {}
    card = model_card(
        config,
        record,
        name=folder.resolve().name,
        num_parameters=sum(counts.values()),
        repo_id=repo_id,
        about={**{key: old[key] for key in ABOUT_DATA if old.get(key)}, **(about or {})},
        checksums=checksums.read_text(encoding="utf-8") if checksums.is_file() else "",
    )
    write_text(path, card)
    return path


def training_data(checkpoint: str) -> str:
    """Return what the card of a checkpoint names as its training data, or "" if it names none.

    Args:
        checkpoint: A folder, or a name on the Hub.
    """
    folder = Path(checkpoint)
    try:
        card = ModelCard.load(folder / REPOCARD_NAME if folder.is_dir() else checkpoint)
    except (OSError, ValueError, YAMLError):
        return ""
    section = card.text.partition("\n## Data\n")[2].partition("\n## ")[0].strip()
    for line in section.splitlines():
        if line.startswith("* train: "):
            return re.sub(", SHA-256 [0-9a-f]{64}(?=: )", "", _unescape(line[9:]))
    if datasets := card.data.to_dict().get("datasets"):
        return ", ".join(map(str, datasets)) if isinstance(datasets, list) else str(datasets)
    return "" if section.startswith("* ") else _unescape(section.partition("\n\n")[0])


def _front_matter(
    task: str,
    tags: Sequence[str],
    name: str,
    record: Mapping[str, Any],
    about: Mapping[str, Any],
) -> ModelCardData:
    """Return what the Hub reads: library, task, and the results as a model index."""
    split = record.get("split", "")
    source = record.get("sources", {}).get(split, {})
    revision = _one_line(source.get("revision") or "")
    dataset = _one_line(source.get("dataset") or source.get("file") or "local data")
    results = [
        EvalResult(
            task_type=task,
            # Only a dataset loaded at a known commit is certainly the Hub's of that name.
            dataset_type=dataset if revision else "local",
            dataset_name=dataset,
            dataset_split=_one_line(split) or None,
            dataset_revision=revision or None,
            metric_type=_one_line(metric),
            metric_value=value,
        )
        for metric, value in _finite_metrics(record).items()
    ]
    owned = {key: about[key] for key in ABOUT_DATA if key in about}
    given = owned.pop("datasets", None) or []
    datasets = [*([dataset] if revision else []), *([given] if isinstance(given, str) else given)]
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=task,
        tags=[*tags],
        model_name=_one_line(name) if results else None,
        eval_results=results or None,
        datasets=list(dict.fromkeys(datasets)) or None,
        **owned,
    )


def _finite_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of a record that are numbers; a file holds null for those that are not."""
    metrics = record.get("metrics", {}).items()
    return {name: float(x) for name, x in metrics if x is not None and math.isfinite(x)}


def _one_line(text: str) -> str:
    """Return a name on one line, without control characters, cut to `MAX_NAME_LENGTH`."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.split())[:MAX_NAME_LENGTH]


def _escape(value: Any) -> Any:
    """Return a value whose texts and keys show as they are in a line or table of Markdown."""
    if isinstance(value, Mapping):
        return {_escape(key): _escape(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    if not isinstance(value, str):
        return value
    # Colon, at sign and dot would turn an address into a link; `_` inside a word is harmless.
    marks = r"[\\`*\[\]|~$:@]|(?<![^\W_])_|_(?![^\W_])|(?<=www)\."
    marked = re.sub(marks, r"\\\g<0>", _one_line(value), flags=re.IGNORECASE)
    return html.escape(marked, quote=False)


def _unescape(text: str) -> str:
    return re.sub(r"\\(\W|_)", r"\1", html.unescape(text))
