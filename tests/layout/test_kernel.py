"""The kernel's modules are compiled, and what is compiled is one of the kernel's modules."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

import docstore.bson.walk
from docstore.kernel.compile.kernel_modules import COMPILED, COMPILED_BESIDE

LIBRARY = Path(__file__).resolve().parents[2] / "docstore"
KERNEL = (LIBRARY / "bson", LIBRARY / "kernel")


def modules(rooms: tuple[Path, ...] = KERNEL) -> dict[str, Path]:
    paths = (path for room in rooms for path in room.rglob("*.py"))
    return {".".join(path.relative_to(LIBRARY).with_suffix("").parts): path for path in paths}


def test_every_compiled_module_has_its_source() -> None:
    above = tuple(room for room in LIBRARY.iterdir() if room.is_dir() and room not in KERNEL)
    assert set(COMPILED) <= set(modules())
    assert set(COMPILED_BESIDE) <= set(modules(above))


def test_every_module_that_uses_cython_is_compiled() -> None:
    using = {name for name, path in modules((LIBRARY,)).items() if "\nimport cython\n" in path.read_text()}
    assert set(COMPILED) <= using <= {*COMPILED, *COMPILED_BESIDE}


def test_declarations_are_generated() -> None:
    """What is written by hand would be said twice."""
    assert not list(LIBRARY.rglob("*.pxd"))


def test_the_kernel_is_compiled_where_it_can_be() -> None:
    """An installation without a compiler succeeds; one that has it and failed to compile is a mistake in the kernel."""
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("there is no C compiler, or no headers of Python")
    assert docstore.bson.walk.__file__ is not None
    assert not docstore.bson.walk.__file__.endswith(".py"), "install the checkout, and look at what Cython says"
