"""The kernel's modules are compiled, and what is compiled is one of the kernel's modules."""

from __future__ import annotations

import ast
from pathlib import Path

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
