"""Arrays on the paths of a key pattern: the combinations of values of its fields.

Two fields that reach one array expand it together. Parallel arrays, neither inside the other, cannot be combined.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import EMPTY_DOCUMENT, Value, get_field, place_in_array, values
from docstore.errors import Code, CommandError

if not cython.compiled:
    from docstore.bson.walk import ARRAY, NULL, OBJECT, UNDEFINED

_NULL: Value = (NULL, b"")
_UNDEFINED: Value = (UNDEFINED, b"")
_EMPTY_ARRAY: Value = (ARRAY, EMPTY_DOCUMENT)
_AMBIGUOUS_NUMBER = 16746


class Field:
    """The progress along the path of one field: `value` is the value at `location`, `names` the remaining ones.

    The location holds the number of every array element on the way, in the path or not: two fields that reach one array
    by different paths expand it together. `name` is the last name of the location that is in the path.

    A field that is `done` has its value, even if that is an array. `counts`: the field just got its value by the number
    of an array's element. It counts as one that expands an array, although the array stays whole. `leaf` is the bit of
    the last name of its path.
    """

    value: Value
    names: list[str]
    location: tuple[str, ...]
    name: str
    leaf: int
    done: bool
    counts: bool

    def __init__(
        self,
        value: Value,
        names: list[str],
        location: tuple[str, ...],
        name: str,
        leaf: int,
        done: bool = False,
        counts: bool = False,
    ) -> None:
        self.value = value
        self.names = names
        self.location = location
        self.name = name
        self.leaf = leaf
        self.done = done
        self.counts = counts

    def follow(self) -> None:
        """Follow the path to its end, or to the first array on it."""
        while not self.done and self.value[0] != ARRAY:
            if not self.names:
                self.done = True
                return
            value = get_field(self.value[1], self.names[0]) if self.value[0] == OBJECT else None
            if value is None:
                self.value = _NULL
                self.done = True
                return
            self.value = value
            self.name = self.names[0]
            self.location = (*self.location, self.name)
            self.names = self.names[1:]

    def enter(self, member: Value, number: int, members: list[Value]) -> Field:
        """Return the field inside the member of that number of the array that it has reached."""
        if not self.names:
            return Field(member, [], self.location, self.name, self.leaf, True)
        index = place_in_array(self.names[0])
        if 0 <= index < len(members):
            named = members[index]
            last = len(self.names) == 1
            counts = last and named[0] == ARRAY
            if last and named == _EMPTY_ARRAY:
                named = _UNDEFINED
            return Field(named, self.names[1:], (*self.location, str(index)), self.names[0], self.leaf, last, counts)
        location = (*self.location, str(number))
        return Field(member if member[0] == OBJECT else _NULL, self.names, location, self.name, self.leaf)


def expand(fields: list[Field], combinations: list[tuple[Value, ...]]) -> int:
    """Add every combination of the fields' values; return the bits of the paths with arrays."""
    array: Field | None = None
    counted: Field | None = None
    array_bits: int = 0
    for field in fields:
        field.follow()
        if field.done and not field.counts:
            continue
        if counted is not None and counted.location != field.location:
            raise CommandError(
                Code.CannotIndexParallelArrays, f"cannot index parallel arrays [{field.name}] [{counted.name}]"
            )
        counted = field
        if not field.done:
            array = field
            array_bits |= field.leaf >> len(field.names)
    if array is None:
        combinations.append(tuple([field.value for field in fields]))
        return 0
    members = values(array.value[1])
    if not members:
        for field in fields:
            if not field.done:
                field.value = _NULL if field.names else _UNDEFINED
                field.done = True
        return array_bits | expand(fields, combinations)
    for number, member in enumerate(members):
        if member[0] == OBJECT:
            _refuse_ambiguous_numbers(fields, member[1], len(members))
        inner = [
            Field(field.value, [], field.location, field.name, field.leaf, True)
            if field.done
            else field.enter(member, number, members)
            for field in fields
        ]
        array_bits |= expand(inner, combinations)
    return array_bits


def _refuse_ambiguous_numbers(fields: list[Field], member: bytes, size: int) -> None:
    """Raise an error if a number in a path names both an element of the array and a field of its documents."""
    for field in fields:
        if field.done or not field.names or not 0 <= place_in_array(field.names[0]) < size:
            continue
        if get_field(member, field.names[0]) is not None:
            raise CommandError(
                _AMBIGUOUS_NUMBER,
                f"Ambiguous field name found in array (do not use numeric field names in embedded elements in an "
                f"array), field: '{field.names[0]}' for array: {field.name}",
            )
