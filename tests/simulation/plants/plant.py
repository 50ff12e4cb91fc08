"""A planted bug: one function of the shipping code, made wrong in one place.

The function is compiled anew from its source with one text replaced, and its code put into the function that stands, so
that whoever holds it has the bug. A text that is not there any more is an error: then the plant must be looked at.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Plant:
    """`function` is "module:name" or "module:Class.name". `scenario` says where it must be caught."""

    name: str
    scenario: str
    function: str
    right: str
    wrong: str

    def apply(self) -> None:
        """Plant it in this interpreter."""
        target = self._target()
        target.__code__ = self._code(target)

    def check(self) -> None:
        """Assert that it can be applied to the code as it is."""
        self._code(self._target())

    def _target(self) -> FunctionType:
        module_name, _, path = self.function.partition(":")
        module = importlib.import_module(module_name)
        found: Any = module
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
        target = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        target = target.fget if isinstance(target, property) else target
        assert isinstance(target, FunctionType), f"{self.function} is no function of Python"
        return target

    def _code(self, target: FunctionType) -> CodeType:
        source = textwrap.dedent(inspect.getsource(target))
        assert source.count(self.right) == 1, f"{self.name}: not once in {self.function}: {self.right}"
        changed = "from __future__ import annotations\n" + source.replace(self.right, self.wrong)
        return _code_named(compile(changed, f"<{self.name}>", "exec"), target)


def _code_named(code: CodeType, target: FunctionType) -> CodeType:
    found = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == target.__name__)
    assert found.co_freevars == target.__code__.co_freevars, "a function that refers to variables around it"
    return found
