"""What `import sase_hf` brings, when, and what transformers knows afterwards."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sase_hf


def test_public_names_are_those_of_their_modules_that_type_checkers_read() -> None:
    tree = ast.parse(Path(sase_hf.__file__).read_text(encoding="utf-8"))
    [typed] = [node for node in tree.body if isinstance(node, ast.If) and not node.orelse][:1]
    homes = {
        alias.name: f".{node.module}"
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == sase_hf._MODULES
    assert sorted(homes) == sase_hf.__all__
    for name, home in homes.items():
        module = importlib.import_module(home, "sase_hf")
        assert getattr(sase_hf, name) is getattr(module, name)


# Whoever only asks whether there is such a package changes nothing.
KNOWS_FAMILIES = """
import importlib.util
import sase_hf
importlib.util.find_spec("transformers")
import transformers
from transformers import CONFIG_MAPPING, MODEL_MAPPING, TOKENIZER_MAPPING
from transformers.pipelines import PIPELINE_REGISTRY
for name, task in (("self_attentive", "self-attention"), ("rnnsearch", "aligned-translation")):
    config = CONFIG_MAPPING[name]
    assert config.__module__.startswith("sase_hf."), config
    assert MODEL_MAPPING[config].__module__.startswith("sase_hf."), MODEL_MAPPING[config]
    assert config in TOKENIZER_MAPPING
    PIPELINE_REGISTRY.check_task(task)
for task, entry in PIPELINE_REGISTRY.supported_tasks.items():
    is_ours = task in ("self-attention", "aligned-translation")
    module = getattr(entry["impl"], "__module__", "")
    assert module.startswith("sase_hf.") == is_ours, task
"""


def run_python(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The first uses of the package in a process: what `import sase_hf` brings, then names in several
# threads at once, then all modules, without what only an extra installs.
FIRST_USES = """
import importlib, json, pkgutil, sys, threading
import sase_hf

assert sase_hf.__version__
imported = [name for name in ("torch", "transformers", "numpy", "datasets") if name in sys.modules]

uses = [
    lambda: sase_hf.SelfAttentiveConfig().model_type,
    lambda: sase_hf.build_tokenizer,
    lambda: sase_hf.SelfAttention,
]
together = threading.Barrier(len(uses))
errors = []

def use(one):
    together.wait()
    try:
        one()
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=use, args=(one,)) for one in uses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

for name in ("onnx", "onnxruntime", "sentence_transformers"):
    sys.modules[name] = None  # an import of it now fails as if it were not installed
for module in pkgutil.walk_packages(sase_hf.__path__, "sase_hf."):
    importlib.import_module(module.name)

print(json.dumps({"imported": imported, "errors": errors}))
"""


@pytest.fixture(scope="module")
def first_uses() -> Any:
    return json.loads(run_python(FIRST_USES))


def test_package_imports_neither_torch_nor_transformers_before_a_name_is_used(
    first_uses: Any,
) -> None:
    assert first_uses["imported"] == []


def test_names_can_be_first_used_in_several_threads(first_uses: Any) -> None:
    """And a base install imports every module."""
    assert first_uses["errors"] == []


@pytest.mark.slow
def test_auto_classes_know_both_families_where_transformers_is_imported_later() -> None:
    """The other tests import it first."""
    run_python(KNOWS_FAMILIES)
