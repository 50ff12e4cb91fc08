"""The paths of an update as one tree, and its application to a raw document in one pass.

Invariants:
- No path of the tree is the beginning of another (ConflictingUpdateOperators otherwise).
- The children of a node are all names or all selectors of array elements (`$[]`, `$[id]`).
- Fields that the tree does not name keep their bytes and their order; existing fields keep their place.
- New fields come after the existing ones, names in lexicographic and numbers in numeric order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import ARRAY, OBJECT, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.update.fields import RenameSource
from docstore.query.update.modifier import Blocked, Modifier, Situation
from docstore.query.value.long_lists import paced, sort_keys
from docstore.query.value.notation import display
from docstore.query.value.paths import MAX_PARTS
from docstore.query.value.values import NULL_VALUE

MAX_PADDING = 1_500_000
"""Most nulls that setting an element beyond an array's end may add."""

Selectors = Mapping[str, Callable[[Value], bool]]
"""For each identifier, the predicate of the elements that `$[id]` selects."""


@dataclass(slots=True)
class PathNode:
    """The update below one prefix of a path. `insert` fills it; it is read-only afterwards."""

    children: dict[str, PathNode | Modifier] = field(default_factory=dict)
    _ordered: list[tuple[str, PathNode | Modifier]] | None = field(default=None, compare=False)

    @property
    def selects(self) -> bool:
        """True if the children are selectors of array elements: all of them are, or none is."""
        return is_selector(next(iter(self.children), ""))

    def insert(self, path: str, modifier: Modifier) -> None:
        """Add a modifier. Error: ConflictingUpdateOperators if another path ends on its way, at it or below it."""
        node = self
        parts = path.split(".")
        if len(parts) > MAX_PARTS:
            raise CommandError(Code.Overflow, "FieldPath is too long")
        for depth, part in enumerate(parts[:-1]):
            self._check_kind(node, part, path, depth)
            child = node.children.get(part)
            if child is None:
                child = node.children[part] = PathNode()
            elif not isinstance(child, PathNode):
                raise _conflict(path, ".".join(parts[: depth + 1]))
            node = child
        self._check_kind(node, parts[-1], path, len(parts) - 1)
        if parts[-1] in node.children:
            raise _conflict(path, path)
        node.children[parts[-1]] = modifier

    @staticmethod
    def _check_kind(node: PathNode, part: str, path: str, depth: int) -> None:
        if node.children and node.selects != is_selector(part):
            raise _conflict(path, ".".join(path.split(".")[:depth]))

    def in_order(self) -> list[tuple[str, PathNode | Modifier]]:
        """Return the children in the order in which new fields are added; call it when the tree is complete."""
        if self._ordered is not None:
            return self._ordered
        keyed = [(_field_order(name), name) for name in paced(list(self.children))]
        sort_keys(keyed)
        self._ordered = [(name, self.children[name]) for _, name in paced(keyed)]
        return self._ordered


def is_selector(part: str) -> bool:
    """True if the part of a path selects all or some elements of an array: `$[]`, `$[id]`."""
    return part.startswith("$[") and part.endswith("]")


def _field_order(name: str) -> tuple[bool, int, str]:
    return (False, int(name), "") if name.isascii() and name.isdigit() else (True, 0, name)


def _conflict(path: str, at: str) -> CommandError:
    return CommandError(
        Code.ConflictingUpdateOperators, f"Updating the path '{path}' would create a conflict at '{at}'"
    )


def dollar_field(name: str) -> CommandError:
    return CommandError(
        Code.DollarPrefixedFieldName,
        f"The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement"
        " document. Consider using an aggregation pipeline with $replaceWith.",
    )


def apply_tree(root: PathNode, raw: bytes, situation: Situation, selectors: Selectors = MappingProxyType({})) -> bytes:
    """Return the document after the update. `selectors` holds the condition of every `$[id]` in the tree."""
    return _Application(situation, selectors).document(root, raw, "")


