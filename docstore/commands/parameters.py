"""Server parameters, for getParameter and setParameter.

A parameter has an effect or states a fact; any other name is refused. Values are decoded BSON; at startup they are
text, which is parsed likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from docstore.errors import NO_CODE, Code, CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParameter:
    """`get` returns the value for a reply; `assign` takes a decoded value and raises BadValue if it is invalid.

    Without `assign` the parameter is read-only. `startup_only`: `assign` is allowed only at startup.
    """

    name: str
    get: Callable[[], Any]
    assign: Callable[[Any], None] | None = None
    startup_only: bool = False

    def details(self) -> dict[str, Any]:
        """Return the parameter's fields for `showDetails`."""
        settable = self.assign is not None
        return {
            "value": self.get(),
            "settableAtRuntime": settable and not self.startup_only,
            "settableAtStartup": settable,
        }


class ParameterTable:
    """The parameters of a process by name."""

    def __init__(self, parameters: Iterable[ServerParameter] = ()) -> None:
        self._by_name = {parameter.name: parameter for parameter in parameters}

    def add(self, parameters: Iterable[ServerParameter]) -> None:
        """Add parameters."""
        for parameter in parameters:
            assert parameter.name not in self._by_name, f"{parameter.name} is declared twice"
            self._by_name[parameter.name] = parameter

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[ServerParameter]:
        return iter(sorted(self._by_name.values(), key=lambda parameter: parameter.name))

    def get(self, name: str) -> Any:
        """Return the current value."""
        return self._by_name[name].get()

    def assign(self, name: str, value: Any, *, starting: bool = False) -> Any:
        """Change a parameter; return its previous value. Errors: one without a code for an unknown or fixed one;
        BadValue.
        """
        parameter = self._by_name.get(name)
        if parameter is None:
            raise CommandError(
                NO_CODE, f"attempted to set unrecognized parameter [{name}], use help:true to see options"
            )
        if parameter.assign is None or (parameter.startup_only and not starting):
            raise CommandError(NO_CODE, f"not allowed to change [{name}] at runtime")
        was = parameter.get()
        parameter.assign(value)
        return was


def whole_number(name: str, value: Any) -> int:
    """Return an integer parameter's value, truncated. Errors: BadValue."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CommandError(Code.BadValue, f"Failed validating {name}: it takes a whole number")
    if not isfinite(value):
        raise CommandError(Code.BadValue, f"Failed validating {name}: Unable to coerce NaN/Inf to integral type")
    return int(value)


def truth(value: Any) -> bool:
    """Return a switch's value. Booleans and numbers as usual; the text "false" and "0" is off, other text is on."""
    if isinstance(value, str):
        return value not in ("false", "0", "")
    return bool(value)
