"""The kernel twice: as it was installed, and a second copy of it interpreted from the `.py` files."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

PACKAGE = "docstore.bson"
COMPILED_MARK = (".so", ".pyd")
NOT_EXPORTED = (
    "bounded", "calculating", "calculating_dates", "columns", "fetching", "field_changes", "group", "key_values",
    "murmur", "mutations", "projecting", "sorting",
)  # fmt: skip


def is_compiled(kernel: ModuleType) -> bool:
    """Whether a copy runs machine code."""
    return str(kernel.walk.__file__).endswith(COMPILED_MARK)


def installed() -> ModuleType:
    """The copy that everything else in this process uses."""
    return importlib.import_module(PACKAGE)


def interpreted() -> ModuleType:
    """A copy of its own, interpreted; the process goes on with the one it has."""
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[:2] == PACKAGE.split(".")}
    environment = os.environ.get("DOCSTORE_KERNEL")
    finders = dict(sys.path_importer_cache)
    for name in kept:
        del sys.modules[name]
    os.environ["DOCSTORE_KERNEL"] = "interpreted"
    try:
        kernel = importlib.import_module(PACKAGE)
        for name in NOT_EXPORTED:
            importlib.import_module(f"{PACKAGE}.{name}")
        return kernel
    finally:
        del os.environ["DOCSTORE_KERNEL"]
        if environment is not None:
            os.environ["DOCSTORE_KERNEL"] = environment
        for name in [name for name in sys.modules if name.split(".")[:2] == PACKAGE.split(".")]:
            del sys.modules[name]
        sys.modules.update(kept)
        sys.path_importer_cache.clear()
        sys.path_importer_cache.update(finders)
        if PACKAGE in kept:
            sys.modules["docstore"].bson = kept[PACKAGE]  # type: ignore[attr-defined]
