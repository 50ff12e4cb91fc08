"""Server parameters: what getParameter shows and setParameter changes at run time.

Only what has an effect, or states a fact, is a parameter; any other name is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from docstore.commands.limits import FEATURE_VERSION
from docstore.errors import Code, CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParameter:
    """`get` gives the value for a reply; `put` takes a decoded value and raises BadValue when it does not fit.

    Without `put` the parameter states a fact.
    """

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], None] | None = None


class ParameterTable:
    """The parameters of a process by name."""

    def __init__(self, parameters: Iterable[ServerParameter]) -> None:
        self._by_name = {parameter.name: parameter for parameter in parameters}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[ServerParameter]:
        return iter(sorted(self._by_name.values(), key=lambda parameter: parameter.name))

    def get(self, name: str) -> Any:
        """The present value."""
        return self._by_name[name].get()

    def put(self, name: str, value: Any) -> Any:
        """Change a parameter; returns what it was. Errors: InvalidOptions for an unknown or fixed one, BadValue."""
        parameter = self._by_name.get(name)
        if parameter is None:
            raise CommandError(
                Code.InvalidOptions, f"attempted to set unrecognized parameter [{name}], use help:true to see options"
            )
        if parameter.put is None:
            raise CommandError(Code.IllegalOperation, f"not allowed to change [{name}] at runtime")
        was = parameter.get()
        parameter.put(value)
        return was


FACTS = (
    ServerParameter(name="featureCompatibilityVersion", get=lambda: {"version": FEATURE_VERSION}),
    ServerParameter(name="authenticationMechanisms", get=list),
    ServerParameter(name="enableTestCommands", get=lambda: False),
)
"""Parameters that state facts about every data node."""