@dataclass(frozen=True, slots=True)
class _Application:
    situation: Situation
    selectors: Selectors

    def document(self, node: PathNode, raw: bytes, prefix: str) -> bytes:
        fields = elements(raw)
        present: dict[str, Value] = {}
        for name, code, data in paced(fields):
            if name in node.children:
                present.setdefault(name, (code, data))
        results: dict[str, Value | None] = {}
        for name, child in paced(node.in_order()):
            path = prefix + name
            current = present.get(name)
            new_value = self.create_value(child, path) if current is None else self.apply_node(child, current, path)
            if path == "_id" and current is not None and new_value != current and not isinstance(child, RenameSource):
                raise _changed_id(child)
            if new_value != current and not prefix and name.startswith("$") and not self.situation.inserting:
                raise dollar_field(name)
            results[name] = new_value
        if not prefix and "_id" in present and results["_id"] is None:
            # A renaming removes its source after it has set its target.
            raise _changed_id(node.children["_id"])
        changed: list[tuple[str, int, bytes]] = []
        for name, code, data in paced(fields):
            if name in present:
                del present[name]
                new_value = results.pop(name)
                if new_value is not None:
                    changed.append((name, *new_value))
            else:
                changed.append((name, code, data))
        changed.extend((name, *new_value) for name, new_value in results.items() if new_value is not None)
        return document_from(changed)

    def apply_node(self, node: PathNode | Modifier, value: Value, path: str) -> Value | None:
        if not isinstance(node, PathNode):
            return node.apply(path, value, self.situation)
        _check_position(node)
        if node.selects:
            return self.selected(node, value, path)
        if value[0] == OBJECT:
            return OBJECT, self.document(node, value[1], path + ".")
        if value[0] == ARRAY:
            return ARRAY, self.array(node, value, path)
        self._check_blocked(node, value, path)
        return value

    def array(self, node: PathNode, value: Value, path: str) -> bytes:
        members = values(value[1])
        for name, child in paced(node.in_order()):
            if not (name.isascii() and name.isdigit()):
                self._check_blocked(PathNode({name: child}), value, path)
                continue
            position = int(name)
            if position < len(members):
                members[position] = self.element(child, members[position], f"{path}.{name}")
                continue
            new_member = self.create_value(child, f"{path}.{name}")
            if new_member is not None:
                if position - len(members) > MAX_PADDING:
                    raise CommandError(Code.CannotBackfillArray, f"can't backfill more than {MAX_PADDING} elements")
                members += [NULL_VALUE] * (position - len(members)) + [new_member]
        return array_from(members)

    def selected(self, node: PathNode, value: Value, path: str) -> Value:
        """Return the array after the changes of its selected elements."""
        if value[0] != ARRAY:
            name = path.rsplit(".", 1)[-1]
            raise CommandError(
                Code.BadValue, f"Cannot apply array updates to non-array element {name}: {display(value)}"
            )
        members = values(value[1])
        children = node.in_order()
        for position, member in enumerate(paced(members)):
            chosen = [child for name, child in children if name == "$[]" or self.selectors[name](member)]
            if chosen:
                member_path = f"{path}.{position}"
                members[position] = self.element(_merged(chosen, member_path), member, member_path)
        return ARRAY, array_from(members)

    def element(self, node: PathNode | Modifier, member: Value, path: str) -> Value:
        """Return an array element after its change. A removed one becomes null; that counts as modified even if it was
        null.
        """
        changed = self.apply_node(node, member, path)
        if changed is None:
            self.situation.modified = True
            return NULL_VALUE
        return changed

    def create_value(self, node: PathNode | Modifier, path: str) -> Value | None:
        """Return the new value at a path that had none."""
        if not isinstance(node, PathNode):
            return node.apply(path, None, self.situation)
        _check_position(node)
        if node.selects:
            raise _no_array(path)
        fields = [(name, self.create_value(child, f"{path}.{name}")) for name, child in paced(node.in_order())]
        present_fields = [(name, *value) for name, value in fields if value is not None]
        return (OBJECT, document_from(present_fields)) if present_fields else None

    def _check_blocked(self, node: PathNode, value: Value, path: str) -> None:
        """Raise the error of the first operator below the node that needs its path."""
        name = path.rsplit(".", 1)[-1]
        for part, full_path, modifier in _leaves(node, path):
            if modifier.blocked is Blocked.REFUSE_TO_MOVE and modifier.apply(full_path, None, self.situation) is None:
                continue
            if modifier.blocked in (Blocked.REFUSE_TO_CREATE, Blocked.REFUSE_TO_MOVE):
                raise CommandError(
                    Code.PathNotViable, f"Cannot create field '{part}' in element {{{name}: {display(value)}}}"
                )
            if modifier.blocked is Blocked.REFUSE_TO_TRAVERSE:
                raise CommandError(
                    Code.PathNotViable,
                    f"Cannot use the part ({part}) of ({path}.{part}) to traverse the element"
                    f" ({{{name}: {display(value)}}})",
                )


def _merged(nodes: Sequence[PathNode | Modifier], path: str) -> PathNode | Modifier:
    """Return the union of the changes that several selectors make to one element."""
    if len(nodes) == 1:
        return nodes[0]
    children: dict[str, list[PathNode | Modifier]] = {}
    for node in nodes:
        if not isinstance(node, PathNode) or any(node.selects != is_selector(name) for name in children):
            raise CommandError(Code.ConflictingUpdateOperators, f"Update created a conflict at '{path}'")
        for name, child in node.children.items():
            children.setdefault(name, []).append(child)
    return PathNode({name: _merged(same, f"{path}.{name}") for name, same in children.items()})


def _check_position(node: PathNode) -> None:
    """Raise an error for a `$` that no position has replaced."""
    if "$" in node.children:
        raise CommandError(Code.BadValue, "The positional operator did not find the match needed from the query.")


def _changed_id(node: PathNode | Modifier) -> CommandError:
    path = "_id"
    while isinstance(node, PathNode):
        name, node = node.in_order()[0]
        path += f".{name}"
    return CommandError(
        Code.ImmutableField, f"Performing an update on the path '{path}' would modify the immutable field '_id'"
    )


def _no_array(path: str) -> CommandError:
    return CommandError(Code.BadValue, f"The path '{path}' must exist in the document in order to apply array updates.")


def _leaves(node: PathNode, path: str) -> Iterator[tuple[str, str, Modifier]]:
    """Yield (first part of the path below the node, full path, modifier) of every modifier below.

    Errors: BadValue at a selector.
    """
    _check_position(node)
    if node.selects:
        raise _no_array(path)
    for name, child in node.in_order():
        if isinstance(child, PathNode):
            for _, full_path, modifier in _leaves(child, f"{path}.{name}"):
                yield name, full_path, modifier
        else:
            yield name, f"{path}.{name}", child
