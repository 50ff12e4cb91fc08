"""The kernel twice: as it was installed, and a second copy of it interpreted from the `.py` files."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from docstore.kernel.compile.kernel_modules import COMPILED

PACKAGES = ("docstore.bson", "docstore.kernel")
COMPILED_MARK = (".so", ".pyd")
BY_NAME = (
    "bson",
    "kernel.keys.encoding",
    "kernel.keys.hashing",
    "kernel.keys.pattern",
    "kernel.match.path_predicates",
    "kernel.match.predicate",
    "kernel.match.text_predicates",
    "kernel.scan.documents",
    "kernel.scan.watched",
)
"""The modules whose names a copy offers as its own, beside the rooms of the kernel."""


class Kernel:
    """One copy: `bson` and the rooms as attributes, and the commonest names of their modules."""

    def __init__(self) -> None:
        self.bson = importlib.import_module("docstore.bson")
        self._package = importlib.import_module("docstore.kernel")
        for name in COMPILED:
            importlib.import_module(f"docstore.{name}")
        self._named = [importlib.import_module(f"docstore.{name}") for name in BY_NAME]

    def __getattr__(self, name: str) -> Any:
        for module in (self._package, *self._named):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


def is_compiled(kernel: Kernel) -> bool:
    """Whether a copy runs machine code."""
    return str(kernel.bson.walk.__file__).endswith(COMPILED_MARK)


def installed() -> Kernel:
    """The copy that everything else in this process uses."""
    return Kernel()


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if ".".join(name.split(".")[:2]) in PACKAGES}


def interpreted() -> Kernel:
    """A copy of its own, interpreted; the process goes on with the one it has."""
    kept = _loaded()
    environment = os.environ.get("DOCSTORE_KERNEL")
    finders = dict(sys.path_importer_cache)
    for name in kept:
        del sys.modules[name]
    os.environ["DOCSTORE_KERNEL"] = "interpreted"
    try:
        return Kernel()
    finally:
        del os.environ["DOCSTORE_KERNEL"]
        if environment is not None:
            os.environ["DOCSTORE_KERNEL"] = environment
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(kept)
        sys.path_importer_cache.clear()
        sys.path_importer_cache.update(finders)
        for package in PACKAGES:
            if package in kept:
                setattr(sys.modules["docstore"], package.partition(".")[2], kept[package])
