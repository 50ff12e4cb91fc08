"""Selection of modules that run from source although they are compiled.

The kernel (`docstore.bson` and `docstore.kernel`) runs per document, and some modules above it per request. Both are
compiled if there was a C compiler (`docstore.kernel.compile.kernel_build`), else interpreted, with the same results.
DOCSTORE_KERNEL=interpreted in the environment makes all `.py` files run; DOCSTORE_KERNEL=documents those above the
kernel alone.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

_INTERPRETED, _KERNEL_ALONE = "interpreted", "documents"
_KERNEL = ("bson", "kernel")


def prefer_sources_where_asked(*packages: str) -> None:
    """Make modules in the folders of packages that are imported from now on run from source, if the environment asks
    for it.
    """
    if os.environ.get("DOCSTORE_KERNEL") == _INTERPRETED:
        _prefer_sources(*packages)


def prefer_sources_above_the_kernel(*library: str) -> None:
    """Prefer the sources of all packages in the library's folders except the kernel, which has a switch of its own."""
    if os.environ.get("DOCSTORE_KERNEL") in (_INTERPRETED, _KERNEL_ALONE):
        for folder in library:
            _prefer_sources(
                *(entry.path for entry in os.scandir(folder) if entry.is_dir() and entry.name not in _KERNEL)
            )


def _prefer_sources(*packages: str) -> None:
    for package in packages:
        for folder, _, _ in os.walk(package):
            # Modules are found through this cache; a finder that knows of source files only passes by the others.
            sys.path_importer_cache[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
