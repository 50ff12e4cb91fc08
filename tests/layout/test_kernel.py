"""The kernel's modules are compiled, and what is compiled is one of the kernel's modules."""

from __future__ import annotations

import ast
import shutil
import sysconfig
from pathlib import Path

import pytest

import docstore.bson.walk

KERNEL = Path(__file__).resolve().parents[2] / "docstore" / "bson"


def compiled() -> set[str]:
    tree = ast.parse((KERNEL / "compile" / "kernel_build.py").read_text())
    [names] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED"
    ]
    return set(names)


def test_every_compiled_module_has_its_source_and_its_signatures() -> None:
    assert compiled() == {path.stem for path in KERNEL.glob("*.pxd")}
    assert compiled() <= {path.stem for path in KERNEL.glob("*.py")}


def test_every_module_that_uses_cython_is_compiled() -> None:
    users = {path.stem for path in KERNEL.glob("*.py") if "\nimport cython\n" in path.read_text()}
    assert users == compiled()


def test_the_kernel_is_compiled_where_it_can_be() -> None:
    """An installation without a compiler succeeds; one that has it and failed to compile is a mistake in the kernel."""
    if shutil.which("cc") is None or not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("there is no C compiler, or no headers of Python")
    assert docstore.bson.walk.__file__ is not None
    assert not docstore.bson.walk.__file__.endswith(".py"), "install the checkout, and look at what Cython says"
