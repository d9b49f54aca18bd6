"""Run transformers' own model tests on the models of this package.

    python scripts/lab/common_tests.py                  # all of them, under a minute
    python scripts/lab/common_tests.py -k checkpointing # arguments go on to pytest

The tests are in the source distribution of the installed version of transformers, which pip fetches
once and which stays in `.cache/`. No test may fail; the skipped ones need other hardware, text
generation or attention kernels.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from transformers import __version__

ROOT = Path(__file__).resolve().parents[2]


def fetch(version: str) -> Path:
    """Return the source distribution of a version, fetched if need be."""
    folder = ROOT / ".cache"
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    archive = folder / f"transformers-{version}.tar.gz"
    if not archive.exists():  # pip moves it here when it is whole
        command = [sys.executable, "-m", "pip", "download", "--quiet", f"--dest={folder}"]
        command += ["--no-deps", "--no-binary", "transformers", f"transformers=={version}"]
        subprocess.run(command, check=True)
    return archive


def main(argv: list[str] | None = None) -> int:
    """Run the tests with arguments for pytest, and return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    # This package does not control the warnings and markers in these tests.
    relaxed = ["-o", "addopts=", "-o", "filterwarnings=default", "--disable-warnings"]
    tests = ROOT / "tests" / "lab" / "transformers_common.py"
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(fetch(__version__)) as members:
        for member in members:
            if name := re.fullmatch(r"transformers-[^/]+/tests/(\w+\.py)", member.name):
                member.name = f"transformers_tests/{name[1]}"
                members.extract(member, scratch, filter="data")
        Path(scratch, "transformers_tests", "__init__.py").touch()  # which it leaves out
        sys.path.insert(0, scratch)
        return int(pytest.main(["-q", "--rootdir", str(ROOT), *relaxed, str(tests), *arguments]))


if __name__ == "__main__":
    sys.exit(main())
