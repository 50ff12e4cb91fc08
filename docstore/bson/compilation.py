"""Whether the kernel runs as machine code.

The modules of `docstore.bson` and `docstore.kernel` that run per document are pure-Python-mode Cython: compiled where
there was a C compiler, interpreted otherwise, with the same results. DOCSTORE_KERNEL=interpreted in the environment has
the `.py` files run in any case.
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
    """ "compiled" or "interpreted": the form in which this process runs the kernel."""
    from docstore.bson import walk

    return "interpreted" if str(walk.__file__).endswith(".py") else "compiled"
