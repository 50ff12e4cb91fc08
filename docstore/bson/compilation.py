"""The form in which the kernel runs: compiled or interpreted (`docstore.sources`), which is many times slower. The log
says it at start, and so does `buildInfo`.
"""

from __future__ import annotations


def kernel_form() -> str:
    """How this process runs the kernel, which is compiled as a whole or not at all: "compiled" or "interpreted"."""
    from docstore.bson import walk

    return "interpreted" if str(walk.__file__).endswith(".py") else "compiled"
