"""The form in which the kernel runs: compiled, or interpreted (`docstore.sources`), which is many times slower.

The log reports it at startup, and so does `buildInfo`.
"""

from __future__ import annotations


def kernel_form() -> str:
    """Return "compiled" or "interpreted"; the kernel is compiled as a whole or not at all."""
    from docstore.bson import walk

    return "interpreted" if str(walk.__file__).endswith(".py") else "compiled"
