"""Acts that follow the first import of a package."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sase_hf.utils.after_import import after_import

NAME = "a_late_package"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package that is not imported yet, by name."""
    (tmp_path / f"{NAME}.py").write_text("VALUE = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield NAME
    sys.modules.pop(NAME, None)


def test_act_follows_at_once_if_the_package_is_imported() -> None:
    calls: list[int] = []
    after_import("sys", lambda: calls.append(1))
    assert calls == [1]


def test_act_follows_the_first_import_and_finds_the_whole_package(package: str) -> None:
    values: list[int] = []
    after_import(package, lambda: values.append(sys.modules[package].VALUE))
    assert values == []
    importlib.import_module(package)
    assert values == [3]
    importlib.reload(sys.modules[package])
    assert values == [3]


def test_act_does_not_follow_a_question_for_the_package(package: str) -> None:
    calls: list[int] = []
    after_import(package, lambda: calls.append(1))
    assert importlib.util.find_spec(package) is not None
    assert calls == []
    importlib.import_module(package)
    assert calls == [1]


def test_error_of_an_act_is_one_of_the_import(package: str) -> None:
    def fail() -> None:
        raise ValueError("no class of this name")

    after_import(package, fail)
    with pytest.raises(ValueError, match="no class of this name"):
        importlib.import_module(package)
    assert package not in sys.modules
