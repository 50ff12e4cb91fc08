"""Patterns of namespaces, to select and rename collections of a restore.

`shop.*` is every collection of a database, `*.log` one of every database; a star is any text. A pattern for renaming
may name its parts instead, `$tenant$.$name$`, and the target pattern refers to them. A backslash escapes the next
character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

_PARTS = re.compile(r"\\(?P<plain>.)|(?P<star>\*)|\$(?P<name>[^$.*]+)\$|(?P<text>[^\\*$]+|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selected:
    """The namespaces that one of some patterns includes, all where there are none, and none excludes."""

    included: tuple[re.Pattern[str], ...]
    excluded: tuple[re.Pattern[str], ...]

    def __contains__(self, namespace: object) -> bool:
        name = str(namespace)
        is_included = not self.included or any(form.fullmatch(name) for form in self.included)
        return is_included and not any(form.fullmatch(name) for form in self.excluded)


def selected(included: Sequence[str], excluded: Sequence[str]) -> Selected:
    return Selected(tuple(map(_stars, included)), tuple(map(_stars, excluded)))


class Renaming:
    """New names of namespaces: of the first pattern that a name fits. Others keep theirs."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Errors: ValueError for patterns that do not go together."""
        if len(sources) != len(targets):
            raise ValueError("there are as many --nsFrom as --nsTo")
        self._pairs = [_pair(source, target) for source, target in zip(sources, targets, strict=True)]

    def __call__(self, namespace: str) -> str:
        for form, target in self._pairs:
            match = form.fullmatch(namespace)
            if match is not None:
                return "".join(part if isinstance(part, str) else match.group(part[0]) for part in target)
        return namespace


_Target = list["str | tuple[str]"]
"""Texts, and names of groups in between."""


def _stars(pattern: str) -> re.Pattern[str]:
    texts = (".*" if part["star"] else re.escape(part["plain"] or part[0]) for part in _PARTS.finditer(pattern))
    return re.compile("".join(texts), re.DOTALL)


def _pair(source: str, target: str) -> tuple[re.Pattern[str], _Target]:
    form, names = "", []
    stars = count()
    for part in _PARTS.finditer(source):
        name = f"star{next(stars)}" if part["star"] else f"name_{part['name']}" if part["name"] else None
        if name is None:
            form += re.escape(part["plain"] or part["text"])
            continue
        names.append(name)
        form += f"(?P<{name}>{'.*' if part['star'] else '.*?'})"
    parts: _Target = []
    stars = count()
    for part in _PARTS.finditer(target):
        name = f"star{next(stars)}" if part["star"] else f"name_{part['name']}" if part["name"] else None
        if name is not None and name not in names:
            raise ValueError(f"{target!r} has a part that is not in {source!r}")
        parts.append(part["plain"] or part["text"] if name is None else (name,))
    if sorted(names) != sorted({part[0] for part in parts if isinstance(part, tuple)}):
        raise ValueError(f"{source!r} and {target!r} have different parts")
    try:
        return re.compile(form, re.DOTALL), parts
    except re.error as error:
        raise ValueError(f"{source!r} names a part twice, or by what is no name") from error
