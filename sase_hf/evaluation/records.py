"""The record of a measurement.

A record is JSON with all that is needed to judge and repeat a measurement: rows, code, settings,
versions and hardware. It holds no absolute path, no name of a user or machine, and no token.
"""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from ..utils.files import FilePath, write_text
from ..utils.text import redact

# Endings of the entries that Trainer adds to the metrics.
NO_RESULTS = ("_runtime", "_per_second", "_preparation_time", "_flos")

PACKAGES = (
    "sase_hf",
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "evaluate",
    "accelerate",
    "sacrebleu",
)


def results_of(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Return the metrics that begin with a prefix, without it; runtimes are left out."""
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix) and not name.endswith(NO_RESULTS)
    }


def measured_record(
    *,
    name: str,
    metrics: Mapping[str, float],
    split: str,
    sources: Mapping[str, Mapping[str, object]],
    seed: int,
    arguments: Mapping[str, object],
    config: PreTrainedConfig | Mapping[str, object],
    num_parameters: int,
    wall_seconds: float,
) -> dict[str, Any]:
    """Return a measurement with versions, commit, hardware and date, as plain JSON values.

    The `metrics` were measured on the `split`. `sources` are as in `Rows`, and `arguments` are
    the settings that differ from their defaults. For a resumed run, `wall_seconds` counts
    only the last part.
    """
    record = {
        "name": name,
        "split": split,
        "metrics": metrics,
        "sources": sources,
        "seed": seed,
        "arguments": arguments,
        "config": config.to_diff_dict() if isinstance(config, PreTrainedConfig) else config,
        "num_parameters": num_parameters,
        "wall_seconds": round(wall_seconds, 1),
        **describe_environment(),
    }
    return redact(record)


def write_record(record: Mapping[str, object], path: FilePath) -> None:
    """Write a record as redacted JSON, whole or not at all; equal records give equal bytes."""
    text = json.dumps(redact(record), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def describe_environment() -> dict[str, Any]:
    """Describe where and with what something is measured now.

    That is the `date` in ISO 8601; the `code`, the commit and whether its code was modified, None
    if it is not known; the `versions` of Python and of `PACKAGES`, None for one that is not
    installed; and the `hardware`.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": _checkout(Path(__file__).resolve().parents[2]),
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "hardware": {  # which does not name the machine
            "cpu": _processor_name(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "processes": int(os.environ.get("WORLD_SIZE", "1")),
            "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())],
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def _processor_name() -> str:
    """Return the name of the processor, which Python itself knows on few systems."""
    with suppress(OSError):
        name = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        if name is not None:
            return name[1]
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a folder that is not installed
        return None


def _checkout(root: Path) -> dict[str, object] | None:
    """Return the commit of a git checkout, and whether its code differs; None elsewhere."""

    def git(*arguments: str) -> str:
        command = ("git", "--no-optional-locks", "-C", str(root), *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        top = Path(git("rev-parse", "--show-toplevel")).resolve()
        if top != root:  # an installed package inside the checkout of another project
            return None
        # A study writes its records between its runs.
        code = (".", ":(exclude)model_cards")
        changes = git("status", "--porcelain", "--untracked-files=no", "--", *code)
        return {"commit": git("rev-parse", "HEAD"), "modified": bool(changes)}
    except (OSError, subprocess.CalledProcessError):
        return None
