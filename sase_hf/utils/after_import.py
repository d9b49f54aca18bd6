"""What is to be done once a package has been imported, by whomever."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(package: str, act: Callable[[], None]) -> None:
    """Call a function once a package has been imported: now, or at the end of its first import.

    An error of the function is an error of that import.
    """
    if package in sys.modules:
        act()
    else:
        sys.meta_path.insert(0, _AfterImport(package, act))


class _AfterImport(MetaPathFinder):
    """Finds a package as the finders after it do, and calls a function when it has been loaded.

    Whoever only asks whether there is such a package, as `importlib.util.find_spec` does, gets an
    answer and changes nothing.
    """

    def __init__(self, package: str, act: Callable[[], None]) -> None:
        self.package = package
        self.act = act

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how the package is loaded, with the call at the end; None for other modules."""
        if name != self.package:
            return None
        spec = self._spec_by_others(name, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # made for this spec
            loader.exec_module = self._with_call(loader.exec_module)
        return spec

    def _spec_by_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _with_call(self, load: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def load_and_call(module: ModuleType) -> None:
            load(module)
            with suppress(ValueError):  # another thread was first
                sys.meta_path.remove(self)
            self.act()

        return load_and_call
