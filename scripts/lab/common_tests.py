"""Run transformers' own model tests on the models of this package.

    python scripts/lab/common_tests.py                  # all of them, under a minute
    python scripts/lab/common_tests.py -k checkpointing # arguments go on to pytest

The tests are in the source distribution of the installed version of transformers, which pip fetches
once and which stays in `.cache/`. No test may fail; the skipped ones need other hardware, text
generation or attention kernels.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
PACKAGE = "transformers_tests"

# Modules that the tests import, but that the distribution leaves out. The mixins add tests of
# exporters (ours: tests/serving/test_onnx_export.py) and of text generation. The values are those
# of transformers' own tests/utils/test_configuration_utils.py in 5.x.
STAND_INS = {
    "__init__.py": "",
    "exporters/test_export.py": "class ExportTesterMixin: ...\n",
    "generation/test_utils.py": "class GenerationTesterMixin: ...\n",
    "utils/test_configuration_utils.py": """config_common_kwargs = {
    "return_dict": False,
    "output_hidden_states": True,
    "output_attentions": True,
    "dtype": "float16",
    "chunk_size_feed_forward": 5,
    "architectures": ["BertModel"],
    "id2label": {0: "label"},
    "label2id": {"label": "0"},
    "problem_type": "regression",
}
""",
}


def unpack(archive: Path, package: Path) -> None:
    """Write the test modules of a source distribution, and the stand-ins, as a package."""
    with tarfile.open(archive) as members:
        for member in members:
            if name := re.fullmatch(r"transformers-[^/]+/tests/(\w+\.py)", member.name):
                member.name = name[1]
                members.extract(member, package, filter="data")
    for path, source in STAND_INS.items():
        (package / path).parent.mkdir(exist_ok=True)
        (package / path).write_text(source, encoding="utf-8")


def tests_of(version: str) -> Path:
    """Return the folder that holds the test package of a version, fetched if need be."""
    folder = CACHE / f"transformers-{version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-binary", "transformers", f"transformers=={version}"]
    if not folder.exists():
        CACHE.mkdir(exist_ok=True)
        (CACHE / ".gitignore").write_text("*\n")
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            subprocess.run([*command, "--dest", scratch], check=True)
            archive = next(Path(scratch).glob("transformers-*.tar.gz"))
            unpack(archive, Path(scratch, "unpacked", PACKAGE))
            os.replace(Path(scratch, "unpacked"), folder)  # whole or not at all
    return folder


def main(argv: list[str] | None = None) -> int:
    """Run the tests with arguments for pytest, and return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    sys.path.insert(0, str(tests_of(transformers.__version__)))
    # This package does not control the warnings and markers in these tests.
    relaxed = ["-o", "addopts=", "-o", "filterwarnings=default", "--disable-warnings"]
    tests = ROOT / "tests" / "lab" / "transformers_common.py"
    return int(pytest.main(["-q", "--rootdir", str(ROOT), *relaxed, str(tests), *arguments]))


if __name__ == "__main__":
    sys.exit(main())
