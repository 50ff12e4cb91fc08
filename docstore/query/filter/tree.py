"""The typed tree of a query filter.

Nodes are frozen and hashable. Paths are dotted strings; the empty path stands for the value itself and occurs only
under `ElemMatchValue`. So that consumers (predicates, bounds, targeting, upserts) handle few kinds:

- `$ne`, `$nin`, `$not` are `Not` around the positive test;
- `$all` is an `And` of its members;
- an implicit equality is a `Comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from docstore.bson.walk import Value
from docstore.query.text.languages import Exactness
from docstore.query.text.search import TextMatcher
from docstore.query.value.collation import Collation, holds_strings
from docstore.query.value.long_lists import paced

if TYPE_CHECKING:
    from docstore.query.geo.cell_keys import Region
    from docstore.query.scripts import BatchTest


class Op(Enum):
    """The five ordered comparisons; the value is the kernel's name of the operator."""

    EQ = "eq"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"


@dataclass(frozen=True, slots=True)
class And:
    """All children hold; no children: always true."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one child holds; no children: always false."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Nor:
    """No child holds."""

    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child does not hold. For a path with arrays: no element satisfies it."""

    child: Filter


@dataclass(frozen=True, slots=True)
class Always:
    """A constant: `$alwaysTrue`, `$alwaysFalse`, an empty `$all`."""

    value: bool


@dataclass(frozen=True, slots=True)
class DocumentTest:
    """A test of the whole document by the operator `name` (`$expr`, `$jsonSchema`, ...) with this argument."""

    test: Callable[[bytes], bool]
    name: str
    argument: Value
    script: BatchTest | None = None
    """The script that the test runs."""

    collation: Collation | None = None
    """The collation under which it compares strings."""

    implied: Callable[[], tuple[Filter, ...]] | None = field(default=None, compare=False)
    """Returns conditions that the test implies at the time of the call."""


@dataclass(frozen=True, slots=True)
class ValueTest:
    """A test of the values at the path by the operator `name` with this argument."""

    path: str
    test: Callable[[Value], bool]
    name: str
    argument: Value

    region: Region | None = field(default=None, compare=False)
    """The region that every geometry which passes the test meets."""


@dataclass(frozen=True, slots=True)
class Near:
    """The documents by their distance from a point, from `least` to `greatest`; only a geometry index on the path can
    provide them.

    `argument` are the operators of the filter, unchanged. Without a path it is that of the only geometry index.
    `spherical`: distances are measured on the sphere; `geojson`: the point is GeoJSON, and distances are in metres.
    """

    path: str
    argument: Value
    centre: tuple[float, float]
    spherical: bool
    geojson: bool
    least: float = 0.0
    greatest: float = inf


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A text search, which only a text index answers; without a `language` it uses that of the index.

    The planner sets the index in `matcher`.
    """

    search: str
    language: str | None
    exactness: Exactness
    argument: Value
    matcher: TextMatcher = field(default_factory=TextMatcher, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison. `collation` is set only if it affects the result: if the value holds strings."""

    path: str
    op: Op
    value: Value
    collation: Collation | None = None


@dataclass(frozen=True, slots=True)
class RegexMatch:
    """A string at the path matches, or a regex value there is the same regex."""

    path: str
    pattern: str
    options: str


@dataclass(frozen=True, slots=True)
class In:
    """The value at the path equals one of the values or matches one of the expressions.

    `collation` is set only if it affects the result: if one of the values holds strings.
    """

    path: str
    values: Sequence[Value]
    patterns: tuple[RegexMatch, ...] = ()
    collation: Collation | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    path: str


@dataclass(frozen=True, slots=True)
class TypeIs:
    path: str
    codes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Mod:
    path: str
    divisor: int
    remainder: int


@dataclass(frozen=True, slots=True)
class Bits:
    """All of the bits of a mask (`every`) or one of them is set (`ones`) or clear.

    The bits are those of `mask`, from the low bit of its first byte on, or of `sparse`: pairs of a byte's index and its
    bits, in order.
    """

    path: str
    mask: bytes
    sparse: tuple[tuple[int, int], ...]
    every: bool
    ones: bool


@dataclass(frozen=True, slots=True)
class Size:
    path: str
    length: int


@dataclass(frozen=True, slots=True)
class ElemMatchObject:
    """Some element of the array at the path is a document (or array) that satisfies the filter."""

    path: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class ElemMatchValue:
    """Some element of the array at the path satisfies the filter, whose paths are empty."""

    path: str
    filter: Filter


Filter = (
    And
    | Or
    | Nor
    | Not
    | Always
    | DocumentTest
    | ValueTest
    | Near
    | TextSearch
    | Comparison
    | RegexMatch
    | In
    | Exists
    | TypeIs
    | Mod
    | Bits
    | Size
    | ElemMatchObject
    | ElemMatchValue
)

MATCH_ALL = And(())
"""The empty filter."""


def named_paths(tree: Filter) -> Iterator[str]:
    """Yield the paths of all conditions outside `$elemMatch`, in the order of the filter."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            for child in children:
                yield from named_paths(child)
        case Not(child):
            yield from named_paths(child)
        case Always() | DocumentTest() | TextSearch():
            return
        case _:
            yield tree.path


def conjunction(children: list[Filter]) -> Filter:
    """Return the children as one node: nested conjunctions flattened, a single child unwrapped."""
    flat: list[Filter] = []
    for child in children:
        if isinstance(child, And):
            flat.extend(child.children)
        else:
            flat.append(child)
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def collated(tree: Filter, collation: Collation) -> Filter:
    """Return the filter with every comparison of strings made under the collation."""
    match tree:
        case And(children) | Or(children) | Nor(children):
            return type(tree)(tuple(collated(child, collation) for child in paced(children)))
        case Not(child):
            return Not(collated(child, collation))
        case ElemMatchObject(path, inner) | ElemMatchValue(path, inner):
            return type(tree)(path, collated(inner, collation))
        case Comparison(value=value) if holds_strings(value):
            return replace(tree, collation=collation)
        case In(values=values) if any(map(holds_strings, values)):
            return replace(tree, collation=collation)
        case _:
            return tree


def strengthened(tree: Filter) -> Filter:
    """Return the filter with the conditions that its tests of whole documents imply; it matches the same documents."""
    conjuncts = tree.children if isinstance(tree, And) else (tree,)
    implications = [
        condition
        for conjunct in conjuncts
        if isinstance(conjunct, DocumentTest) and conjunct.implied is not None
        for condition in conjunct.implied()
    ]
    return conjunction([*conjuncts, *implications]) if implications else tree
