"""Terms of statements, resolved once against the type of their receiver, then evaluated with each binding.

Errors in the text are raised when the term is resolved; errors in a bound value when it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from docstore.bson.allowance import spend
from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import UNSET, Bindings, Bound, Value, Variable
from docstore.widecolumn.cql.plan.functions import find_function
from docstore.widecolumn.cql.statements import (
    Call,
    ColumnName,
    Constant,
    Expression,
    ListTerm,
    MapTerm,
    Marker,
    Null,
    SetTerm,
    Star,
    Term,
    TupleTerm,
)
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import BIGINT, INT, CqlType, NativeType
from docstore.widecolumn.model.errors import MarshalError

Evaluate = Callable[[Bindings], Bound]


@dataclass(frozen=True, slots=True)
class Receiver:
    """The receiver of a term: a column, or a clause like `[ttl]`."""

    name: str
    type: CqlType


TIMESTAMP_CLAUSE = Receiver("[timestamp]", BIGINT)
TTL_CLAUSE = Receiver("[ttl]", INT)
LIMIT_CLAUSE = Receiver("[limit]", INT)
PARTITION_LIMIT_CLAUSE = Receiver("[per_partition_limit]", INT)
_PER_TERM = 1024
"""Work units charged for a term."""


@dataclass(slots=True)
class Preparation:
    """Gathers the markers of one statement while its terms are resolved."""

    variables: list[Variable] = field(default_factory=list)

    def ordered(self) -> tuple[Variable, ...]:
        return tuple(sorted(self.variables, key=lambda variable: variable.position))

    def term(self, term: Expression, receiver: Receiver) -> Evaluate:
        """The evaluation of a term for a receiver. CqlError."""
        spend(_PER_TERM)
        if isinstance(term, Constant):
            value = constant_bytes(term, receiver)
            return lambda bindings: value
        if isinstance(term, Null):
            return lambda bindings: None
        if isinstance(term, Marker):
            return self._marker(term, receiver)
        if isinstance(term, Call):
            return self._call(term, receiver)
        if isinstance(term, ColumnName | Star):
            raise invalid(f'Invalid column reference for "{receiver.name}" of type {receiver.type.name}')
        return self._collection(term, receiver)

    def _collection(self, term: ListTerm | SetTerm | MapTerm | TupleTerm, receiver: Receiver) -> Evaluate:
        kind = receiver.type
        if isinstance(kind, ListType) and isinstance(term, ListTerm):
            return self._elements(term.items, [kind.element] * len(term.items), receiver, kind.packed)
        if isinstance(kind, SetType) and isinstance(term, SetTerm):
            return self._elements(term.items, [kind.element] * len(term.items), receiver, kind.packed)
        if isinstance(kind, MapType) and (isinstance(term, MapTerm) or not term.items):
            packed = kind.packed
            items = [item for pair in term.items for item in pair] if isinstance(term, MapTerm) else []
            return self._elements(
                items,
                [kind.key, kind.value] * (len(items) // 2),
                receiver,
                lambda parts: packed(dict(zip(parts[::2], parts[1::2], strict=True))),
            )
        if isinstance(kind, TupleType) and isinstance(term, TupleTerm):
            if len(term.items) > len(kind.elements):
                raise invalid(
                    f"Invalid tuple literal for {receiver.name}: too many elements. Type {kind.name} expects "
                    f"{len(kind.elements)} but got {len(term.items)}"
                )
            return self._tuple(term, kind, receiver)
        raise invalid(f'Invalid {_literal(term)} literal for "{receiver.name}" of type {kind.name}')

    def _elements(
        self,
        items: Sequence[Expression],
        kinds: Sequence[CqlType],
        receiver: Receiver,
        packed: Callable[[list[bytes]], bytes],
    ) -> Evaluate:
        """The evaluation of a collection; its elements are not null."""
        evaluations = [
            self.term(item, Receiver(f"value({receiver.name})", kind)) for item, kind in zip(items, kinds, strict=True)
        ]

        def evaluate(bindings: Bindings) -> Bound:
            parts = [_element(evaluation(bindings), receiver.name) for evaluation in evaluations]
            if None in parts:
                raise invalid("null is not supported inside collections")
            try:
                return packed([part for part in parts if part is not None])
            except MarshalError as error:
                raise invalid(str(error)) from None

        return evaluate

    def _tuple(self, term: TupleTerm, kind: TupleType, receiver: Receiver) -> Evaluate:
        evaluations = [
            self.term(item, Receiver(f"{receiver.name}[{position}]", element))
            for position, (item, element) in enumerate(zip(term.items, kind.elements, strict=False))
        ]
        packed = kind.packed

        def evaluate(bindings: Bindings) -> Bound:
            return packed([_element(evaluation(bindings), receiver.name) for evaluation in evaluations])

        return evaluate

    def _marker(self, marker: Marker, receiver: Receiver) -> Evaluate:
        position, canonical = marker.position, receiver.type.canonical
        self.variables.append(Variable(position, receiver.name, receiver.type, marker.name))

        def evaluate(bindings: Bindings) -> Bound:
            value = bindings.values[position]
            if isinstance(value, bytes):
                try:
                    return canonical(value)
                except MarshalError as error:
                    raise invalid(str(error)) from None
            return value

        return evaluate

    def _call(self, call: Call, receiver: Receiver) -> Evaluate:
        function = find_function(call.function, tuple(_known_type(part) for part in call.arguments), receiver.type)
        if function is None:
            raise invalid(f"Unknown function '{call.function}'")
        if len(call.arguments) != len(function.arguments):
            raise invalid(
                f"Invalid number of arguments in call to function {call.function}: "
                f"{len(function.arguments)} required but {len(call.arguments)} provided"
            )
        if not assignable(function.result, receiver.type):
            raise invalid(
                f"Type error: cannot assign result of function system.{call.function} (type {function.result.name}) "
                f"to {receiver.name} (type {receiver.type.name})"
            )
        arguments = [
            self.term(argument, Receiver(f"arg{position}({call.function})", kind))
            for position, (argument, kind) in enumerate(zip(call.arguments, function.arguments, strict=True))
        ]

        def evaluate(bindings: Bindings) -> Bound:
            values = [as_value(argument(bindings), call.function) for argument in arguments]
            return function.evaluate(values, bindings.time)

        return evaluate


def checked(validate: Callable[[bytes], None], value: bytes) -> bytes:
    """Return the value, validated."""
    try:
        validate(value)
    except MarshalError as error:
        raise invalid(str(error)) from None
    return value


def _element(bound: Bound, name: str) -> Value:
    if bound is UNSET:
        raise invalid(f"Invalid unset value for element of {name}")
    return as_value(bound, name)


def as_value(bound: Bound, name: str) -> Value:
    """Return the value; refuse an unset one."""
    if bound is UNSET:
        raise invalid(f"Invalid unset value for argument of {name}")
    assert not isinstance(bound, type(UNSET)), "only UNSET is of its type"
    return bound


def assignable(source: CqlType, target: CqlType) -> bool:
    """True if values of one type are valid values of the other without conversion."""
    names = (source.name, target.name)
    return source is target or names in (("timeuuid", "uuid"), ("ascii", "text")) or target.name == "blob"


def constant_bytes(constant: Constant, receiver: Receiver) -> bytes:
    """Return the bytes of a constant. CqlError if it does not fit the receiver's type."""
    native = receiver.type
    if not isinstance(native, NativeType) or constant.kind not in native.kinds:
        raise invalid(
            f'Invalid {constant.kind.value} constant ({constant.text}) for "{receiver.name}" of type {native.name}'
        )
    try:
        data = native.serialise(native.read(constant.text))
    except (ValueError, TypeError, OverflowError):
        raise invalid(_unreadable(native.name, constant.text)) from None
    return checked(native.validate, data)


def _unreadable(type_name: str, text: str) -> str:
    if type_name == "timestamp":
        return f"Unable to parse a date/time from '{text}'"
    if type_name in ("date", "time"):
        return f"Unable to coerce '{text}' to a formatted {type_name} (long)"
    return f"Unable to make {type_name} from '{text}'"


def _known_type(term: Expression) -> CqlType | None:
    """Return the type of a term if it does not depend on the receiver."""
    if not isinstance(term, Call):
        return None
    function = find_function(term.function, tuple(_known_type(part) for part in term.arguments))
    return None if function is None else function.result


def _literal(term: Term) -> str:
    names = {ListTerm: "list", SetTerm: "set", MapTerm: "map", TupleTerm: "tuple"}
    return names[type(term)]
