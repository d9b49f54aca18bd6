"""What a measurement was made with: the commit, the versions and the hardware."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("sase_hf", "torch", "transformers", "tokenizers", "datasets", "evaluate", "accelerate")


def describe_environment() -> dict[str, Any]:
    """Return what a record says of the place and time of its measurement.

    Returns:
        `date`; `code`, the commit or None outside of a checkout; `versions`; `hardware`.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": _checkout(Path(__file__).resolve().parents[2]),
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "hardware": describe_hardware(),
    }


def describe_hardware() -> dict[str, Any]:
    """Describe the machine without naming it."""
    memory = None
    if hasattr(os, "sysconf"):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": int(os.environ.get("WORLD_SIZE", "1")),
        "memory_gib": memory,
        "gpus": [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())],
        "system": f"{platform.system()} {platform.machine()}",
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _checkout(root: Path) -> dict[str, Any] | None:
    """Return the commit of a git checkout, and whether its files differ; None elsewhere."""

    def git(*arguments: str) -> str:
        command = ("git", "--no-optional-locks", "-C", str(root), *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    try:
        # An installed package may lie in the environment of a project with another history.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root:
            return None
        changes = git("status", "--porcelain", "--untracked-files=no")
        return {"commit": git("rev-parse", "HEAD"), "modified": bool(changes)}
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu_model() -> str:
    """Return the processor's name; Python itself knows it on few systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


__all__ = ["describe_environment", "describe_hardware"]
