"""The form in which the kernel runs: compiled or interpreted.

The modules of `docstore.bson` and `docstore.kernel` that run per document are pure-Python-mode Cython: compiled where
there was a C compiler, interpreted otherwise, with the same results, many times slower. DOCSTORE_KERNEL=interpreted in
the environment has the `.py` files run in any case. The log says at start which form runs, and so does `buildInfo`.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader


def prefer_sources_where_asked(*packages: str) -> None:
    """Have modules in the folders of packages that are imported from now on run as source, if the environment asks."""
    if os.environ.get("DOCSTORE_KERNEL") == "interpreted":
        for package in packages:
            for folder, _, _ in os.walk(package):
                # Modules are found through this cache; a finder that knows of source files only passes by the others.
                sys.path_importer_cache[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


def kernel_form() -> str:
    """How this process runs the kernel, which is compiled as a whole or not at all: "compiled" or "interpreted"."""
    from docstore.bson import walk

    return "interpreted" if str(walk.__file__).endswith(".py") else "compiled"
