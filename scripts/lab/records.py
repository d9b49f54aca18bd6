"""Records of runs as JSON Lines: a run on each line, sorted by name.

The address of a line is `study.jsonl#yelp5/cnn_max-seed42`. A line holds the name as `run`, the
record of the measurement, and the `settings_sha` of the recipe at that time.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from sase_hf.utils.files import write_text
from sase_hf.utils.text import redact

CARDS = Path("model_cards")
RECORDS = CARDS / "records"

Record = Mapping[str, Any]

# Settings that do not change the result: runs that differ only in these are the same run.
WITHOUT_EFFECT = {
    "bf16",  # the accuracy is about the same in both
    "disable_tqdm",
    "logging_first_step",
    "logging_steps",
    "logging_strategy",
    "output_dir",
    "record",
    "report_to",
    "resume_from_checkpoint",
    "run_name",
    "save_total_limit",
    "seed",  # stands in the name of a run
}
RENAMED = {"max_tokens": "max_seq_length"}  # settings have the names that records know

NAMES_OF_TREC = ["description", "entity", "abbreviation", "human", "location", "number"]


def settings_sha(settings: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that identify the settings that decide a result.

    The settings are those of a recipe and its bases; a changed default of the package is not seen.
    """
    deciding = {
        RENAMED.get(name, name): value
        for name, value in settings.items()
        if name not in WITHOUT_EFFECT
    }
    if "word_vectors" in deciding:  # which had a flag beside it
        deciding["extend_vocabulary"] = None if deciding["word_vectors"] == "none" else "true"
    if deciding.get("text_column_names") == ["premise", "hypothesis"]:  # of SNLI
        deciding["drop_unlabelled"] = "true"  # which was a flag
    if deciding.get("train_file") == "data/trec.train.jsonl.gz" and "vocab_size" in deciding:
        deciding["label_names"] = NAMES_OF_TREC  # which ids had in records
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def read_records(path: Path) -> dict[str, Record]:
    """Return the records of a file by the names of their runs; none if there is no file."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as lines:
        return {record["run"]: record for record in map(json.loads, lines)}


def read_record(address: str | Path) -> Record:
    """Return the record of a JSON file, or of a line of a JSON Lines file, FILE.jsonl#RUN.

    Raises ValueError if the file has no such run.
    """
    file, _, run = str(address).partition("#")
    if not run:
        return dict(json.loads(Path(file).read_text(encoding="utf-8")))
    records = read_records(Path(file))
    if run not in records:
        raise ValueError(f"{file} has no record of a run {run!r}")
    return records[run]


def write_rows(path: Path, rows: Iterable[Record], **options: Any) -> None:
    """Write JSON Lines; `options` go to `json.dumps`."""
    lines = (json.dumps(row, ensure_ascii=False, **options) + "\n" for row in rows)
    write_text(path, "".join(lines))


def replace_record(path: Path, record: Record) -> None:
    """Write the line of a run, in the place of its former one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # another study may write its own line meanwhile
        records = read_records(path)
        records[record["run"]] = redact(record)
        rows = [records[run] for run in sorted(records)]
        write_rows(path, rows, sort_keys=True, allow_nan=False)
