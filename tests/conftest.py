"""Fixtures of all tests: no network, a fixed seed, a Hub of the test's own, checkpoints.

What imports torch is imported in the fixtures: pytest-xdist loads this file also in the process
that only hands the tests out, and no test begins before that is done.
"""

import gc
import os
import shutil
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

# Read when huggingface_hub and torch are imported, so set before any test module imports them. The
# second lets float32 have all its digits on a GPU.
os.environ |= {"HF_HUB_OFFLINE": "1", "NVIDIA_TF32_OVERRIDE": "0"}
# As `make test` does: a process that is forked waits forever for the threads of OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Numbers are those of a CPU. `CUDA_VISIBLE_DEVICES=0 make test` shows the tests a GPU.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest
from browsers import running_chromium, untested_pages, watched_tab
from huggingface_hub import constants
from huggingface_hub.utils import close_session, http_backoff
from loopback_hub import TOKEN, Hub, running_hub


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of many slow tests, or one process would end long after the others."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Say below the list of skipped tests, where it is read, that the JavaScript did not run."""
    yield
    untested = untested_pages(terminalreporter.stats.get("skipped", ()))
    if untested is not None:
        terminalreporter.write_line(untested, red=True, bold=True)


@pytest.fixture(autouse=True, scope="module")
def frozen_imports() -> None:
    """Exempt imported modules from garbage collection, which would take most of a tiny run."""
    gc.freeze()


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start every test from the same random state, with no warning given, whatever ran before."""
    import torch
    from transformers.utils import logging

    torch.manual_seed(0)
    logging.warning_once.cache_clear()


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fill new tensors with NaN, to expose a weight that was never initialised."""
    import torch

    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the files of a training, a validation and a test split, as arguments."""
    from runs import write_splits

    return write_splits(tmp_path_factory.mktemp("reviews"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """Serve an empty Hub to this process, which has a token for it and retries at once."""
    with running_hub() as hub:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        # huggingface_hub has read the environment when it was imported.
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("/{repo_id}")
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "".join(template[1:])
        )
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub_cache"))
        monkeypatch.setattr("transformers.utils.hub._hf_api", None, raising=False)
        assert http_backoff.__kwdefaults__ is not None
        monkeypatch.setitem(http_backoff.__kwdefaults__, "base_wait_time", 0)
        close_session()
        yield hub
        close_session()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start a browser for the tests of a file; while it runs, no other code can use asyncio."""
    with running_chromium() as context:
        yield context


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    with watched_tab(browser) as tab:
        yield tab


@pytest.fixture(scope="session")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from checkpoints import save_publishable

    return save_publishable(tmp_path_factory.mktemp("fit") / "model")


@pytest.fixture
def folder(fit: Path, tmp_path: Path) -> Path:
    return shutil.copytree(fit, tmp_path / "model")
