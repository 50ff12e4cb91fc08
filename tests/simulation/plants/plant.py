"""A planted bug: one function of the shipping code, made wrong in one place.

The function is compiled anew from its source with one text replaced, and its code put into the function that stands, so
that whoever holds it has the bug. A text that is not there any more is an error: then the plant must be looked at.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

_SOURCES = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True)
class Plant:
    """`function` is "module:name" or "module:Class.name". `scenario` says where it must be caught."""

    name: str
    scenario: str
    function: str
    right: str
    wrong: str

    def apply(self) -> None:
        """Plant it in this interpreter, which must run the function as source."""
        target = self._target()
        assert isinstance(target, FunctionType), f"{self.function} is no function of Python"
        code = _code_named(self._changed(), target.__name__)
        assert code.co_freevars == target.__code__.co_freevars, "a function that refers to variables around it"
        target.__code__ = code

    def check(self) -> None:
        """Assert that it can be applied to the code as it is."""
        self._target()
        _code_named(self._changed(), self.function.rpartition(":")[2].rpartition(".")[2])

    def _target(self) -> Any:
        module_name, _, path = self.function.partition(":")
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
        target = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        return target.fget if isinstance(target, property) else target

    def _changed(self) -> CodeType:
        """The function's source, which may run as something compiled from it, with the text replaced."""
        source = self._source()
        assert source.count(self.right) == 1, f"{self.name}: not once in {self.function}: {self.right}"
        changed = "from __future__ import annotations\n" + source.replace(self.right, self.wrong)
        return compile(changed, f"<{self.name}>", "exec")

    def _source(self) -> str:
        module_name, _, path = self.function.partition(":")
        text = _SOURCES.joinpath(*module_name.split(".")).with_suffix(".py").read_text()
        node: Any = ast.parse(text)
        for part in path.split("."):
            node = next(each for each in node.body if getattr(each, "name", None) == part)
        lines = text.splitlines(keepends=True)
        first = min(each.lineno for each in (node, *node.decorator_list))
        return textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))


def _code_named(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)
