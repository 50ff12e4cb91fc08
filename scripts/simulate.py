"""Runs the whole system in one process on virtual time, from seeds: see tests/simulation and CONTRIBUTING.md."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Planted bugs are put into functions of the interpreter.
os.environ.setdefault("DOCSTORE_KERNEL", "documents")

from tests.simulation import interpreter

interpreter.reexecute_deterministically()
interpreter.take_over()

from tests.simulation.command import main  # noqa: E402 - the product is imported behind the take-over

main()
