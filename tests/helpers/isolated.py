"""A Python process that sees neither this package nor the caches of the user."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_isolated(
    words: Sequence[str], home: Path, environment: Mapping[str, str] | None = None
) -> str:
    """Run Python with these words in a folder, by default offline; return what it prints."""
    offline = {"HF_HOME": str(home / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-I", *words],
        env={**os.environ, **(offline if environment is None else environment)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
