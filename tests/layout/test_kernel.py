"""The kernel's modules are compiled, and what is compiled is one of the kernel's modules."""

from __future__ import annotations

import ast
import shutil
import sysconfig
from pathlib import Path

import pytest

import docstore.bson.walk

LIBRARY = Path(__file__).resolve().parents[2] / "docstore"
KERNEL = (LIBRARY / "bson", LIBRARY / "kernel")


def compiled(group: str = "COMPILED") -> set[str]:
    tree = ast.parse((LIBRARY / "kernel" / "compile" / "kernel_build.py").read_text())
    [names] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == group
    ]
    return set(names)


def modules(ending: str, rooms: tuple[Path, ...] = KERNEL) -> dict[str, Path]:
    paths = (path for room in rooms for path in room.rglob(f"*{ending}"))
    return {".".join(path.relative_to(LIBRARY).with_suffix("").parts): path for path in paths}


def test_every_compiled_module_has_its_source_and_its_signatures() -> None:
    assert compiled() == set(modules(".pxd"))
    assert compiled() <= set(modules(".py"))


def test_every_module_above_the_kernel_that_is_compiled_has_its_source_and_its_types() -> None:
    above = tuple(room for room in LIBRARY.iterdir() if room.is_dir() and room not in KERNEL)
    assert compiled("COMPILED_BESIDE") == set(modules(".pxd", above))
    assert compiled("COMPILED_BESIDE") <= set(modules(".py", above))


def test_every_module_that_uses_cython_is_compiled() -> None:
    assert {name for name, path in modules(".py").items() if "\nimport cython\n" in path.read_text()} == compiled()


def test_the_kernel_is_compiled_where_it_can_be() -> None:
    """An installation without a compiler succeeds; one that has it and failed to compile is a mistake in the kernel."""
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("there is no C compiler, or no headers of Python")
    assert docstore.bson.walk.__file__ is not None
    assert not docstore.bson.walk.__file__.endswith(".py"), "install the checkout, and look at what Cython says"
